"""`ScorePool`: the common base of layers that keep the nodes with the highest scores."""

from abc import abstractmethod
from dataclasses import replace
from typing import cast, overload

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.graphs import EdgeList, Structure
from sagpool.nn.pool.pool import Context, Edges, Pooled, check_rows
from sagpool.nn.pool.pyg_interface import (
    PoolOutput,
    as_more_graphs,
    as_rows,
    check_pyg,
    keep_above,
    keep_by_product,
    keep_highest,
    nothing_pooled,
    unpack_pyg,
)
from sagpool.nn.pool.scores import Scores
from sagpool.nn.pool.selection import (
    Ratio,
    Selected,
    SelectingPool,
    Selection,
    keep_selected,
    select_above,
    select_top,
)
from sagpool.ops import linear, matmul_with_passthrough, segment_softmax
from sagpool.ops.device import kernels_for
from sagpool.ops.marked_graph import MarkedGraph, is_fused
from sagpool.ops.pool_by_product import ProductScore


class ScorePool(SelectingPool):
    """Keeps the nodes with the highest scores, multiplied by their gates.

    A subclass defines `scores`. If its scores need only the product of x with a weight, it returns
    that weight from `score_weight`, and asks for the product with `product_of`: usually the network
    has computed it already.

    Args:
        in_channels: size of each input row
        ratio: fraction of each graph's nodes to keep, ⌈ratio · N⌉; an integer is a k; None
            leaves it to k or min_score
        k: keep this many nodes of each graph instead, or all if there are fewer; a number or
            one for each graph
        min_score: keep the nodes whose softmax over the graph is above this instead, and gate by
            the softmax, as PyG does
        multiplier: factor of the rows that are kept
    """

    def __init__(
        self,
        in_channels: int,
        ratio: Ratio | None = 0.5,
        *,
        k: int | np.ndarray | None = None,
        min_score: float | None = None,
        multiplier: float = 1.0,
    ) -> None:
        if ratio is None and k is None and min_score is None:
            raise SagpoolError("A pooling layer needs a ratio, a k or a min_score.")
        super().__init__(Selection(1.0 if ratio is None else ratio, k))
        if in_channels < 1:
            raise SagpoolError(f"in_channels must be at least 1, not {in_channels}.")
        if min_score is not None and not 0 <= min_score <= 1:
            raise SagpoolError(f"min_score must be from 0 to 1, not {min_score}.")
        self.in_channels, self.ratio, self.min_score = in_channels, ratio, min_score
        self.multiplier = multiplier

    @abstractmethod
    def scores(self, x: Tensor, structure: Structure, context: Context) -> Scores:
        """The scores of the rows x; for their product with `score_weight`, see `product_of`."""

    def product_of(self, x: Tensor, context: Context) -> Tensor | None:
        """``[rows, columns]``, x times `score_weight`, if there is one.

        The context has it for the rows that were pooled, but a subclass may score others.
        """
        if context.projected is not None and context.projected_rows is x:
            return context.projected
        weight = self.score_weight()
        return None if weight is None else linear(x, weight)

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
        attn: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
    ) -> PoolOutput: ...

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Structure,
        edge_attr: Tensor | Context | None = None,
        batch: Tensor | None = None,
        attn: Tensor | None = None,
        *,
        edge_weight: Tensor | None = None,
        context: Context | None = None,
    ) -> Pooled | PoolOutput:
        """``pool(x, structure, context)`` for a packed batch, or ``pool(x, edge_index, ...)``.

        The second form is PyG's call and returns PyG's six results. ``attn``, ``[rows,
        in_channels]``, is scored in place of x; ``edge_weight``, ``[edges]``, goes to a score by a
        convolution of PyG that takes one.
        """
        if not isinstance(edge_index, Structure):
            attr = cast(Tensor | None, edge_attr)
            return self._pool_pyg(x, edge_index, attr, batch, attn, edge_weight)
        context = context or edge_attr or Context()  # type: ignore[assignment]
        others = (batch, attn, edge_weight)
        if not isinstance(context, Context) or any(other is not None for other in others):
            raise SagpoolError("With a structure, the only other argument is a context.")
        _check_features(x, self.in_channels)
        pooled = self._pool_packed(x, edge_index, context)
        return pooled if self.multiplier == 1 else replace(pooled, x=pooled.x * self.multiplier)

    def _pool_packed(self, x: Tensor, structure: Structure, context: Context) -> Pooled:
        x, selected = self._select(x, structure, context)
        return keep_selected(x, structure, selected)

    def _pool_pyg(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        attn: Tensor | None,
        edge_weight: Tensor | None,
    ) -> PoolOutput:
        """Pool in PyG's form; rows stay in their order, whatever the order of the batch."""
        if torch.jit.is_tracing():  # type: ignore[attr-defined]
            raise SagpoolError(self._no_script())
        if edge_index.dtype == torch.int32:
            edge_index = edge_index.long()
        _check_matrix(x)
        scored = x if attn is None else as_rows(attn, x)
        _check_features(scored, self.in_channels, "x" if attn is None else "attn")
        if edge_weight is not None and not hasattr(self, "gnn"):
            raise SagpoolError("edge_weight is for a layer that scores with a GNN of PyG.")
        if not x.shape[0]:  # len() would be fixed by torch.export
            return nothing_pooled(x, edge_index, edge_attr)
        check_pyg(x, edge_index, edge_attr, batch)
        positions = edge_attr is not None
        usual = attn is None and edge_weight is None and kernels_for(x) is not None
        if usual and (score := self.product_score()) is not None:
            _check_dtype(x, score.weight)
            keep = self.selection, self.min_score
            left = keep_by_product(x, score, edge_index, batch, *keep, positions)
            if left is not None:
                return self._multiplied(unpack_pyg(left, edge_attr))
        context = Context(edges=Edges(edge_index, edge_weight))
        weight = self.score_weight()
        if weight is None:
            _check_dtype(scored, next(self.parameters(), scored))
        elif scored is not x or not is_fused(x):
            _check_dtype(scored, weight)
            context = replace(context, projected=scored @ weight[0], projected_rows=scored)
        through, scores = self._score(x, scored, EdgeList(edge_index, x.shape[0]), context)
        masks = [scores] if self.masks == 1 else scores.of_masks()
        kept = [self._keep_pyg(through, one, edge_index, batch, positions) for one in masks]
        parts = [unpack_pyg(one, edge_attr) for one in kept]
        return self._multiplied(parts[0] if self.masks == 1 else as_more_graphs(parts, batch))

    def _multiplied(self, pooled: PoolOutput) -> PoolOutput:
        return pooled if self.multiplier == 1 else pooled._replace(x=pooled.x * self.multiplier)

    def product_score(self) -> ProductScore | None:
        """The score in PyG's call, if it is exactly a `ProductScore` gated by tanh or a softmax.

        Must be None for a subclass that replaces `scores`.
        """
        return None

    def _keep_pyg(
        self,
        x: Tensor,
        scores: Scores,
        edge_index: Tensor,
        batch: Tensor | None,
        positions: bool,
    ) -> MarkedGraph:
        """The kept part in PyG's call, with the positions of edges if requested."""
        if self.min_score is None:
            return keep_highest(x, scores, edge_index, batch, self.selection, positions)
        return keep_above(x, scores, edge_index, batch, self.min_score, positions)

    def _select(self, x: Tensor, structure: Structure, context: Context) -> tuple[Tensor, Selected]:
        """The rows to gather from, and which of them to keep."""
        layout = structure.layout
        check_rows(x, layout)
        through, scores = self._score(x, x, structure, context)
        _check_scores(scores, len(x), type(self).__name__)
        if self.min_score is None:
            return through, select_top(layout, scores.rank, scores.gate, self.selection)
        softmax = segment_softmax(scores.rank[:, None], layout.node_ptr, layout.graph)
        return through, select_above(layout, softmax.view(-1), self.min_score)

    def _score(
        self, x: Tensor, scored: Tensor, structure: Structure, context: Context
    ) -> tuple[Tensor, Scores]:
        """The rows to gather from, and the scores of the rows ``scored``."""
        through = x
        known = context.projected is not None and context.projected_rows is scored
        if not known and (weight := self.score_weight()) is not None:
            _check_dtype(x, weight)
            # The gradients of both results are summed in one buffer, so `through` must have no
            # other consumer than the gather of the kept rows: `scores` gets x itself.
            projected, through = matmul_with_passthrough(x, weight)
            context = replace(context, projected=projected, projected_rows=x)
        return through, self.scores(scored, structure, context)

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
        factor = "" if self.multiplier == 1 else f", multiplier={self.multiplier}"
        return f"{type(self).__name__}({self.in_channels}, {kept}{factor})"


def _check_matrix(x: Tensor, name: str = "x") -> None:
    if x.ndim != 2 or not x.is_floating_point():
        raise SagpoolError(
            f"{name} must be a matrix of floating-point numbers, not {x.dtype} of shape "
            f"{tuple(x.shape)}."
        )


def _check_features(x: Tensor, in_channels: int, name: str = "x") -> None:
    _check_matrix(x, name)
    if x.shape[1] != in_channels:
        raise SagpoolError(
            f"{name} has {x.shape[1]} channels, but the layer was made for {in_channels}."
        )


def _check_scores(scores: Scores, rows: int, name: str) -> None:
    """Refuse scores of a layer that are not one number for each row."""
    if not isinstance(scores, Scores):
        raise SagpoolError(
            f"The scores of {name} must be Scores(rank, gate), not a {type(scores).__name__}."
        )
    for part, values in scores._asdict().items():
        if values.shape != (rows,):
            raise SagpoolError(
                f"{name} returns a {part} of shape {tuple(values.shape)} for {rows} rows; each row "
                "needs one number."
            )


def _check_dtype(x: Tensor, weight: Tensor) -> None:
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise SagpoolError(f"x is {x.dtype}, but the layer is {weight.dtype}.")
