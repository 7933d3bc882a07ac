"""A model as an ONNX file."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sagpool.export.onnx_arrays import OnnxArrays, _info
from sagpool.export.onnx_graph import IR_VERSION, ML, ML_OPSET, OPSET, GraphBuilder, Value
from sagpool.export.plan import Plan
from sagpool.export.runtime.model import forward

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


def _inputs(plan: Plan) -> dict[str, tuple[Any, list[Any]]]:
    """Types and shapes; dimensions with names have any size."""
    infos: dict[str, tuple[Any, list[Any]]] = {}
    for name in plan.description["inputs"]:
        if name == "labels":
            infos[name] = object, [NODES]
        else:
            infos[name] = np.float32, [NODES, plan.description["features"]]
    return infos | {"edges": (np.int64, [EDGES, 2]), "sizes": (np.int64, [GRAPHS])}


def _outputs(plan: Plan, outputs: dict[str, Value]) -> dict[str, list[Any]]:
    columns = len(plan.description["class_names"])
    shapes: dict[str, list[Any]] = {}
    for name in outputs:
        wide = name in ("probabilities", "prediction_set")
        number = name.rpartition("_")[2]
        rows = f"kept by level {number}" if name.startswith(("kept_", "score_")) else GRAPHS
        shapes[name] = [rows, columns] if wide else [rows]
    return shapes
