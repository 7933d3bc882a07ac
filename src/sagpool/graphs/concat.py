"""Concatenation of collections of graphs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.graphs import TENSORS, Graphs


def concat(parts: Sequence[Graphs]) -> Graphs:
    """The graphs of all parts in order: ``concat(list(graphs))`` is ``graphs``.

    The parts must have the same features and classes.
    """
    if not parts:
        raise SagpoolError("There are no graphs to concatenate.")
    first = parts[0]
    for part in parts:
        if _columns(part) != _columns(first):
            raise SagpoolError(
                f"{part.name} and {first.name} cannot be concatenated: their features or classes "
                "differ."
            )
    tensors: dict[str, Any] = {
        field: torch.cat([getattr(part, field) for part in parts])
        for field in TENSORS
        if getattr(first, field) is not None
    }
    if first.ids is not None:
        tensors["ids"] = np.concatenate([part.ids for part in parts])
    if first.fragments is not None:
        from scipy.sparse import vstack

        tensors["fragments"] = vstack([part.fragments for part in parts], "csr")
    return replace(
        first,
        node_counts=np.concatenate([part.node_counts for part in parts]),
        edge_counts=np.concatenate([part.edge_counts for part in parts]),
        **tensors,
    )


def _columns(graphs: Graphs) -> tuple[object, ...]:
    """Properties that must be equal for graphs to be concatenated."""
    tensors = (getattr(graphs, field) for field in TENSORS)
    widths = tuple(None if tensor is None else tensor.shape[1:] for tensor in tensors)
    others = (graphs.ids is None, graphs.fragments is None, graphs.target_names, graphs.device)
    columns = (graphs.encoding, graphs.task)
    return (
        *columns,
        graphs.feature_kind,
        graphs.node_label_names,
        graphs.class_names,
        widths,
        *others,
    )
