"""The columns of a simple model: one or more kinds of features of whole graphs, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.counts import Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.saved import Arrays, Saved, below, prefixed
from sagpool.classifier.simple.subtrees import Subtrees
from sagpool.errors import SagpoolError
from sagpool.graphs.graphs import Graphs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Block = Counts | Subtrees | Environments
Kind = type[Counts] | type[Subtrees] | type[Environments]


@dataclass(frozen=True)
class Features:
    """Blocks of columns; the first block may be dense."""

    blocks: tuple[Block, ...]
    # Whether sparse counts are logarithms: for linear models, further occurrences say less.
    logarithmic: bool

    @staticmethod
    def fit(kinds: tuple[Kind, ...], graphs: Graphs, logarithmic: bool) -> Features:
        """The columns for graphs like the training graphs."""
        return Features(tuple(kind.fit(graphs) for kind in kinds), logarithmic)

    @staticmethod
    def from_saved(
        kinds: tuple[Kind, ...], config: list[Any], arrays: Arrays, logarithmic: bool
    ) -> Features:
        if len(config) != len(kinds):
            raise SagpoolError("A simple model is damaged: it has features of another model.")
        entries = enumerate(zip(kinds, config, strict=True))
        blocks = [
            kind.from_saved(one, below(str(number), arrays)) for number, (kind, one) in entries
        ]
        return Features(tuple(blocks), logarithmic)

    def to_saved(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        saved: list[Saved] = [block.to_saved() for block in self.blocks]
        arrays: dict[str, np.ndarray] = {}
        for number, one in enumerate(saved):
            arrays |= prefixed(str(number), one.arrays)
        return [one.config for one in saved], arrays

    @property
    def dense(self) -> int:
        """Number of leading columns that are dense."""
        first = self.blocks[0]
        return len(first.names()) if isinstance(first, Counts) else 0

    def names(self) -> list[str]:
        """What each column counts."""
        return [name for names in self._names for name in names]

    @cached_property
    def _names(self) -> list[list[str]]:
        """The names of each block; there may be many thousands."""
        return [block.names() for block in self.blocks]

    def block_of(self, column: int) -> tuple[Block, int]:
        """The block of a column, and its number in the block."""
        for block, names in zip(self.blocks, self._names, strict=True):
            width = len(names)
            if column < width:
                return block, column
            column -= width
        raise IndexError(column)

    def name_of(self, column: int) -> str:
        """What one column counts."""
        block, own = self.block_of(column)
        return self._names[self.blocks.index(block)][own]

    def value_of(self, column: int, value: float) -> float:
        """The count behind a number of the matrix, before its logarithm was taken."""
        sparse = not isinstance(self.block_of(column)[0], Counts)
        return float(np.rint(np.expm1(value))) if self.logarithmic and sparse else value

    def matrix(self, graphs: Graphs) -> np.ndarray | csr_array:
        """``[graphs, columns]`` float32."""
        from scipy.sparse import csr_array, hstack

        parts = [block.matrix(graphs) for block in self.blocks]
        if self.logarithmic:
            parts = [part if isinstance(part, np.ndarray) else part.log1p() for part in parts]
        if len(parts) == 1:
            return parts[0]
        return hstack([csr_array(part) for part in parts], format="csr")
