"""Attention scores: how much each node matters."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency
from sagpool.nn.conv.cheb import ChebConv
from sagpool.nn.conv.gat import GATConv
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.conv.sage import SAGEConv
from sagpool.nn.conv.two_hop import TwoHop, two_hop_pairs
from sagpool.ops import matmul_with_passthrough

CONVS: dict[str, Callable[..., nn.Module]] = {
    "gcn": GCNConv,
    "cheb": ChebConv,
    "sage": SAGEConv,
    "gat": GATConv,
}


class Scores(NamedTuple):
    """Nodes are ranked by one number and gated by another.

    tanh saturates: ranking by the number before it keeps apart what it would make equal.
    """

    rank: Tensor  # [rows]
    gate: Tensor  # [rows]
    x: Tensor | None = None  # as `matmul_with_passthrough` gave it back

    def features(self, x: Tensor) -> Tensor:
        """What is to be pooled."""
        return x if self.x is None else self.x


class AttentionScore(nn.Module):
    """``Z = 1/M Σ_m tanh(GNN_m(X, A))`` (the paper's Equations 3 and 6 to 9).

    Args:
        in_channels: size of each input row
        conv: the convolution of each GNN: gcn, cheb, sage or gat
        augmentation: use A + A² in place of A (Equation 7)
        serial: convolutions in each GNN, with tanh between them (Equation 8); the inner ones are
            ``in_channels`` wide, on which the paper is silent
        parallel: the number M of GNNs (Equation 9)
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows]`` each
        projected: ``[rows, 1]``, x times `score_weight`, where it has been computed already
    """

    def __init__(
        self,
        in_channels: int,
        conv: str = "gcn",
        *,
        augmentation: bool = False,
        serial: int = 1,
        parallel: int = 1,
        members: int = 1,
    ) -> None:
        super().__init__()
        if conv not in CONVS:
            raise SagpoolError(f"Unknown convolution '{conv}'; choose from {', '.join(CONVS)}.")
        if serial < 1 or parallel < 1:
            raise SagpoolError(
                f"serial and parallel must be at least 1, not {serial} and {parallel}."
            )
        self.pairwise = conv == "gat"
        self.augmentation = augmentation
        self.gnns = nn.ModuleList(
            nn.ModuleList(
                CONVS[conv](in_channels, 1 if last else in_channels, members=members)
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
        if len(self.gnns) > 1:
            return None
        (gnn,) = self.gnns
        *inner, last = gnn.children()
        return last.linear.weight if not inner and isinstance(last, GCNConv) else None

    def forward(self, x: Tensor, adjacency: Adjacency, projected: Tensor | None = None) -> Scores:
        graphs: Adjacency | TwoHop = adjacency
        if self.augmentation:
            graphs = two_hop_pairs(adjacency) if self.pairwise else TwoHop(adjacency)
        raw = []
        for gnn in self.gnns:
            *inner, last = gnn.children()
            if not inner and isinstance(last, GCNConv):
                y = projected
                if y is None:
                    y, x = matmul_with_passthrough(x, last.linear.weight)
                raw.append(last.linear.add_bias(graphs.gcn(y)).view(-1))
                continue
            h = x
            for conv in inner:
                h = conv(h, graphs).tanh()
            raw.append(last(h, graphs).view(-1))
        if len(raw) == 1:
            return Scores(rank=raw[0], gate=raw[0].tanh(), x=x)
        mean = torch.stack(raw).tanh().mean(0)
        return Scores(rank=mean, gate=mean, x=x)
