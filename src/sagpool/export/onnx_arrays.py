"""`OnnxArrays`: the operations of `NumpyArrays`, each of which appends ONNX nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sagpool.export.onnx_graph import ML, TYPES, GraphBuilder, Value


class OnnxArrays:
    """Has the methods of `sagpool.export.runtime.arrays.NumpyArrays`; see there.

    Sums over segments must not be a `ScatterND` with a reduction: onnxruntime runs it in several
    threads, and updates of the same row get lost (its issue 18048). `ScatterElements` runs in one
    thread.
    """

    def __init__(self, builder: GraphBuilder, weights: Mapping[str, np.ndarray]) -> None:
        self.builder, self.weights = builder, weights

    def weight(self, name: str) -> Value:
        return self.builder.weight(name, self.weights[name])

    def integers(self, values: Sequence[int]) -> Value:
        return self.builder.constant(values, np.int64)

    def doubles(self, values: Sequence[float]) -> Value:
        return self.builder.constant(values, np.float64)

    def either(self, x: Value, y: Value) -> Value:
        return self._node("Max", [x, y], x.dtype)

    def codes(self, texts: Value, names: Sequence[str]) -> Value:
        # A table must not be empty.
        return self._looked_up(
            texts,
            keys_strings=list(names) or [""],
            values_int64s=list(range(len(names))) or [-1],
        )

    def places(self, keys: Value, name: str) -> Value:
        known = self.weights[name].tolist()
        places = list(range(len(known)))
        return self._looked_up(keys, keys_int64s=known or [0], values_int64s=places or [-1])

    def _looked_up(self, x: Value, **table: Any) -> Value:
        kind = "LabelEncoder"
        return self.builder.node(kind, [x], np.int64, domain=ML, default_int64=-1, **table)

    def one_hot(self, code: Value, columns: int) -> Value:
        return self.as_float(self.reshape(code, (-1, 1)) == self.integers(range(columns)))

    def rows(self, x: Value) -> Value:
        shape = self.builder.node("Shape", [x], np.int64, start=0, end=1)
        return self.reshape(shape, ())

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        return self._node("Reshape", [x, self._shape(shape)], x.dtype)

    def transpose(self, x: Value) -> Value:
        return self._node("Transpose", [x], x.dtype, perm=[0, 2, 1])

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        return self._node("Concat", parts, parts[0].dtype, axis=axis)

    def columns(self, x: Value, start: int, stop: int) -> Value:
        bounds = [self.integers([number]) for number in (start, stop, 1)]
        return self._node("Slice", [x, *bounds], x.dtype)

    def last(self, x: Value) -> Value:
        return self._node("Gather", [x, self.builder.constant(-1, np.int64)], x.dtype, axis=0)

    def as_float(self, x: Value) -> Value:
        return self._cast(x, np.float32)

    def as_double(self, x: Value) -> Value:
        return self._cast(x, np.float64)

    def as_int(self, x: Value) -> Value:
        return self._cast(x, np.int64)

    def relu(self, x: Value) -> Value:
        return self._node("Relu", [x], x.dtype)

    def tanh(self, x: Value) -> Value:
        return self._node("Tanh", [x], x.dtype)

    def asinh(self, x: Value) -> Value:
        return self._node("Asinh", [x], x.dtype)

    def sigmoid(self, x: Value) -> Value:
        return self._node("Sigmoid", [x], x.dtype)

    def exp(self, x: Value) -> Value:
        return self._node("Exp", [x], x.dtype)

    def log(self, x: Value) -> Value:
        return self._node("Log", [x], x.dtype)

    def sqrt(self, x: Value) -> Value:
        return self._node("Sqrt", [x], x.dtype)

    def maximum(self, x: Value, least: float) -> Value:
        return self._node("Max", [x, self.builder.constant(least, x.dtype)], x.dtype)

    def minimum(self, x: Value, y: Value) -> Value:
        return self._node("Min", [x, y], x.dtype)

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        dtype = x.dtype if isinstance(x, Value) else y.dtype
        pair = [v if isinstance(v, Value) else self.builder.constant(v, dtype) for v in (x, y)]
        return self._node("Where", [condition, *pair], dtype)

    def sum(self, x: Value, axis: int) -> Value:
        return self._node("ReduceSum", [x, self.integers([axis])], x.dtype, keepdims=0)

    def max(self, x: Value, axis: int) -> Value:
        return self._node("ReduceMax", [x, self.integers([axis])], x.dtype, keepdims=0)

    def argmax(self, x: Value) -> Value:
        return self._node("ArgMax", [x], np.int64, axis=1, keepdims=0)

    def softmax(self, x: Value) -> Value:
        return self._node("Softmax", [x], x.dtype, axis=-1)

    def sort_columns(self, x: Value) -> Value:
        width = self.builder.node("Shape", [x], np.int64, start=1, end=2)
        return self._sorted(x, width, rising=True, axis=1)[0]

    def arange(self, size: Any) -> Value:
        scalars = [self.builder.constant(number, np.int64) for number in (0, 1)]
        return self._node("Range", [scalars[0], self._scalar(size), scalars[1]], np.int64)

    def full(self, rows: Any, columns: int, value: float) -> Value:
        constant = self.builder.constant(value, np.float32)
        return self._node("Expand", [constant, self._shape((rows, columns))], np.float32)

    def gather(self, x: Value, index: Value) -> Value:
        return self._node("Gather", [x, index], x.dtype, axis=0)

    def nonzero(self, mask: Value) -> Value:
        return self.reshape(self._node("NonZero", [mask], np.int64), (-1,))

    def unique(self, keys: Value) -> tuple[Value, Value]:
        values, order = self._sorted(keys, self._length(keys), rising=True)
        first = self.nonzero(self._starts_run(values))
        return self.gather(values, first), self.gather(order, first)

    def cumsum(self, x: Value) -> Value:
        return self._node("CumSum", [x, self.builder.constant(0, np.int64)], x.dtype)

    def by_falling(self, x: Value) -> Value:
        return self._sorted(x, self._length(x), rising=False)[1]

    def by_rising(self, keys: Value) -> Value:
        return self._sorted(keys, self._length(keys), rising=True)[1]

    def xor(self, x: Value, y: Value) -> Value:
        return self._node("BitwiseXor", [x, y], np.int64)

    def shifted(self, x: Value, bits: int) -> Value:
        by = self.builder.constant(bits, np.uint64)
        whole = self._cast(x, np.uint64)
        return self.as_int(self._node("BitShift", [whole, by], np.uint64, direction="RIGHT"))

    def float_bits(self, x: Value) -> Value:
        """Emulate a cast that ONNX lacks: find the exponent by a logarithm, and correct it."""
        x = self.as_double(x)
        size = self._node("Abs", [x], np.float64)
        safe = self.where(size > 0.0, size, 1.0)
        two = self.builder.constant(2.0, np.float64)
        exponent = self._node("Floor", [self.log(safe) / float(np.log(2.0))], np.float64)
        exponent = exponent - self.as_double(self._power(two, exponent) > safe)
        exponent = exponent + self.as_double(self._power(two, exponent + 1.0) <= safe)
        fraction = (safe / self._power(two, exponent) - 1.0) * 2.0**52
        bits = self.as_int(exponent + 1023.0) * 2**52 + self.as_int(fraction)
        bits = self.where(x < 0.0, bits + (-(2**63)), bits)
        return self.where(size > 0.0, bits, 0)

    def scatter(self, rows: Any, index: Value, values: Value) -> Value:
        width = self.builder.node("Shape", [values], np.int64, start=1)
        shape = self.concat([self._shape((rows,)), width], 0)
        zeros = self._node("Expand", [self.builder.constant(0, values.dtype), shape], values.dtype)
        return self._node("ScatterND", [zeros, self.reshape(index, (-1, 1)), values], values.dtype)

    def segment_sum(self, x: Value, index: Value, rows: Any) -> Value:
        return self._segments(x, index, rows, "add", 0)

    def segment_max(self, x: Value, index: Value, rows: Any) -> Value:
        return self._segments(x, index, rows, "max", -np.inf)

    def _segments(self, x: Value, index: Value, rows: Any, combine: str, empty: float) -> Value:
        width = self.builder.node("Shape", [x], np.int64, start=1)
        shape = self.concat([self._shape((rows,)), width], 0)
        start = self._node("Expand", [self.builder.constant(empty, x.dtype), shape], x.dtype)
        of_each = self._node("Shape", [x], np.int64)
        target = self._node("Expand", [self.reshape(index, (-1, 1)), of_each], np.int64)
        return self._node("ScatterElements", [start, target, x], x.dtype, reduction=combine, axis=0)

    def _power(self, base: Value, exponent: Value) -> Value:
        return self._node("Pow", [base, exponent], np.float64)

    def _starts_run(self, index: Value) -> Value:
        """Whether each integer differs from the one before it."""
        before = self._node(
            "Concat",
            [self.integers([-1]), self._slice_off_last(index)],
            np.int64,
            axis=0,
        )
        return self._node("Not", [before == index], np.bool_)

    def _slice_off_last(self, x: Value) -> Value:
        return self._node("Slice", [x, self.integers([0]), self.integers([-1])], x.dtype)

    def _sorted(self, x: Value, count: Value, *, rising: bool, axis: int = 0) -> list[Value]:
        """Values and positions; of equal values the lower position comes first (ONNX's TopK)."""
        return self.builder.nodes_of(
            "TopK", [x, count], [x.dtype, np.int64], largest=0 if rising else 1, axis=axis
        )

    def _length(self, x: Value) -> Value:
        return self.builder.node("Shape", [x], np.int64, start=0, end=1)

    def _node(self, kind: str, inputs: Sequence[Value], dtype: Any, **attributes: Any) -> Value:
        return self.builder.node(kind, inputs, dtype, **attributes)

    def _cast(self, x: Value, dtype: Any) -> Value:
        from onnx import TensorProto

        if x.dtype == dtype:
            return x
        number = getattr(TensorProto, TYPES[np.dtype(dtype)])
        return self._node("Cast", [x], dtype, to=number)

    def _scalar(self, size: Any) -> Value:
        return size if isinstance(size, Value) else self.builder.constant(size, np.int64)

    def _shape(self, sizes: Sequence[Any]) -> Value:
        if not any(isinstance(size, Value) for size in sizes):
            return self.integers([int(size) for size in sizes])
        one = self.integers([1])
        parts = [
            self._node("Reshape", [size, one], np.int64)
            if isinstance(size, Value)
            else self.integers([int(size)])
            for size in sizes
        ]
        return parts[0] if len(parts) == 1 else self.concat(parts, 0)


def _info(name: str, dtype: Any, shape: Sequence[Any] | None = None) -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, getattr(TensorProto, TYPES[np.dtype(dtype)]), shape)
