"""Graphs of a packed batch in groups of similar size, each padded to its largest."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.ops import Layout, to_device

STEPS_PER_DOUBLING = 3  # sizes to which graphs are padded: at most 1.26 times their own


class Buckets:
    """Copies rows into padded blocks, one for each group of graphs, and back.

    The host knows all shapes, because they depend only on graph sizes. Fillers are in no block.

    Args:
        layout: layout of the rows, with sizes known on the host
        groups: numbers of the graphs of each group
    """

    def __init__(self, layout: Layout, groups: tuple[np.ndarray, ...]) -> None:
        self.layout, self.groups = layout, groups
        sizes = layout.sizes.ravel()
        self.nodes = tuple(int(sizes[graphs].max()) for graphs in groups)  # rows of each block
        self.counts = tuple(len(graphs) for graphs in groups)

    @staticmethod
    def of(layout: Layout) -> Buckets:
        """Groups in which no graph is more than 1.26 times as large as another."""
        numbers = np.arange(layout.sizes.size).reshape(layout.sizes.shape)
        real = numbers[:, : layout.graphs - layout.filler].ravel()
        steps = np.ceil(STEPS_PER_DOUBLING * np.log2(layout.sizes.ravel()[real]) - 1e-9)
        return Buckets(layout, tuple(real[steps == step] for step in np.unique(steps)))

    def pad(self, x: Tensor) -> list[Tensor]:
        """``[graphs, nodes, channels]`` of each group, zero where there is no row."""
        zero = x.new_zeros(1, x.shape[1])
        padded = torch.cat([x, zero]).index_select(0, self._row)
        shapes = zip(self.counts, self.nodes, strict=True)
        parts = padded.split([count * nodes for count, nodes in shapes])
        return [
            part.view(count, nodes, -1)
            for part, count, nodes in zip(parts, self.counts, self.nodes, strict=True)
        ]

    def unpad(self, blocks: list[Tensor]) -> Tensor:
        """``[rows, channels]`` from ``[graphs, nodes, channels]`` of each group; 0 for fillers."""
        zero = blocks[0].new_zeros(1, blocks[0].shape[2])
        flat = torch.cat([*(block.flatten(0, 1) for block in blocks), zero])
        return flat.index_select(0, self.place)

    def first(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> Tensor:
        """The offset of each graph's matrix, if the matrices of all graphs are laid end to end.

        Args:
            rows: number of rows of the matrices of each group
            columns: number of columns of the matrices of each group

        Returns:
            ``[members * graphs]`` int64; -1 for fillers
        """
        found = np.full(self.layout.sizes.size, -1)
        end = 0
        for graphs, count, size in zip(
            self.groups, self.counts, np.multiply(rows, columns), strict=True
        ):
            found[graphs] = end + np.arange(count) * size
            end += count * size
        return to_device(found, self.layout.device)

    def per_graph(self, of_group: tuple[int, ...]) -> Tensor:
        """``[members * graphs]`` int64, the value of each graph's group; 0 for fillers."""
        found = np.zeros(self.layout.sizes.size, np.int64)
        for graphs, value in zip(self.groups, of_group, strict=True):
            found[graphs] = value
        return to_device(found, self.layout.device)

    @cached_property
    def local(self) -> Tensor:
        """``[rows]`` int64, the index of each row in its graph."""
        rows = torch.arange(self.layout.total_rows, device=self.layout.device)
        return rows - self.layout.node_ptr.index_select(0, self.layout.graph)

    @cached_property
    def place(self) -> Tensor:
        """``[rows]`` int64, the position of each row in all blocks; past the end for fillers."""
        first = self.first(self.nodes, (1,) * len(self.nodes)).index_select(0, self.layout.graph)
        return torch.where(first < 0, self._places, first + self.local)

    @cached_property
    def _row(self) -> Tensor:
        """``[places]`` int64, the row at each position of all blocks; past the end for padding."""
        total = self.layout.total_rows
        row = torch.full((self._places + 1,), total, device=self.layout.device)
        return row.scatter_(0, self.place, torch.arange(total, device=row.device))[:-1]

    @property
    def _places(self) -> int:
        return int(np.dot(self.counts, self.nodes))
