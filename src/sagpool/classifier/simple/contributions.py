"""Which columns moved the prediction for a graph, and which of its nodes they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.classifier.simple.subtrees import Subtrees
from sagpool.graphs.graphs import Graphs

if TYPE_CHECKING:
    from sagpool.classifier.simple.features import Features


class Contribution(NamedTuple):
    """The amount that one column added to the output of a graph."""

    name: str  # name of the column, in words
    value: float  # value of the column for this graph
    amount: float
    nodes: tuple[int, ...]  # nodes of the graph that the column counts, if known


class Explained(NamedTuple):
    """An output of one graph as a sum: ``base + amounts of top + rest``.

    For a regression and for a forest the sum is the value or the probability itself. For linear and
    boosted models of classes it is a logit; for a linear model with more than two classes, the
    logit minus the mean of all logits. ``base`` is the output for the mean training graph (linear
    models), or the mean output over all training graphs (trees).
    """

    output: int
    base: float
    top: tuple[Contribution, ...]  # the largest absolute amounts first
    rest: float


class Importance(NamedTuple):
    """How much a column moves the outputs, on average over graphs."""

    name: str
    amount: float  # mean absolute contribution


def explained(
    features: Features,
    graph: Graphs,
    values: np.ndarray,
    amounts: np.ndarray,
    most: int,
    words: dict[str, str],
) -> Iterator[Contribution]:
    """The columns with the largest amounts.

    Args:
        features: the meaning of the columns
        graph: a single graph
        values: ``[columns]``
        amounts: ``[columns]``
        most: most columns to return
        words: descriptions by column name; those of the subtrees of this graph are added
    """
    for column in largest(amounts, most):
        block, own = features.block_of(column)
        nodes = block.nodes(graph, own)
        name = features.name_of(column)
        if isinstance(block, Subtrees) and len(nodes):
            words[name] = subtree_in_words(graph, int(nodes[0]), block.steps(graph, own))
        value = features.value_of(column, float(values[column]))
        yield Contribution(name, value, float(amounts[column]), tuple(nodes.tolist()))


def in_words(one: Explained, words: Mapping[str, str]) -> Explained:
    """The same with descriptions instead of column names, where known."""
    top = (column._replace(name=words.get(column.name, column.name)) for column in one.top)
    return one._replace(top=tuple(top))


def largest(amounts: np.ndarray, most: int) -> list[int]:
    """The columns with the largest absolute amounts, without zeros."""
    order = np.argsort(-np.abs(amounts), kind="stable")[:most]
    return [int(column) for column in order if amounts[column]]


def subtree_in_words(graph: Graphs, root: int, steps: int) -> str:
    """A description such as ``C with C, C, O within 1 step``, for the labels of a single graph."""
    distance = {root: 0}
    ptr, col = graph.row_ptr.tolist(), graph.col.tolist()
    queue = [root]
    for node in queue:  # grows during the loop
        if distance[node] == steps:
            break
        for other in col[ptr[node] : ptr[node + 1]]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    found = Counter(_label(graph, node) for node in queue[1:])
    around = ", ".join(f"{count} × {label}" for label, count in sorted(found.items()))
    within = f"within {steps} step{'s' * (steps > 1)}"
    return f"{_label(graph, root)} with {around} {within}" if around else _label(graph, root)


def _label(graph: Graphs, node: int) -> str:
    if graph.node_label is None:
        return "node"
    number = int(graph.node_label[node])
    return graph.node_label_names[number] if number >= 0 else "unknown"
