"""PANPool: scores by path integrals."""

import torch
from torch import Tensor, nn

from sagpool.graphs import EdgeList, Structure
from sagpool.nn.linear import Linear
from sagpool.nn.pool.pool import Context
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Scores
from sagpool.nn.pool.selection import Ratio

LONGEST = 2  # length of the longest paths


class PANPool(ScorePool):
    """PANPool (Ma, Xuan, Wang, Li and Liò, 2020).

    ``y = X p + β diag(M)``, ``idx = top-rank(y, ⌈kN⌉)``, ``X_out = X[idx] ⊙ tanh(y[idx])``,
    ``A_out = A[idx, idx]``, with the maximal entropy transition matrix
    ``M = Z^-1/2 (Σ_n e^(-E(n) / T) A^n) Z^-1/2`` for n = 0, ..., L, where Z is the diagonal matrix
    of the row sums of the sum. The energies ``E(n) / T`` are learnt.

    L is 2, and no power of A is formed: in an undirected graph, the number of closed paths of
    length 2 is the degree. In PyG's call, edges may be directed, and count as often as they occur;
    self-loops are ignored.
    The convolutions between poolings are those of the network, not the paper's PANConv, and have
    their own parameters; the energies belong to this layer.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes that is kept
        members: how many models train side by side

    Shapes:
        packed: ``pool(x, structure, context)`` returns a `Pooled`
        PyG's call: ``pool(x, edge_index, edge_attr=None, batch=None, attn=None)`` returns a
        `PoolOutput`
    """

    def __init__(self, in_channels: int, ratio: Ratio = 0.5, *, members: int = 1) -> None:
        super().__init__(in_channels, ratio)
        self.projection = Linear(in_channels, 1, bias=False, members=members)
        self.beta = nn.Parameter(torch.empty(members, 1))
        self.energy = nn.Parameter(torch.empty(members, 1, LONGEST + 1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.projection.reset_parameters()
        nn.init.ones_(self.beta)
        nn.init.zeros_(self.energy)

    def score_weight(self) -> Tensor:
        return self.projection.weight

    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        product = self.product_of(x, context)
        assert product is not None
        members = len(self.beta)
        degree = structure.degree.to(x.dtype)[:, None]
        ones = torch.ones_like(degree)
        returns = _closed_paths(structure).to(x.dtype)[:, None]
        closed = torch.cat([ones, torch.zeros_like(degree), returns], 1)  # diag(A^n)
        paths = torch.cat([ones, degree, structure.neighbour_sum(degree)], 1)  # A^n 1
        weight = (-self.energy).exp()  # [members, 1, L + 1]
        both = [
            (weight * counts.view(members, -1, LONGEST + 1)).sum(2) for counts in (closed, paths)
        ]
        diagonal = both[0] / both[1]  # [members, rows]
        raw = product.view(-1) + (self.beta * diagonal).view(-1)
        return Scores(rank=raw, gate=raw.tanh())

    def can_record(self, dtype: torch.dtype) -> bool:
        return True


def _closed_paths(structure: Structure) -> Tensor:
    """``[rows]``, diag(A²)."""
    if isinstance(structure, EdgeList):
        source, target = structure.source, structure.target
    else:
        graphs = structure.csr()
        if graphs.symmetric:
            return graphs.degree
        source, target = graphs.col.long(), graphs.entry_row
    rows = len(structure.degree)
    edges = (target * rows + source).sort().values
    back = source * rows + target
    count = torch.searchsorted(edges, back, right=True) - torch.searchsorted(edges, back)
    count = torch.where(source == target, 0, count)
    return count.new_zeros(rows).index_add(0, target, count)
