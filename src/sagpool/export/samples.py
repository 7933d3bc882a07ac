"""Graphs to compare an exported model on, with the inputs that a caller would pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sagpool.export.plan import Plan
from sagpool.graphs import Graphs

BATCH = 256  # graphs


class Sample(NamedTuple):
    """Some graphs, for our own predictor and for the exported model."""

    graphs: Graphs
    inputs: dict[str, Any]

    def one(self, number: int) -> dict[str, Any]:
        """The inputs of one of the graphs."""
        ends = np.cumsum(self.inputs["sizes"])
        stop = int(ends[number])
        start = stop - int(self.inputs["sizes"][number])
        edges = self.inputs["edges"]
        inside = (edges[:, 0] >= start) & (edges[:, 0] < stop)
        own = {name: self.inputs[name][start:stop] for name in ("labels", "features") if name in self.inputs}
        return own | {"sizes": np.array([stop - start]), "edges": edges[inside] - start}
