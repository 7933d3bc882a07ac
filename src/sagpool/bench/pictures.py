"""Which graphs of a run are kept to be drawn."""

import numpy as np
import torch

from sagpool.explain import Trace, explain_many
from sagpool.fleet import Result
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Graphs
from sagpool.models import build

GRAPHS = 3
MOST_NODES = 40  # of more, a small picture shows nothing


def traces_of(graphs: Graphs, result: Result) -> list[Trace]:
    """How the run's model pooled a few of its test graphs; nothing for one that keeps no nodes."""
    if result.weights is None or not result.best_epoch:
        return []
    parts = split_of(graphs, result.training)
    model = build(result.training.method, shape_of(graphs, result.training, parts))
    model.load_state_dict(result.weights)
    precision = next(iter(result.weights.values())).dtype
    traces = explain_many(model.to(precision), graphs, _typical(graphs, parts.test))
    return [trace for trace in traces if trace.levels]


def _typical(graphs: Graphs, among: np.ndarray) -> list[int]:
    """Graphs of about the median size, of each class in turn."""
    sizes = graphs.node_counts[among]
    wanted = min(float(np.median(sizes)), MOST_NODES)
    assert graphs.y is not None
    classes = graphs.y.cpu()[torch.from_numpy(among)].numpy()
    nearest = np.argsort(np.abs(sizes - wanted), kind="stable")
    turn = np.empty(len(among), np.int64)  # how many of its class come before it
    for one in np.unique(classes):
        of_class = nearest[classes[nearest] == one]
        turn[of_class] = np.arange(len(of_class))
    return among[np.lexsort((classes, turn))[:GRAPHS]].tolist()
