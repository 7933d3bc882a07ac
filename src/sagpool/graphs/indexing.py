"""The graphs that an index into a collection selects."""

import operator
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from sagpool.errors import SagpoolError

Index = int | slice | Sequence[int] | Sequence[bool] | np.ndarray | Tensor


def selected(index: Index, total: int) -> slice | np.ndarray:
    """The graphs that ``graphs[index]`` selects: a slice of step 1, or ``[graphs]`` numbers."""
    if isinstance(index, slice):
        start, stop, step = index.indices(total)
        return slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step)
    if isinstance(index, (Sequence, np.ndarray, Tensor)) and np.ndim(index) == 1:
        return _numbers(np.asarray(index.cpu() if isinstance(index, Tensor) else index), total)
    try:
        number = operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        raise SagpoolError(
            f"Graphs are indexed by a number, a slice, a list of numbers or a boolean mask, "
            f"not by {index!r}."
        ) from None
    if not -total <= number < total:
        # IndexError, not the package's error: Python's sequence protocol relies on it.
        raise IndexError(f"graph {number} of a collection of {total}")
    return slice(number % total, number % total + 1)


def _numbers(index: np.ndarray, total: int) -> np.ndarray:
    if index.dtype == bool:
        if len(index) != total:
            raise SagpoolError(f"A mask of {len(index)} values cannot select from {total} graphs.")
        return np.flatnonzero(index)
    if not len(index):
        return np.zeros(0, np.int64)
    if not np.issubdtype(index.dtype, np.integer):
        raise SagpoolError(f"Graph numbers must be integers, not {index.dtype}.")
    outside = (index < -total) | (index >= total)
    if outside.any():
        raise IndexError(f"graph {index[outside][0]} of a collection of {total}")
    return np.where(index < 0, index + total, index).astype(np.int64)
