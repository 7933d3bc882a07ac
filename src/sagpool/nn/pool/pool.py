"""`Pool`: the contract of every pooling layer; `Pooled`: its result."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.conv.conv import Level
from sagpool.nn.random import Streams
from sagpool.ops import Layout, segment_max, segment_mean, segment_mean_max, segment_sum

READOUTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "mean-max": segment_mean_max,
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
}


def readout(
    x: Tensor, layout: Layout, kind: str = "mean-max", presence: Tensor | None = None
) -> Tensor:
    """One row for each graph: mean ‖ max over its nodes (the paper's Equation 11), or another.

    Args:
        x: ``[rows, channels]``
        layout: which rows belong to which graph
        kind: a key of `READOUTS`
        presence: ``[rows]``, the weight of each row in a mean; x is already multiplied by it

    Returns:
        ``[members * graphs, readout_width(kind) * channels]``
    """
    read = READOUTS[kind](x, layout.node_ptr, layout.graph)
    if presence is None or kind not in ("mean", "mean-max"):
        return read
    nodes = layout.node_ptr.diff().to(x.dtype)
    present = segment_sum(presence[:, None], layout.node_ptr, layout.graph).view(-1)
    # If less than one node is present, use the sum: the mean would grow without bound.
    weighted = read[:, : x.shape[1]] * (nodes / present.clamp(min=1))[:, None]
    return torch.cat([weighted, read[:, x.shape[1] :]], 1)


def readout_width(kind: str) -> int:
    """The number of channels of a readout, as a multiple of the channels of a node."""
    if kind not in READOUTS:
        raise SagpoolError(f"Unknown readout '{kind}'; choose from {', '.join(READOUTS)}.")
    return 2 if kind == "mean-max" else 1


class Edges(NamedTuple):
    """The edges of PyG's call."""

    pairs: Tensor  # [2, edges] int64, from source to target
    weight: Tensor | None  # [edges]


@dataclass(frozen=True)
class Context:
    """What a network passes to a layer besides the rows; a layer uses what it needs.

    Args:
        streams: random numbers of each member; a layer that draws any must take them from here
        projected: ``[rows, columns]``, the rows times the layer's `score_weight`
        projected_rows: the rows that were projected; the product is valid only for these
        next_weight: `Conv.input_weight` of the convolution that reads the result. A layer may
            return rows already multiplied by it (`Fused.multiplied`)
        factor: ``[rows]``; the layer must multiply both the rows and ``projected`` by it; only for
            a layer with `Pool.takes_factor`
        rank: returns ``[rows]``, the last channel before the last ReLU
        node_target: returns ``[rows]``, at least 0, the targets of the scores; None if unknown
        edges: the edges of PyG's call, for convolutions of PyG
    """

    streams: Streams | None = None
    projected: Tensor | None = None
    projected_rows: Tensor | None = None
    next_weight: Tensor | None = None
    factor: Tensor | None = None
    rank: Callable[[], Tensor] | None = None
    node_target: Callable[[], Tensor | None] = lambda: None
    edges: Edges | None = None

    def streams_for(self, layout: Layout) -> Streams:
        return self.streams or Streams.fresh(layout.members, layout.device)


class Fused(NamedTuple):
    """Results that a kernel computed along with the pooled rows."""

    x: Tensor  # the rows that these results belong to; invalid for other rows
    mean_max: Tensor | None  # the readout ``mean-max``
    # [members * graphs], divisor of the mean; None for the number of rows.
    divisor: Tensor | None = None
    # Whether x is multiplied by `Context.next_weight`; the readout is of the rows before that.
    multiplied: bool = False


@dataclass(frozen=True, eq=False)
class Pooled(Level):
    """The result of a pooling layer on a packed batch.

    Args:
        x: ``[new rows, channels]``
        structure: structure of the new rows; that of the input if the layer leaves graphs
        source: ``[new rows]`` integers, the input row of each new row, if nodes were selected
        gate: ``[input rows]``, the factor of each row, if there is one
        presence: ``[new rows]`` from 0 to 1, how far each row is present: its weight in a mean, and
            a factor of the next convolution's output; None: all are present
        assignment: ``[input rows, clusters]``, how much of each row is in each cluster of its
            graph, if clusters were made
        auxiliary: ``[members * graphs]``, added to the loss of each graph in training
        fused: what a kernel computed along with x; ignored if x is replaced
    """

    x: Tensor
    structure: Structure
    source: Tensor | None = None
    gate: Tensor | None = None
    presence: Tensor | None = None
    assignment: Tensor | None = None
    auxiliary: Tensor | None = None
    fused: Fused | None = None

    def readout(self, kind: str = "mean-max") -> Tensor:
        """``[members * graphs, channels of the readout]``"""
        fused = self._own_fused()
        if fused is None or fused.mean_max is None:
            return readout(self.x, self.structure.layout, kind, self.presence)
        mean, largest = fused.mean_max.chunk(2, 1)
        if kind == "sum":
            rows = self.structure.layout.node_ptr.diff().to(mean.dtype)
            return mean * (rows if fused.divisor is None else fused.divisor)[:, None]
        return {"mean-max": fused.mean_max, "mean": mean, "max": largest}[kind]

    @property
    def multiplied(self) -> bool:  # type: ignore[override]
        fused = self._own_fused()
        return fused is not None and fused.multiplied

    def _own_fused(self) -> Fused | None:
        if self.fused is None or self.fused.x is self.x:
            return self.fused
        if self.fused.multiplied:
            raise SagpoolError(
                "Rows that a pooling layer multiplied by the next weight cannot be replaced; call "
                "the layer with a context that has no next_weight."
            )
        return None

    @property
    def perm(self) -> Tensor:
        """``[new rows]`` int64, the input row of each new row."""
        if self.source is None:
            raise SagpoolError("This pooling layer does not select nodes.")
        return self.source.long()

    @property
    def score(self) -> Tensor | None:
        """``[new rows]``, the factor of each row; None if there is none."""
        return None if self.gate is None else self.gate.index_select(0, self.perm)


class Pool(nn.Module, ABC):
    """A pooling layer of a packed batch: one call, one result.

    A subclass says what it leaves: some of the ``nodes``, ``clusters`` as nodes of new graphs, or
    one row for each of the ``graphs``. Weights have the members as their first dimension; see
    `sagpool.nn.Linear`. Buffers are not allowed, since a fleet could not tell to which member they
    belong.
    """

    leaves: ClassVar[Literal["nodes", "clusters", "graphs"]]
    learned: bool = False  # whether the number of kept nodes is learnt
    # Whether rows of absent nodes stay (`Pooled.presence`), so that `rows_left` counts more rows
    # than nodes.
    absent_rows: bool = False
    # Whether its gradient is intentionally that of a smoother function.
    straight_through: bool = False
    masks: int = 1  # number of pooled graphs per graph, which count as members
    one_k: bool = False  # whether the members of a fleet must all have the same k
    # Whether the result for a graph is known to depend on the other graphs of its batch.
    depends_on_batch: bool = False
    takes_factor: ClassVar[bool] = False  # whether it reads `Context.factor`
    supervision: float = 0.0  # weight of a loss that needs `Context.node_target`, 0 for none

    @abstractmethod
    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        """Pool the rows x, ``[rows, in_channels]``."""

    @abstractmethod
    def rows_left(self, sizes: np.ndarray) -> np.ndarray | None:
        """Number of rows left of graphs of these sizes; None if it depends on the scores."""

    def can_record(self, dtype: torch.dtype) -> bool:
        """Whether a training step with this layer can be recorded as a CUDA graph.

        That needs operations that do not wait for the device, read `Layout.sizes`, or depend on
        Python state that changes between steps.
        """
        return False

    def refresh(self, device: torch.device, members: int) -> None:
        """Called before each epoch: numbers that the fleet owns (k) may have changed in place."""

    def max_rows(self) -> int | None:
        """The largest k, which the shapes of a recorded step depend on; None without a k."""
        return None

    def score_weight(self) -> Tensor | None:
        """``[members, in_channels, columns]``, if the layer needs the product of x with this.

        A network may then compute the product and pass it as `Context.projected`.
        """
        return None

    def graph_channels(self) -> int:
        """Size of the row of each graph, for a layer that leaves graphs."""
        raise SagpoolError(f"{type(self).__name__} leaves {self.leaves}, not one row per graph.")


def check_rows(x: Tensor, layout: Layout) -> None:
    """Refuse rows of other graphs: kernels would read out of bounds."""
    if len(x) != layout.total_rows:
        raise SagpoolError(f"x has {len(x)} rows, but the graphs have {layout.total_rows}.")


def check_pooled(layer: Pool, pooled: Pooled, graphs: int, channels: int) -> None:
    """Refuse a result of another form, such as one loss for all graphs.

    Args:
        layer: the layer
        pooled: what it returned
        graphs: number of graphs of all members
        channels: size of each row
    """
    name = type(layer).__name__
    if not isinstance(pooled, Pooled):
        raise SagpoolError(f"{name} must return a Pooled, not a {type(pooled).__name__}.")
    rows = graphs if layer.leaves == "graphs" else pooled.structure.layout.total_rows
    if pooled.x.shape != (rows, channels):
        raise SagpoolError(
            f"{name} returns rows of shape {tuple(pooled.x.shape)} in place of {(rows, channels)}."
        )
    if pooled.auxiliary is not None and pooled.auxiliary.shape != (graphs,):
        raise SagpoolError(
            f"{name} returns auxiliary losses of shape {tuple(pooled.auxiliary.shape)} for "
            f"{graphs} graphs; each graph needs one."
        )


def pools_of(model: nn.Module) -> list[Pool]:
    """All pooling layers of a model."""
    return [layer for layer in model.modules() if isinstance(layer, Pool)]
