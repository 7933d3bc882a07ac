"""Typed decoders: a value of the declared type, or a sentence."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.foreign.values import DecodingError, decode, decoding, parse_json, shorten


class Point(NamedTuple):
    x: int
    y: float = 0.5


@dataclass
class Figure:
    name: str
    points: tuple[Point, ...]
    size: int | None
    kind: Literal["open", "closed"]
    options: dict[str, bool] = field(default_factory=dict)


FIGURE = {
    "name": "line",
    "points": [{"x": 1}, {"x": 2, "y": 3}],
    "size": None,
    "kind": "open",
    "later": [1],  # of a newer version
}


def test_a_record_is_made_of_a_mapping_and_unknown_keys_are_ignored():
    figure = decode(Figure, FIGURE, "the figure")
    assert figure == Figure("line", (Point(1), Point(2, 3)), None, "open", {})


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": 1}, "name must be a text, not 1"),
        ({"name": "\ud800"}, "name must be a text without half of a surrogate pair, not '\\ud800'"),
        ({"points": {}}, "points must be a list, not {}"),
        ({"points": [1]}, "an entry of points must be a mapping, not 1"),
        ({"points": [{}]}, "an entry of points has no x"),
        ({"points": [{"y": 1}]}, "an entry of points has no x, only y"),
        ({"points": [{"x": True}]}, "x must be a whole number, not True"),
        ({"points": [{"x": 2**63}]}, "x must be a whole number, not 9223372036854775808"),
        ({"points": [{"x": 1, "y": "1"}]}, "y must be a number, not '1'"),
        ({"points": [{"x": 1, "y": 10**310}]}, f"y must be a number, not 1{'0' * 27}...{'0' * 29}"),
        ({"size": 1.0}, "size must be a whole number, not 1.0"),
        ({"kind": "half"}, "kind must be one of open, closed, not 'half'"),
        ({"options": {"a": 1}}, "options must be true or false, not 1"),
    ],
)
def test_other_types_are_refused(changed, sentence):
    with pytest.raises(DecodingError) as raised:
        decode(Figure, FIGURE | changed, "the figure")
    assert str(raised.value) == sentence


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_comes_is_decoded_or_refused(value):
    for kind in (Figure, list[Point], dict[str, int], int | str, tuple[float, ...], Any):
        with suppress(DecodingError):  # any other exception fails
            decode(kind, value, "it")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deeply"),
        (b"\xff", "not UTF-8"),
        ("{", "not valid JSON"),
        ("1" * 5000, "not valid JSON"),
    ],
)
def test_text_that_is_no_json(text, reason):
    with pytest.raises(DecodingError, match=reason):
        parse_json(text)


def test_all_errors_become_one_sentence():
    for error in (KeyError("a"), TypeError("b\nc"), RecursionError(), OverflowError("d")):
        with pytest.raises(SagpoolError, match=r"^x: .+\.$"), decoding(lambda why: f"x: {why}."):
            raise error
    with pytest.raises(SagpoolError, match=r"^as it is$"), decoding(lambda why: f"x: {why}."):
        raise SagpoolError("as it is")
    with pytest.raises(KeyboardInterrupt), decoding(lambda why: f"x: {why}."):
        raise KeyboardInterrupt


def test_the_repr_of_an_alias_bomb_is_short():
    bomb: list[Any] = ["x"] * 9
    for _ in range(12):
        bomb = [bomb] * 9
    assert len(shorten(bomb)) <= 80
    assert len(shorten("a" * 10**7)) <= 80
    assert shorten(json.loads("[1, 2]")) == "[1, 2]"
