"""`Conv`: what every graph convolution of a network can do; `Level`: what it reads."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from sagpool.graphs import Batch, Structure
from sagpool.ops import LabelSums


class Level:
    """Rows of a packed batch, and which of them are joined: what a convolution reads."""

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
    """What a convolution gave, for the next one."""

    x: Tensor
    structure: Structure

    @cached_property
    def propagated(self) -> Tensor | LabelSums:  # read again for `Conv.last_channel`
        return self.structure.gcn(self.x)


class Activated(NamedTuple):
    x: Tensor  # [rows, out_channels], after ReLU
    projected: Tensor | None  # [rows, scores], x times the weight asked for, if it came with x


class Conv(nn.Module, ABC):
    """A graph convolution.

    A subclass has the constructor ``(in_channels, out_channels, *, members)``, defines `forward`,
    and may replace the other methods by faster ones that give the same.
    """

    @abstractmethod
    def forward(self, x: Tensor, structure: Structure) -> Tensor:
        """``[rows, in_channels]`` to ``[rows, out_channels]``."""

    def activate(self, level: Level, score_weight: Tensor | None = None) -> Activated:
        """ReLU of the convolution, and perhaps its product with a weight.

        Args:
            level: the rows and their structure
            score_weight: ``[members, out_channels, scores]``
        """
        return Activated(self(level.x, level.structure).relu(), None)

    def last_channel(self, level: Level) -> Tensor:
        """``[rows]``, the last channel before the ReLU."""
        return self(level.x, level.structure)[:, -1]

    def row_weight(self) -> Tensor | None:
        """``[members, in_channels, columns]``, if x times this is all that is needed of x."""
        return None

    def of_product(self, product: Tensor, structure: Structure) -> Tensor:
        """The convolution of rows whose product with `row_weight` is ``[rows, columns]``."""
        raise TypeError(f"{type(self).__name__} has no row_weight.")

    def input_weight(self) -> Tensor | None:
        """``[members, in_channels, out_channels]`` by which a `Level` may be multiplied already."""
        return None
