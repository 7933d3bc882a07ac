"""Which rows belong to which graph of which member."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.ops.device import kernels_for
from sagpool.ops.ragged import repeat_each
from sagpool.ops.transfer import to_device


class Rows:
    """Graphs that lie end to end, member after member.

    Every member has the same number of graphs and of rows, so that ``x.view(members, rows, -1)``
    is possible. Sizes are on the host: they depend on the graphs alone, so no step ever waits for
    the device to tell them.
    """

    sizes: np.ndarray  # [members, graphs] rows of each graph, at least one, on the host
    filler: bool  # whether the last graph of each member is a filler

    @property
    def device(self) -> torch.device:
        raise TypeError(f"{type(self).__name__} must say on which device it is.")

    @property
    def members(self) -> int:
        return self.sizes.shape[0]

    @property
    def graphs(self) -> int:
        """Graphs of one member, the filler included."""
        return self.sizes.shape[1]

    @cached_property
    def rows(self) -> int:
        """Rows of one member, the filler's included."""
        return int(self.sizes[0].sum())

    @cached_property
    def node_ptr(self) -> Tensor:
        """``[members * graphs + 1]`` int64, the first row of each graph, and the end."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return to_device(offsets, self.device)

    @cached_property
    def graph(self) -> Tensor:
        """``[rows of all members]`` int64, the graph of each row."""
        if (kernels := kernels_for(self.node_ptr)) is not None:
            return kernels.graph_of_rows(self.node_ptr, self.members * self.rows)
        graphs = torch.arange(len(self.node_ptr) - 1, device=self.device)
        return repeat_each(graphs, self.node_ptr.diff(), self.members * self.rows)


@dataclass(frozen=True, eq=False)
class Layout(Rows):
    """Rows of graphs whose sizes the host knows."""

    sizes: np.ndarray
    filler: bool
    place: torch.device

    def __post_init__(self) -> None:
        self.sizes.setflags(write=False)

    @property
    def device(self) -> torch.device:
        return self.place


class DeviceLayout(Rows):
    """Rows of graphs whose sizes the device knows, and the host only how many rows a member has.

    So a step is the same for the host whatever graphs are in it, and can be recorded.

    Args:
        node_ptr: ``[members * graphs + 1]`` int64
        members: how many
        rows: of each member
        sizes: ``[members, graphs]`` on the host, if it knows them; asked for otherwise, the device
            is waited for
    """

    filler = True

    def __init__(
        self, node_ptr: Tensor, members: int, rows: int, sizes: np.ndarray | None = None
    ) -> None:
        vars(self).update(node_ptr=node_ptr, rows=rows)
        self._members, self._graphs = members, (len(node_ptr) - 1) // members
        if sizes is not None:
            vars(self)["sizes"] = sizes

    @cached_property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        return self.node_ptr.diff().view(self.members, -1).cpu().numpy()

    @property
    def device(self) -> torch.device:
        return self.node_ptr.device

    @property
    def members(self) -> int:
        return self._members

    @property
    def graphs(self) -> int:
        return self._graphs


def fewer_rows(rows: Rows, share: Fraction, k: Tensor | None, most: int | None) -> DeviceLayout:
    """What is left of each graph but the fillers, counted by the device.

    Args:
        rows: with fillers, on a device that has kernels
        share: ⌈share · N⌉ rows are left of N,
        k: or this many, ``[members]`` int64, or all of fewer
        most: no less than any k
    """
    real, graphs = rows.rows - 1, rows.graphs - 1
    if most is None:
        # ⌈N p / q⌉ ≤ (N p + q - 1) / q
        bound = (real * share.numerator + graphs * (share.denominator - 1)) // share.denominator
    else:
        bound = graphs * most
    left = min(real, bound) + 1
    kernels = kernels_for(rows.node_ptr)
    assert kernels is not None
    ptr = kernels.fewer_rows(
        rows.node_ptr, k, rows.members, left, share.numerator, share.denominator
    )
    return DeviceLayout(ptr, rows.members, left)
