"""Counts of the Morgan environments of molecules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.classifier.simple.fragments import environment_name
from sagpool.classifier.simple.saved import Arrays, Saved, take_ascending
from sagpool.classifier.simple.sparse import Counted, frequent
from sagpool.errors import SagpoolError
from sagpool.graphs.graphs import Graphs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_COLUMNS = 4096


@dataclass(frozen=True)
class Environments:
    """The environments of the training molecules that are counted."""

    vocabulary: np.ndarray  # [columns] int64, ascending

    @staticmethod
    def fit(graphs: Graphs) -> Environments:
        """The environments that occur in at least two of the molecules."""
        return Environments(frequent(_counted(graphs), MOST_COLUMNS))

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> Environments:
        return Environments(take_ascending(arrays, "vocabulary"))

    def to_saved(self) -> Saved:
        return Saved({}, {"vocabulary": self.vocabulary})

    def names(self) -> list[str]:
        return [environment_name(number) for number in self.vocabulary.tolist()]

    def nodes(self, graph: Graphs, column: int) -> np.ndarray:
        """Empty: graphs do not store the atoms of their environments; see `fragments_of`."""
        return np.zeros(0, np.int64)

    def matrix(self, graphs: Graphs) -> csr_array:
        """``[graphs, columns]`` float32."""
        return _counted(graphs).columns(self.vocabulary)


def _counted(graphs: Graphs) -> Counted:
    # SciPy's column selection would allocate an array of all 2**32 columns.
    fragments = graphs.fragments
    if fragments is None:
        raise SagpoolError(
            f"{graphs.name} has no Morgan environments; the model was trained with molecules."
        )
    graph = np.repeat(np.arange(len(graphs)), np.diff(fragments.indptr))
    thing = fragments.indices.astype(np.int64)
    return Counted(graph, thing, fragments.data.astype(np.float32), len(graphs))
