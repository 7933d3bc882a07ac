"""The rows of each graph as segments, and products over segments of different sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sagpool.nn.pool.clusters.device import has_kernels, kernels_for
from sagpool.ops import Layout
from sagpool.ops.device import on_cpu, to_device

# On a CPU, from this mean number of elements per segment on, each segment is multiplied separately:
# a separate call takes less time than copying the rows into a padded batch.
MIN_UNPADDED_NUMEL = 4096
# From this mean number of rows per segment on, kernels use larger tiles, or several programs for
# one segment. Of the paper's data sets only DD has so many.
MIN_LARGE = 192


@dataclass(frozen=True, eq=False)
class Segments(ABC):
    """Which rows belong to which graph; its products are not differentiable.

    Args:
        graphs: number of graphs
        rows: number of rows, including rows in no segment
    """

    graphs: int
    rows: int

    @abstractmethod
    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        """``a_gᵀ b_g`` for each graph g: ``[rows, m]`` and ``[rows, n]`` to ``[graphs, m, n]``."""

    @abstractmethod
    def outer(self, *pairs: tuple[Tensor, Tensor]) -> Tensor:
        """The sum of ``a_g x_g`` over pairs of a, ``[rows, m]``, and x, ``[graphs, m, n]``.

        Returns:
            ``[rows, n]``, zero for rows in no segment
        """


@dataclass(frozen=True)
class Bucket:
    """Consecutive segments that are padded to the same number of rows."""

    graphs: slice
    rows: slice
    width: int

    def of(self, padded: Tensor) -> Tensor:
        """``[padded rows, channels]`` to ``[graphs of the bucket, width, channels]``, a view."""
        return padded[self.rows].view(-1, self.width, padded.shape[1])


@dataclass(frozen=True, eq=False)
class Padding:
    """Graphs sorted by size; the graphs of a bucket are padded to its largest.

    Args:
        source: ``[padded rows]``, the row to copy; for padding, any row of the same graph
        is_padding: ``[padded rows, 1]`` bool
        position: ``[rows]``, the padded row of each row; past the end for rows in no segment
        order: ``[graphs]``, the graphs in sorted order
        rank: ``[graphs]``, the position of each graph in that order
    """

    source: Tensor
    is_padding: Tensor
    position: Tensor
    order: Tensor
    rank: Tensor


@dataclass(frozen=True, eq=False)
class PaddedSegments(Segments):
    """Segments for batched products of torch.

    Graphs of about the same size are in one bucket, so padding at most doubles the number of rows.
    All shapes are known on the host.

    Args:
        buckets: cover the padded rows
        padding: None if rows and graphs stay where they are
        all_rows: whether each row is in a segment
    """

    buckets: tuple[Bucket, ...]
    padding: Padding | None = None
    all_rows: bool = True

    @staticmethod
    def equal(graphs: int, width: int) -> PaddedSegments:
        """Contiguous segments of one size."""
        rows = graphs * width
        return PaddedSegments(graphs, rows, (Bucket(slice(0, graphs), slice(0, rows), width),))

    @staticmethod
    def of(a: Tensor, starts: np.ndarray, sizes: np.ndarray) -> PaddedSegments:
        """The segments of the rows of ``a``, and of other tensors with the same number of rows.

        Args:
            a: ``[rows, channels]``
            starts: ``[graphs]`` first row of each graph, on the host
            sizes: ``[graphs]`` rows of each graph, at least one, on the host
        """
        if not on_cpu(a) or sizes.mean() * a.shape[1] < MIN_UNPADDED_NUMEL:
            return _padded(len(a), starts, sizes, a.device)
        buckets = tuple(
            Bucket(slice(graph, graph + 1), slice(start, start + size), size)
            for graph, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True))
        )
        return PaddedSegments(len(sizes), len(a), buckets, all_rows=int(sizes.sum()) == len(a))

    def pad(self, a: Tensor) -> Tensor:
        """``[rows, channels]`` to ``[padded rows, channels]``; padding is unspecified."""
        return a.contiguous() if self.padding is None else a.index_select(0, self.padding.source)

    def pad_with_zeros(self, a: Tensor) -> Tensor:
        """Like `pad`, for one of the factors of a sum over rows."""
        padded = self.pad(a)
        return padded if self.padding is None else padded.masked_fill_(self.padding.is_padding, 0)

    def new_padded(self, a: Tensor, channels: int) -> Tensor:
        """A buffer of the type of ``a`` for padded rows, to be passed to `unpad`."""
        rows = self.rows if self.padding is None else len(self.padding.source) + 1
        return (a.new_empty if self.all_rows else a.new_zeros)(rows, channels)

    def unpad(self, padded: Tensor) -> Tensor:
        """``[padded rows, channels]`` to ``[rows, channels]``, zero for rows in no segment."""
        return padded if self.padding is None else padded.index_select(0, self.padding.position)

    def sort_graphs(self, x: Tensor) -> Tensor:
        """``[graphs, ...]`` into the order of the buckets."""
        return x if self.padding is None else x.index_select(0, self.padding.order)

    def unsort_graphs(self, x: Tensor) -> Tensor:
        """``[graphs, ...]`` from the order of the buckets."""
        return x if self.padding is None else x.index_select(0, self.padding.rank)

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        out = a.new_empty(self.graphs, a.shape[1], b.shape[1])
        # Zeros in one factor are enough; the narrower factor is cheaper.
        if a.shape[1] < b.shape[1]:
            a, b = self.pad_with_zeros(a), self.pad(b)
        else:
            a, b = self.pad(a), self.pad_with_zeros(b)
        for bucket in self.buckets:
            torch.bmm(bucket.of(a).transpose(1, 2), bucket.of(b), out=out[bucket.graphs])
        return self.unsort_graphs(out)

    def outer(self, *pairs: tuple[Tensor, Tensor]) -> Tensor:
        (a, x), *more = [(self.pad(a), self.sort_graphs(x)) for a, x in pairs]
        out = self.new_padded(a, x.shape[2])
        for bucket in self.buckets:
            product = torch.bmm(bucket.of(a), x[bucket.graphs], out=bucket.of(out))
            for b, y in more:
                product.baddbmm_(bucket.of(b), y[bucket.graphs])
        return self.unpad(out)


@dataclass(frozen=True, eq=False)
class SegmentPtr(Segments):
    """Segments for kernels, which need no padding; the host need not know any size.

    Args:
        ptr: ``[graphs + 1]`` int64, the first row of each graph, and the end
        period: every n-th graph is a filler, of which only the first row is in a segment; larger
            than the number of graphs for no filler
    """

    ptr: Tensor
    period: int

    @staticmethod
    def of(layout: Layout) -> SegmentPtr:
        graphs = layout.members * layout.graphs
        period = layout.graphs if layout.filler else graphs + 1
        return SegmentPtr(graphs, layout.members * layout.rows, layout.node_ptr, period)

    @cached_property
    def kernels(self) -> ModuleType:
        kernels = kernels_for(self.ptr)
        assert kernels is not None
        return kernels

    @property
    def large(self) -> bool:
        """Whether segments have many rows in the mean, which is fixed in a recorded step."""
        return self.rows >= MIN_LARGE * self.graphs

    @cached_property
    def tiles(self) -> Tensor:
        """The graph of each tile of rows, for kernels that write rows."""
        return self.kernels.row_tiles(self.ptr, self.rows)

    @cached_property
    def tall_tiles(self) -> Tensor:
        """`tiles` for kernels with larger ones for large segments."""
        return self.kernels.row_tiles(self.ptr, self.rows, self.kernels.TALL)

    def inner(self, a: Tensor, b: Tensor) -> Tensor:
        return self.kernels.segment_inner(a.contiguous(), b.contiguous(), self)

    def outer(self, *pairs: tuple[Tensor, Tensor]) -> Tensor:
        (a, x), *more = pairs
        total = self.kernels.segment_outer(a.contiguous(), x, self)
        for a, x in more:
            self.kernels.segment_outer(a.contiguous(), x, self, into=total)
        return total


def segments_of(layout: Layout, like: Tensor) -> Segments:
    """The segments of each graph's rows, for products with tensors like the given one."""
    if has_kernels(like):
        return SegmentPtr.of(layout)
    sizes = layout.sizes.copy()
    starts = sizes.cumsum() - sizes.ravel()
    if layout.filler:
        sizes[:, -1] = 1  # results of a filler are unused, so compute as little as possible
    return PaddedSegments.of(like, starts, sizes.ravel())


def _padded(
    rows: int, starts: np.ndarray, sizes: np.ndarray, device: torch.device
) -> PaddedSegments:
    """Segments with one bucket for each power of two that sizes are rounded up to."""
    power = np.ceil(np.log2(sizes)).astype(np.int64)
    order = np.argsort(power, kind="stable")
    end, sources, insides = 0, [], []
    buckets: list[Bucket] = []
    for graphs in np.split(order, np.flatnonzero(np.diff(power[order])) + 1):
        width = int(sizes[graphs].max())
        column = np.arange(width)
        inside = column < sizes[graphs][:, None]  # [graphs of the bucket, width]
        # Padding copies a row of the same graph, so that a NaN does not reach another graph.
        sources.append((starts[graphs][:, None] + np.where(inside, column, 0)).ravel())
        insides.append(inside.ravel())
        first = buckets[-1].graphs.stop if buckets else 0
        start, end = end, end + inside.size
        buckets.append(Bucket(slice(first, first + len(graphs)), slice(start, end), width))
    source, inside = np.concatenate(sources), np.concatenate(insides)
    position = np.full(rows, end)
    position[source[inside]] = np.flatnonzero(inside)
    # One copy to the device for all five arrays.
    parts = [source, ~inside, position, order, np.argsort(order)]
    source, is_padding, position, order, rank = to_device(np.concatenate(parts), device).split(
        [len(part) for part in parts]
    )
    padding = Padding(source, is_padding.bool()[:, None], position, order, rank)
    all_rows = int(sizes.sum()) == rows
    return PaddedSegments(len(sizes), rows, tuple(buckets), padding, all_rows)
