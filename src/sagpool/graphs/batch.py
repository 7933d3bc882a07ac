"""From (members × graph numbers) to one packed batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from sagpool.errors import SagpoolError
from sagpool.graphs.adjacency import Adjacency, two_hop_csr
from sagpool.graphs.edge_triangles import triangles_of_entries
from sagpool.ops import (
    DeviceLayout,
    HostLayout,
    LabelSums,
    edge_rows,
    gcn_propagate,
    ragged_arange,
    repeat_each,
    to_device,
)
from sagpool.ops.device import kernels_for, wait_for_stream

if TYPE_CHECKING:
    from sagpool.graphs.graphs import Graphs, Task
    from sagpool.graphs.host_graphs import Coarsening

# Features of a whole collection are cached up to this many numbers.
MOST_NUMBERS = 2**26
# Two-hop graphs of a collection are cached up to this many walks of two hops.
MOST_WALKS = 2**27


@dataclass(frozen=True, eq=False)
class BatchSource:
    """Ã = A + I of a collection in CSR, with one extra node and one extra graph for fillers.

    The extra node has no entries and no features, the extra graph no entries.

    Args:
        length: ``[nodes + 1]`` int32, entries of each row, of which the first is the node itself
        col: ``[entries]`` int32, indices inside the node's graph
        counts: ``[graphs + 1]`` entries of each graph, on the host
        ptr: ``[graphs + 1]`` first entry of each graph, on the host
        first_node: ``[graphs + 1]`` first node of each graph, on the host
        y: ``[graphs + 1]``
        targets: ``[graphs + 1, tasks]``, if they are learnt instead of y
        task: task of the collection
        node_label: ``[nodes + 1]`` int32, the one-hot column of each node; -1 is an all-zero row
        node_attr: ``[nodes + 1, attributes]`` float32
        num_labels: number of one-hot columns
        node_target: ``[nodes + 1]`` float32, target of the score of each node, if known
        coarsened: cached coarser collections, see `sagpool.graphs.hierarchy`
    """

    length: Tensor
    col: Tensor
    counts: np.ndarray
    ptr: np.ndarray
    first_node: np.ndarray
    y: Tensor | None
    node_label: Tensor | None
    node_attr: Tensor | None
    num_labels: int
    targets: Tensor | None = None
    task: Task = "classification"
    node_target: Tensor | None = None
    coarsened: dict[Coarsening, BatchSource] = field(default_factory=dict)
    _propagated: dict[torch.dtype, Tensor] = field(default_factory=dict)

    @cached_property
    def largest(self) -> int:
        """The number of nodes of the largest graph."""
        return int(np.diff(self.first_node).max(initial=1))

    @cached_property
    def row_ptr(self) -> Tensor:
        """``[nodes + 2]`` int32, the first entry of each row, and the end."""
        return pad(torch.cumsum(self.length, 0, dtype=torch.int32), (1, 0))

    @cached_property
    def starts(self) -> Tensor:
        """``[2, graphs + 1]`` int32, the first node and the first entry of each graph."""
        return torch.tensor(np.stack([self.first_node, self.ptr]), dtype=torch.int32).to(
            self.col.device
        )

    @cached_property
    def sizes(self) -> Tensor:
        """``[2, graphs + 1]`` int32, nodes and entries of each graph; a filler has one node."""
        nodes = np.append(np.diff(self.first_node), 1)
        return torch.tensor(np.stack([nodes, self.counts]), dtype=torch.int32).to(self.col.device)

    def features(self, node: Tensor) -> Tensor:
        """``[nodes, attributes + labels]`` float32 of the chosen nodes."""
        label, attr = (
            None if of_all is None else of_all.index_select(0, node)
            for of_all in (self.node_label, self.node_attr)
        )
        return dense_features(attr, label, self.num_labels)

    def propagated(self, dtype: torch.dtype) -> Tensor | None:
        """``D̃^-1/2 Ã D̃^-1/2 x``, ``[nodes + 1, features]``; None if too large to cache."""
        columns = self.num_labels + (0 if self.node_attr is None else self.node_attr.shape[1])
        if len(self.length) * columns > MOST_NUMBERS:
            return None
        if dtype not in self._propagated:
            nodes, row = self._nodes(), edge_rows(self.row_ptr, self.col)
            col = self.col + self._first_node_of(nodes).index_select(0, row)
            scale = self.length.clamp(min=1).to(dtype).rsqrt()
            self._propagated[dtype] = gcn_propagate(
                self.features(nodes).to(dtype),
                self.row_ptr,
                col,
                lambda: scale.index_select(0, row) * scale.index_select(0, col),
                symmetric=True,
            )
        return self._propagated[dtype]

    @cached_property
    def two_hop(self) -> BatchSource | None:
        """The structure that joins nodes one or two hops apart; None if too large to cache.

        The entries of a row are in ascending order.
        """
        nodes, row = self._nodes(), edge_rows(self.row_ptr, self.col)
        first = self._first_node_of(nodes)
        col = self.col + first.index_select(0, row)
        if int(self.length.index_select(0, col).sum()) > MOST_WALKS:
            return None
        row_ptr, wider = two_hop_csr(self.row_ptr, col)
        ptr = row_ptr.cpu().numpy()[self.first_node].astype(np.int64)
        made = replace(
            self,
            length=row_ptr.diff(),
            col=wider - first.index_select(0, edge_rows(row_ptr, wider)),
            counts=np.append(np.diff(ptr), 0),
            ptr=ptr,
            y=None,
            targets=None,
            node_label=None,
            node_attr=None,
            node_target=None,
            num_labels=0,
            coarsened={},
            _propagated={},
        )
        if self.col.is_cuda:
            # Other streams will read it.
            wait_for_stream(torch.cuda.current_stream(self.col.device))
        return made

    @cached_property
    def triangles(self) -> Tensor:
        """``[entries]`` float32, in how many triangles each edge is; 0 for a node and itself."""
        row = edge_rows(self.row_ptr, self.col)
        first = self._first_node_of(self._nodes())
        made = triangles_of_entries(self.row_ptr, self.col + first.index_select(0, row))
        if self.col.is_cuda:
            # Other streams will read it.
            wait_for_stream(torch.cuda.current_stream(self.col.device))
        return made

    def _nodes(self) -> Tensor:
        return torch.arange(len(self.length), device=self.col.device, dtype=torch.int32)

    def _first_node_of(self, nodes: Tensor) -> Tensor:
        """``[nodes + 1]`` int32, the first node of each node's graph."""
        # The first entry of a row is the node itself, as an index inside its graph.
        return nodes - pad(self.col, (0, 1)).index_select(0, self.row_ptr[:-1])


def dense_features(attr: Tensor | None, label: Tensor | None, labels: int) -> Tensor:
    """Attributes and one-hot labels side by side, ``[nodes, attributes + labels]`` float32."""
    parts = [] if attr is None else [attr]
    if label is not None:
        one_hot = torch.eye(labels, device=label.device)
        parts.append(embedding(label + 1, pad(one_hot, (0, 0, 1, 0))))  # row 0 for no label
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


class Origin(NamedTuple):
    """Which graphs of a source a structure is made of."""

    source: BatchSource
    node: Tensor  # [rows of all members] int32, which node of the source each row is
    chosen: np.ndarray | None  # [members, graphs] graph numbers, -1 for none; None with `ids`
    ids: Tensor | None  # the same on a device that has kernels, int32
    entries: int  # upper bound of the entries of all members


NO_GRAPH = -1
# Products with fewer one-hot columns than this take no time worth saving.
LEAST_LABELS = 16


@dataclass(frozen=True, eq=False)
class Batch:
    """The mini-batches of all members, laid end to end.

    Args:
        structure: joins the rows; see there for the filler graphs
        real: ``[members, graphs]`` bool, False for padding
        y: ``[members, graphs]`` int64 classes, 0 where not real
        targets: ``[members, graphs, tasks]`` in place of classes, NaN where not measured or real
        source: the collection that the batch is made of
        node: ``[rows of all members]`` int32, which node of the source each row is
    """

    structure: Adjacency
    real: Tensor
    y: Tensor | None
    source: BatchSource
    node: Tensor
    targets: Tensor | None = None

    @property
    def task(self) -> Task:
        return self.source.task

    @property
    def x(self) -> Tensor:
        """``[rows of all members, features]`` float32, made on each call; zero for fillers."""
        return self.source.features(self.node)

    @property
    def node_target(self) -> Tensor | None:
        """``[rows of all members]`` float32, target of the score of each node, if known."""
        known = self.source.node_target
        return None if known is None else known.index_select(0, self.node)

    def propagated(self, dtype: torch.dtype) -> Tensor | LabelSums:
        """``D̃^-1/2 Ã D̃^-1/2 x``, ``[rows of all members, features]``, for `dense_relu`."""
        source = self.source
        if (
            kernels_for(self.node) is None
            or source.node_label is None
            or source.node_attr is not None
            or source.num_labels < LEAST_LABELS
        ):
            return self._propagated(dtype)
        label = source.node_label.index_select(0, self.node)
        return LabelSums(
            self.structure.row_ptr, self.structure.col, label, partial(self._propagated, dtype)
        )

    def _propagated(self, dtype: torch.dtype) -> Tensor:
        """`propagated` as a matrix.

        It does not depend on the batch, so it is computed once for the whole collection, if that
        is not too large, and looked up here.
        """
        known = self.source.propagated(dtype)
        if known is None:
            return self.structure.gcn(self.x.to(dtype))
        return known.index_select(0, self.node)


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
    chosen, source = as_matrix(ids), graphs.batch_source
    none = len(source.counts) - 1
    if chosen.min() < NO_GRAPH or chosen.max() >= none:
        outside = chosen[(chosen < NO_GRAPH) | (chosen >= none)][0]
        raise SagpoolError(f"Graph {outside} is not one of the graphs 0 to {none - 1}.")
    return pack_source(source, chosen, rows)


def pack_source(source: BatchSource, chosen: np.ndarray, rows: int | None = None) -> Batch:
    """`pack`, for the graphs of a source and a matrix of their numbers."""
    real = chosen != NO_GRAPH
    device, none = source.col.device, len(source.counts) - 1
    sizes = np.where(real, np.diff(source.first_node)[chosen], 1)
    needed = int(sizes.sum(axis=1).max()) + 1
    if rows is None:
        rows = needed
    elif rows < needed:
        raise SagpoolError(f"{rows} rows for each member are too few: {needed} are needed.")
    filler = rows - sizes.sum(axis=1, keepdims=True)
    sizes = np.concatenate([sizes, filler], axis=1)  # [members, graphs]
    if kernels_for(source.col) is not None:
        entries = int(source.counts[chosen].sum())  # the last graph, which -1 selects, has none
        numbers = to_device(chosen.astype(np.int32), device)
        return pack_on_device(source, numbers, rows, entries, sizes)
    real = np.concatenate([real, np.zeros_like(filler, bool)], axis=1)
    taken = np.where(real, np.concatenate([chosen, filler], axis=1), none).ravel()

    # One small copy to the device: source and destination of each graph.
    first_row = np.cumsum(sizes) - sizes.ravel()
    counts = source.counts[taken]
    num_entries = int(counts.sum())
    plan = np.stack(
        [taken, source.first_node[taken], sizes.ravel(), source.ptr[taken], counts, first_row]
    )
    graph, node_from, nodes, entry_from, entries_of, row = to_device(plan, device)
    # 32 bits are half the traffic of 64. All rows of a filler are the extra node, the last one.
    node = ragged_arange(node_from.int(), nodes, rows * len(sizes)).clamp_(
        max=len(source.length) - 1
    )
    layout = HostLayout(sizes, filler=True, device=device)
    row_ptr, col = _pack_entries(source, node, row, entry_from, entries_of, num_entries)
    two_hop = partial(_pack_two_hop, source, layout, node, taken, first_row)
    origin = Origin(source, node, chosen, None, num_entries)
    return Batch(
        structure=Adjacency(
            layout,
            row_ptr,
            col,
            make_two_hop=two_hop,
            origin=origin,
            make_triangles=partial(_pack_triangles, source, node, row_ptr, col),
        ),
        real=to_device(real, device),
        y=None if source.y is None else source.y.index_select(0, graph).view(sizes.shape),
        source=source,
        node=node,
        targets=_targets_of(source, graph.view(sizes.shape)),
    )


def _targets_of(source: BatchSource, graph: Tensor) -> Tensor | None:
    """``[members, graphs, tasks]`` targets of ``[members, graphs]`` graph numbers."""
    if source.targets is None:
        return None
    return source.targets.index_select(0, graph.reshape(-1)).view(*graph.shape, -1)


def _pack_entries(
    source: BatchSource, node: Tensor, row: Tensor, start: Tensor, counts: Tensor, total: int
) -> tuple[Tensor, Tensor]:
    """``row_ptr`` and ``col`` of the rows.

    Args:
        source: the collection
        node: ``[rows]``, which node of the source each row is
        row: ``[graphs]``, the first row of each graph
        start: ``[graphs]``, its first entry in the source
        counts: ``[graphs]``, its number of entries
        total: the sum of the counts
    """
    entry = ragged_arange(start.int(), counts, total)
    col = repeat_each(row.int(), counts, total).add_(source.col.index_select(0, entry))
    length = source.length.index_select(0, node)
    return pad(torch.cumsum(length, 0, dtype=torch.int32), (1, 0)), col


def _pack_two_hop(
    one_hop: BatchSource, layout: HostLayout, node: Tensor, taken: np.ndarray, first_row: np.ndarray
) -> Adjacency | None:
    source = one_hop.two_hop
    if source is None:
        return None
    counts = source.counts[taken]
    plan = np.stack([first_row, source.ptr[taken], counts])
    row, start, entries = to_device(plan, layout.device)
    return Adjacency(layout, *_pack_entries(source, node, row, start, entries, int(counts.sum())))


def _pack_triangles(source: BatchSource, node: Tensor, row_ptr: Tensor, col: Tensor) -> Tensor:
    """Triangles of the rows, looked up: a row has the entries of its node in the same order."""
    moved = source.row_ptr.index_select(0, node) - row_ptr[:-1]
    entry = torch.arange(len(col), dtype=torch.int32, device=col.device)
    row = edge_rows(row_ptr, col)
    entry[: len(row)] += moved.index_select(0, row)
    # Entries that belong to no row may point past the end.
    return source.triangles.index_select(0, entry.clamp_(max=len(source.col) - 1))


def _pack_two_hop_on_device(
    one_hop: BatchSource, ids: Tensor, rows: int, entries: int, sizes: np.ndarray | None
) -> Adjacency | None:
    source = one_hop.two_hop
    if source is None:
        return None
    # In the one-hop graphs the host knows only an upper bound of the number of entries.
    growth = float((source.counts[:-1] / one_hop.counts[:-1]).max())
    return pack_on_device(source, ids, rows, int(growth * entries) + 1, sizes).structure


def pack_on_device(
    source: BatchSource, ids: Tensor, rows: int, entries: int, sizes: np.ndarray | None = None
) -> Batch:
    """`pack` by kernels: offsets are computed on the device, the host knows only the total sizes.

    Args:
        source: the collection
        ids: ``[members, graphs]`` int32 graph numbers, -1 for none
        rows: rows of each member, at least one more than the largest member needs
        entries: upper bound of the entries of all members
        sizes: ``[members, graphs + 1]`` rows of each graph on the host, if known there
    """
    kernels = kernels_for(source.col)
    assert kernels is not None
    assert ids.is_contiguous()
    placed = kernels.place_graphs(ids, source.sizes, source.y, rows)
    node, row_ptr, col = kernels.pack_graphs(
        ids, placed, source.starts, source.sizes, source.row_ptr, source.col,
        len(ids) * rows, entries,
    )  # fmt: skip
    layout = DeviceLayout(placed.node_ptr, len(ids), rows, source.largest, sizes)
    two_hop = partial(_pack_two_hop_on_device, source, ids, rows, entries, sizes)
    origin = Origin(source, node, None, ids, entries)
    return Batch(
        structure=Adjacency(
            layout,
            row_ptr,
            col,
            make_two_hop=two_hop,
            origin=origin,
            make_triangles=partial(_pack_triangles, source, node, row_ptr, col),
        ),
        real=placed.real,
        y=placed.y,
        source=source,
        node=node,
        targets=_targets_on_device(source, ids),
    )


def _targets_on_device(source: BatchSource, ids: Tensor) -> Tensor | None:
    if source.targets is None:
        return None
    # -1 selects the last graph, a filler.
    return _targets_of(source, pad(ids, (0, 1), value=NO_GRAPH) % source.sizes.shape[1])


def as_matrix(ids: np.ndarray | Sequence[Sequence[int] | np.ndarray]) -> np.ndarray:
    """``[members, most graphs]`` int64, short members filled up with `NO_GRAPH`."""
    if isinstance(ids, np.ndarray):
        if not np.issubdtype(ids.dtype, np.integer):
            raise SagpoolError(f"Graph numbers must be integers, not {ids.dtype}.")
        matrix = np.ascontiguousarray(ids, np.int64)
    else:
        most = max((len(member) for member in ids), default=0)
        matrix = np.full((len(ids), most), NO_GRAPH, np.int64)
        for row, member in zip(matrix, ids, strict=True):
            row[: len(member)] = member
    if matrix.ndim != 2 or not matrix.size:
        raise SagpoolError("A batch needs at least one member and one graph: ids[member][graph].")
    return matrix
