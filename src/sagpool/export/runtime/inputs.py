"""Converts the inputs of a model to arrays, and describes errors in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Prefixes of the titles of further labels.
NODE_LABELS, EDGE_LABELS = "node_labels:", "edge_labels:"
FRAGMENTS = ("fragments", "fragment_counts", "fragment_graphs")
EDGE_FEATURES = "edge_features"


def checked_inputs(
    plan: dict[str, Any], given: Mapping[str, Any], edges: Any, sizes: Any
) -> dict[str, Any]:
    """Arrays of the right types; a ValueError says what is wrong."""
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    inputs: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    for name in plan["inputs"]:
        if name in FRAGMENTS:
            continue
        values = given.get(name)
        if values is None and name.startswith(("edge", "node_labels")) and not len(edges):
            values = []  # without edges there are no values
        if values is None:
            raise ValueError(f"The model needs {name}.")
        if name in ("features", EDGE_FEATURES):
            inputs[name] = numbers(name, values, plan["inputs"][name])
        else:
            inputs[name] = ["" if text is None else str(text) for text in values]
        if name in ("labels", "features"):
            lengths[name] = len(inputs[name])
    sizes = counted(sizes, lengths)
    nodes = int(sizes.sum())
    for name, values in inputs.items():
        of_edges = name == EDGE_FEATURES or name.startswith(EDGE_LABELS)
        wanted, what = (len(edges), "edges") if of_edges else (nodes, "nodes")
        if len(values) != wanted:
            raise ValueError(f"There are {len(values)} {name} for {wanted} {what}.")
    if len(edges) and (edges.min() < 0 or edges.max() >= nodes):
        raise ValueError(f"An edge names a node that is not one of 0 to {nodes - 1}.")
    graph = np.repeat(np.arange(len(sizes)), sizes)
    if (graph[edges[:, 0]] != graph[edges[:, 1]]).any():
        raise ValueError("An edge joins nodes of different graphs.")
    return inputs | {"edges": edges, "sizes": sizes}


def numbers(name: str, values: Any, columns: int) -> np.ndarray:
    """``[rows, columns]`` float32"""
    array = np.asarray(values, np.float32)
    if not array.size:
        array = array.reshape(-1, columns)
    if array.ndim != 2 or array.shape[1] != columns:
        raise ValueError(f"{name} must have {columns} columns.")
    if not np.isfinite(array).all():
        raise ValueError(f"One of {name} is not a finite number.")
    return array


def counted(sizes: Any, lengths: Mapping[str, int]) -> np.ndarray:
    """``[graphs]`` number of nodes; a single graph if not given."""
    if sizes is None:
        if not lengths:
            raise ValueError("The model needs sizes: without labels, nodes are not counted.")
        sizes = [next(iter(lengths.values()))]
    array = np.asarray(sizes, np.int64)
    if array.ndim != 1 or not len(array) or array.min() < 1:
        raise ValueError("sizes must be at least one number, each at least 1.")
    return array


def flat_fragments(
    fragments: Sequence[Mapping[int, int]] | None, graphs: int
) -> dict[str, np.ndarray]:
    """The counts of all graphs in a row."""
    if fragments is None or len(fragments) != graphs:
        raise ValueError(f"The model needs fragments: a mapping for each of {graphs} graphs.")
    found = [(key, count, i) for i, one in enumerate(fragments) for key, count in one.items()]
    columns = np.array(found, np.int64).reshape(-1, 3).T
    return dict(zip(FRAGMENTS, np.ascontiguousarray(columns), strict=True))
