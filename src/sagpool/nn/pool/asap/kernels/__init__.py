# ruff: noqa: F401, since `kernels_for` returns this module with all its kernels
"""Triton kernels of ASAPool, for graphs with a dense matrix each."""

from sagpool.nn.pool.asap.kernels.maximum import neighbour_max
from sagpool.nn.pool.asap.kernels.membership import membership, membership_backward
from sagpool.nn.pool.asap.kernels.product import product
from sagpool.nn.pool.asap.kernels.rows import plus_transpose, take_rows
from sagpool.nn.pool.asap.kernels.sparse_coarsen import coarsen_sparse, coarsen_sparse_backward
from sagpool.ops.kernels import row_tiles
