"""Trees as flat arrays, and their prediction in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.classifier.simple.link import Link, apply_link
from sagpool.classifier.simple.saved import Arrays, take
from sagpool.errors import SagpoolError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CHUNK = 2**24  # most numbers in a dense part of the matrix


class Step(NamedTuple):
    """Graphs that go from a node of a tree to one of its children."""

    graph: np.ndarray  # [moved]
    node: np.ndarray  # [moved]
    child: np.ndarray  # [moved]


@dataclass(frozen=True)
class Forest:
    """Trees in preorder, one after the other: the left child follows its parent.

    A graph goes left where its column is at most the threshold. The raw output is the bias plus the
    mean, over the trees of that output, of the values at the leaves.
    """

    column: np.ndarray  # [nodes] int32; -1 is a leaf
    threshold: np.ndarray  # [nodes] float32
    right: np.ndarray  # [nodes] int32, the right child; 0 for a leaf
    value: np.ndarray  # [nodes, width] float32, of inner nodes as well
    roots: np.ndarray  # [trees] int64
    output: np.ndarray  # [trees] int32, the first of the outputs that each tree predicts
    bias: np.ndarray  # [outputs] float64
    link: Link

    @staticmethod
    def from_saved(arrays: Arrays, columns: int, outputs: int, link: Link) -> Forest:
        column = take(arrays, "column", np.int32, None)
        nodes = len(column)
        forest = Forest(
            column,
            take(arrays, "threshold", np.float32, nodes),
            take(arrays, "right", np.int32, nodes),
            take(arrays, "value", np.float32, nodes, None),
            take(arrays, "roots", np.int64, None),
            take(arrays, "output", np.int32, None),
            take(arrays, "bias", np.float64, outputs),
            link,
        )
        forest._check(columns)
        return forest

    def to_saved(self) -> dict[str, np.ndarray]:
        names = ("column", "threshold", "right", "value", "roots", "output", "bias")
        return {name: getattr(self, name) for name in names}

    def predict(self, matrix: np.ndarray | csr_array) -> np.ndarray:
        """``[graphs, outputs]`` float64."""
        total = np.zeros((matrix.shape[0], len(self.bias)))
        width = self.value.shape[1]
        for rows, dense in dense_parts(matrix):
            for root, first in zip(self.roots.tolist(), self.output.tolist(), strict=True):
                leaf = np.full(len(dense), root)
                for step in self.steps(dense, root):
                    leaf[step.graph] = step.child
                total[rows, first : first + width] += self.value[leaf]
        trees = np.array([len(self._trees(output)) for output in range(len(self.bias))])
        return apply_link(total / trees + self.bias, self.link)

    def amounts(self, matrix: np.ndarray, output: int) -> np.ndarray:
        """The amount that each column adds to a raw output, ``[graphs, columns]`` float64.

        From node to node on its way to a leaf, the value of a graph changes; each change belongs to
        the column that the node tests (Saabas' method). The changes of all trees, divided by their
        number, add up to the raw output minus `base`.
        """
        amounts = np.zeros(matrix.shape)
        trees = self._trees(output)
        for tree in trees:
            own = output - int(self.output[tree])
            for step in self.steps(matrix, int(self.roots[tree])):
                # A graph is in a single node, so no pair of a graph and a column occurs twice.
                change = self.value[step.child, own].astype(np.float64)
                change -= self.value[step.node, own]
                amounts[step.graph, self.column[step.node]] += change / len(trees)
        return amounts

    def base(self, output: int) -> float:
        """The mean value of the roots, plus the bias."""
        trees = self._trees(output)
        column = output - int(self.output[trees[0]])
        return float(
            self.value[self.roots[trees], column].mean(dtype=np.float64) + self.bias[output]
        )

    def _trees(self, output: int) -> np.ndarray:
        width = self.value.shape[1]
        return np.flatnonzero((self.output <= output) & (output < self.output + width))

    def steps(self, dense: np.ndarray, root: int) -> Iterator[Step]:
        """All steps from the root to the leaves of one tree, level by level."""
        graph = np.arange(len(dense))
        node = np.full(len(dense), root)
        while True:
            column = self.column[node]
            inner = column >= 0
            if not inner.all():
                graph, node, column = graph[inner], node[inner], column[inner]
            if not len(graph):
                return
            goes_left = dense[graph, column] <= self.threshold[node]
            child = np.where(goes_left, node + 1, self.right[node])
            yield Step(graph, node, child)
            node = child

    def _check(self, columns: int) -> None:
        """Check that every path ends inside its own tree, and that every output has a tree."""
        nodes, width = self.value.shape
        ends = np.append(self.roots[1:], nodes)
        ordered = len(self.roots) and self.roots[0] == 0 and (ends > self.roots).all()
        if not ordered or len(self.output) != len(self.roots):
            raise SagpoolError(
                "A simple model is damaged: the roots of its trees are not in order."
            )
        inner = np.flatnonzero(self.column >= 0)
        end = np.repeat(ends, ends - self.roots)[inner]
        right = self.right[inner]
        if ((right <= inner + 1) | (right >= end)).any():
            raise SagpoolError(
                "A simple model is damaged: a child in a tree is not after its parent."
            )
        if (self.column >= columns).any() or (self.column < -1).any():
            raise SagpoolError(
                "A simple model is damaged: a tree asks for a column that is not there."
            )
        starts = range(0, len(self.bias), width) if width else range(0)
        if width not in (1, len(self.bias)) or set(self.output.tolist()) != set(starts):
            raise SagpoolError("A simple model is damaged: its trees do not fit its outputs.")


def dense_parts(matrix: np.ndarray | csr_array) -> Iterator[tuple[slice, np.ndarray]]:
    """The rows of a matrix, in parts that are small enough to be dense."""
    step = max(1, CHUNK // max(matrix.shape[1], 1))
    for start in range(0, matrix.shape[0], step):
        rows = slice(start, min(start + step, matrix.shape[0]))
        part = matrix[rows]
        yield rows, part if isinstance(part, np.ndarray) else part.toarray()
