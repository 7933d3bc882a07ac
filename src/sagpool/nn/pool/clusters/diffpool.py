"""DiffPool."""

from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.graphs import Adjacency, Structure
from sagpool.nn.conv.gcn import GCNConv
from sagpool.nn.pool.clusters.assignment import SoftAssignment, graph_means, soft_assignment
from sagpool.nn.pool.clusters.cluster_adjacency import ClusterAdjacency
from sagpool.nn.pool.clusters.coarsen import coarsen
from sagpool.nn.pool.clusters.congruence import congruence
from sagpool.nn.pool.clusters.dense_adjacency import DenseAdjacency
from sagpool.nn.pool.clusters.device import has_kernels
from sagpool.nn.pool.clusters.gradient_chain import GradientChain
from sagpool.nn.pool.clusters.link_loss import link_loss, link_loss_by_kernels
from sagpool.nn.pool.clusters.low_rank_adjacency import LowRankAdjacency
from sagpool.nn.pool.clusters.segment_matmul import segment_matmul
from sagpool.nn.pool.clusters.segments import PaddedSegments, SegmentPtr, Segments, segments_of
from sagpool.nn.pool.pool import Context, Fused, Pool, Pooled, check_rows
from sagpool.ops import matmul_with_passthrough, segment_mean, segment_sum
from sagpool.ops.alignment import aligned

Losses = Literal["both", "link", "none"]
# Up to this many clusters A' is a dense matrix; a larger A' stays in factors.
MAX_DENSE_CLUSTERS = 64


class DiffPool(Pool):
    """Differentiable pooling (Ying et al., 2018), without batch normalisation.

    ``S = softmax(GCN(X, A))``, ``X' = Sᵀ X``, ``A' = Sᵀ A S`` (the paper's Equation 1).

    A large A' stays in factors (see `LowRankAdjacency`), and the link loss ‖A - S Sᵀ‖² is computed
    as ‖A‖² - 2 tr(Sᵀ A S) + ‖Sᵀ S‖²: no large matrix has more elements than S. Both losses,
    ‖A - S Sᵀ‖ / N² and the mean entropy of the rows of S, are computed for each graph separately,
    so they do not depend on the other graphs of the batch.

    Args:
        in_channels: size of each input row
        clusters: nodes of each pooled graph
        losses: which of the two losses are added; PyG had no entropy loss until April 2019
        members: how many models train side by side

    Shapes:
        x: ``[rows, in_channels]``
        result: ``[members * graphs * clusters, in_channels]``, or multiplied by
            `Context.next_weight` if that is faster
    """

    leaves = "clusters"

    def __init__(
        self, in_channels: int, clusters: int, *, losses: Losses = "both", members: int = 1
    ) -> None:
        super().__init__()
        if clusters < 1:
            raise SagpoolError(f"DiffPool needs at least 1 cluster, not {clusters}.")
        if losses not in get_args(Losses):
            known = ", ".join(get_args(Losses))
            raise SagpoolError(f"losses must be one of {known}, not '{losses}'.")
        self.losses = losses
        self.assign = GCNConv(in_channels, clusters, members=members)

    def reset_parameters(self) -> None:
        self.assign.reset_parameters()

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        if has_kernels(x):
            soft, x = self._assignment_by_kernels(x, structure)
        else:
            soft = soft_assignment(self.assign(x, structure))
        if isinstance(structure, DenseAdjacency):
            level = _dense_level(soft, x, structure, self.losses)
        elif has_kernels(x):
            weight = context.next_weight
            level = _level_by_kernels(soft, self.clusters, x, structure, weight, self.losses)
        else:
            level = _level_by_torch(soft, self.clusters, x, structure, self.losses)
        rows = level.pooled.flatten(0, 1)
        return Pooled(
            rows,
            level.coarse,
            assignment=soft.assignment[:, : self.clusters],
            auxiliary=level.auxiliary,
            fused=Fused(rows, level.mean_max, multiplied=level.mean_max is not None),
        )

    @property
    def clusters(self) -> int:
        return self.assign.linear.weight.shape[2]

    def rows_left(self, sizes: np.ndarray) -> np.ndarray:
        return np.full_like(sizes, self.clusters)

    def can_record(self, dtype: torch.dtype) -> bool:
        return dtype == torch.float32  # there are no kernels for other types

    def _assignment_by_kernels(
        self, x: Tensor, structure: Structure
    ) -> tuple[SoftAssignment, Tensor]:
        """The assignment, and x for the pooling.

        For aligned loads the assignment has more columns than there are clusters, unless the
        adjacency is dense. Its kernel adds the bias.
        """
        weight: Tensor = self.assign.linear.weight
        bias = self.assign.linear.bias
        if not isinstance(structure, DenseAdjacency):
            weight = pad(weight, (0, aligned(self.clusters) - self.clusters))
        if self.assign.narrows:
            y, x = matmul_with_passthrough(x, weight)
            return soft_assignment(structure.gcn(y), bias), x
        y, _ = matmul_with_passthrough(structure.gcn(x), weight)
        return soft_assignment(y, bias), x


class _Level(NamedTuple):
    pooled: Tensor  # [graphs, clusters, channels]
    coarse: ClusterAdjacency
    entropy: Tensor | None  # [graphs]
    link: Tensor | None  # [graphs]
    mean_max: Tensor | None = None  # [graphs, 2 * channels], if W was applied to pooled

    @property
    def auxiliary(self) -> Tensor | None:
        """The sum of the losses in use."""
        return self.link if self.link is None or self.entropy is None else self.link + self.entropy


def _dense_level(
    soft: SoftAssignment, x: Tensor, adjacency: DenseAdjacency, losses: Losses
) -> _Level:
    graphs, nodes = len(adjacency.matrix), adjacency.clusters
    s, h = soft.assignment.view(graphs, nodes, -1), x.view(graphs, nodes, -1)
    back = s.transpose(1, 2)  # [graphs, clusters, nodes]
    coarse = adjacency.pool(soft.assignment)
    entropy = link = None
    if losses != "none":
        gram_norm = torch.bmm(back, s).square().sum((1, 2))
        link = link_loss(adjacency.squared_norm, coarse.trace, gram_norm, nodes**2)
    pooled = torch.bmm(back, h)
    if losses == "both":
        entropy = soft.entropy.view(graphs, nodes).mean(1)
    return _Level(pooled, coarse, entropy, link)


def _level_by_torch(
    soft: SoftAssignment, clusters: int, x: Tensor, structure: Structure, losses: Losses
) -> _Level:
    s = soft.assignment
    if isinstance(structure, LowRankAdjacency):
        base, t = structure.base, structure.compose(s)
        base_segments = structure.segments
        if isinstance(base_segments, PaddedSegments) and base_segments.padding is None:
            base_segments = segments_of(
                base.layout, t
            )  # t is narrower, so padding may be faster now
        graphs = base.layout.members * base.layout.graphs
        segments: Segments = PaddedSegments.equal(graphs, structure.clusters)
    else:
        base, t = structure.csr(), s
        segments = base_segments = segments_of(base.layout, s)
    coarse = _coarse(base, t, clusters, base_segments, GradientChain(t))
    pooled = segment_matmul(s, x, segments)
    ptr = structure.layout.node_ptr
    entropy = link = None
    if losses == "both":
        entropy = segment_mean(soft.entropy[:, None], ptr, structure.layout.graph).view(-1)
    if losses != "none":
        if isinstance(structure, LowRankAdjacency):
            norm = structure.squared_norm
        else:
            norm = _squared_norm(base, x.dtype)
        trace, gram_norm = coarse.trace, congruence(s, segments).squared_norm
        link = link_loss(norm, trace, gram_norm, ptr.diff().to(x.dtype).square())
    return _Level(pooled, coarse, entropy, link)


def _coarse(
    base: Adjacency, assignment: Tensor, clusters: int, segments: Segments, chain: GradientChain
) -> LowRankAdjacency | DenseAdjacency:
    """``Tᵀ A T``, for the graphs before the first pooling and the assignment T of their nodes."""
    if clusters <= MAX_DENSE_CLUSTERS:
        return DenseAdjacency.of(base, chain.latest, clusters, segments)
    return LowRankAdjacency(base, clusters, segments, assignment, chain)


def _squared_norm(adjacency: Adjacency, dtype: torch.dtype) -> Tensor:
    """‖A‖² of each graph, ``[graphs]``."""
    degree = adjacency.degree.to(dtype)[:, None]
    return segment_sum(degree, adjacency.layout.node_ptr, adjacency.layout.graph).view(-1)


def _level_by_kernels(
    soft: SoftAssignment,
    clusters: int,
    x: Tensor,
    structure: Structure,
    next_weight: Tensor | None,
    losses: Losses,
) -> _Level:
    norm = entropy = link = None
    if isinstance(structure, LowRankAdjacency):
        base, segments = structure.base, structure.segment_ptr
        if losses != "none":
            norm = structure.squared_norm
        if losses == "both":
            entropy = soft.entropy.view(segments.graphs, -1).mean(1)
        made = structure.coarsen(soft.assignment, clusters, x)
    else:
        base = structure.csr()
        segments = SegmentPtr.of(base.layout)
        if losses == "both":
            entropy = graph_means(soft.entropy, segments)
        product = None
        if next_weight is not None and clusters > MAX_DENSE_CLUSTERS:
            # Most graphs have fewer nodes than clusters, so W is applied before the pooling.
            product, x = matmul_with_passthrough(x, next_weight)
        made = coarsen(soft.assignment, clusters, x, segments, product)
    coarse = _coarse(base, made.assignment, clusters, segments, made.chain)
    if losses != "none":
        link = link_loss_by_kernels(
            norm, coarse.trace, made.gram_norm, structure.layout.node_ptr, base.row_ptr
        )
    return _Level(made.x, coarse, entropy, link, made.readout)
