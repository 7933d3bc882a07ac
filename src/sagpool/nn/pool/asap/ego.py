"""Clusters of a node and its neighbours: in sparse and in dense graphs."""

from abc import ABC, abstractmethod
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from sagpool.graphs import Adjacency, Structure
from sagpool.nn.pool.asap import matrix_ops
from sagpool.nn.pool.asap.block_max import block_max
from sagpool.nn.pool.asap.buckets import Buckets
from sagpool.nn.pool.asap.matrices import GraphRows, has_kernels
from sagpool.nn.pool.asap.weighted_graphs import BlockAdjacency, RowAdjacency, WeightedGraphs
from sagpool.ops import Layout, entries_max, propagate, segment_softmax
from sagpool.ops.edge_attention import SLOPE  # the authors' code has the same

Membership = list[Tensor]  # α in one or more parts


class EgoClusters(ABC):
    """Each node i with all its neighbours is a cluster, in which node j has the weight α_ij."""

    needs_sizes = True  # whether the host must know the sizes of all graphs

    @abstractmethod
    def maximum(self, x: Tensor) -> Tensor:
        """The maximum over the nodes of each cluster, ``[rows, channels]``."""

    @abstractmethod
    def attend(self, query: Tensor, key: Tensor, x: Tensor) -> tuple[Membership, Tensor]:
        """``α_ij = softmax_j(LeakyReLU(query_i + key_j))``, and ``Σ_j α_ij x_j``.

        Args:
            query: ``[rows]``
            key: ``[rows]``
            x: ``[rows, channels]``

        Returns:
            α; and the sums, ``[rows, channels]``
        """

    @abstractmethod
    def coarsen(self, membership: Membership, perm: Tensor, layout: Layout) -> WeightedGraphs:
        """``Sᵀ (A + I) S`` without its diagonal, for the columns of S = αᵀ that are kept.

        Args:
            membership: α
            perm: ``[new rows]``, the cluster that each new row comes from
            layout: layout of the new rows
        """


class SparseClusters(EgoClusters):
    """Clusters in sparse graphs; α has one part, a number for each entry of A + I."""

    def __init__(self, graphs: Adjacency) -> None:
        self.graphs = graphs

    def maximum(self, x: Tensor) -> Tensor:
        return entries_max(x, self.graphs.row_ptr, self.graphs.col)

    def attend(self, query: Tensor, key: Tensor, x: Tensor) -> tuple[Membership, Tensor]:
        alpha = self._membership(query, key)
        rows = self.graphs.row_ptr, self.graphs.col
        return [alpha], propagate(x, *rows, alpha, symmetric=False)

    def _membership(self, query: Tensor, key: Tensor) -> Tensor:
        row = self.graphs.entry_row
        energy = query.index_select(0, row) + key.index_select(0, self.graphs.col)
        alpha = segment_softmax(leaky_relu(energy, SLOPE)[:, None], self.graphs.row_ptr, row)
        return alpha.view(-1)

    def coarsen(self, membership: Membership, perm: Tensor, layout: Layout) -> WeightedGraphs:
        old = Buckets.of(self.graphs.layout)
        new = Buckets(layout, old.groups)
        (alpha,) = membership
        return BlockAdjacency(new, partial(self._blocks, alpha, perm, old, new))

    def _blocks(
        self, alpha: Tensor, perm: Tensor, old: Buckets, new: Buckets
    ) -> tuple[Tensor, ...]:
        row, col = self.graphs.entry_row, self.graphs.col.long()
        graph = self.graphs.layout.graph.index_select(0, row)
        # An entry (i, j) is S[j, i]: node j in cluster i.
        column = _number_of_kept(perm, self.graphs.layout, new.layout).index_select(0, row)
        node = old.local.index_select(0, col)
        first = old.first(old.nodes, new.nodes).index_select(0, graph)
        width = old.per_graph(new.nodes).index_select(0, graph)
        end = sum(c * p * q for c, p, q in zip(old.counts, old.nodes, new.nodes, strict=True))
        place = torch.where((column < 0) | (first < 0), end, first + node * width + column)
        s = alpha.new_zeros(end + 1).scatter(0, place, alpha)

        first = old.first(old.nodes, old.nodes).index_select(0, graph)
        width = old.per_graph(old.nodes).index_select(0, graph)
        pairs = sum(c * p * p for c, p in zip(old.counts, old.nodes, strict=True))
        place = torch.where(first < 0, pairs, first + old.local.index_select(0, row) * width + node)
        a = alpha.new_zeros(pairs + 1).index_fill_(0, place, 1)

        blocks, at_s, at_a = [], 0, 0
        for count, p, q in zip(old.counts, old.nodes, new.nodes, strict=True):
            part = s[at_s : at_s + count * p * q].view(count, p, q)
            joined = a[at_a : at_a + count * p * p].view(count, p, p)
            at_s, at_a = at_s + count * p * q, at_a + count * p * p
            blocks.append(_coarse(joined, part))
        return tuple(blocks)


class SparseClustersForKernels(SparseClusters):
    """The same for kernels, which leave `RowAdjacency`."""

    needs_sizes = False

    def attend(self, query: Tensor, key: Tensor, x: Tensor) -> tuple[Membership, Tensor]:
        # The sum computes α itself, so that nothing of [entries, channels] is ever stored.
        clusters = self.graphs.attention(query[:, None], key[:, None], x)
        return [self._membership(query, key)], clusters

    def coarsen(self, membership: Membership, perm: Tensor, layout: Layout) -> WeightedGraphs:
        (alpha,) = membership
        return RowAdjacency(layout, partial(self._weight, alpha, perm, layout))

    def _weight(self, alpha: Tensor, perm: Tensor, layout: Layout) -> Tensor:
        new_row = _new_rows(perm, self.graphs.layout)
        return matrix_ops.coarsen_sparse(alpha, perm, self.graphs, new_row, GraphRows.of(layout))


class RowClusters(EgoClusters):
    """Clusters in dense graphs, by kernels; α has one part, ``[rows, columns]``."""

    needs_sizes = False

    def __init__(self, graphs: RowAdjacency) -> None:
        self.graphs, self.rows = graphs, graphs.rows

    def maximum(self, x: Tensor) -> Tensor:
        return matrix_ops.neighbour_max(x, self.graphs.weight.detach(), self.rows)

    def attend(self, query: Tensor, key: Tensor, x: Tensor) -> tuple[Membership, Tensor]:
        weight = self.graphs.weight.detach()
        alpha = matrix_ops.membership(query, key, weight, self.rows, SLOPE)
        return [alpha], matrix_ops.times_rows(alpha, x, self.rows)

    def coarsen(self, membership: Membership, perm: Tensor, layout: Layout) -> WeightedGraphs:
        (alpha,) = membership
        return RowAdjacency(layout, partial(self._weight, alpha, perm, layout))

    def _weight(self, alpha: Tensor, perm: Tensor, layout: Layout) -> Tensor:
        old = self.graphs.layout
        new_row = _new_rows(perm, old)
        chosen = matrix_ops.chosen_rows(alpha, perm, new_row, old, layout, self.rows)
        return matrix_ops.coarsen_dense(self.graphs.weight, chosen, self.rows, GraphRows.of(layout))


class BlockClusters(EgoClusters):
    """Clusters in dense blocks; α is ``[graphs, nodes, nodes]`` for each block."""

    def __init__(self, graphs: BlockAdjacency) -> None:
        self.buckets = graphs.buckets
        self.with_loops = [block + _identity(block) for block in graphs.blocks]
        self.joined = [block.detach() > 0 for block in self.with_loops]

    def maximum(self, x: Tensor) -> Tensor:
        padded = zip(self.buckets.pad(x), self.joined, strict=True)
        return self.buckets.unpad([block_max(rows, joined) for rows, joined in padded])

    def attend(self, query: Tensor, key: Tensor, x: Tensor) -> tuple[Membership, Tensor]:
        both = self.buckets.pad(torch.stack([query, key], 1))
        membership = []
        for rows, joined in zip(both, self.joined, strict=True):
            energy = leaky_relu(rows[:, :, None, 0] + rows[:, None, :, 1], SLOPE)
            membership.append(torch.where(joined, energy, -torch.inf).softmax(2))
        padded = zip(membership, self.buckets.pad(x), strict=True)
        return membership, self.buckets.unpad([torch.bmm(alpha, rows) for alpha, rows in padded])

    def coarsen(self, membership: Membership, perm: Tensor, layout: Layout) -> WeightedGraphs:
        new = Buckets(layout, self.buckets.groups)
        return BlockAdjacency(new, partial(self._blocks, membership, perm, new))

    def _blocks(self, membership: Membership, perm: Tensor, new: Buckets) -> tuple[Tensor, ...]:
        # The number in its graph of each kept node, in blocks of the new sizes; 0 for none.
        nodes = new.pad(self.buckets.local.index_select(0, perm)[:, None] + 1)
        blocks = []
        for matrix, alpha, number in zip(self.with_loops, membership, nodes, strict=True):
            index = (number - 1).clamp(min=0).expand(-1, -1, alpha.shape[2])
            chosen = torch.where(number > 0, alpha.gather(1, index), 0)  # [graphs, new, nodes]
            blocks.append(_coarse(matrix, chosen.transpose(1, 2)))
        return tuple(blocks)


def ego_clusters(structure: Structure, x: Tensor) -> EgoClusters:
    """The clusters of the graphs of the rows x."""
    if isinstance(structure, RowAdjacency):
        return RowClusters(structure)
    if isinstance(structure, BlockAdjacency):
        return BlockClusters(structure)
    graphs = structure.csr()
    if has_kernels(x) and graphs.symmetric and _fits_kernels(graphs.layout):
        return SparseClustersForKernels(graphs)
    return SparseClusters(graphs)


def _fits_kernels(layout: Layout) -> bool:
    """Whether offsets within a graph fit into 32 bits; a filler may have all rows of a member."""
    rows = layout.rows if layout.filler else layout.largest
    return rows * GraphRows.of(layout).width < 2**31


def _coarse(a: Tensor, s: Tensor) -> Tensor:
    """``Sᵀ A S`` without its diagonal, for a of ``[graphs, n, n]`` and s of ``[graphs, n, k]``."""
    product = torch.bmm(s.transpose(1, 2), torch.bmm(a, s))
    return product * (1 - _identity(product))


def _identity(block: Tensor) -> Tensor:
    return torch.eye(block.shape[1], dtype=block.dtype, device=block.device)


def _number_of_kept(perm: Tensor, old: Layout, new: Layout) -> Tensor:
    """``[old rows]`` int64, the number that each kept row has in its new graph; -1 if not kept."""
    row = _new_rows(perm, old)
    return torch.where(row < 0, -1, row - new.node_ptr.index_select(0, old.graph))


def _new_rows(perm: Tensor, old: Layout) -> Tensor:
    """``[old rows]`` int64, the new row of each kept row; -1 if not kept.

    Fillers have the same row many times, and get any of them.
    """
    dropped = torch.full((old.total_rows,), -1, device=perm.device)
    return dropped.scatter_(0, perm, torch.arange(len(perm), device=perm.device))
