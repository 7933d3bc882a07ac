"""Columns of numbers as one compressed text, which a page can hold and a browser unpacks."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

# Codes of the types that browsers have arrays of; the page maps them in `unpack.js`.
_INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4")


def pack(about: Mapping[str, Any], columns: Mapping[str, np.ndarray]) -> str:
    """JSON values and columns, deflated and in base64.

    The bytes are: the length of the JSON text as a little-endian uint32, the text, and the columns
    one after the other. Besides ``about``, the JSON holds the name, type and length of each column.
    Integers are stored in the smallest type that holds them, floats in single precision.
    """
    stored = {name: _smallest(column) for name, column in columns.items()}
    kinds = [[name, column.dtype.str[1:], len(column)] for name, column in stored.items()]
    text = json.dumps({**about, "columns": kinds}, separators=(",", ":")).encode()
    parts = [len(text).to_bytes(4, "little"), text, *(c.tobytes() for c in stored.values())]
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode()


def _smallest(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "f":
        return column.astype("<f4")
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for kind in _INTEGERS:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return column.astype(f"<{kind}")
    raise OverflowError(f"numbers from {low} to {high} do not fit into 32 bits")
