"""Self-attention graph pooling."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.pool.attention_score import AttentionScore, Augmentation
from sagpool.nn.pool.learned_ratio import check_budget, keep_positive, presence_and_gate
from sagpool.nn.pool.masks import each_its_copy, each_its_own
from sagpool.nn.pool.pool import Context, Pooled, check_rows
from sagpool.nn.pool.pyg_interface import highest
from sagpool.nn.pool.pyg_scores import pyg_product_score, pyg_score_weight, pyg_scores
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Activation, Scores, find_activation, gated
from sagpool.nn.pool.selection import Ratio, Selection, keep_selected, select_top
from sagpool.ops import repeated_layout
from sagpool.ops.marked_graph import MarkedGraph, keep_marked
from sagpool.ops.pool_by_product import ProductScore


class SAGPool(ScorePool):
    """Self-attention graph pooling (Lee, Lee and Kang, 2019).

    ``Z = tanh(GNN(X, A))``, ``idx = top-rank(Z, ⌈kN⌉)``, ``X_out = X[idx] ⊙ Z[idx]``,
    ``A_out = A[idx, idx]`` (the paper's Equations 3 to 5), where the GNN is one graph convolution
    to a single channel, or a variant of it.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes to keep; an integer is a k; ``learned``: keep all
            nodes with positive scores, multiplied by the sigmoid, see `LearnedRatioPool`
        GNN: score by this convolution of PyG, ``GNN(in_channels, 1, **kwargs)``, instead
        min_score: keep the nodes whose softmax score is above this instead
        multiplier: factor of the rows that are kept
        nonlinearity: in place of tanh, a function or its name in PyG
        k: keep this many nodes of each graph instead
        conv: a key of `CONVS`; the paper has ``gcn``, ``cheb`` (K = 2), ``sage`` (mean) and ``gat``
            (6 heads)
        augmentation: score with A + A² instead of A, which counts walks at each level; or, if
            ``two-hop``, with graphs in which input nodes one or two hops apart are joined
        serial: convolutions in a row
        parallel: number of scores that are averaged
        lowest: keep the nodes with the lowest scores instead, with the same gates; a control
        masks: number of scores; each keeps its own nodes and gives its own pooled graph; see
            `masks.py`
        max_ratio: with a learnt ratio: at most this fraction is kept
        budget: with a learnt ratio: the cost of keeping all nodes of a graph
        start: with a learnt ratio: added to all scores; 3 by default, to begin with all nodes
        members: how many models train side by side
        **kwargs: arguments of the GNN

    Shapes:
        packed: ``pool(x, structure, context)`` returns a `Pooled`
        PyG's call: ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a
        `PoolOutput`. With a learnt ratio it has all nodes in training, and dropped nodes have a
        ``score`` and features of 0; add the mean of budget · score over the nodes of each graph to
        the loss. In evaluation it has the nodes with a score of at least one half, and at least one
        node of every graph
    """

    attention: AttentionScore | None

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | Literal["learned"] | None = 0.5,
        GNN: Callable[..., nn.Module] | None = None,
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: str | Activation = "tanh",
        *,
        k: int | np.ndarray | None = None,
        conv: str = "gcn",
        augmentation: Augmentation = False,
        serial: int = 1,
        parallel: int = 1,
        lowest: bool = False,
        masks: int = 1,
        max_ratio: Ratio | None = None,
        budget: float | None = None,
        start: float | None = None,
        members: int = 1,
        **kwargs: Any,
    ) -> None:
        learned = ratio == "learned"
        kept = (1.0 if max_ratio is None else max_ratio) if ratio == "learned" else ratio
        super().__init__(in_channels, kept, k=k, min_score=min_score, multiplier=multiplier)
        self.nonlinearity = torch.sigmoid if learned else find_activation(nonlinearity)
        if not learned and (max_ratio, budget, start) != (None, None, None):
            raise SagpoolError("max_ratio, budget and start need ratio='learned'.")
        others = (k, min_score, nonlinearity, lowest, masks, parallel)
        if learned and others != (None, None, "tanh", False, 1, 1):
            raise SagpoolError(
                "A learnt ratio has no k, min_score, nonlinearity, lowest, masks or parallel."
            )
        self.learned = self.straight_through = self.absent_rows = learned
        self.budget = check_budget(0.01 if budget is None else budget)
        self.start = 3.0 if start is None else start
        if lowest and min_score is not None:
            raise SagpoolError("lowest cannot be combined with min_score.")
        if parallel > 1 and self.nonlinearity is not torch.tanh:
            raise SagpoolError(
                "Parallel scores are averaged after tanh; they have no nonlinearity."
            )
        if masks > 1 and (min_score is not None or parallel > 1 or isinstance(k, np.ndarray)):
            raise SagpoolError(
                "Several masks keep the same number of nodes, each by one score: they have a ratio "
                "or one k, no min_score and no parallel scores."
            )
        self.lowest, self.masks = lowest, masks
        options = {
            "conv": (conv, "gcn"),
            "augmentation": (augmentation, False),
            "serial": (serial, 1),
            "parallel": (parallel, 1),
            "lowest": (lowest, False),
            "masks": (masks, 1),
        }
        self._unusual = {name: one for name, (one, usual) in options.items() if one != usual}
        own = (conv, augmentation, serial, parallel, masks, members)
        if GNN is not None:
            if own != ("gcn", False, 1, 1, 1, 1):
                raise SagpoolError(
                    "conv, augmentation, serial, parallel, masks and members are not for a GNN of "
                    "PyG."
                )
            self.attention = None
            self.gnn = GNN(in_channels, 1, **kwargs)
            return
        if kwargs:
            raise SagpoolError(f"SAGPool without a GNN has no argument '{next(iter(kwargs))}'.")
        self.attention = AttentionScore(
            in_channels,
            conv,
            augmentation=augmentation,
            serial=serial,
            parallel=parallel,
            masks=masks,
            members=members,
        )

    def reset_parameters(self) -> None:
        (self.attention or self.gnn).reset_parameters()  # type: ignore[operator]

    def score_weight(self) -> Tensor | None:
        if self.attention is None:
            return pyg_score_weight(self.gnn)
        return self.attention.score_weight()

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        product = self.product_of(x, context)
        if self.attention is None:
            raw = pyg_scores(self.gnn, x, product, structure, context.edges)
            scores = gated(raw, self.nonlinearity, self.min_score)
        elif self.masks > 1:
            raw = self.attention.of_masks(x, structure, product)
            scores = gated(raw, self.nonlinearity, None)
        else:
            scores = self.attention(x, structure, product)
            raw = scores.rank
            if self.nonlinearity is not torch.tanh:
                scores = gated(raw, self.nonlinearity, self.min_score)
        if self.learned:
            raw = raw + self.start
            # The sign of the score decides, not the sign of the gate.
            return Scores(raw, raw.sigmoid())
        return scores._replace(rank=-scores.rank) if self.lowest else scores

    def _pool_packed(self, x: Tensor, structure: Structure, context: Context) -> Pooled:
        if self.learned:
            _, scores = self._score(x, x, structure, context)
            rank = scores.rank
            return keep_positive(x, structure, rank, self.selection, self.budget)
        if self.masks == 1 or self.attention is None:
            return super()._pool_packed(x, structure, context)
        layout, members = structure.layout, len(next(self.attention.parameters()))
        check_rows(x, layout)
        x, scores = self._score(x, x, structure, context)
        own = each_its_own
        if layout.members == members:
            layout, own = repeated_layout(layout, self.masks), each_its_copy
        rank, gate = own(scores.rank, members), own(scores.gate, members)
        selected = select_top(layout, rank, gate, self.selection)
        return keep_selected(x, structure, selected, layout)

    def product_score(self) -> ProductScore | None:
        unusual = self.learned or self.lowest or self.nonlinearity is not torch.tanh
        if unusual or type(self).scores is not SAGPool.scores:
            return None
        if self.attention is None:
            return pyg_product_score(self.gnn)
        return self.attention.product_score()

    def _keep_pyg(
        self,
        x: Tensor,
        scores: Scores,
        edge_index: Tensor,
        batch: Tensor | None,
        positions: bool,
    ) -> MarkedGraph:
        if self.learned and self.training:
            scores = scores._replace(gate=presence_and_gate(scores.gate)[1])
        if not self.learned or self.training:
            return super()._keep_pyg(x, scores, edge_index, batch, positions)
        best, _ = highest(scores.rank, batch, Selection(k=1))
        most, _ = highest(scores.rank, batch, self.selection)
        mask = best | (most & (scores.gate >= 0.5))
        gate = scores.gate.to(x.dtype)
        return keep_marked(x, gate, mask, edge_index, batch, None, positions)

    def can_record(self, dtype: torch.dtype) -> bool:
        # Pairs of nodes two hops apart are computed on the host.
        own = self.attention
        return self.min_score is None and own is not None and not own.needs_pairs

    def __repr__(self) -> str:
        own = super().__repr__()
        if self.learned:
            own = own.replace("ratio=", "ratio='learned', max_ratio=", 1)
        if self.attention is None:
            own = own.replace("(", f"({type(self.gnn).__name__}, ", 1)
        unusual = "".join(f", {name}={value!r}" for name, value in self._unusual.items())
        return f"{own[:-1]}{unusual})"
