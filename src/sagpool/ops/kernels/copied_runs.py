"""Copies of the runs of chosen nodes; see `sagpool.ops.ragged`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_HEIGHT = 64


def copied_runs(
    values: Tensor,
    start: Tensor,
    node: Tensor,
    ptr: Tensor,
    total: int,
    shift: Tensor | None,
    fill: int,
) -> Tensor:
    """See `sagpool.ops.ragged.copied_runs`."""
    out = torch.full((total,), fill, dtype=values.dtype, device=values.device)
    if len(node):
        _copied_runs[(triton.cdiv(len(node), _HEIGHT),)](
            values, start, node, ptr, shift, out, len(node),
            SHIFT=shift is not None, HEIGHT=_HEIGHT, num_warps=1,
        )  # fmt: skip
    return out


@kernel(do_not_specialize=["rows"])
def _copied_runs(
    values, start, node, ptr, shift, out, rows, SHIFT: tl.constexpr, HEIGHT: tl.constexpr
):
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    inside = row < rows
    first = tl.load(ptr + row, mask=inside, other=0)
    length = tl.load(ptr + row + 1, mask=inside, other=0) - first
    source = tl.load(start + tl.load(node + row, mask=inside, other=0), mask=inside, other=0)
    if SHIFT:
        added = tl.load(shift + row, mask=inside, other=0).to(out.dtype.element_ty)
    for step in range(tl.max(length, 0)):
        present = step < length
        value = tl.load(values + source + step, mask=present, other=0)
        if SHIFT:
            value += added
        tl.store(out + first + step, value, mask=present)
