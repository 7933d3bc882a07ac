"""Describes the inputs of a model, and the columns that are made from them."""

from __future__ import annotations

from typing import Any

from sagpool.export.runtime.inputs import EDGE_FEATURES, EDGE_LABELS, NODE_LABELS
from sagpool.graphs.columns import ATTRIBUTE, DEGREE, EDGE_ATTRIBUTE, NEIGHBOUR, Encoding
from sagpool.graphs.vocabulary import Vocabulary

Group = dict[str, Any]


def describe_features(vocabulary: Vocabulary) -> dict[str, Any]:
    """Inputs by name, with their numbers of columns (0 for texts), and groups of columns."""
    inputs: dict[str, int] = {}
    if vocabulary.node_labels and vocabulary.has_labels:
        inputs["labels"] = 0
    groups: list[Group] = []
    if vocabulary.encoding is not None:
        groups = [_group(vocabulary.encoding, title) for title in vocabulary.encoding.groups]
    elif vocabulary.attributes:
        groups = [{"kind": "attributes", "input": "features", "columns": vocabulary.attributes}]
    for group in groups:
        if "input" in group:
            inputs[group["input"]] = group.get("columns", 0)
    return {
        "inputs": inputs,
        "labels": list(vocabulary.node_labels),
        "label_is_degree": not vocabulary.has_labels,
        "groups": groups,
    }


def _group(encoding: Encoding, title: str) -> Group:
    columns = encoding.of_group(title)
    if title == ATTRIBUTE:
        return {"kind": "attributes", "input": "features", "columns": len(columns)}
    if title == EDGE_ATTRIBUTE:
        return {"kind": "edge attributes", "input": EDGE_FEATURES, "columns": len(columns)}
    if title == NEIGHBOUR:
        pairs = [[column.edge, column.name] for column in columns]
        label = f"{EDGE_LABELS}{encoding.edge_groups[0]}"
        return {"kind": "neighbours", "input": label, "pairs": pairs}
    names = [column.name for column in columns]
    if title == DEGREE:
        return {"kind": "degree", "names": names}
    if title in encoding.edge_groups:
        return {"kind": "edge labels", "input": f"{EDGE_LABELS}{title}", "names": names}
    return {"kind": "node labels", "input": f"{NODE_LABELS}{title}", "names": names}
