import pytest

from sagpool.spreadsheet import as_text


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\r=1", "-2+3", "=-1"])
def test_a_formula_gets_an_apostrophe(text):
    assert as_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "-1", "+1", "-1.5e3", "-", "+", "a=1", "[NH4+]", "'=1"])
def test_other_texts_and_numbers_stay(text):
    assert as_text(text) == text
