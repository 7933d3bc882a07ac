"""Parses tables of comma-separated numbers: a fast path, and a slow one with exact errors."""

import re
import warnings
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from sagpool.errors import SagpoolError

# Up to 18 digits always fit int64. (NumPy's parser silently clips larger numbers.) Whole numbers in
# float notation ("1.0") are common in exported files.
_INTEGER = re.compile(r"([+-]?\d{1,18})(\.0*)?")
_NUMBER_ENDS = np.frombuffer(b"0123456789.nNfFyY", np.uint8)  # 1 1. nan inf infinity
_TOO_LARGE = 10**18
BLOCK = 2**20  # characters that are parsed at a time
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf(inity)?)", re.I)


def read_integers(text: bytes, where: str, columns: int | None = 1) -> np.ndarray:
    """``[lines, columns]`` int64; ``columns=None`` takes the width of the first line."""
    return _read(text, where, columns, np.int64)


def read_floats(text: bytes, where: str) -> np.ndarray:
    """``[lines, columns]`` float32, all finite; as wide as the first line."""
    values = _read(text, where, None, np.float64)
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    bad = np.argwhere(~np.isfinite(narrow))
    if len(bad):
        line, column = bad[0]
        raise SagpoolError(
            f"{where}, line {line + 1}: {values[line, column]} is not a finite number."
        )
    return narrow


def _read(text: bytes, where: str, columns: int | None, dtype: Any) -> np.ndarray:
    text = text.replace(b"\r\n", b"\n").rstrip(b" \t\n")
    if not text:
        raise SagpoolError(f"{where} is empty.")
    if columns is None:
        columns = text.split(b"\n", 1)[0].count(b",") + 1
    parts, line = list[np.ndarray](), 1
    for block in _blocks(text):
        values = _parse_block(block, columns, dtype)
        if values is None:
            values = _parse_by_line(block, where, line, columns, dtype)
        parts.append(values)
        line += len(values)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _blocks(text: bytes) -> Iterator[bytes]:
    """Blocks of whole lines, each without its last newline.

    Parsing takes many times the memory of the text, so it is done block by block.
    """
    begin = 0
    while begin <= len(text):
        end = text.find(b"\n", begin + BLOCK)
        end = len(text) if end < 0 else end
        yield text[begin:end]
        begin = end + 1


def _parse_block(text: bytes, columns: int, dtype: Any) -> np.ndarray | None:
    """Parse in one pass; None if any line does not have the expected form."""
    characters = np.frombuffer(text, np.uint8)
    commas, newlines = (np.flatnonzero(characters == separator) for separator in b",\n")
    before_line_end = np.searchsorted(commas, np.append(newlines, len(text)))
    lines = len(newlines) + 1
    if not np.array_equal(before_line_end, np.arange(1, lines + 1) * (columns - 1)):
        return None
    field_ends = np.concatenate([commas, newlines, [len(text)]])
    if not len(text) or not np.isin(characters[field_ends - 1], _NUMBER_ENDS).all():
        # A blank field or a lone sign, which NumPy's parser would read as 0 or -1.
        return None
    with warnings.catch_warnings():
        # NumPy warns about anything that is not a number; newer versions raise.
        warnings.simplefilter("error")
        try:
            values = np.fromstring(text.replace(b"\n", b","), dtype, sep=",")
        except (ValueError, DeprecationWarning):
            return None
    if len(values) != lines * columns:
        return None
    if dtype is np.int64 and not -_TOO_LARGE < values.min() <= values.max() < _TOO_LARGE:
        return None
    return values.reshape(lines, columns)


def _parse_by_line(text: bytes, where: str, first: int, columns: int, dtype: Any) -> np.ndarray:
    """Line by line: slower, but the error names the line and the problem."""
    values: array[Any] = array("q" if dtype is np.int64 else "d")
    for number, line in enumerate(text.split(b"\n"), first):
        fields = line.decode("utf-8", "replace").strip().split(",")
        if len(fields) != columns:
            raise SagpoolError(
                f"{where}, line {number}: {len(fields)} values where {columns} were expected."
            )
        place = f"{where}, line {number}"
        values.extend(_number(field.strip(), place, dtype) for field in fields)
    return np.array(values, dtype).reshape(-1, columns)


def _number(field: str, where: str, dtype: Any) -> float | int:
    if dtype is np.int64:
        if whole := _INTEGER.fullmatch(field):
            return int(whole[1])
        raise SagpoolError(f"{where}: {field!r} is not a whole number.")
    if _FLOAT.fullmatch(field):
        return float(field)
    raise SagpoolError(f"{where}: {field!r} is not a number.")
