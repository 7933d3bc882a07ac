"""`Conv`: the interface of graph convolutions; `Level`: their input."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.graphs import Batch, Structure
from sagpool.ops import LabelSums


class Level:
    """Rows of a packed batch, and their structure: the input of a convolution."""

    x: Tensor  # [rows, channels]
    structure: Structure
    # Whether x is already multiplied by `Conv.input_weight` of the convolution that reads it.
    multiplied: bool = False

    @property
    def propagated(self) -> Tensor | LabelSums:
        """``D̃^-1/2 Ã D̃^-1/2 x``"""
        return self.structure.gcn(self.x)


@dataclass(frozen=True, eq=False)
class InputLevel(Level):
    """The features of a batch, in the type of the model."""

    batch: Batch
    dtype: torch.dtype

    @property
    def structure(self) -> Structure:  # type: ignore[override]
        return self.batch.structure

    @cached_property
    def x(self) -> Tensor:  # type: ignore[override]
        return self.batch.x.to(self.dtype)

    @property
    def propagated(self) -> Tensor | LabelSums:
        return self.batch.propagated(self.dtype)


@dataclass(frozen=True, eq=False)
class HiddenLevel(Level):
    """The output of a convolution, as input of the next."""

    x: Tensor
    structure: Structure

    @cached_property
    # Cached, because `Conv.last_channel` reads it again.
    def propagated(self) -> Tensor | LabelSums:
        return self.structure.gcn(self.x)


class Activated(NamedTuple):
    x: Tensor  # [rows, out_channels], after ReLU
    # [rows, scores], x times the requested weight, if computed along with x.
    projected: Tensor | None


class Conv(nn.Module, ABC):
    """A graph convolution.

    A subclass has the constructor ``(in_channels, out_channels, *, members)``, defines `forward`,
    and may replace the other methods by faster ones with the same results.
    """

    @abstractmethod
    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        """``[rows, in_channels]`` to ``[rows, out_channels]``."""

    def activate(self, level: Level, score_weight: Tensor | None = None) -> Activated:
        """ReLU of the convolution, and optionally its product with a weight.

        Args:
            level: the rows and their structure
            score_weight: ``[members, out_channels, scores]``
        """
        return Activated(self(level.x, level.structure).relu(), None)

    def last_channel(self, level: Level) -> Tensor:
        """``[rows]``, the last channel before the ReLU."""
        return self(level.x, level.structure)[:, -1]

    def row_weight(self) -> Tensor | None:
        """``[members, in_channels, columns]``, if only x times this weight is needed."""
        return None

    def of_product(self, product: Tensor, structure: Structure) -> Tensor:
        """The convolution of rows whose product with `row_weight` is ``[rows, columns]``."""
        raise TypeError(f"{type(self).__name__} has no row_weight.")

    def input_weight(self) -> Tensor | None:
        """``[members, in_channels, out_channels]`` by which a `Level` may be multiplied already."""
        return None
