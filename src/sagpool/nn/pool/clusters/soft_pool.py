"""`SoftPool`: the common base of MinCutPool, DMoN, JustBalance and HOSC."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.linear import Linear
from sagpool.nn.pool.clusters.congruence import Congruence, congruence
from sagpool.nn.pool.clusters.dense_adjacency import DenseAdjacency
from sagpool.nn.pool.clusters.segment_matmul import segment_matmul
from sagpool.nn.pool.clusters.segments import PaddedSegments, Segments, segments_of
from sagpool.nn.pool.pool import Context, Pool, Pooled, check_rows
from sagpool.ops import segment_sum

# Smaller sums count as 0. The sum of a filler's edges may be negative, see `DenseAdjacency.degree`.
SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Clustering:
    """The assignment of one level, and terms of losses; all sums are over a graph's nodes.

    Args:
        assignment: S, ``[rows, clusters]``; rows sum to 1
        structure: A
        degree: row sums of A, or of the normalised A, ``[rows]``
        matrix: ``Sᵀ A S``, ``[graphs, clusters, clusters]``
        segments: segments of the rows
    """

    assignment: Tensor
    structure: Structure
    degree: Tensor
    matrix: Tensor
    segments: Segments

    @property
    def clusters(self) -> int:
        return self.assignment.shape[1]

    @cached_property
    def nodes(self) -> Tensor:
        """N, ``[graphs]``."""
        return self.structure.layout.node_ptr.diff().to(self.assignment.dtype)

    @cached_property
    def gram(self) -> Congruence:
        """Trace and squared norm of ``Sᵀ S``."""
        return congruence(self.assignment, self.segments)

    @cached_property
    def sizes(self) -> Tensor:
        """Column sums of S, ``[graphs, clusters]``."""
        return self.total(self.assignment)

    @cached_property
    def lengths(self) -> Tensor:
        """Norms of the columns of S, ``[graphs, clusters]``."""
        squares = self.total(self.assignment.square())
        # Avoids the infinite slope at 0.
        return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()

    @property
    def trace(self) -> Tensor:
        """The trace of ``Sᵀ A S``, ``[graphs]``."""
        return self.matrix.diagonal(dim1=1, dim2=2).sum(1)

    def total(self, values: Tensor) -> Tensor:
        """``[rows, channels]`` to ``[graphs, channels]``."""
        layout = self.structure.layout
        return segment_sum(values, layout.node_ptr, layout.graph)

    def pooled(self, x: Tensor) -> Tensor:
        """``Sᵀ x``, ``[graphs, clusters, channels]``."""
        return segment_matmul(self.assignment, x, self.segments)


class SoftPool(Pool):
    """``S = softmax(MLP(X))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S``, and a loss that S minimises.

    A' is a matrix in memory, so a graph should have about as many clusters as nodes. A subclass
    defines `loss`, and may replace `features` and `edges`.

    Args:
        in_channels: size of each input row
        clusters: nodes of each pooled graph
        hidden: sizes of the hidden layers of the MLP
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        result: ``[members * graphs * clusters, in_channels]``
    """

    leaves = "clusters"
    normalises = False  # whether A of the input is replaced by D^-1/2 A D^-1/2

    def __init__(
        self, in_channels: int, clusters: int, *, hidden: Sequence[int] = (), members: int = 1
    ) -> None:
        super().__init__()
        if clusters < 1:
            raise SagpoolError(f"{type(self).__name__} needs at least 1 cluster, not {clusters}.")
        self.clusters = clusters
        widths = pairwise([in_channels, *hidden, clusters])
        self.assign = nn.ModuleList(Linear(a, b, members=members) for a, b in widths)

    def reset_parameters(self) -> None:
        for layer in self.assign:
            layer.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        found = self._cluster(x, structure)
        base = structure.base if isinstance(structure, DenseAdjacency) else structure.csr()
        coarse = DenseAdjacency(base, self.clusters, self.edges(found.matrix))
        rows = self.features(found, x).flatten(0, 1)
        return Pooled(rows, coarse, assignment=found.assignment, auxiliary=self.loss(found))

    @abstractmethod
    def loss(self, found: Clustering) -> Tensor:
        """The loss of each graph, ``[graphs]``."""

    def features(self, found: Clustering, x: Tensor) -> Tensor:
        """X', ``[graphs, clusters, channels]``."""
        return found.pooled(x)

    def edges(self, matrix: Tensor) -> Tensor:
        """A' from ``Sᵀ A S``, ``[graphs, clusters, clusters]``."""
        return without_loops(matrix)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return np.full_like(sizes, self.clusters)

    def can_record(self, dtype: torch.dtype) -> bool:
        return dtype == torch.float32  # there are no kernels for other types

    def _cluster(self, x: Tensor, structure: Structure) -> Clustering:
        logits = self.assign[0](x)
        for layer in [*self.assign][1:]:
            logits = layer(logits.relu())
        s = logits.softmax(1)
        # Made by this method, so already normalised if it normalises.
        if isinstance(structure, DenseAdjacency):
            equal = PaddedSegments.equal(len(structure.matrix), structure.clusters)
            return Clustering(s, structure, structure.degree, structure.pool(s).matrix, equal)
        base, degree, weighted = structure.csr(), structure.degree.to(s.dtype), s
        if self.normalises:
            scale = inverse_root(degree)[:, None]
            degree, weighted = (scale * base.neighbour_sum(scale)).view(-1), scale * s
        segments = segments_of(base.layout, s)
        coarse = DenseAdjacency.of(base, weighted, self.clusters, segments)
        return Clustering(s, base, degree, coarse.matrix, segments)


def without_loops(matrix: Tensor) -> Tensor:
    """``D^-1/2 (A - diag(A)) D^-1/2``, D of the matrix in the middle; ``[graphs, n, n]``."""
    loops = torch.eye(matrix.shape[1], dtype=torch.bool, device=matrix.device)
    others = matrix.masked_fill(loops, 0)
    scale = inverse_root(others.sum(2))
    return scale[:, :, None] * others * scale[:, None, :]


def inverse_root(degree: Tensor) -> Tensor:
    """``d^-1/2``, and 0 for 0."""
    return torch.where(degree > SMALLEST, degree.clamp(min=SMALLEST).rsqrt(), 0)


def fraction(part: Tensor, whole: Tensor) -> Tensor:
    """``part / whole``, and 0 for a division by 0."""
    return torch.where(whole > SMALLEST, part / whole.clamp(min=SMALLEST), 0)
