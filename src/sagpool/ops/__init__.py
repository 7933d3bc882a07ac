"""What a graph computes: plain functions of packed tensors."""

from sagpool.ops.ragged import ragged_arange, repeat_each

__all__ = ["ragged_arange", "repeat_each"]
