"""`Layout`: which rows of a packed batch belong to which graph of which member."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.device import kernels_for, to_device
from sagpool.ops.ragged import repeat_each


class Layout(ABC):
    """Graphs that lie end to end, member after member.

    Every member has the same number of graphs and of rows, so that ``x.view(members, rows, -1)``
    is possible.

    Args:
        members: how many models train side by side
        graphs: of one member, the filler included
        rows: of one member, those of the filler included
        filler: whether the last graph of each member is a filler
    """

    def __init__(self, members: int, graphs: int, rows: int, *, filler: bool) -> None:
        self.members, self.graphs, self.rows, self.filler = members, graphs, rows, filler

    @property
    @abstractmethod
    def sizes(self) -> np.ndarray:
        """``[members, graphs]`` rows of each graph, at least one, on the host."""

    @property
    @abstractmethod
    def node_ptr(self) -> Tensor:
        """``[members * graphs + 1]`` int64, the first row of each graph, and the end."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """No graph has more rows, fillers not counted."""

    @property
    def device(self) -> torch.device:
        return self.node_ptr.device

    @property
    def total_rows(self) -> int:
        """Rows of all members."""
        return self.members * self.rows

    @cached_property
    def graph(self) -> Tensor:
        """``[total rows]`` int64, the graph of each row."""
        if (kernels := kernels_for(self.node_ptr)) is not None:
            return kernels.graph_of_rows(self.node_ptr, self.total_rows)
        graphs = torch.arange(len(self.node_ptr) - 1, device=self.device)
        return repeat_each(graphs, self.node_ptr.diff(), self.total_rows)

    @property
    def filler_period(self) -> int:
        """Every n-th graph is a filler; 0 for none."""
        return self.graphs if self.filler else 0


class HostLayout(Layout):
    """The host knows the sizes: they depend on the graphs alone, so no step waits for the device.

    Args:
        sizes: ``[members, graphs]``; becomes read-only
        filler: whether the last graph of each member is a filler
        device: of the rows
    """

    def __init__(self, sizes: np.ndarray, *, filler: bool, device: torch.device) -> None:
        members, graphs = sizes.shape
        super().__init__(members, graphs, int(sizes[0].sum()), filler=filler)
        sizes.setflags(write=False)
        self._sizes, self._device = sizes, device

    @property
    def sizes(self) -> np.ndarray:
        return self._sizes

    @property
    def largest(self) -> int:
        real = self.sizes[:, :-1] if self.filler else self.sizes
        return int(real.max(initial=1))

    @property
    def device(self) -> torch.device:
        return self._device

    @cached_property
    def node_ptr(self) -> Tensor:
        return to_device(np.concatenate([[0], np.cumsum(self.sizes)]), self._device)


class DeviceLayout(Layout):
    """The device knows the sizes; the host knows only how many rows each member has.

    So a step looks the same to the host whatever graphs are in it, and can be recorded.

    Args:
        node_ptr: ``[members * graphs + 1]`` int64
        members: how many
        rows: of each member
        largest: no graph has more rows, fillers not counted
        sizes: ``[members, graphs]`` on the host, if known; otherwise reading them waits for the
            device
    """

    def __init__(
        self,
        node_ptr: Tensor,
        members: int,
        rows: int,
        largest: int,
        sizes: np.ndarray | None = None,
    ) -> None:
        super().__init__(members, (len(node_ptr) - 1) // members, rows, filler=True)
        self._node_ptr, self._largest, self._sizes = node_ptr, largest, sizes

    @property
    def largest(self) -> int:
        return self._largest

    @property
    def node_ptr(self) -> Tensor:
        return self._node_ptr

    @property
    def sizes(self) -> np.ndarray:
        if self._sizes is None:
            self._sizes = self.node_ptr.diff().view(self.members, -1).cpu().numpy()
        return self._sizes


class UniformLayout(Layout):
    """All graphs have the same number of rows, as after a pooling to clusters.

    Args:
        members: how many
        graphs: of each member
        nodes: rows of each graph
        device: of the rows
    """

    def __init__(self, members: int, graphs: int, nodes: int, device: torch.device) -> None:
        super().__init__(members, graphs, graphs * nodes, filler=False)
        self.nodes, self._device = nodes, device

    @property
    def sizes(self) -> np.ndarray:
        return np.full((self.members, self.graphs), self.nodes)

    @property
    def largest(self) -> int:
        return self.nodes

    @property
    def device(self) -> torch.device:
        return self._device

    @cached_property
    def node_ptr(self) -> Tensor:
        return torch.arange(0, self.total_rows + 1, self.nodes, device=self._device)


def repeated_layout(layout: Layout, times: int) -> Layout:
    """The graphs of each member so many times in a row, each time as a member of its own."""
    if not isinstance(layout, DeviceLayout):
        sizes = np.repeat(layout.sizes, times, axis=0)
        return HostLayout(sizes, filler=layout.filler, device=layout.device)
    first = layout.node_ptr[:-1].view(layout.members, 1, -1)  # [members, 1, graphs]
    # Copy c of member m begins at (m · times + c) · rows, where the member began at m · rows.
    copies = torch.arange(layout.members * times, device=layout.device).view(-1, times, 1)
    own = torch.arange(layout.members, device=layout.device).view(-1, 1, 1)
    starts = (first + (copies - own) * layout.rows).view(-1)
    end = starts.new_full((1,), times * layout.total_rows)
    known = layout._sizes
    return DeviceLayout(
        torch.cat([starts, end]),
        layout.members * times,
        layout.rows,
        layout.largest,
        None if known is None else np.repeat(known, times, axis=0),
    )


def pooled_layout(
    layout: Layout, ratio: Fraction, k: Tensor | None, max_k: int | None
) -> DeviceLayout:
    """The rows that a pooling leaves of each graph, counted by the device.

    Args:
        layout: with fillers, on a device that has kernels
        ratio: ⌈ratio · N⌉ rows are left of N,
        k: or this many, ``[members]`` int64, or all of fewer
        max_k: no less than any k
    """
    real, graphs = layout.rows - 1, layout.graphs - 1
    if max_k is None:
        # ⌈N p / q⌉ ≤ (N p + q - 1) / q
        bound = (real * ratio.numerator + graphs * (ratio.denominator - 1)) // ratio.denominator
    else:
        bound = graphs * max_k
    left = min(real, bound) + 1
    kernels = kernels_for(layout.node_ptr)
    assert kernels is not None
    ptr = kernels.fewer_rows(
        layout.node_ptr, k, layout.members, left, ratio.numerator, ratio.denominator
    )
    largest = -(-layout.largest * ratio.numerator // ratio.denominator)
    if max_k is not None:
        largest = min(layout.largest, max_k)
    return DeviceLayout(ptr, layout.members, left, largest)
