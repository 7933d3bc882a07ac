"""`Adjacency`: who neighbours whom in a packed batch, and which rows belong to which graph."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from sagpool.ops import repeat_each


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The graphs of all members of a fleet, end to end, member after member.

    Every member has the same number of graphs and of rows, so that ``x.view(members, rows, -1)``
    is possible; its last graph is a filler, which takes up the difference. Sizes are on the host:
    they depend on the graphs alone, so no step ever waits for the device to tell them.

    Args:
        sizes: ``[members, graphs]`` nodes of each graph, at least one, filler last, on the host
        row_ptr: ``[rows of all members + 1]`` int32
        col: ``[edges]`` int32: row v has the neighbours ``col[row_ptr[v]:row_ptr[v + 1]]``
    """

    sizes: np.ndarray
    row_ptr: Tensor
    col: Tensor

    def __post_init__(self) -> None:
        self.sizes.setflags(write=False)

    @property
    def members(self) -> int:
        return self.sizes.shape[0]

    @property
    def graphs(self) -> int:
        """Graphs of one member, the filler included."""
        return self.sizes.shape[1]

    @property
    def rows(self) -> int:
        """Rows of one member, the filler's included."""
        return int(self.sizes[0].sum())

    @property
    def device(self) -> torch.device:
        return self.col.device

    @cached_property
    def node_ptr(self) -> Tensor:
        """``[members * graphs + 1]`` int64, the first row of each graph, and the end."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return torch.from_numpy(offsets).to(self.device)

    @cached_property
    def graph(self) -> Tensor:
        """``[rows of all members]`` int64, the graph of each row."""
        graphs = torch.arange(self.sizes.size, device=self.device)
        return repeat_each(graphs, self.node_ptr.diff(), self.members * self.rows)
