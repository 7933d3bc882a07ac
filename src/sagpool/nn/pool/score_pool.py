"""What the layers that keep top nodes have in common: only their scores differ."""

from typing import overload

import numpy as np
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.pool.attention import Scores
from sagpool.nn.pool.keep import Chosen, Pooled, choose_above, choose_top, keep_chosen
from sagpool.nn.pool.pyg_interface import PoolOutput, check_features, pack_pyg, unpack_pyg
from sagpool.nn.pool.selection import Ratio, Selection
from sagpool.ops import segment_softmax


class ScorePool(nn.Module):
    """Keeps the nodes with the top scores, multiplied with their gates.

    A subclass says what the scores are, by a method ``scores(x, adjacency)``. One whose scores
    need no more of x than its product with a weight may give that weight by ``score_weight()``; a
    network then computes the product on its way, and passes it on.

    Args:
        in_channels: size of each input row
        ratio: share of each graph's nodes that is kept, ⌈ratio · N⌉; a float or a fraction
        k: keep this many nodes of each graph instead, or all where there are fewer; a number or
            one for each graph
        min_score: keep the nodes whose softmax over the graph is above this instead, and gate by
            the softmax, as PyG does
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio = 0.5,
        *,
        k: int | np.ndarray | None = None,
        min_score: float | None = None,
    ) -> None:
        super().__init__()
        if in_channels < 1:
            raise SagpoolError(f"in_channels must be at least 1, not {in_channels}.")
        if min_score is not None and not 0 <= min_score < 1:
            raise SagpoolError(f"min_score must be at least 0 and below 1, not {min_score}.")
        self.in_channels = in_channels
        self.selection = Selection(ratio, k)
        self.min_score = min_score

    def score_weight(self) -> Tensor | None:
        """``[members, in_channels, 1]``, or None."""
        return None

    def scores(self, x: Tensor, adjacency: Adjacency, projected: Tensor | None = None) -> Scores:
        raise TypeError(f"{type(self).__name__} must define scores(x, adjacency).")

    @overload
    def forward(
        self, x: Tensor, edge_index: Adjacency, *, projected: Tensor | None = None
    ) -> Pooled: ...

    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> PoolOutput: ...

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Adjacency,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        projected: Tensor | None = None,
    ) -> Pooled | PoolOutput:
        """Pool a packed batch (an `Adjacency` in place of edges), or a batch in PyG's form.

        ``projected`` is x times `score_weight`, ``[rows, 1]``, where it has been computed already.
        """
        check_features(x, self.in_channels)
        if isinstance(edge_index, Adjacency):
            scores, chosen = self._choose(x, edge_index, projected)
            return keep_chosen(scores.features(x), edge_index, chosen)
        adjacency = pack_pyg(x, edge_index, batch)
        if edge_attr is not None and len(edge_attr) != edge_index.shape[1]:
            raise SagpoolError(
                f"edge_attr has {len(edge_attr)} rows for {edge_index.shape[1]} edges."
            )
        scores, chosen = self._choose(x, adjacency, projected)
        return unpack_pyg(scores.features(x), adjacency, chosen, edge_index, edge_attr)

    def _choose(
        self, x: Tensor, adjacency: Adjacency, projected: Tensor | None
    ) -> tuple[Scores, Chosen]:
        nodes = adjacency.members * adjacency.rows
        if len(x) != nodes:
            raise SagpoolError(f"x has {len(x)} rows, but the graphs have {nodes} nodes.")
        known = {} if projected is None else {"projected": projected}
        scores = self.scores(x, adjacency, **known)
        if self.min_score is None:
            return scores, choose_top(adjacency, scores.rank, scores.gate, self.selection)
        share = segment_softmax(scores.rank[:, None], adjacency.node_ptr, adjacency.graph)
        return scores, choose_above(adjacency, share.view(-1), self.min_score)

    def __repr__(self) -> str:
        if self.min_score is not None:
            kept = f"min_score={self.min_score}"
        elif self.selection.k is not None:
            kept = f"k={self.selection.k}"
        else:
            kept = f"ratio={self.selection.ratio}"
        return f"{type(self).__name__}({self.in_channels}, {kept})"
