"""GMT, the graph multiset transformer."""

import math
from typing import Literal, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.linear import Linear
from sagpool.nn.pool.clusters.segment_matmul import segment_matmul
from sagpool.nn.pool.clusters.segments import Segments, segments_of
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.nn.row_norm import RowNorm
from sagpool.ops import Layout, segment_max

Over = Literal["nodes", "seeds"]


class GMT(Pool):
    """Graph multiset transformer (Baek, Kang and Hwang, 2021).

    ``GMPool_1(SelfAtt(GMPool_k(H, A)))`` of the blocks ``LN(Z + rFF(Z))`` with
    ``Z = LN(Q + MH(Q, K, V))``, where ``MH(Q, K, V) = [O_1, ..., O_h] W^O`` and
    ``O_i = softmax(Q_i K_iᵀ / √d) V_i``. In GMPool_k, Q are k trained seeds, and K and V are graph
    convolutions of the nodes; in SelfAtt, Q, K and V are linear in its k rows; in GMPool_1, Q is
    one seed. All Q_i, K_i and V_i are projections of their own.

    The paper is silent about the rFF, here ``relu(x W + b)`` as in the authors' code, and about the
    dimension over which the softmax sums to 1: by default the queries (``seeds``), as in the
    authors' commands for these data sets; or the keys (``nodes``), as usual in attention. GMPool_1
    always uses the keys: over its single query, all weights would be 1.

    Args:
        in_channels: size of each input row
        hidden: d, size of the seeds and of the result
        seeds: k
        heads: h, a divisor of d
        over: dimension over which attention weights sum to 1
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[members * graphs, hidden]``
    """

    leaves = "graphs"

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        seeds: int,
        *,
        heads: int = 2,
        over: Over = "seeds",
        members: int = 1,
    ) -> None:
        super().__init__()
        if seeds < 1:
            raise SagpoolError(f"GMT needs at least 1 seed, not {seeds}.")
        if heads < 1 or hidden % heads:
            raise SagpoolError(f"GMT cannot divide {hidden} channels among {heads} heads.")
        if over not in get_args(Over):
            raise SagpoolError(f"over must be one of {', '.join(get_args(Over))}, not '{over}'.")
        self.hidden, self.heads, self.over = hidden, heads, over
        self.nodes = GCNConv(in_channels, 2 * hidden, members=members)  # keys ‖ values
        self.rows = Linear(hidden, 2 * hidden, members=members)
        self.last = Linear(hidden, 2 * hidden, members=members)
        self.seeds = nn.Parameter(torch.empty(members, seeds, hidden))
        self.seed = nn.Parameter(torch.empty(members, 1, hidden))
        self.blocks = nn.ModuleList(_Block(hidden, members=members) for _ in range(3))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in (self.nodes, self.rows, self.last, *self.blocks):
            layer.reset_parameters()
        for seeds in (self.seeds, self.seed):
            bound = math.sqrt(6 / sum(seeds.shape[1:]))  # Glorot's bound
            nn.init.uniform_(seeds, -bound, bound)

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        nodes_to_seeds, among_seeds, seeds_to_one = cast(list[_Block], [*self.blocks])
        members, graphs = structure.layout.members, structure.layout.graphs
        seeds = self.seeds[:, None].expand(-1, graphs, -1, -1)  # [members, graphs, k, hidden]
        query = nodes_to_seeds.query(self.seeds.flatten(0, 1))
        rows = nodes_to_seeds(seeds, self._attend_to_nodes(query, x, structure))
        query = among_seeds.query(rows.flatten(0, 2)).view_as(rows)
        read = self._attend(query, self.rows(rows.flatten(0, 2)), self.over)
        rows = among_seeds(rows, read)
        query = seeds_to_one.query(self.seed.flatten(0, 1)).view(members, 1, 1, -1)
        query = query.expand(-1, graphs, -1, -1)  # [members, graphs, 1, hidden]
        read = self._attend(query, self.last(rows.flatten(0, 2)), "nodes")
        whole = seeds_to_one(self.seed[:, None].expand_as(query), read)
        return Pooled(whole.flatten(0, 2), structure)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return np.ones_like(sizes)

    def can_record(self, dtype: torch.dtype) -> bool:
        return dtype == torch.float32  # there are no kernels for other types

    def graph_channels(self) -> int:
        return self.hidden

    def _attend_to_nodes(self, query: Tensor, x: Tensor, structure: Structure) -> Tensor:
        """``[members, graphs, k, hidden]``; all graphs have the query ``[members * k, hidden]``."""
        layout, heads, width = structure.layout, self.heads, self.hidden // self.heads
        key, value = self.nodes(x, structure).chunk(2, dim=1)
        query = (query / math.sqrt(self.hidden)).view(layout.members, -1, heads, width)
        key = key.reshape(layout.members, -1, heads, width)
        energy = torch.einsum("mkhc,mrhc->hmrk", query, key).flatten(1, 2)  # [heads, rows, k]
        segments, read = segments_of(layout, energy[0]), []
        for part, own in zip(energy, value.chunk(heads, dim=1), strict=True):
            if self.over == "seeds":
                read.append(segment_matmul(part.softmax(1), own, segments))
            else:
                read.append(_segment_attend(part, own, segments, layout))
        # Each is [graphs, k, width].
        return torch.cat(read, dim=2).unflatten(0, (layout.members, -1))

    def _attend(self, query: Tensor, pairs: Tensor, over: Over) -> Tensor:
        """Attention within each graph.

        Args:
            query: ``[members, graphs, q, hidden]``
            pairs: keys ‖ values, ``[members * graphs * k, 2 * hidden]``
            over: the queries (``seeds``) or the keys (``nodes``)

        Returns:
            like the query
        """
        pairs = pairs.view(*query.shape[:2], -1, 2, self.heads, self.hidden // self.heads)
        key, value = pairs.transpose(2, 4).unbind(3)  # [members, graphs, heads, k, hidden / heads]
        own = query.unflatten(3, (self.heads, -1)).transpose(2, 3)  # likewise, of q
        energy = own @ key.transpose(3, 4) / math.sqrt(self.hidden)
        weight = energy.softmax(4 if over == "nodes" else 3)
        return (weight @ value).transpose(2, 3).flatten(3)


class _Block(nn.Module):
    """``LN(Z + rFF(Z))`` with ``Z = LN(Q + O W^O)``, and the projection of Q before."""

    def __init__(self, channels: int, *, members: int) -> None:
        super().__init__()
        self.query = Linear(channels, channels, bias=False, members=members)
        self.out = Linear(channels, channels, members=members)  # W^O
        self.feed_forward = Linear(channels, channels, members=members)
        self.norms = nn.ModuleList(RowNorm(channels, members=members) for _ in range(2))

    def reset_parameters(self) -> None:
        for layer in (self.query, self.out, self.feed_forward, *self.norms):
            layer.reset_parameters()

    def forward(self, query: Tensor, attended: Tensor) -> Tensor:
        """All arguments and the result are ``[members, graphs, q, channels]``."""
        first, second = self.norms
        z = first(query.flatten(0, 2) + self.out(attended.flatten(0, 2)))
        return second(z + self.feed_forward(z).relu()).view_as(attended)


def _segment_attend(energy: Tensor, value: Tensor, segments: Segments, layout: Layout) -> Tensor:
    """``softmax(E)ᵀ V`` with a softmax over the rows of each graph, ``[graphs, k, channels]``.

    The sums are divided by the total of the weights, instead of each weight: there are fewer sums.

    Args:
        energy: E, ``[rows, k]``
        value: V, ``[rows, channels]``
        segments: segments of the rows
        layout: layout of the rows
    """
    # The result does not depend on the shift, so it needs no gradient.
    largest = segment_max(energy.detach(), layout.node_ptr, layout.graph)
    weight = (energy - largest.index_select(0, layout.graph)).exp()
    ones = value.new_ones(len(value), 1)
    sums = segment_matmul(weight, torch.cat([value, ones], dim=1), segments)
    # The largest weight is 1, so the total is at least 1, except for fillers, which lack some rows.
    return sums[..., :-1] / sums[..., -1:].clamp(min=1)
