"""What a graph computes: plain functions of packed tensors."""

from sagpool.ops.assignment import SoftAssignment, soft_assignment
from sagpool.ops.attend import Segments, attend, attend_backward, attend_backward_rows
from sagpool.ops.blocks import Blocks
from sagpool.ops.congruence import Congruence, congruence
from sagpool.ops.dense import LabelSums, dense_relu
from sagpool.ops.edge_attention import edge_attention
from sagpool.ops.keep import InducedCSR, Kept, gather_gated, induced_csr, keep_rows
from sagpool.ops.lstm import lstm_cell, lstm_cell_backward
from sagpool.ops.matmul import segment_apply, segment_matmul
from sagpool.ops.pool import PooledRows, choose_rows, pool_rows
from sagpool.ops.product import product_beside
from sagpool.ops.propagate import gcn_propagate, propagate
from sagpool.ops.ragged import edge_rows, marked, ragged_arange, repeat_each, with_self_entries
from sagpool.ops.rows import DeviceLayout, Layout, Rows, fewer_rows
from sagpool.ops.segment import (
    segment_expand,
    segment_max,
    segment_mean,
    segment_mean_max,
    segment_softmax,
    segment_sum,
)
from sagpool.ops.topk import top_of_each
from sagpool.ops.transfer import to_device

__all__ = [
    "Blocks",
    "Congruence",
    "DeviceLayout",
    "InducedCSR",
    "Kept",
    "LabelSums",
    "Layout",
    "PooledRows",
    "Rows",
    "Segments",
    "SoftAssignment",
    "attend",
    "attend_backward",
    "attend_backward_rows",
    "choose_rows",
    "congruence",
    "dense_relu",
    "edge_attention",
    "edge_rows",
    "fewer_rows",
    "gather_gated",
    "gcn_propagate",
    "induced_csr",
    "keep_rows",
    "lstm_cell",
    "lstm_cell_backward",
    "marked",
    "pool_rows",
    "product_beside",
    "propagate",
    "ragged_arange",
    "repeat_each",
    "segment_apply",
    "segment_expand",
    "segment_matmul",
    "segment_max",
    "segment_mean",
    "segment_mean_max",
    "segment_softmax",
    "segment_sum",
    "soft_assignment",
    "to_device",
    "top_of_each",
    "with_self_entries",
]
