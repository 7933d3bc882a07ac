"""Splits a batch into the real graphs of each member, for layers without members and fillers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, Structure
from sagpool.nn.pool.pool import Edges, Pooled
from sagpool.nn.pool.weighted_edges import WeightedEdges
from sagpool.ops import HostLayout, Layout, to_device


class Member(NamedTuple):
    """The real graphs of one member."""

    x: Tensor  # [nodes, channels]
    edges: Edges  # between nodes counted from 0
    sizes: np.ndarray  # [graphs] number of nodes

    @property
    def batch(self) -> Tensor:
        """``[nodes]`` int64, the graph of each node."""
        return to_device(np.repeat(np.arange(len(self.sizes)), self.sizes), self.x.device)

    def graphs(self) -> list["Member"]:
        """One `Member` for each graph."""
        graph, ends = self.batch[self.edges.pairs[1]], np.cumsum(self.sizes).tolist()
        found = []
        for number, (end, size) in enumerate(zip(ends, self.sizes.tolist(), strict=True)):
            edges = _selected_edges(self.edges, graph == number)
            edges = edges._replace(pairs=edges.pairs - (end - size))
            found.append(Member(self.x[end - size : end], edges, np.array([size])))
        return found


class Part(NamedTuple):
    """The result of a layer for some graphs."""

    x: Tensor  # [rows, channels]
    edges: Edges  # between rows counted from 0
    sizes: np.ndarray  # [graphs] number of rows
    losses: Tensor | None = None  # [graphs]


def real_graphs(structure: Structure) -> np.ndarray:
    """``[members, graphs]`` bool, False for fillers; waits for the device."""
    layout = structure.layout
    if isinstance(structure, WeightedEdges):
        real = structure.real
    else:
        # Only a filler has a row without an entry for itself.
        row_ptr, first = structure.csr().row_ptr, layout.node_ptr[:-1]
        real = row_ptr[first + 1] > row_ptr[first]
    return real.view(layout.members, -1).cpu().numpy()


def take_apart(x: Tensor, structure: Structure, real: np.ndarray) -> list[Member]:
    """The rows, ``[rows, channels]``, and the edges of each member, only of ``real`` graphs."""
    layout = structure.layout
    edges, sizes = _edges(structure), np.where(real, layout.sizes, 0)
    kept = to_device(np.repeat(real.ravel(), layout.sizes.ravel()), x.device)  # [rows]
    place = torch.cumsum(kept, 0) - 1  # position of a row among those of all real graphs
    rows, member = x[kept], edges.pairs[1] // layout.rows  # fillers have no edges
    found, first = [], 0
    for number, nodes in enumerate(sizes.sum(1).tolist()):
        own = _selected_edges(edges, member == number)
        own = own._replace(pairs=place[own.pairs] - first)
        found.append(Member(rows[first : first + nodes], own, sizes[number][real[number]]))
        first += nodes
    return found


def put_together(
    x: Tensor, layout: Layout, parts: Sequence[Part | None], real: np.ndarray, name: str
) -> Pooled:
    """The results of all members, each with a filler that pads it to the same number of rows.

    Args:
        x: the input rows
        layout: layout of the input
        parts: result for the real graphs of each member; None if it has none
        real: ``[members, graphs]``
        name: name of the layer, for errors
    """
    if not layout.filler:
        raise SagpoolError(f"{name} needs a batch with fillers, as sagpool.graphs.pack makes it.")
    sizes = np.ones((layout.members, layout.graphs), np.int64)
    for number, part in enumerate(parts):
        if part is not None:
            if not part.sizes.all():
                raise SagpoolError(f"{name} leaves a graph without nodes.")
            sizes[number, real[number]] = part.sizes
    rows = int(sizes[:, :-1].sum(1).max()) + 1
    sizes[:, -1] = rows - sizes[:, :-1].sum(1)
    left = HostLayout(sizes, filler=True, device=x.device)
    places = to_device(np.flatnonzero(np.repeat(real.ravel(), sizes.ravel())), x.device)
    joined = join([part for part in parts if part is not None], x)
    pairs, weight = joined.edges
    structure: Structure
    if weight is None:
        structure = _adjacency(left, places[pairs], places)
    else:
        graphs = to_device(real.ravel(), x.device)
        structure = WeightedEdges(left, places[pairs], weight, graphs)
    pooled = x.new_zeros(left.total_rows, joined.x.shape[1]).index_copy(0, places, joined.x)
    losses = None if joined.losses is None else rows_of_graphs(joined.losses[:, None], real)[:, 0]
    return Pooled(pooled, structure, auxiliary=losses)


def rows_of_graphs(rows: Tensor, real: np.ndarray) -> Tensor:
    """``[members * graphs, channels]`` from rows of the real graphs; zero for fillers."""
    places = to_device(np.flatnonzero(real.ravel()), rows.device)
    return rows.new_zeros(real.size, rows.shape[1]).index_copy(0, places, rows)


def join(parts: Sequence[Part], like: Tensor) -> Part:
    """The graphs of all parts as one; if there are no parts, ``like`` gives the channels."""
    if not parts:
        none = torch.zeros(2, 0, dtype=torch.int64, device=like.device)
        return Part(like[:0], Edges(none, None), np.zeros(0, np.int64))
    starts = np.cumsum([len(part.x) for part in parts[:-1]]).tolist()
    pairs = [part.edges.pairs + s for part, s in zip(parts, [0, *starts], strict=True)]
    weights = [part.edges.weight for part in parts if part.edges.weight is not None]
    losses = [part.losses for part in parts if part.losses is not None]
    return Part(
        torch.cat([part.x for part in parts]),
        Edges(torch.cat(pairs, 1), torch.cat(weights) if weights else None),
        np.concatenate([part.sizes for part in parts]),
        torch.cat(losses) if losses else None,
    )


def _edges(structure: Structure) -> Edges:
    if isinstance(structure, WeightedEdges):
        return Edges(structure.pairs, structure.weight)
    adjacency = structure.csr()
    pairs = torch.stack([adjacency.col.long(), adjacency.entry_row.long()])
    return Edges(pairs[:, pairs[0] != pairs[1]], None)


def _selected_edges(edges: Edges, wanted: Tensor) -> Edges:
    weight = None if edges.weight is None else edges.weight[wanted]
    return Edges(edges.pairs[:, wanted], weight)


def _adjacency(layout: Layout, pairs: Tensor, real_rows: Tensor) -> Adjacency:
    """Edges without weights. Real rows have an entry for themselves; rows of fillers do not."""
    source, target = torch.cat([pairs, real_rows.expand(2, -1)], 1)
    entries = torch.unique(target * layout.total_rows + source)  # sorted by target
    row, col = entries // layout.total_rows, entries % layout.total_rows
    places = torch.arange(layout.total_rows + 1, device=layout.device)
    row_ptr = torch.searchsorted(row, places)
    return Adjacency(layout, row_ptr.int(), col.int(), symmetric=False)
