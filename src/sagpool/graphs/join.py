"""Several collections of graphs as one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs.graphs import _TENSORS, Graphs


def join(parts: Sequence[Graphs]) -> Graphs:
    """The graphs of all parts, one after the other; the parts have the same features and classes.

    That is the way back from single graphs, ``join(list(graphs))``, or from slices.
    """
    if not parts:
        raise SagpoolError("There is no graph to join.")
    first = parts[0]
    for part in parts:
        if _columns(part) != _columns(first):
            raise SagpoolError(
                f"Graphs can be joined if they have the same features and classes: {part.name} "
                f"and {first.name} have not."
            )
    joined: dict[str, Any] = {
        field: None
        if getattr(first, field) is None
        else torch.cat([getattr(p, field) for p in parts])
        for field in _TENSORS
    }
    return replace(
        first,
        node_counts=np.concatenate([part.node_counts for part in parts]),
        edge_counts=np.concatenate([part.edge_counts for part in parts]),
        **joined,
    )


def _columns(graphs: Graphs) -> tuple[object, ...]:
    """What joined graphs have to agree in."""
    tensors = (getattr(graphs, field) for field in _TENSORS)
    widths = tuple(None if tensor is None else tensor.shape[1:] for tensor in tensors)
    return graphs.feature_kind, graphs.node_label_names, graphs.class_names, widths, graphs.device
