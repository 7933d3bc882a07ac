"""A model as an ONNX file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sagpool.export.onnx_arrays import OnnxArrays, _info
from sagpool.export.onnx_graph import IR_VERSION, ML, ML_OPSET, OPSET, GraphBuilder, Value
from sagpool.export.plan import Plan
from sagpool.export.runtime.inputs import EDGE_FEATURES, EDGE_LABELS, FRAGMENTS
from sagpool.export.runtime.model import forward
from sagpool.export.runtime.structure import graph_of_rows

NODES, EDGES, GRAPHS = "nodes", "edges", "graphs"


def onnx_bytes(plan: Plan) -> bytes:
    """The content of the file."""
    import onnx
    from onnx import helper

    builder = GraphBuilder()
    ops = OnnxArrays(builder, plan.arrays)
    infos = _inputs(plan)
    inputs = {name: Value(builder, name, np.dtype(dtype)) for name, (dtype, _) in infos.items()}
    outputs = forward(ops, plan.description, inputs)
    main = next(iter(outputs))
    outputs[main] = ops.where(_consistent(ops, inputs), outputs[main], np.nan)
    shapes = _outputs(plan, outputs)
    nodes = [helper.make_node("Identity", [v.name], [name]) for name, v in outputs.items()]
    graph = helper.make_graph(
        [*builder.nodes, *nodes],
        "sagpool",
        [_info(name, dtype, shape) for name, (dtype, shape) in infos.items()],
        [_info(name, outputs[name].dtype, shape) for name, shape in shapes.items()],
        builder.initializers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="sagpool"
    )
    helper.set_model_props(model, {name: json.dumps(v) for name, v in plan.metadata.items()})
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _consistent(ops: OnnxArrays, inputs: dict[str, Value]) -> Value:
    """Whether every graph has a node, and every edge has its ends in one graph; a scalar.

    An ONNX graph cannot raise an error, so it returns NaN.
    """
    edges, sizes = inputs["edges"], inputs["sizes"]
    rows = ops.last(ops.cumsum(sizes))
    graph = graph_of_rows(ops, sizes, rows)
    one_graph = ops.gather(graph, ops.columns(edges, 0, 1)) == ops.gather(
        graph, ops.columns(edges, 1, 2)
    )
    fine = [
        ops.as_int(ops.reshape(one_graph, (-1,))),
        ops.as_int(ops.reshape(edges, (-1,)) >= 0),
        ops.as_int(sizes >= 1),
    ]
    return ops.max(ops.concat(fine, 0) * -1, 0) < 0


def _inputs(plan: Plan) -> dict[str, tuple[Any, list[Any]]]:
    """Types and shapes; named dimensions have any size."""
    infos: dict[str, tuple[Any, list[Any]]] = {}
    for name, columns in plan.description["inputs"].items():
        if name in FRAGMENTS:
            infos[name] = np.int64, ["fragments"]
        elif name in ("features", EDGE_FEATURES):
            infos[name] = np.float32, [EDGES if name == EDGE_FEATURES else NODES, columns]
        else:
            infos[name] = object, [EDGES if name.startswith(EDGE_LABELS) else NODES]
    return infos | {"edges": (np.int64, [EDGES, 2]), "sizes": (np.int64, [GRAPHS])}


def _outputs(plan: Plan, outputs: dict[str, Value]) -> dict[str, list[Any]]:
    columns = len(plan.description["names"])
    several = plan.description["task"] != "classification"
    shapes: dict[str, list[Any]] = {}
    for name in outputs:
        number = name.rpartition("_")[2]
        if name.startswith(("kept_", "score_")):
            shapes[name] = [f"kept by level {number}"]
        elif name in ("unknown", "unlike") or (name == "predicted" and not several):
            shapes[name] = [GRAPHS]
        elif name in ("interval", "prediction_set") and several:
            shapes[name] = [GRAPHS, columns, 2]
        else:
            shapes[name] = [GRAPHS, columns]
    return shapes
