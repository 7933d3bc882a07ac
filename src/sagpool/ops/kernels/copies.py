"""Rows of members that are there several times in a row; see `sagpool.ops.copies`."""

import triton
import triton.language as tl


@triton.jit
def original(row, rows_each, COPIES: tl.constexpr):
    """The row of which each row is a copy; ``rows_each`` are the rows of one copy of a member."""
    if COPIES == 1:
        return row
    else:
        return row // (COPIES * rows_each) * rows_each + row % rows_each


@triton.jit
def copy_of(row, copy, rows_each, COPIES: tl.constexpr):
    """The inverse: the row that is the n-th copy of each row."""
    if COPIES == 1:
        return row
    else:
        return (row // rows_each * COPIES + copy) * rows_each + row % rows_each
