"""Which rows a pooling layer keeps, of graphs that a batch vector tells apart."""

from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.device import kernels_for, on_cpu, tracing
from sagpool.ops.segment import descending_bits, descending_keys, top_on_cpu

ROUNDING = 1e-7  # PyG's, of a softmax


def top_rows(
    score: Tensor, batch: Tensor | None, ratio: Fraction, k: int | Tensor | None
) -> Tensor:
    """Mark the rows with the highest scores: ⌈ratio · N⌉ of a graph of N, or k, or all of fewer.

    Of equal scores the lower row is kept, on every device. The host does not wait for the device.

    Args:
        score: ``[rows]``
        batch: ``[rows]`` int64 from 0 in any order, the graph of each row; None for one graph
        ratio: above 0 and at most 1; ignored if there is a k
        k: at least 1; a number, or with a batch ``[graphs]`` int64

    Returns:
        ``[rows]`` bool
    """
    score = score.detach()
    if batch is None:
        assert not isinstance(k, Tensor)
        return _top_of_one(score, top_count(score.shape[0], ratio, k))
    if kernels := kernels_for(score):
        raw = kernels.RawScore(score.contiguous(), None, None, None)
        marks, _ = kernels.top_by_sorting(raw, batch.contiguous(), k, *ratio.as_integer_ratio())
        return marks.mask
    if not on_cpu(score):
        return _top_of_any(score, batch, ratio, k)
    graph = batch.numpy()
    if (graph[1:] < graph[:-1]).any():
        return _top_of_any(score, batch, ratio, k)
    if graph[0] == graph[-1] and not isinstance(k, Tensor):
        return _top_of_one(score, top_count(score.shape[0], ratio, k))
    sizes = np.bincount(graph)
    start = np.cumsum(sizes) - sizes
    return torch.from_numpy(top_on_cpu(score, graph, start, _counts(sizes, ratio, k)))


def top_count(rows: int, ratio: Fraction, k: int | None) -> int:
    """How many of one graph's rows are marked."""
    return -(-rows * ratio.numerator // ratio.denominator) if k is None else min(rows, k)


def _top_of_one(score: Tensor, count: int) -> Tensor:
    if on_cpu(score):
        key = descending_keys(score)
        level = np.partition(key, count - 1)[count - 1]
        mask = key <= level
        spare = np.count_nonzero(mask) - count
        if spare:  # of the rows tied for the last place, the higher ones go
            mask[np.flatnonzero(key == level)[-spare:]] = False
        return torch.from_numpy(mask)
    order = torch.sort(score.float() + 0.0, descending=True, stable=True).indices
    return torch.zeros_like(score, dtype=torch.bool).index_fill(0, order[:count], True)


def _top_of_any(score: Tensor, batch: Tensor, ratio: Fraction, k: int | Tensor | None) -> Tensor:
    # Sorts by graph first, then by descending score; how many graphs there are need not be known.
    key = torch.add(descending_bits(score), batch, alpha=1 << 32)
    order = torch.sort(key, stable=True).indices
    graph = batch.index_select(0, order)  # of each place in the order
    start, end = torch.searchsorted(graph, graph), torch.searchsorted(graph, graph, right=True)
    rows = score.shape[0]
    if k is None:
        # place - start < ⌈(end - start) p / q⌉, multiplied by q
        p, q = ratio.numerator, ratio.denominator
        places = torch.arange(0, rows * q, q, device=score.device)
        chosen = places < torch.add(end if p == 1 else end * p, start, alpha=q - p)
    else:
        last = start + (k.index_select(0, graph) if isinstance(k, Tensor) else k)
        chosen = torch.arange(rows, device=score.device) < torch.minimum(end, last)
    return torch.empty_like(chosen).scatter(0, order, chosen)


def _counts(sizes: np.ndarray, ratio: Fraction, k: int | Tensor | None) -> np.ndarray:
    """How many rows of each graph are marked, in exact arithmetic."""
    if k is not None:
        return np.minimum(sizes, k.numpy() if isinstance(k, Tensor) else k)
    return -(-sizes * ratio.numerator // ratio.denominator)


def softmax_of_graphs(score: Tensor, batch: Tensor | None) -> Tensor:
    """The softmax of the scores of each graph, ``[rows]``.

    With a batch the host waits for the number of graphs.
    """
    if batch is None:
        return score.softmax(0)
    graphs = _number_of_graphs(batch)
    # The result does not depend on the shift, so it needs no gradient.
    lowest = score.new_full((graphs,), -torch.inf)
    shift = lowest.scatter_reduce(0, batch, score.detach(), "amax")
    exponential = (score - shift.index_select(0, batch)).exp()
    total = torch.zeros_like(lowest).scatter_add(0, batch, exponential)
    return exponential / total.index_select(0, batch)


def rows_above(score: Tensor, batch: Tensor | None, least: float) -> Tensor:
    """Mark the rows with scores above ``least``, and the highest of each graph in any case.

    Rows as high as the highest up to rounding stay with it, as in PyG.

    Returns:
        ``[rows]`` bool
    """
    score = score.detach()
    score = score.float() if score.itemsize < 4 else score
    if batch is None:
        limit = (score.max() - ROUNDING).clamp(max=least)
        return (score > limit).index_fill(0, score.argmax(), True)
    rows = torch.arange(score.shape[0], device=score.device)
    graphs = _number_of_graphs(batch)
    highest = score.new_full((graphs,), -torch.inf).scatter_reduce(0, batch, score, "amax")
    lower = score < highest.index_select(0, batch)  # False for NaN: a graph of NaN keeps a row
    candidate = torch.where(lower, score.shape[0], rows)
    first = batch.new_full((graphs,), score.shape[0]).scatter_reduce(0, batch, candidate, "amin")
    limit = (highest - ROUNDING).clamp(max=least).index_select(0, batch)
    return (score > limit) | (rows == first.index_select(0, batch))


def _number_of_graphs(batch: Tensor) -> int:
    """One more than the largest number in the batch, or a bound on it where that is not known."""
    return batch.shape[0] if tracing() else int(batch.max()) + 1
