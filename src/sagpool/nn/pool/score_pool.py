"""`ScorePool`: what the layers that keep the nodes with the top scores have in common."""

from abc import abstractmethod
from dataclasses import replace
from typing import NamedTuple, cast, overload

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import EdgeList, Structure
from sagpool.nn.pool.pool import Context, Pooled
from sagpool.nn.pool.pyg_interface import (
    PoolOutput,
    check_pyg,
    choose_above,
    choose_top,
    is_fused,
    unpack_pyg,
)
from sagpool.nn.pool.selection import (
    Ratio,
    Selected,
    SelectingPool,
    Selection,
    keep_selected,
    select_above,
    select_top,
)
from sagpool.ops import matmul_with_passthrough, segment_softmax, softmax_of_graphs


class Scores(NamedTuple):
    """Nodes are ranked by one number and multiplied by another.

    tanh saturates: the number before it tells nodes apart that tanh makes equal.
    """

    rank: Tensor  # [rows]
    gate: Tensor  # [rows]


class ScorePool(SelectingPool):
    """Keeps the nodes with the top scores, multiplied by their gates.

    A subclass defines `scores`. One whose scores need no more of x than its product with a weight
    returns that weight from `score_weight`; the product is then computed once and passed on.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes that is kept, ⌈ratio · N⌉
        k: keep this many nodes of each graph instead, or all where there are fewer; a number or
            one for each graph
        min_score: keep the nodes whose softmax over the graph is above this instead, and gate by
            the softmax, as PyG does
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio = 0.5,
        *,
        k: int | np.ndarray | None = None,
        min_score: float | None = None,
    ) -> None:
        super().__init__(Selection(ratio, k))
        if in_channels < 1:
            raise SagpoolError(f"in_channels must be at least 1, not {in_channels}.")
        if min_score is not None and not 0 <= min_score < 1:
            raise SagpoolError(f"min_score must be at least 0 and below 1, not {min_score}.")
        self.in_channels, self.min_score = in_channels, min_score

    @abstractmethod
    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        """The scores of the rows x.

        If `score_weight` is not None, `Context.projected` is x times it.
        """

    @overload
    def forward(
        self, x: Tensor, edge_index: Structure, edge_attr: Context = Context()
    ) -> Pooled: ...

    @overload
    def forward(self, x: Tensor, edge_index: Structure, *, context: Context) -> Pooled: ...

    @overload
    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> PoolOutput: ...

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Structure,
        edge_attr: Tensor | Context | None = None,
        batch: Tensor | None = None,
        *,
        context: Context | None = None,
    ) -> Pooled | PoolOutput:
        """``pool(x, structure, context)`` of a packed batch, or ``pool(x, edge_index, ...)``.

        The second is PyG's call and returns PyG's six results.
        """
        _check_features(x, self.in_channels)
        if isinstance(edge_index, Structure):
            context = context or edge_attr or Context()  # type: ignore[assignment]
            if not isinstance(context, Context) or batch is not None:
                raise SagpoolError("With a structure, the only other argument is a context.")
            x, selected = self._select(x, edge_index, context)
            return keep_selected(x, edge_index, selected)
        if torch.jit.is_tracing():  # type: ignore[attr-defined]
            raise SagpoolError(self._no_script())
        attr = cast(Tensor | None, edge_attr)
        check_pyg(x, edge_index, attr, batch)
        context = Context()
        if not is_fused(x) and (weight := self.score_weight()) is not None:
            _check_dtype(x, weight)
            context = Context(projected=x @ weight[0], projected_rows=x)
        through, scores = self._score(x, EdgeList(edge_index, x.shape[0]), context)
        gate = scores.gate
        if self.min_score is None:
            chosen = choose_top(scores.rank, batch, self.selection)
        else:
            gate = softmax_of_graphs(scores.rank, batch)
            chosen = choose_above(gate, batch, self.min_score)
        return unpack_pyg(through, gate.to(x.dtype), chosen, edge_index, attr, batch)

    def _select(self, x: Tensor, structure: Structure, context: Context) -> tuple[Tensor, Selected]:
        """The rows to gather from, and which of them to keep."""
        layout = structure.layout
        if len(x) != layout.total_rows:
            raise SagpoolError(f"x has {len(x)} rows, but the graphs have {layout.total_rows}.")
        through, scores = self._score(x, structure, context)
        if self.min_score is None:
            return through, select_top(layout, scores.rank, scores.gate, self.selection)
        softmax = segment_softmax(scores.rank[:, None], layout.node_ptr, layout.graph)
        return through, select_above(layout, softmax.view(-1), self.min_score)

    def _score(self, x: Tensor, structure: Structure, context: Context) -> tuple[Tensor, Scores]:
        """The rows to gather from, and their scores."""
        through = x
        known = context.projected is not None and context.projected_rows is x
        if not known and (weight := self.score_weight()) is not None:
            _check_dtype(x, weight)
            # The gradients of both results are summed in one buffer, so `through` must have no
            # other consumer than the gather of the kept rows: `scores` gets x itself.
            projected, through = matmul_with_passthrough(x, weight)
            context = replace(context, projected=projected, projected_rows=x)
        return through, self.scores(x, structure, context)

    def __prepare_scriptable__(self) -> None:
        raise SagpoolError(self._no_script())

    def _no_script(self) -> str:
        return (
            f"{type(self).__name__} does not work with torch.jit, which does not know some of its "
            "operations; use torch.compile or torch.export."
        )

    def rows_left(self, sizes: np.ndarray) -> np.ndarray | None:
        return None if self.min_score is not None else super().rows_left(sizes)

    def __repr__(self) -> str:
        if self.min_score is not None:
            kept = f"min_score={self.min_score}"
        elif self.selection.k is not None:
            kept = f"k={self.selection.k}"
        else:
            kept = f"ratio={self.selection.ratio}"
        return f"{type(self).__name__}({self.in_channels}, {kept})"


def _check_features(x: Tensor, in_channels: int) -> None:
    if x.ndim != 2 or not x.is_floating_point():
        raise SagpoolError(
            f"x must be a matrix of floating-point numbers, not {x.dtype} of shape "
            f"{tuple(x.shape)}."
        )
    if x.shape[1] != in_channels:
        raise SagpoolError(
            f"x has {x.shape[1]} channels, but the layer was made for {in_channels}."
        )


def _check_dtype(x: Tensor, weight: Tensor) -> None:
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise SagpoolError(f"x is {x.dtype}, but the layer is {weight.dtype}.")
