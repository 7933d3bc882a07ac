"""A pooling layer whose score needs one product of each row, as one operator."""

from fractions import Fraction
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from sagpool.ops.device import kernels_for
from sagpool.ops.edges import edge_kernels_for, gcn_of_edges
from sagpool.ops.marked_graph import MarkedGraph, number, number_top, pooling_kernels_for
from sagpool.ops.select import ROUNDING, softmax_of_graphs


class ProductScore(NamedTuple):
    """``X w + b``, or with neighbours ``D̃^-1/2 (A + I) D̃^-1/2 X w + b``."""

    weight: Tensor  # w, channels numbers in any shape
    bias: Tensor | None  # b, one number
    neighbours: bool


class Keep(NamedTuple):
    """Which rows of each graph are kept, and what they are multiplied by."""

    ratio: Fraction  # of the rows, those with the highest scores; the gate is tanh of the score
    k: int | None  # in place of the ratio
    min_score: float | None  # those with a softmax above it; the gate is the softmax


def pool_by_product(
    x: Tensor,
    score: ProductScore,
    edge_index: Tensor,
    batch: Tensor | None,
    keep: Keep,
    positions: bool,
) -> MarkedGraph | None:
    """Score the rows, choose some of each graph and keep these, times their gates.

    A layer made of single operators spends most of its time on a GPU with starting them.

    Args:
        x: ``[rows, channels]``
        score: of the rows
        edge_index: ``[2, edges]`` int64
        batch: ``[rows]`` int64, or None for one graph
        keep: which rows are kept
        positions: whether to find the positions of the edges that are left

    Returns:
        what is left, or None where no kernel does this
    """
    kernels = _kernels_for(x, score, edge_index, batch, keep)
    if kernels is None:
        return None
    edge_index = edge_index.contiguous()
    batch = None if batch is None else batch.contiguous()
    found = _forward(kernels, x.contiguous(), score, edge_index, batch, keep, positions)
    if found is None:
        return None
    pooled, gate = _PoolByProduct.apply(x, score.weight, score.bias, found)
    return found.left._replace(x=pooled, gate=gate)


def _kernels_for(
    x: Tensor, score: ProductScore, edge_index: Tensor, batch: Tensor | None, keep: Keep
) -> ModuleType | None:
    kernels = pooling_kernels_for(x, edge_index)
    if kernels is None or torch.is_autocast_enabled(x.device.type):
        return None
    if score.neighbours and edge_kernels_for(x) is None:
        return None
    if keep.min_score is None:
        return kernels
    short = batch is not None and kernels.can_count(len(x), batch)
    return kernels if short and x.dtype == torch.float32 else None


class _Found(NamedTuple):
    left: MarkedGraph
    gate: Tensor  # [rows]
    new_row: Tensor  # [rows] int32, -1 for those that are dropped
    edge_index: Tensor | None  # [2, edges] int64 contiguous, if the score has neighbours
    degree: Tensor | None  # [rows] int32
    batch: Tensor | None  # [rows] int64 contiguous, if the gate is a softmax


def _forward(
    kernels: ModuleType,
    x: Tensor,
    score: ProductScore,
    edge_index: Tensor,
    batch: Tensor | None,
    keep: Keep,
    positions: bool,
) -> _Found | None:
    rows = len(x) if score.neighbours else 0
    zeros = torch.zeros(kernels.TOTALS + rows, dtype=torch.int32, device=x.device)
    totals, degree = zeros.split([kernels.TOTALS, rows])
    near = (edge_index, degree) if score.neighbours else (None, None)
    raw_score = kernels.score_rows(x, score.weight.contiguous(), score.bias, *near)
    if keep.min_score is None:
        wanted = keep.ratio, keep.k
        numbers, raw = number_top(kernels, raw_score, edge_index, batch, *wanted, totals)
        gate, batch_of_softmax = raw.tanh(), None
    else:
        marks, gate = kernels.above_of_batch(raw_score, batch, keep.min_score, ROUNDING, totals)
        numbers = number(kernels, marks, edge_index, batch, totals)
        if numbers.unsorted:
            return None
        batch_of_softmax = batch
    left = kernels.write_marked(x, gate, edge_index, batch, numbers, positions)
    return _Found(MarkedGraph(*left), gate, numbers.new_row, near[0], near[1], batch_of_softmax)


class _PoolByProduct(Function):
    """Gives the results of `_forward` their gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, found: _Found
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        left, *others = found
        ctx.save_for_backward(x, weight, bias, left.perm, *others)
        ctx.kernels = kernels_for(x)
        return left.x, left.gate

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            return *_differentiable_backward(ctx, grads), None
        x, weight, bias, _, gate, new_row, edge_index, degree, batch = ctx.saved_tensors
        kernels, x = ctx.kernels, x.contiguous()
        grad_out, grad_score = (None if grad is None else grad.contiguous() for grad in grads)
        neighbours, tanh = edge_index is not None, batch is None
        grad_raw, zeros = kernels.gates_backward(
            grad_out, grad_score, x, gate, new_row, tanh, neighbours
        )
        if not tanh:
            grad_raw = kernels.softmax_of_batch_backward(grad_raw, gate, batch)
        wants_x, wants_weight, wants_bias, _ = ctx.needs_input_grad
        grad_x = grad_weight = None
        if wants_x or wants_weight:
            grad_x, grad_weight = kernels.score_rows_backward(
                grad_out,
                grad_raw,
                x,
                gate,
                weight.contiguous(),
                new_row,
                edge_index,
                degree,
                zeros,
                (wants_x, wants_weight),
            )
        if grad_weight is not None:
            grad_weight = grad_weight.view(weight.shape)
        grad_bias = grad_raw.sum().view(bias.shape) if wants_bias else None
        return grad_x, grad_weight, grad_bias, None


def _differentiable_backward(ctx: Any, grads: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """The gradients of x, the weight and the bias, by operations that have gradients themselves."""
    x, weight, bias, perm, _, _, edge_index, degree, batch = ctx.saved_tensors
    raw = x @ weight.reshape(-1)
    if edge_index is not None:
        source, target = edge_index
        raw = gcn_of_edges(raw, degree, source, target, source != target)
    if bias is not None:
        raw = raw + bias.view(1)
    gate = raw.tanh() if batch is None else softmax_of_graphs(raw, batch)
    score = gate.index_select(0, perm)
    results = x.index_select(0, perm) * score[:, None], score
    pairs = [pair for pair in zip(results, grads, strict=True) if pair[1] is not None]
    outputs, directions = zip(*pairs, strict=True)
    wanted = [i for i, needed in enumerate(ctx.needs_input_grad[:3]) if needed]
    inputs = [(x, weight, bias)[i] for i in wanted]
    back = torch.autograd.grad(outputs, inputs, directions, create_graph=True)
    found: list[Tensor | None] = [None, None, None]
    for i, grad in zip(wanted, back, strict=True):
        found[i] = grad
    return found
