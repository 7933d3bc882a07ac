"""A matrix for each graph of a packed batch, without padding its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from sagpool.ops import Layout, device

kernels_for = partial(device.kernels_for, package="sagpool.nn.pool.asap.kernels")


def has_kernels(x: Tensor) -> bool:
    """Whether ASAPool runs as kernels, which compute in float32 only."""
    return x.dtype == torch.float32 and kernels_for(x) is not None


@dataclass(frozen=True, eq=False)
class GraphRows:
    """Where the rows of each graph lie, as kernels read it; the host need not know any size.

    Args:
        ptr: ``[graphs + 1]`` int64, the first row of each graph, and the end
        total: rows of all graphs
        largest: no graph has more rows
        period: every n-th graph is a filler, of which only the first row counts; larger than the
            number of graphs for no filler
    """

    ptr: Tensor
    total: int
    largest: int
    period: int

    @staticmethod
    def of(layout: Layout) -> GraphRows:
        period = layout.filler_period or len(layout.node_ptr)
        return GraphRows(layout.node_ptr, layout.total_rows, layout.largest, period)

    @property
    def width(self) -> int:
        """Columns with room for a number for each row of any graph, for aligned loads."""
        return -(-self.largest // 16) * 16

    @cached_property
    def tiles(self) -> Tensor:
        """The graph of each tile of rows, for kernels that write rows."""
        kernels = kernels_for(self.ptr)
        assert kernels is not None
        return kernels.row_tiles(self.ptr, self.total)


@dataclass(frozen=True, eq=False)
class GraphMatrices:
    """A matrix for each graph; the rows of all of them lie end to end.

    Args:
        values: ``[rows, columns]`` with room for the widest matrix; what is beyond the columns of
            a row's own graph is undefined
        rows: rows of each matrix
        columns: columns of each matrix: as many as a graph has rows there, or the same for all
        transposed: whether the transposed matrices are meant
    """

    values: Tensor
    rows: GraphRows
    columns: GraphRows | int
    transposed: bool = False

    @property
    def T(self) -> GraphMatrices:  # noqa: N802, as for tensors
        return replace(self, transposed=not self.transposed)

    @property
    def height(self) -> GraphRows:
        """The rows of the matrices that are meant."""
        height = self.columns if self.transposed else self.rows
        assert not isinstance(height, int)
        return height

    @property
    def width(self) -> GraphRows | int:
        """The columns of the matrices that are meant."""
        return self.rows if self.transposed else self.columns

    @property
    def most_columns(self) -> int:
        return self.width if isinstance(self.width, int) else self.width.width

    def __matmul__(self, other: GraphMatrices) -> Tensor:
        return self.times(other)

    def times(
        self,
        other: GraphMatrices,
        *,
        plus: Tensor | None = None,
        scale: float = 1.0,
        loops: bool = True,
        norm: Tensor | None = None,
        outer: Tensor | None = None,
    ) -> Tensor:
        """The values of ``scale self other + plus``; for the other options see the kernel."""
        kernels = kernels_for(self.values)
        assert kernels is not None
        return kernels.product(
            self, other, plus=plus, scale=scale, loops=loops, norm=norm, outer=outer
        )
