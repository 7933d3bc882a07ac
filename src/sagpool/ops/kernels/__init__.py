"""Triton kernels for what takes most of a step on a GPU.

To be imported only where Triton is. The tests run them on the CPU, through Triton's interpreter.
"""

from sagpool.ops.kernels.dense import MOST_NARROW, bias_relu_backward, label_relu
from sagpool.ops.kernels.edge_attention import edge_attention, edge_attention_backward
from sagpool.ops.kernels.elementwise import adam_step, uniform
from sagpool.ops.kernels.gather import gather_gated, gather_gated_backward
from sagpool.ops.kernels.lay_out import lay_out
from sagpool.ops.kernels.linear import linear
from sagpool.ops.kernels.propagate import dots_of_rows, gcn_of_rows, sum_of_rows
from sagpool.ops.kernels.ragged import row_tiles
from sagpool.ops.kernels.readout import mean_and_max, mean_and_max_backward
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
    "bias_relu_backward",
    "dots_of_rows",
    "edge_attention",
    "edge_attention_backward",
    "fewer_rows",
    "gather_gated",
    "gather_gated_backward",
    "gcn_of_rows",
    "graph_of_rows",
    "induced_csr",
    "keep_rows",
    "label_relu",
    "lay_out",
    "linear",
    "mean_and_max",
    "mean_and_max_backward",
    "row_tiles",
    "sum_of_rows",
    "top_of_each",
    "uniform",
]
