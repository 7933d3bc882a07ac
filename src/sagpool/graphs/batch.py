"""From (members × graph numbers) to one packed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.graphs.adjacency import Adjacency
from sagpool.graphs.graphs import Graphs, dense_features
from sagpool.ops import ragged_arange, repeat_each, to_device

NO_GRAPH = -1


@dataclass(frozen=True, eq=False)
class Batch:
    """The mini-batches of all members, laid end to end.

    Args:
        adjacency: of all rows; see there for the filler graphs
        real: ``[members, graphs]`` bool, False for what only fills up
        y: ``[members, graphs]`` int64 classes, 0 where not real
        node_label: ``[rows of all members]`` int32 one-hot column, -1 for fillers
        node_attr: ``[rows of all members, attributes]``, zero for fillers
        num_labels: how many one-hot columns there are
    """

    adjacency: Adjacency
    real: Tensor
    y: Tensor | None
    node_label: Tensor | None
    node_attr: Tensor | None
    num_labels: int

    @property
    def x(self) -> Tensor:
        """``[rows of all members, features]`` float32, made on each call; zero for fillers."""
        return dense_features(self.node_attr, self.node_label, self.num_labels)


def pack(
    graphs: Graphs,
    ids: np.ndarray | Sequence[Sequence[int] | np.ndarray],
    *,
    rows: int | None = None,
) -> Batch:
    """Lay chosen graphs end to end, every member with the same number of graphs and rows.

    A member that has fewer graphs than others gets one-node fillers for the missing ones; the
    last graph of every member is a filler that takes up the remaining rows. Fillers have zero
    features and no edges. Only graph numbers travel to the device of ``graphs``.

    Args:
        graphs: the collection
        ids: ``[members, graphs]`` graph numbers, -1 for none; or one list for each member
        rows: rows of each member, at least one more than the largest member needs (the default)
    """
    chosen = _as_matrix(ids)
    real = chosen != NO_GRAPH
    if chosen.size and (chosen.min() < NO_GRAPH or chosen.max() >= len(graphs)):
        outside = chosen[(chosen < NO_GRAPH) | (chosen >= len(graphs))][0]
        raise SagpoolError(f"Graph {outside} is not one of the graphs 0 to {len(graphs) - 1}.")

    sizes = np.where(real, graphs.node_counts[chosen], 1)
    needed = int(sizes.sum(axis=1).max()) + 1
    if rows is None:
        rows = needed
    elif rows < needed:
        raise SagpoolError(f"{rows} rows for each member are too few: {needed} are needed.")
    filler = rows - sizes.sum(axis=1, keepdims=True)
    sizes = np.concatenate([sizes, filler], axis=1)  # [members, graphs]
    real = np.concatenate([real, np.zeros_like(filler, bool)], axis=1)
    stock = graphs.stock
    taken = np.where(real, np.concatenate([chosen, filler], axis=1), len(graphs)).ravel()

    # One small copy to the device: for each graph, where it lies and where it goes.
    first_row = np.cumsum(sizes) - sizes.ravel()
    counts = stock.counts[taken]
    num_entries = int(counts.sum())
    plan = np.stack(
        [taken, graphs.node_ptr[taken], sizes.ravel(), stock.ptr[taken], counts, first_row]
    )
    graph, node_from, nodes, entry_from, entries, row = to_device(plan, graphs.device)
    # 32 bits are half the traffic of 64. All rows of a filler are the node behind the last.
    node = ragged_arange(node_from.int(), nodes, rows * len(sizes)).clamp_(max=graphs.num_nodes)
    entry = ragged_arange(entry_from.int(), entries, num_entries)
    col = repeat_each(row.int(), entries, num_entries).add_(stock.col.index_select(0, entry))
    length = stock.length.index_select(0, node)
    row_ptr = pad(torch.cumsum(length, 0, dtype=torch.int32), (1, 0))
    return Batch(
        adjacency=Adjacency(sizes, row_ptr, col, filler=True),
        real=to_device(real, graphs.device),
        y=None if stock.y is None else stock.y.index_select(0, graph).view(sizes.shape),
        node_label=None if stock.node_label is None else stock.node_label.index_select(0, node),
        node_attr=None if stock.node_attr is None else stock.node_attr.index_select(0, node),
        num_labels=len(graphs.node_label_names),
    )


def _as_matrix(ids: np.ndarray | Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    """``[members, most graphs]`` int64, short members filled up with `NO_GRAPH`."""
    if isinstance(ids, np.ndarray):
        if not np.issubdtype(ids.dtype, np.integer):
            raise SagpoolError(f"Graph numbers must be integers, not {ids.dtype}.")
        matrix = ids.astype(np.int64)
    else:
        most = max((len(member) for member in ids), default=0)
        matrix = np.full((len(ids), most), NO_GRAPH, np.int64)
        for row, member in zip(matrix, ids, strict=True):
            row[: len(member)] = member
    if matrix.ndim != 2 or not matrix.size:
        raise SagpoolError("A batch needs at least one member and one graph: ids[member][graph].")
    return matrix
