# ruff: noqa: F401, since `kernels_for` returns this module with all its kernels
"""Triton kernels of DiffPool, and the general ones that it uses too."""

from sagpool.nn.pool.clusters.kernels.assignment import soft_assignment, soft_assignment_backward
from sagpool.nn.pool.clusters.kernels.gram import gram, gram_backward, trace_and_norm
from sagpool.nn.pool.clusters.kernels.graph_sums import (
    coarse_scale,
    graph_means,
    graph_means_backward,
    neighbour_sum,
)
from sagpool.nn.pool.clusters.kernels.link_loss import link_loss, link_loss_backward
from sagpool.nn.pool.clusters.kernels.pooled_readout import (
    pooled_mean_max,
    pooled_mean_max_backward,
)
from sagpool.nn.pool.clusters.kernels.segment_inner import (
    segment_inner,
    segment_inner_gcn,
    segment_inner_gcn_backward,
)
from sagpool.nn.pool.clusters.kernels.segment_outer import segment_outer
from sagpool.ops.kernels import bias_relu_backward, row_tiles
from sagpool.ops.kernels.ragged import TALL
