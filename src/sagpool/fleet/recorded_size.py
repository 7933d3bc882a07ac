"""How many rows and entries a recording has, and for which batches it is used."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sagpool.graphs import Graphs

# A recording has room for a batch this many standard deviations above the mean, and for this
# multiple of the batch it is made for: padding takes less time than another recording.
DEVIATIONS, SPARE = 3.5, 1.05
# A recording that is larger than this multiple of a batch with many rows is not worth replaying.
MAX_SPARE = 1.2
FEW_ROWS = 2**19


class Spread(NamedTuple):
    """Mean and standard deviation over graphs."""

    mean: float
    deviation: float

    @staticmethod
    def of(counts: np.ndarray) -> "Spread":
        return Spread(float(counts.mean()), float(counts.std()))

    def largest(self, graphs: int) -> float:
        """An upper bound of the sum over this many random graphs, which few batches exceed."""
        return graphs * self.mean + DEVIATIONS * graphs**0.5 * self.deviation


class GraphSizes(NamedTuple):
    """Mean and spread of the sizes of the graphs that batches are made of."""

    nodes: Spread
    entries: Spread

    @staticmethod
    def of(graphs: Graphs, chosen: np.ndarray | slice = slice(None)) -> "GraphSizes":
        entries = graphs.batch_source.counts
        return GraphSizes(Spread.of(graphs.node_counts[chosen]), Spread.of(entries[chosen]))


class RecordedSize(NamedTuple):
    """The sizes of the batches of a recording; see `DeviceBatches`."""

    shapes: tuple[tuple[int, int], ...]
    rows: tuple[int, ...]
    entries: tuple[int, ...]
    limits: tuple[int | None, ...]  # largest k of each pooling layer, None for layers without a k

    @property
    def total_rows(self) -> int:
        return sum(
            rows * members for rows, (members, _) in zip(self.rows, self.shapes, strict=True)
        )

    @property
    def is_large(self) -> bool:
        """Whether padding, and memory, matter."""
        return self.total_rows > FEW_ROWS * len(self.shapes)

    def fits(self, needed: "RecordedSize") -> bool:
        """Whether the padding is sufficient and not excessive."""
        return (
            self.shapes == needed.shapes
            and self.limits == needed.limits
            and all(a >= b for a, b in zip(self.rows, needed.rows, strict=True))
            and all(a >= b for a, b in zip(self.entries, needed.entries, strict=True))
            and (not self.is_large or self.total_rows <= MAX_SPARE * needed.total_rows)
        )

    def with_spare(self, of_a_graph: GraphSizes) -> "RecordedSize":
        """Enlarged to fit most later batches, unless that is too much padding."""
        large = self._enlarged(
            [of_a_graph.nodes.largest(graphs) for _, graphs in self.shapes],
            [of_a_graph.entries.largest(members * graphs) for members, graphs in self.shapes],
        )
        none = [0.0] * len(self.shapes)
        return large if large.fits(self) else self._enlarged(none, none)

    def _enlarged(self, rows: Sequence[float], entries: Sequence[float]) -> "RecordedSize":
        """At least these sizes, rounded up, and equal for all batches of one shape."""

        def enlarged(own: Sequence[int], least: Sequence[float]) -> tuple[int, ...]:
            most: dict[tuple[int, int], int] = {}
            for shape, count in zip(self.shapes, own, strict=True):
                most[shape] = max(count, most.get(shape, 0))
            return tuple(
                _rounded(max(SPARE * most[shape], count))
                for shape, count in zip(self.shapes, least, strict=True)
            )

        return self._replace(
            rows=enlarged(self.rows, rows), entries=enlarged(self.entries, entries)
        )


def _rounded(count: float) -> int:
    return -(-int(count) // 64) * 64
