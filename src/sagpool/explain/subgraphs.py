"""Subgraphs of some of the nodes of graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from sagpool.graphs import Graphs


def induced_subgraphs(graphs: Graphs, keep: np.ndarray) -> Graphs:
    """The nodes in ``keep [nodes]`` (bool) with their features, and the edges among them.

    The graphs are in host memory, and at least one node of each of them is kept.
    """
    owner = graphs.batch.numpy()
    target = np.repeat(np.arange(graphs.num_nodes), graphs.degree.numpy())
    source = graphs.col.numpy() + graphs.node_ptr[owner[target]]
    inside = keep[source] & keep[target]
    counts = np.bincount(owner[keep], minlength=len(graphs))
    first = np.cumsum(counts) - counts
    position = np.cumsum(keep) - 1 - first[owner]  # [nodes], of kept nodes in their new graph
    nodes, edges = torch.from_numpy(keep), torch.from_numpy(inside)
    per_node = {
        field: value[nodes]
        for field in ("node_label", "node_attr", "ground_truth", "node_target")
        if (value := getattr(graphs, field)) is not None
    }
    degree = np.bincount(target[inside], minlength=graphs.num_nodes)[keep].astype(np.int32)
    return replace(
        graphs,
        node_counts=counts,
        edge_counts=np.bincount(owner[target[inside]], minlength=len(graphs)),
        degree=torch.from_numpy(degree),
        col=torch.from_numpy(position[source[inside]].astype(np.int32)),
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[edges],
        **per_node,
    )
