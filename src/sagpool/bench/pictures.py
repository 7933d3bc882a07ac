"""Traces of a few test graphs of a run, stored to be drawn later."""

import numpy as np
import torch

from sagpool.explain import Trace, explain_many
from sagpool.fleet import Result
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Graphs
from sagpool.models import build

GRAPHS = 3
MOST_NODES = 40  # larger graphs are unreadable in a small picture


def traces_of(graphs: Graphs, result: Result) -> list[Trace]:
    """Traces of a few test graphs.

    There are none for diverged runs, methods that keep no nodes, and graphs without classes, whose
    traces cannot be stored.
    """
    if result.weights is None or not result.best_epoch or graphs.task != "classification":
        return []
    parts = split_of(graphs, result.training)
    model = build(result.training.method, shape_of(graphs, result.training))
    model.load_state_dict(result.weights)
    precision = next(iter(result.weights.values())).dtype
    traces = explain_many(model.to(precision), graphs, _typical(graphs, parts.test))
    return [trace for trace in traces if trace.levels]


def _typical(graphs: Graphs, numbers: np.ndarray) -> list[int]:
    """The graphs closest to the median size, alternating between the classes."""
    sizes = graphs.node_counts[numbers]
    wanted = min(float(np.median(sizes)), MOST_NODES)
    assert graphs.y is not None
    classes = graphs.y.cpu()[torch.from_numpy(numbers)].numpy()
    nearest = np.argsort(np.abs(sizes - wanted), kind="stable")
    rank = np.empty(len(numbers), np.int64)  # rank of each graph within its class
    for one in np.unique(classes):
        of_class = nearest[classes[nearest] == one]
        rank[of_class] = np.arange(len(of_class))
    return numbers[np.lexsort((classes, rank))[:GRAPHS]].tolist()
