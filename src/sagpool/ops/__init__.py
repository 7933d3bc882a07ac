"""What a graph computes: plain functions of packed tensors."""

from sagpool.ops.assignment import SoftAssignment, soft_assignment
from sagpool.ops.blocks import Blocks
from sagpool.ops.congruence import Congruence, congruence
from sagpool.ops.keep import InducedCSR, Kept, gather_gated, induced_csr, keep_rows
from sagpool.ops.matmul import segment_apply, segment_matmul
from sagpool.ops.product import product_beside
from sagpool.ops.propagate import propagate
from sagpool.ops.ragged import edge_rows, marked, ragged_arange, repeat_each, with_self_entries
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
    "InducedCSR",
    "Kept",
    "SoftAssignment",
    "congruence",
    "edge_rows",
    "gather_gated",
    "induced_csr",
    "keep_rows",
    "marked",
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
