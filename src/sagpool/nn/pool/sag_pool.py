"""Self-attention graph pooling."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.conv import GCNConv, find_conv
from sagpool.nn.conv.two_hop import TwoHop
from sagpool.nn.pool.pool import Context
from sagpool.nn.pool.pyg_scores import pyg_score_weight, pyg_scores
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Activation, Scores, find_activation, gated
from sagpool.nn.pool.selection import Ratio

Augmentation = bool | Literal["two-hop"]


class SAGPool(ScorePool):
    """Self-attention graph pooling (Lee, Lee and Kang, 2019).

    ``Z = tanh(GNN(X, A))``, ``idx = top-rank(Z, ⌈kN⌉)``, ``X_out = X[idx] ⊙ Z[idx]``,
    ``A_out = A[idx, idx]`` (the paper's Equations 3 to 5), where the GNN is one graph convolution
    to a single channel, or a variant of it.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes that is kept; an integer is a k
        GNN: score by this convolution of PyG, ``GNN(in_channels, 1, **kwargs)``, instead
        min_score: keep the nodes whose softmax score is above this instead
        multiplier: factor of the rows that are kept
        nonlinearity: in place of tanh, a function or its name in PyG
        k: keep this many nodes of each graph instead
        conv: a key of `CONVS`; the paper has ``gcn``, ``cheb`` (K = 2), ``sage`` (mean) and ``gat``
            (6 heads)
        augmentation: score with A + A² in place of A, which counts walks at each level; or, if
            ``two-hop``, with the input's nodes that are one or two hops apart joined once each
        serial: convolutions in a row
        parallel: number of scores that are averaged
        lowest: keep the nodes with the lowest scores instead, with the same gates; a control
        members: how many models train side by side
        **kwargs: of the GNN

    Shapes:
        packed: ``pool(x, structure, context)`` returns a `Pooled`
        PyG's call: ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a
        `PoolOutput`
    """

    attention: "AttentionScore | None"

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | None = 0.5,
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
        members: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, ratio, k=k, min_score=min_score, multiplier=multiplier)
        self.nonlinearity = find_activation(nonlinearity)
        if lowest and min_score is not None:
            raise SagpoolError("The nodes with the lowest scores are not those above a min_score.")
        if parallel > 1 and self.nonlinearity is not torch.tanh:
            raise SagpoolError(
                "Parallel scores are averaged after tanh; they have no nonlinearity."
            )
        self.lowest = lowest
        own = (conv, augmentation, serial, parallel, members)
        if GNN is not None:
            if own != ("gcn", False, 1, 1, 1):
                raise SagpoolError(
                    "conv, augmentation, serial, parallel and members are not for a GNN of PyG."
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
            members=members,
        )

    def reset_parameters(self) -> None:
        (self.attention or self.gnn).reset_parameters()  # type: ignore[operator]

    def score_weight(self) -> Tensor | None:
        if self.attention is None:
            return pyg_score_weight(self.gnn)
        return self.attention.score_weight()

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        if self.attention is None:
            scores = gated(
                pyg_scores(self.gnn, x, structure, context), self.nonlinearity, self.min_score
            )
        else:
            scores = self.attention(x, structure, context.projected)
            if self.nonlinearity is not torch.tanh:
                scores = gated(scores.rank, self.nonlinearity, self.min_score)
        return scores._replace(rank=-scores.rank) if self.lowest else scores

    def can_record(self, dtype: torch.dtype) -> bool:
        # The pairs of nodes two hops apart are counted on the host.
        own = self.attention
        return self.min_score is None and own is not None and not own.needs_pairs

    def __repr__(self) -> str:
        own = super().__repr__()
        if self.attention is not None:
            return own
        return own.replace("(", f"({type(self.gnn).__name__}, ", 1)


class AttentionScore(nn.Module):
    """``Z = 1/M Σ_m tanh(GNN_m(X, A))`` (the paper's Equations 3 and 6 to 9).

    Args:
        in_channels: size of each input row
        conv: the convolution of each GNN, a key of `CONVS`
        augmentation: use A + A² in place of A (Equation 7), or `Adjacency.two_hop` (``two-hop``)
        serial: convolutions in each GNN, with tanh between them (Equation 8); the inner ones are
            ``in_channels`` wide, on which the paper is silent
        parallel: the number M of GNNs (Equation 9)
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows]`` each
        projected: ``[rows, 1]``, x times `score_weight`, if there is one
    """

    def __init__(
        self,
        in_channels: int,
        conv: str = "gcn",
        *,
        augmentation: Augmentation = False,
        serial: int = 1,
        parallel: int = 1,
        members: int = 1,
    ) -> None:
        super().__init__()
        if serial < 1 or parallel < 1:
            raise SagpoolError(
                f"serial and parallel must be at least 1, not {serial} and {parallel}."
            )
        if augmentation not in (False, True, "two-hop"):
            raise SagpoolError(
                f"augmentation must be True, False or 'two-hop', not {augmentation!r}."
            )
        self.augmentation = augmentation
        self.needs_pairs = augmentation is True and conv == "gat"
        self._single = serial == parallel == 1
        self.gnns = nn.ModuleList(
            nn.ModuleList(
                find_conv(conv)(in_channels, 1 if last else in_channels, members=members)
                for last in [False] * (serial - 1) + [True]
            )
            for _ in range(parallel)
        )

    def reset_parameters(self) -> None:
        for gnn in self.gnns:
            for conv in gnn:  # type: ignore[attr-defined]
                conv.reset_parameters()

    def score_weight(self) -> Tensor | None:
        """``Θ_att``, if the score is a sum over neighbours of ``X Θ_att``."""
        conv = self._single_gcn()
        return None if conv is None else conv.linear.weight

    def _graphs(self, structure: Structure) -> Structure:
        """In which the scores are computed."""
        if self.augmentation == "two-hop":
            return structure.csr().two_hop
        return TwoHop(structure) if self.augmentation else structure

    def _single_gcn(self) -> GCNConv | None:
        first = self.gnns[0][0]  # type: ignore[index]
        return first if self._single and isinstance(first, GCNConv) else None

    def forward(self, x: Tensor, structure: Structure, projected: Tensor | None = None) -> Scores:
        graphs = self._graphs(structure)
        conv = self._single_gcn()
        if conv is not None and projected is not None:
            assert conv.linear.bias is not None
            raw = graphs.gcn_score(projected, conv.linear.bias)
            return Scores(rank=raw, gate=raw.tanh())
        scores = []
        for gnn in self.gnns:
            *inner, last = gnn.children()
            h = x
            for layer in inner:
                h = layer(h, graphs).tanh()
            scores.append(last(h, graphs).view(-1))
        if len(scores) == 1:
            return Scores(rank=scores[0], gate=scores[0].tanh())
        mean = torch.stack(scores).tanh().mean(0)
        return Scores(rank=mean, gate=mean)
