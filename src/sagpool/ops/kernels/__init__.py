"""Triton kernels for what takes most of a step on a GPU.

To be imported only where Triton is. The tests run them on the CPU, through Triton's interpreter.
"""

from sagpool.ops.kernels.assignment import soft_assignment, soft_assignment_backward
from sagpool.ops.kernels.attend import attend, attend_backward, attend_backward_rows
from sagpool.ops.kernels.coarse import (
    coarse_scale,
    graph_means,
    graph_means_backward,
    link_loss,
    link_loss_backward,
    neighbour_sum,
)
from sagpool.ops.kernels.dense import MOST_NARROW, bias_relu_backward, label_relu
from sagpool.ops.kernels.edge_attention import edge_attention, edge_attention_backward
from sagpool.ops.kernels.elementwise import adam_step, uniform
from sagpool.ops.kernels.gather import gather_gated, gather_gated_backward
from sagpool.ops.kernels.gram import gram, gram_backward, trace_and_norm
from sagpool.ops.kernels.lay_out import lay_out
from sagpool.ops.kernels.linear import linear
from sagpool.ops.kernels.lstm import lstm_cell, lstm_cell_backward
from sagpool.ops.kernels.pooled_readout import pooled_mean_max, pooled_mean_max_backward
from sagpool.ops.kernels.propagate import dots_of_rows, gcn_of_rows, sum_of_rows
from sagpool.ops.kernels.ragged import row_tiles
from sagpool.ops.kernels.readout import mean_and_max, mean_and_max_backward
from sagpool.ops.kernels.segment_inner import (
    segment_inner,
    segment_inner_gcn,
    segment_inner_gcn_backward,
)
from sagpool.ops.kernels.segment_outer import segment_outer
from sagpool.ops.kernels.select import (
    fewer_rows,
    graph_of_rows,
    induced_csr,
    keep_rows,
    top_of_each,
)

__all__ = [
    "MOST_NARROW",
    "adam_step",
    "attend",
    "attend_backward",
    "attend_backward_rows",
    "bias_relu_backward",
    "coarse_scale",
    "dots_of_rows",
    "edge_attention",
    "edge_attention_backward",
    "fewer_rows",
    "gather_gated",
    "gather_gated_backward",
    "gcn_of_rows",
    "gram",
    "gram_backward",
    "graph_means",
    "graph_means_backward",
    "graph_of_rows",
    "induced_csr",
    "keep_rows",
    "label_relu",
    "lay_out",
    "linear",
    "link_loss",
    "link_loss_backward",
    "lstm_cell",
    "lstm_cell_backward",
    "mean_and_max",
    "mean_and_max_backward",
    "neighbour_sum",
    "pooled_mean_max",
    "pooled_mean_max_backward",
    "row_tiles",
    "segment_inner",
    "segment_inner_gcn",
    "segment_inner_gcn_backward",
    "segment_outer",
    "soft_assignment",
    "soft_assignment_backward",
    "sum_of_rows",
    "top_of_each",
    "trace_and_norm",
    "uniform",
]
