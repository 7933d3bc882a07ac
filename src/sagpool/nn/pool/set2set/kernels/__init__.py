# ruff: noqa: F401, since `kernels_for` returns this module with all its kernels
"""Triton kernels of Set2Set."""

from sagpool.nn.pool.set2set.kernels.attend import attend, attend_backward, attend_backward_rows
from sagpool.nn.pool.set2set.kernels.lstm import lstm_cell, lstm_cell_backward
