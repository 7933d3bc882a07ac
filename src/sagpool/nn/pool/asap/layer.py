"""Adaptive structure aware pooling."""

import numpy as np
import torch
from torch import Tensor

from sagpool.graphs import Structure
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.linear import Linear
from sagpool.nn.pool.asap.ego import ego_clusters
from sagpool.nn.pool.pool import Context, Fused, Pool, Pooled, check_rows
from sagpool.nn.pool.selection import Ratio, Selection, select_top, select_top_on_host
from sagpool.ops import pool_rows


class ASAPool(Pool):
    """ASAP (Ranjan, Sanyal and Talukdar, 2020).

    Every node i and its neighbours are a cluster c_i. With X' = GCN(X, A):

    - the master query ``m_i = max_{j in c_i} x'_j``,
    - the membership ``α_ij = softmax_j(LeakyReLU(vᵀ m_i + wᵀ x'_j + b))`` of node j,
    - the cluster ``x_i^c = Σ_j α_ij x_j``,
    - its fitness ``φ_i = σ(x_i^c θ_1 + Σ_j A_ij (x_i^c θ_2 - x_j^c θ_3))``, by LEConv,

    and for the ⌈kN⌉ clusters idx with the highest fitness ``X' = (φ ⊙ X^c)[idx]`` and
    ``A' = Sᵀ (A + I) S`` with ``S = αᵀ[:, idx]``.

    In the paper's equation the leaky ReLU comes before the product with w, where the query would
    cancel out of the softmax; here it comes after it, as in the authors' code. Their v is the
    product of a matrix and a vector, which allows no other functions. As in their code, self-loops
    of A' are dropped; the convolutions add their own.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's clusters to keep
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``, result: ``[new rows, in_channels]``
    """

    leaves = "clusters"

    def __init__(self, in_channels: int, ratio: Ratio = 0.5, *, members: int = 1) -> None:
        super().__init__()
        self.selection = Selection(ratio)
        self.refine = GCNConv(in_channels, in_channels, bias=False, members=members)
        self.query = Linear(in_channels, 1, bias=False, members=members)
        self.key = Linear(in_channels, 1, members=members)
        # The columns are θ_1, θ_2 and θ_3.
        self.fitness = Linear(in_channels, 3, bias=False, members=members)

    def reset_parameters(self) -> None:
        for layer in self.children():
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        egos = ego_clusters(structure, x)
        refined = self.refine(x, structure)
        query = self.query(egos.maximum(refined)).view(-1)
        membership, clusters = egos.attend(query, self.key(refined).view(-1), x)
        rank = self._fitness(clusters, structure)
        select = select_top_on_host if egos.needs_sizes else select_top
        selected = select(structure.layout, rank, rank.sigmoid(), self.selection)
        new = selected.layout
        left = pool_rows(clusters, selected.gate, selected.chosen, structure.layout, new)
        graphs = egos.coarsen(membership, left.perm.long(), new)
        return Pooled(left.x, graphs, fused=Fused(left.x, left.readout))

    def _fitness(self, clusters: Tensor, structure: Structure) -> Tensor:
        """``[rows]``, before the sigmoid."""
        own, centre, neighbours = self.fitness(clusters).unbind(1)
        degree = structure.degree.to(clusters.dtype)
        return own + degree * centre - structure.neighbour_sum(neighbours[:, None]).view(-1)

    def can_record(self, dtype: torch.dtype) -> bool:
        return dtype == torch.float32  # there are no kernels for other types

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return self.selection.counts(sizes)

    def __repr__(self) -> str:
        return f"ASAPool({self.fitness.weight.shape[1]}, ratio={self.selection.ratio})"
