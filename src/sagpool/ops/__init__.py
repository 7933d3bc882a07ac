"""What a graph computes: plain functions of packed tensors."""

from sagpool.ops.asinh import asinh
from sagpool.ops.cluster import cluster_sum, entries_max
from sagpool.ops.copies import repeated_csr, repeated_rows
from sagpool.ops.device import to_device, to_host
from sagpool.ops.edge_attention import edge_attention
from sagpool.ops.edges import attention_of_edges, gcn_of_edges, sum_over_edges
from sagpool.ops.exchange import exchange_rows
from sagpool.ops.gate import gate_rows
from sagpool.ops.layout import (
    DeviceLayout,
    HostLayout,
    Layout,
    UniformLayout,
    pooled_layout,
    repeated_layout,
)
from sagpool.ops.linear import LabelSums, dense_relu, linear, matmul_with_passthrough
from sagpool.ops.pool import (
    Chosen,
    InducedCSR,
    Kept,
    PooledRows,
    choose_rows,
    gather_gated,
    induced_csr,
    keep_chosen,
    keep_rows,
    kept_once,
    pool_rows,
)
from sagpool.ops.propagate import gcn_propagate, gcn_score_and_gate, propagate
from sagpool.ops.ragged import (
    copied_runs,
    edge_rows,
    marked,
    ragged_arange,
    repeat_each,
    with_self_entries,
)
from sagpool.ops.scaled_propagate import scaled_propagate
from sagpool.ops.segment import (
    cross_entropy_sums,
    segment_expand,
    segment_max,
    segment_mean,
    segment_mean_max,
    segment_softmax,
    segment_sum,
    top_of_each,
)
from sagpool.ops.select import rows_above, softmax_of_graphs, top_count, top_rows
from sagpool.ops.task_losses import binary_losses, squared_losses

__all__ = [
    "Chosen",
    "DeviceLayout",
    "HostLayout",
    "InducedCSR",
    "Kept",
    "LabelSums",
    "Layout",
    "PooledRows",
    "UniformLayout",
    "asinh",
    "attention_of_edges",
    "binary_losses",
    "choose_rows",
    "cluster_sum",
    "copied_runs",
    "cross_entropy_sums",
    "dense_relu",
    "edge_attention",
    "edge_rows",
    "entries_max",
    "exchange_rows",
    "gate_rows",
    "gather_gated",
    "gcn_of_edges",
    "gcn_propagate",
    "gcn_score_and_gate",
    "induced_csr",
    "keep_chosen",
    "keep_rows",
    "kept_once",
    "linear",
    "marked",
    "matmul_with_passthrough",
    "pool_rows",
    "pooled_layout",
    "propagate",
    "ragged_arange",
    "repeat_each",
    "repeated_csr",
    "repeated_layout",
    "repeated_rows",
    "rows_above",
    "scaled_propagate",
    "segment_expand",
    "segment_max",
    "segment_mean",
    "segment_mean_max",
    "segment_softmax",
    "segment_sum",
    "softmax_of_graphs",
    "squared_losses",
    "sum_over_edges",
    "to_device",
    "to_host",
    "top_count",
    "top_of_each",
    "top_rows",
    "with_self_entries",
]
