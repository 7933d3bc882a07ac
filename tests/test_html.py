"""Pieces of HTML for notebooks: any text stays text."""

from xml.etree import ElementTree

import pytest

from sagpool.html import bars, card, facts, note, table

ODD = "<script>alert('&')</script>\""


@pytest.mark.parametrize(
    "piece",
    [
        card(ODD),
        note(ODD),
        facts({ODD: ODD}),
        table([ODD, ODD], [[ODD, ODD]]),
        bars({ODD: 3, "b": 1}),
        card(ODD, note(ODD), facts({ODD: ODD})),
    ],
)
def test_text_stays_text(piece):
    root = ElementTree.fromstring(piece)  # well-formed
    assert not list(root.iter("script"))
    assert ODD in "".join(root.itertext())


def test_numbers_are_aligned_right():
    root = ElementTree.fromstring(table(["a", "b", "c"], [["x", "y", "1"]], words=2))
    aligned = [cell.get("style", "").split("text-align: ")[1][:5] for cell in root.iter("td")]
    assert aligned == ["left;", "left;", "right"]


def test_bars_are_parts_of_the_total():
    assert "width: 75.0%" in bars({"a": 3, "b": 1})
    assert "width: 0.0%" in bars({"a": 0})
