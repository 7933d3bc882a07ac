"""`NumpyArrays`: the array operations of a forward pass, in NumPy."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = Any  # a NumPy array, or a value of an ONNX graph
LONG_SEGMENT = 64  # rows; the rest of a longer segment is summed separately


class NumpyArrays:
    """The operations that layers use, besides ``+ - * / // % @ < >= == &``.

    Indices are int64, numbers float32. A segment is a run of rows with the same index.

    Args:
        weights: the arrays of the model, by name
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self.weights = weights

    def weight(self, name: str) -> Array:
        return self.weights[name]

    def integers(self, values: Sequence[int]) -> Array:
        return np.array(values, np.int64)

    def doubles(self, values: Sequence[float]) -> Array:
        return np.array(values, np.float64)

    def either(self, x: Array, y: Array) -> Array:
        """The larger of two integers."""
        return np.maximum(x, y)

    def codes(self, texts: Array, names: Sequence[str]) -> Array:
        """The position of each text in the names, -1 if it is not among them."""
        number = {name: place for place, name in enumerate(names)}
        return np.array([number.get(text, -1) for text in texts], np.int64)

    def one_hot(self, code: Array, columns: int) -> Array:
        """``[rows, columns]``; zeros for -1."""
        out = np.zeros((len(code), columns + 1), np.float32)
        out[np.arange(len(code)), code] = 1  # -1 is the last column
        return out[:, :columns]

    def rows(self, x: Array) -> Array:
        """The length of the first dimension, a scalar."""
        return len(x)

    def reshape(self, x: Array, shape: Sequence[Any]) -> Array:
        """Reshape to sizes that are integers or scalars; at most one is -1."""
        return x.reshape([int(size) for size in shape])

    def transpose(self, x: Array) -> Array:
        """Swap the last two of three dimensions."""
        return x.swapaxes(1, 2)

    def concat(self, parts: Sequence[Array], axis: int) -> Array:
        return np.concatenate(parts, axis)

    def columns(self, x: Array, start: int, stop: int) -> Array:
        """``x[:, start:stop]``"""
        return x[:, start:stop]

    def last(self, x: Array) -> Array:
        """The last element, a scalar."""
        return x[-1]

    def as_float(self, x: Array) -> Array:
        return np.asarray(x, np.float32)

    def as_double(self, x: Array) -> Array:
        return np.asarray(x, np.float64)

    def as_int(self, x: Array) -> Array:
        return np.asarray(x, np.int64)

    def relu(self, x: Array) -> Array:
        return np.maximum(x, np.float32(0))

    def tanh(self, x: Array) -> Array:
        return np.tanh(x)

    def asinh(self, x: Array) -> Array:
        return np.arcsinh(x)

    def sigmoid(self, x: Array) -> Array:
        e = np.exp(-np.abs(x))  # does not overflow
        return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(np.float32)

    def exp(self, x: Array) -> Array:
        return np.exp(x)

    def log(self, x: Array) -> Array:
        return np.log(x)

    def sqrt(self, x: Array) -> Array:
        return np.sqrt(x)

    def maximum(self, x: Array, least: float) -> Array:
        return np.maximum(x, np.asarray(least, np.asarray(x).dtype))

    def minimum(self, x: Array, y: Array) -> Array:
        return np.minimum(x, y)

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        return np.where(condition, x, y)

    def sum(self, x: Array, axis: int) -> Array:
        return x.sum(axis)

    def max(self, x: Array, axis: int) -> Array:
        return x.max(axis)

    def argmax(self, x: Array) -> Array:
        """The first column with the highest number of each row."""
        return x.argmax(1)

    def softmax(self, x: Array) -> Array:
        """Softmax over the last dimension."""
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def sort_columns(self, x: Array) -> Array:
        """The numbers of each row in ascending order."""
        return np.sort(x, 1)

    def arange(self, size: Any) -> Array:
        return np.arange(size)

    def full(self, rows: Any, columns: int, value: float) -> Array:
        return np.full((rows, columns), value, np.float32)

    def gather(self, x: Array, index: Array) -> Array:
        """``x[index]``"""
        return x[index]

    def nonzero(self, mask: Array) -> Array:
        return np.flatnonzero(mask)

    def unique(self, keys: Array) -> tuple[Array, Array]:
        """The distinct integers in ascending order, and the first position of each."""
        return np.unique(keys, return_index=True)

    def cumsum(self, x: Array) -> Array:
        return np.cumsum(x)

    def by_falling(self, x: Array) -> Array:
        """The order of descending numbers; ties in the order of their indices."""
        return np.argsort(-x, kind="stable")

    def by_rising(self, keys: Array) -> Array:
        """The order of ascending integers; ties in the order of their indices."""
        return np.argsort(keys, kind="stable")

    def places(self, keys: Array, name: str) -> Array:
        """The position of each integer in an ascending array of the model, -1 if missing."""
        known = self.weights[name]
        if not len(known):
            return np.full(len(keys), -1)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, place, -1)

    def xor(self, x: Array, y: Array) -> Array:
        return x ^ y

    def shifted(self, x: Array, bits: int) -> Array:
        """Shift the 64 bits of each integer to the right, zeros from the left."""
        return (x.view(np.uint64) >> np.uint64(bits)).view(np.int64)

    def float_bits(self, x: Array) -> Array:
        """The bits of each number as float64, in an int64; -0.0 has the bits of 0.0."""
        return (x.astype(np.float64) + 0.0).view(np.int64)

    def scatter(self, rows: Any, index: Array, values: Array) -> Array:
        """Zeros, with ``values`` at the rows of ``index``, which must be distinct."""
        out = np.zeros((rows, *values.shape[1:]), values.dtype)
        out[index] = values
        return out

    def segment_sum(self, x: Array, index: Array, rows: Any) -> Array:
        """The sums of rows of x with the same index, which ascends; 0 for an index without rows."""
        return self._segments(x, index, rows, np.add)

    def segment_max(self, x: Array, index: Array, rows: Any) -> Array:
        return self._segments(x, index, rows, np.maximum)

    def _segments(self, x: Array, index: Array, rows: int, combine: np.ufunc) -> Array:
        counts = np.bincount(index, minlength=rows)
        first = np.cumsum(counts) - counts
        there = np.flatnonzero(counts)
        out = np.zeros((rows, *x.shape[1:]), x.dtype)
        out[there] = x[first[there]]
        # One row of every segment at a time: far faster than `reduceat`.
        for step in range(1, min(int(counts.max(initial=0)), LONG_SEGMENT)):
            there = there[counts[there] > step]
            out[there] = combine(out[there], x[first[there] + step])
        for row in np.flatnonzero(counts > LONG_SEGMENT):
            rest = x[first[row] + LONG_SEGMENT : first[row] + counts[row]]
            out[row] = combine(out[row], combine.reduce(rest, 0))
        return out
