"""`GraphBuilder` and `Value`: writing the nodes of an ONNX graph as arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9
ML = "ai.onnx.ml"
TYPES = {
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float64): "DOUBLE",
    np.dtype(np.int64): "INT64",
    np.dtype(np.uint64): "UINT64",
    np.dtype(np.bool_): "BOOL",
    np.dtype(object): "STRING",
}


class GraphBuilder:
    """Nodes and constants of a graph in order of creation."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._count = 0

    def new_name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A constant; equal arrays are stored once."""
        from onnx import numpy_helper

        array = np.ascontiguousarray(array).reshape(np.shape(array))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self.initializers.append(numpy_helper.from_array(array, name))
            self._constants[key] = name
        return Value(self, self._constants[key], array.dtype)

    def constant(self, array: Any, dtype: Any) -> Value:
        return self.weight(self.new_name(), np.asarray(array, dtype))

    def node(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        dtype: Any,
        *,
        domain: str = "",
        **attributes: Any,
    ) -> Value:
        """Append a node with one result."""
        return self.nodes_of(kind, inputs, [dtype], domain=domain, **attributes)[0]

    def nodes_of(
        self,
        kind: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[Any],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> list[Value]:
        from onnx import helper

        outputs = [self.new_name() for _ in dtypes]
        names = ["" if value is None else value.name for value in inputs]
        self.nodes.append(helper.make_node(kind, names, outputs, domain=domain, **attributes))
        return [Value(self, name, np.dtype(d)) for name, d in zip(outputs, dtypes, strict=True)]


class Value:
    """A result in a graph under construction; arithmetic with it appends nodes."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: GraphBuilder, name: str, dtype: np.dtype[Any]) -> None:
        self.builder, self.name, self.dtype = builder, name, dtype

    def _binary(self, kind: str, other: Any, *, swap: bool = False, dtype: Any = None) -> Value:
        if not isinstance(other, Value):
            other = self.builder.constant(other, self.dtype)
        pair = (other, self) if swap else (self, other)
        return self.builder.node(kind, pair, self.dtype if dtype is None else dtype)

    def __add__(self, other: Any) -> Value:
        return self._binary("Add", other)

    def __radd__(self, other: Any) -> Value:
        return self._binary("Add", other, swap=True)

    def __sub__(self, other: Any) -> Value:
        return self._binary("Sub", other)

    def __rsub__(self, other: Any) -> Value:
        return self._binary("Sub", other, swap=True)

    def __mul__(self, other: Any) -> Value:
        return self._binary("Mul", other)

    def __rmul__(self, other: Any) -> Value:
        return self._binary("Mul", other, swap=True)

    def __truediv__(self, other: Any) -> Value:
        return self._binary("Div", other)

    def __rtruediv__(self, other: Any) -> Value:
        return self._binary("Div", other, swap=True)

    def __floordiv__(self, other: Any) -> Value:
        """Division of non-negative integers: ONNX rounds towards zero."""
        return self._binary("Div", other)

    def __mod__(self, other: Any) -> Value:
        return self._binary("Mod", other)

    def __matmul__(self, other: Value) -> Value:
        return self._binary("MatMul", other)

    def __lt__(self, other: Any) -> Value:
        return self._binary("Less", other, dtype=np.bool_)

    def __le__(self, other: Any) -> Value:
        return self._binary("LessOrEqual", other, dtype=np.bool_)

    def __gt__(self, other: Any) -> Value:
        return self._binary("Greater", other, dtype=np.bool_)

    def __ge__(self, other: Any) -> Value:
        return self._binary("GreaterOrEqual", other, dtype=np.bool_)

    def __eq__(self, other: Any) -> Value:  # type: ignore[override]
        return self._binary("Equal", other, dtype=np.bool_)

    def __and__(self, other: Value) -> Value:
        return self._binary("And", other, dtype=np.bool_)

    def __or__(self, other: Value) -> Value:
        return self._binary("Or", other, dtype=np.bool_)
