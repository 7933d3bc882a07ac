"""The score of self-attention graph pooling."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.conv import Conv, GCNConv, find_conv
from sagpool.nn.conv.two_hop import TwoHop
from sagpool.nn.pool.scores import Scores
from sagpool.ops.pool_by_product import ProductScore

Augmentation = bool | Literal["two-hop"]


class AttentionScore(nn.Module):
    """``Z = 1/M Σ_m tanh(GNN_m(X, A))`` (the paper's Equations 3 and 6 to 9).

    Args:
        in_channels: size of each input row
        conv: the convolution of each GNN, a key of `CONVS`
        augmentation: use A + A² in place of A (Equation 7), or `Adjacency.two_hop` (``two-hop``)
        serial: convolutions in each GNN, with tanh between them (Equation 8); the inner ones are
            ``in_channels`` wide, on which the paper is silent
        parallel: the number M of GNNs (Equation 9)
        masks: channels of the last convolution, see `of_masks`
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[rows]`` each
        projected: ``[rows, columns]``, x times `score_weight`, if there is one
    """

    def __init__(
        self,
        in_channels: int,
        conv: str = "gcn",
        *,
        augmentation: Augmentation = False,
        serial: int = 1,
        parallel: int = 1,
        masks: int = 1,
        members: int = 1,
    ) -> None:
        super().__init__()
        if min(serial, parallel, masks) < 1:
            raise SagpoolError(
                "serial, parallel and masks must be at least 1, not "
                f"{serial}, {parallel} and {masks}."
            )
        if augmentation not in (False, True, "two-hop"):
            raise SagpoolError(
                f"augmentation must be True, False or 'two-hop', not {augmentation!r}."
            )
        self.augmentation = augmentation
        self.needs_pairs = augmentation is True and conv == "gat"
        self._single, self._masks = serial == parallel == 1, masks
        self.gnns = nn.ModuleList(
            nn.ModuleList(
                find_conv(conv)(in_channels, masks if last else in_channels, members=members)
                for last in [False] * (serial - 1) + [True]
            )
            for _ in range(parallel)
        )

    def reset_parameters(self) -> None:
        for gnn in self.gnns:
            for conv in gnn:  # type: ignore[attr-defined]
                conv.reset_parameters()

    def score_weight(self) -> Tensor | None:
        """``[members, in_channels, columns]``, if the score needs only X times this weight."""
        return self._first_conv.row_weight() if self._single else None

    def product_score(self) -> ProductScore | None:
        """The score of one model, if it is a single GCN without hooks."""
        conv, hooked = self._first_conv, self._forward_hooks or self._forward_pre_hooks
        alone = self._single and self._masks == 1 and not self.augmentation and not hooked
        if not alone or not isinstance(conv, GCNConv) or len(conv.linear.weight) > 1:
            return None
        return ProductScore(conv.linear.weight, conv.linear.bias, neighbours=True)

    def _graphs(self, structure: Structure) -> Structure:
        """The graphs in which the scores are computed."""
        if self.augmentation == "two-hop":
            return structure.csr().two_hop
        return TwoHop(structure) if self.augmentation else structure

    @property
    def _first_conv(self) -> Conv:
        return self.gnns[0][0]  # type: ignore[index]

    def forward(self, x: Tensor, structure: Structure, projected: Tensor | None = None) -> Scores:
        graphs = self._graphs(structure)
        conv = self._first_conv
        if projected is not None and isinstance(conv, GCNConv):
            assert conv.linear.bias is not None
            return Scores(*graphs.gcn_score_and_gate(projected, conv.linear.bias))
        if projected is not None:
            scores = [conv.of_product(projected, graphs).view(-1)]
        else:
            scores = [_serial(gnn.children(), x, graphs).view(-1) for gnn in self.gnns]
        if len(scores) == 1:
            return Scores(rank=scores[0], gate=scores[0].tanh())
        mean = torch.stack(scores).tanh().mean(0)
        return Scores(rank=mean, gate=mean)

    def of_masks(self, x: Tensor, structure: Structure, projected: Tensor | None = None) -> Tensor:
        """The scores of every mask before tanh, ``[rows, masks]``."""
        graphs = self._graphs(structure)
        if projected is not None:
            return self._first_conv.of_product(projected, graphs)
        return _serial(self.gnns[0].children(), x, graphs)


def _serial(convs: Iterable[nn.Module], x: Tensor, graphs: Structure) -> Tensor:
    """Convolutions with tanh between them (the paper's Equation 8)."""
    *inner, last = convs
    for conv in inner:
        x = conv(x, graphs).tanh()
    found: Tensor = last(x, graphs)
    return found
