"""The pooled graphs of a PyG batch: of marked rows, or of those with the highest scores."""

from fractions import Fraction
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
from sagpool.ops.select import top_count, top_rows

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
    edges: Tensor | None  # [kept edges] int64, their positions before, if wanted
    batch: Tensor  # [kept] int64, zeros for one graph
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
    positions: bool = True,
) -> MarkedGraph:
    """``X[idx] ⊙ gate[idx]`` and ``A[idx, idx]`` for the marked rows idx; all stay in their order.

    Args:
        x: ``[rows, channels]``
        gate: ``[rows]``
        mask: ``[rows]`` bool
        edge_index: ``[2, edges]`` int64
        batch: ``[rows]`` int64
        count: how many rows are marked, if the host knows
        positions: whether to find the positions of the edges that are left
    """
    if kernels := pooling_kernels_for(x, edge_index):
        edge_index, batch = _contiguous(edge_index, batch)
        totals = torch.zeros(kernels.TOTALS, dtype=torch.int32, device=x.device)
        numbers = number(kernels, kernels.count_marks(mask), edge_index, batch, totals)
        return _GatherMarked.gather(kernels, x, gate, edge_index, batch, numbers, positions)
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
    kept_batch = torch.zeros_like(perm) if batch is None else batch.index_select(0, perm)
    return MarkedGraph(pooled, score, ends - 1, edges, kept_batch, perm)


def keep_top(
    x: Tensor,
    gate: Tensor,
    rank: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    ratio: Fraction,
    k: int | None,
    positions: bool = True,
) -> MarkedGraph:
    """`keep_marked` of the rows that are highest in ``rank``, ``[rows]``; see `top_rows`."""
    kernels = pooling_kernels_for(x, edge_index)
    if kernels is None:
        count = top_count(x.shape[0], ratio, k) if batch is None else None
        mask = top_rows(rank, batch, ratio, k)
        return keep_marked(x, gate, mask, edge_index, batch, count, positions)
    edge_index, batch = _contiguous(edge_index, batch)
    totals = torch.zeros(kernels.TOTALS, dtype=torch.int32, device=x.device)
    score = kernels.RawScore(rank.detach().contiguous(), None, None, None)
    numbers, _ = number_top(kernels, score, edge_index, batch, ratio, k, totals)
    return _GatherMarked.gather(kernels, x, gate, edge_index, batch, numbers, positions)


def pooling_kernels_for(x: Tensor, edge_index: Tensor) -> ModuleType | None:
    """The kernels that pool these rows, where they run."""
    kernels = kernels_for(x)
    if kernels is None or x.itemsize < 4:
        return None
    # They count in int32. Not asked while torch.export traces, which would fix the answer.
    return kernels if x.shape[0] + edge_index.shape[1] < 2**31 - 1 else None


def number_top(
    kernels: ModuleType,
    score: Any,
    edge_index: Tensor,
    batch: Tensor | None,
    ratio: Fraction,
    k: int | None,
    totals: Tensor,
) -> tuple[Any, Tensor]:
    """The `Numbers` of the rows with the highest scores, and the scores, ``[rows]``.

    Args:
        kernels: the module
        score: a `RawScore`
        edge_index: ``[2, edges]`` int64, contiguous
        batch: ``[rows]`` int64, contiguous, or None for one graph
        ratio: as for `top_rows`
        k: as for `top_rows`
        totals: ``[TOTALS]`` int32 zeros
    """
    wanted = batch, k, *ratio.as_integer_ratio()
    if kernels.can_count(len(score.projected), batch):
        marks, raw = kernels.top_by_counting(score, *wanted, totals)
        numbers = number(kernels, marks, edge_index, batch, totals)
        if not numbers.unsorted:
            return numbers, raw
        totals = torch.zeros_like(totals)
    marks, raw = kernels.top_by_sorting(score, *wanted)
    return number(kernels, marks, edge_index, batch, totals), raw


def number(
    kernels: ModuleType, marks: Any, edge_index: Tensor, batch: Tensor | None, totals: Tensor
) -> Any:
    """The `Numbers` of the marked rows, after wrong indices are refused.

    Waits for the device once, for everything that the host must know.
    """
    numbers = kernels.number_marked(marks, edge_index, batch, totals)
    if numbers.wrong:
        check_indices(len(marks.mask), edge_index, batch)
    return numbers


def _contiguous(edge_index: Tensor, batch: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return edge_index.contiguous(), None if batch is None else batch.contiguous()


class _GatherMarked(Function):
    """``x[perm] * gate[perm]`` and ``gate[perm]``, computed by kernels, with their gradients."""

    @classmethod
    def gather(
        cls,
        kernels: ModuleType,
        x: Tensor,
        gate: Tensor,
        edge_index: Tensor,
        batch: Tensor | None,
        numbers: Any,
        positions: bool,
    ) -> MarkedGraph:
        rows = x.contiguous(), gate.contiguous()
        left = kernels.write_marked(*rows, edge_index, batch, numbers, positions)
        pooled, score = cls.apply(x, gate, (left.x, left.gate, left.perm, numbers.new_row))
        return MarkedGraph(pooled, score, left.edge_index, left.edges, left.batch, left.perm)

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gate: Tensor, found: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor]:
        pooled, score, perm, new_row = found
        ctx.kernels = kernels_for(x)
        ctx.save_for_backward(x, gate, perm, new_row)
        ctx.set_materialize_grads(False)
        return pooled, score

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        x, gate, perm, new_row = ctx.saved_tensors
        grad, grad_score = grads
        if grad is None:
            grad_x, grad_gate = None, torch.zeros_like(gate)
        elif torch.is_grad_enabled():  # by operations that have gradients themselves
            of_x = grad * gate.index_select(0, perm)[:, None]
            of_gate = (grad * x.index_select(0, perm)).sum(1)
            grad_x = torch.zeros_like(x).index_copy(0, perm, of_x)
            grad_gate = torch.zeros_like(gate).index_copy(0, perm, of_gate)
        else:
            grad_x, grad_gate = ctx.kernels.gather_gated_backward(
                grad.contiguous(), None, x, gate.contiguous(), None, None, None, new_row
            )
        if grad_score is not None:
            grad_gate = grad_gate.index_add(0, perm, grad_score)
        return grad_x, grad_gate, None
