"""The pooled graphs of a PyG batch whose kept rows are marked."""

from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from sagpool.errors import SagpoolError
from sagpool.ops.device import kernels_for, tracing
from sagpool.ops.pool import gather_gated, kept_once
from sagpool.ops.ragged import marked

# From this many numbers on, operators that write fewer matrices are worth their calls.
_LEAST_FUSED = {"cpu": 1 << 16, "cuda": 1 << 24}


def is_fused(x: Tensor) -> bool:
    """Whether to pool with fused operators, which torch can neither trace nor cast.

    They sum in the type of x, which half precisions are too coarse for.
    """
    kind = x.device.type
    if tracing() or kind not in _LEAST_FUSED or torch.is_autocast_enabled(kind):
        return False
    return x.itemsize >= 4 and x.numel() >= _LEAST_FUSED[kind]


class MarkedGraph(NamedTuple):
    """What is left of a batch."""

    x: Tensor  # [kept, channels], multiplied by the gates
    gate: Tensor  # [kept]
    edge_index: Tensor  # [2, kept edges] int64, rows renumbered
    edges: Tensor  # [kept edges] int64, their positions before
    perm: Tensor  # [kept] int64, the old row of each row


def check_indices(rows: int, edge_index: Tensor, batch: Tensor | None) -> None:
    """Check that edges and batch name rows and graphs; on a GPU this waits for the device."""
    if batch is not None and (batch.numpy() if batch.is_cpu else batch).min() < 0:
        raise SagpoolError(f"batch names graph {int(batch.min())}; graphs are counted from 0.")
    if edge_index.numel():
        low, high = (int(end) for end in torch.aminmax(edge_index))
        if low < 0 or high >= rows:
            wrong = low if low < 0 else high
            raise SagpoolError(f"edge_index names node {wrong}, but there are {rows} nodes.")


def keep_marked(
    x: Tensor,
    gate: Tensor,
    mask: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    count: int | None = None,
) -> MarkedGraph:
    """``X[idx] ⊙ gate[idx]`` and ``A[idx, idx]`` for the marked rows idx; all stay in their order.

    Args:
        x: ``[rows, channels]``
        gate: ``[rows]``
        mask: ``[rows]`` bool
        edge_index: ``[2, edges]`` int64
        batch: ``[rows]`` int64
        count: how many rows are marked, if the host knows
    """
    kernels = kernels_for(x)
    counted = x.shape[0] + edge_index.shape[1] < 2**31 - 1  # the kernels count in int32
    if kernels is not None and x.itemsize >= 4 and counted:
        return _keep_by_kernels(kernels, x, gate, mask, edge_index, batch)
    perm = marked(mask, count)
    seen = torch.cumsum(mask, 0)  # [rows], how many up to this one are kept
    score = gate.index_select(0, perm)
    if is_fused(x):
        pooled = gather_gated(x, kept_once(perm, pad(seen, (1, 0))), score)
    else:
        # The backward pass of index_select starts threads on a CPU, that of x[perm] sorts on CUDA.
        pooled = (x[perm] if x.is_cpu else x.index_select(0, perm)) * score[:, None]
    stay = mask.index_select(0, edge_index.reshape(-1)).view(2, -1)
    edges = marked(stay[0] & stay[1])
    ends = seen.index_select(0, edge_index.index_select(1, edges).view(-1)).view(2, -1)
    return MarkedGraph(pooled, score, ends - 1, edges, perm)


def _keep_by_kernels(
    kernels: ModuleType,
    x: Tensor,
    gate: Tensor,
    mask: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
) -> MarkedGraph:
    """Waits for the device once: for both counts, and for whether an index is wrong."""
    source, target = edge_index.contiguous().unbind(0)
    rows = len(mask)
    counts = kernels.count_marked(mask, source, target, batch)
    wrong, kept, total = torch.stack((counts[0], counts[rows], counts[-1])).tolist()
    if wrong:
        check_indices(rows, edge_index, batch)
    perm, new_row, ends, edges = kernels.write_marked(
        mask, source, target, counts, kept, total - kept
    )
    pooled = _GatherMarked.apply(x, gate, perm, new_row)
    return MarkedGraph(pooled, gate.index_select(0, perm), ends, edges, perm)


class _GatherMarked(Function):
    """``x[perm] * gate[perm]``, in one pass over x and one over its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gate: Tensor, perm: Tensor, new_row: Tensor) -> Tensor:
        ctx.kernels = kernels_for(x)
        x, gate = x.contiguous(), gate.contiguous()
        ctx.save_for_backward(x, gate, perm, new_row)
        return ctx.kernels.gather_marked(x, gate, perm)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, gate, perm, new_row = ctx.saved_tensors
        grad = grads[0].contiguous()
        if torch.is_grad_enabled():  # by operations that have gradients themselves
            of_x = grad * gate.index_select(0, perm)[:, None]
            of_gate = (grad * x.index_select(0, perm)).sum(1)
            grad_x = torch.zeros_like(x).index_copy(0, perm, of_x)
            return grad_x, torch.zeros_like(gate).index_copy(0, perm, of_gate), None, None
        grad_x, grad_gate = ctx.kernels.gather_gated_backward(
            grad, None, x, gate, None, None, None, new_row
        )
        return grad_x, grad_gate, None, None
