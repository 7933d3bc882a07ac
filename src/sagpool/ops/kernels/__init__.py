# ruff: noqa: F401, since `kernels_for` returns this module with all its kernels
"""Triton kernels for the operators that take most of a step on a GPU.

Import only if Triton is installed. The tests run them on the CPU in Triton's interpreter.
"""

from sagpool.ops.kernels.adam import adam_step, add_losses
from sagpool.ops.kernels.copied_runs import copied_runs
from sagpool.ops.kernels.dense import bias_relu_backward, label_relu, sums_weight_gradient
from sagpool.ops.kernels.edge_attention import edge_attention, edge_attention_backward
from sagpool.ops.kernels.edge_list import degrees_of_edges, gcn_of_edges
from sagpool.ops.kernels.edge_list_attention import (
    attention_of_edges,
    attention_of_edges_backward,
)
from sagpool.ops.kernels.gather import gather_gated, gather_gated_backward
from sagpool.ops.kernels.linear import linear
from sagpool.ops.kernels.loss import (
    add_validation,
    cross_entropy_sums,
    cross_entropy_sums_backward,
)
from sagpool.ops.kernels.marked_graph import TOTALS, count_marks, number_marked, write_marked
from sagpool.ops.kernels.matching import greedy_matching
from sagpool.ops.kernels.pack import pack_graphs, place_graphs
from sagpool.ops.kernels.propagate import (
    dots_of_rows,
    gcn_of_rows,
    gcn_score,
    gcn_score_backward,
    max_of_rows,
    sum_of_rows,
)
from sagpool.ops.kernels.ragged import row_tiles
from sagpool.ops.kernels.random import bits_of_each, dropout, step_keys, uniform
from sagpool.ops.kernels.raw_score import RawScore, score_rows
from sagpool.ops.kernels.readout import mean_and_max, mean_and_max_backward
from sagpool.ops.kernels.runs import sum_of_runs
from sagpool.ops.kernels.scaled_sum import scaled_sum, scaled_sum_backward
from sagpool.ops.kernels.score_gradient import gates_backward, score_rows_backward
from sagpool.ops.kernels.select import (
    fewer_rows,
    graph_of_rows,
    induced_csr,
    keep_rows,
    top_of_each,
)
from sagpool.ops.kernels.softmax_of_batch import above_of_batch, softmax_of_batch_backward
from sagpool.ops.kernels.stopping import end_epoch
from sagpool.ops.kernels.top_of_batch import can_count, top_by_counting, top_by_sorting
from sagpool.ops.kernels.weight_gradient import weight_gradient
