"""Parsing of number tables: the fast and the slow path read what was written."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from sagpool.errors import SagpoolError
from sagpool.graphs.number_parsing import (
    _parse_block,
    _parse_by_line,
    read_floats,
    read_integers,
)

tables = array_shapes(min_dims=2, max_dims=2, max_side=6)
integers = arrays(np.int64, tables, elements=st.integers(-(10**18) + 1, 10**18 - 1))
floats = arrays(
    np.float32, tables, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)
)
spaces = st.sampled_from(["", " ", "\t"])
line_ends = st.sampled_from(["\n", "\r\n"])


def as_text(table: np.ndarray, space: str, line_end: str) -> bytes:
    lines = [f",{space}".join(str(value) for value in row) for row in table.tolist()]
    return (line_end.join(lines) + line_end).encode()


@given(integers, spaces, line_ends)
def test_integers_survive_a_round_trip(table, space, line_end):
    text = as_text(table, space, line_end)
    read = read_integers(text, "file", columns=table.shape[1])
    assert read.dtype == np.int64
    assert np.array_equal(read, table)
    assert np.array_equal(read_integers(text, "file", columns=None), table)


@given(floats, spaces, line_ends)
def test_floats_survive_a_round_trip(table, space, line_end):
    read = read_floats(as_text(table, space, line_end), "file")
    assert read.dtype == np.float32
    assert np.array_equal(read, table)


# Signs, points, exponents, separators: nearly numbers, and numbers in rare notation.
fragments = st.sampled_from(
    ["0", "1", "17", "-", "+", ".", "e", "E5", ",", "\n", " ", "\t", "nan", "inf", "x", "9" * 19]
)
nearly_numbers = st.lists(fragments, min_size=1, max_size=12).map("".join)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(text=nearly_numbers, columns=st.integers(1, 3))
def test_the_fast_path_agrees_with_the_slow_one(dtype, text, columns):
    assume(not re.search(r"[+-]\s", text))  # only the fast path takes "- 1" for -1
    fast = _parse_block(text.encode(), columns, dtype)
    if fast is not None:
        exact = _parse_by_line(text.encode(), "file", 1, columns, dtype)
        assert np.array_equal(fast, exact, equal_nan=dtype is np.float64)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_one_line(content):
    try:
        assert read_integers(content, "file").shape[1] == 1
        return
    except SagpoolError as error:
        message = str(error)
    assert message.startswith("file")
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("blank", ["", " ", "\t ", "-", "+", "."])
def test_a_field_without_a_number_is_refused(blank):
    with pytest.raises(SagpoolError, match=r"line 2: .* is not a whole number"):
        read_integers(f"1,2\n3,{blank}\n5,6".encode(), "file", columns=2)
    with pytest.raises(SagpoolError, match=r"line 2: .* is not a number"):
        read_floats(f"1,2\n{blank},4\n5,6".encode(), "file")


@pytest.mark.parametrize(
    ("text", "value"), [("3.0", 3), ("+4", 4), ("-5.", -5), (" 6 ", 6), ("007", 7)]
)
def test_whole_numbers_in_other_notations(text, value):
    assert read_integers(f"1\n{text}\n".encode(), "file").tolist() == [[1], [value]]


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_an_empty_file_is_refused(text):
    with pytest.raises(SagpoolError, match=r"^file is empty\.$"):
        read_floats(text.encode(), "file")


def test_the_error_names_the_first_bad_line_counted_from_one():
    with pytest.raises(SagpoolError, match=r"^file, line 2: 'a' is not a number\.$"):
        read_floats(b"1\na\nb\n", "file")


def test_lines_are_parsed_in_blocks(monkeypatch):
    """The numbers and the line of an error do not depend on where a block ends."""
    monkeypatch.setattr("sagpool.graphs.number_parsing.BLOCK", 4)
    lines = ["1,2", "30,40", "5,6", "7.0,8", "9,10"]
    found = read_integers("\n".join(lines).encode(), "file", columns=2)
    assert found.tolist() == [[1, 2], [30, 40], [5, 6], [7, 8], [9, 10]]
    assert found.flags.writeable
    with pytest.raises(SagpoolError, match=r"^file, line 4: 'x' is not a whole number\.$"):
        read_integers("\n".join([*lines[:3], "x,8", "9,10"]).encode(), "file", columns=2)
    with pytest.raises(SagpoolError, match=r"^file, line 5: 1 values where 2 were expected\.$"):
        read_integers("\n".join([*lines[:4], "9"]).encode(), "file", columns=2)


@pytest.mark.parametrize("last", ["1", "1.0"])
def test_a_text_takes_a_few_times_its_memory(last):
    text = b"1\n" * 2**21 + last.encode()
    tracemalloc.start()
    try:
        read_integers(text, "file")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20 * 64 + 9 * len(text), "the numbers, twice, and what one block needs"
