"""Arrays and settings of a saved simple model, which are foreign input when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sagpool.errors import SagpoolError

Arrays = Mapping[str, np.ndarray]


class Saved(NamedTuple):
    """A simple model as values of JSON and plain arrays."""

    config: dict[str, Any]
    arrays: dict[str, np.ndarray]


def prefixed(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}


def below(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    """The arrays whose names begin with the prefix, which is removed."""
    start = f"{prefix}."
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}


def take(arrays: Arrays, name: str, kind: Any, *shape: int | None) -> np.ndarray:
    """An array of this type and shape (None: any size) with finite numbers, or an error."""
    array = arrays.get(name)
    if array is None:
        raise SagpoolError(f"A simple model is damaged: it has no '{name}'.")
    wanted = "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
    fits = array.ndim == len(shape) and all(
        size is None or size == found for size, found in zip(shape, array.shape, strict=True)
    )
    if array.dtype != np.dtype(kind) or not fits:
        raise SagpoolError(
            f"A simple model is damaged: '{name}' is {array.dtype} {list(array.shape)}, not "
            f"{np.dtype(kind)} {wanted}."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise SagpoolError(f"A simple model is damaged: '{name}' has a number that is not finite.")
    return array


def take_ascending(arrays: Arrays, name: str) -> np.ndarray:
    """``[any]`` int64, strictly ascending: a vocabulary for binary search."""
    array = take(arrays, name, np.int64, None)
    if (array[1:] <= array[:-1]).any():
        raise SagpoolError(f"A simple model is damaged: '{name}' is not in ascending order.")
    return array
