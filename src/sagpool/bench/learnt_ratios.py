"""The fraction of nodes that a model keeps, where it depends on the graph."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sagpool.explain import Trace, explain_many
from sagpool.fleet import Result
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.graphs import Graphs
from sagpool.models import build
from sagpool.nn.pool import pools_of
from sagpool.statistics import evenly_spaced

MOST_GRAPHS = 400
SIZES = 4  # groups of graphs of similar size, about equally large


class LearntRatio(NamedTuple):
    """The mean ratio over a group of test graphs, in the first run of a cell."""

    level: int  # counted from 1
    grouping: str  # size or class
    name: str  # name of the group: ``26 to 60``, or a class
    graphs: int
    ratio: float  # kept nodes as a fraction of the input nodes


def learnt_ratios(graphs: Graphs, result: Result) -> list[LearntRatio]:
    """Learnt ratios by size and by class; [] if the ratio is not learnt."""
    if result.weights is None or not result.best_epoch or graphs.task != "classification":
        return []
    model = build(result.training.method, shape_of(graphs, result.training))
    pools = pools_of(model)
    if not pools or not pools[0].learned:
        return []
    model.load_state_dict(result.weights)
    parts = split_of(graphs, result.training)
    tested = np.concatenate([parts.test, *parts.more_tests.values()])
    chosen = tested[evenly_spaced(len(tested), MOST_GRAPHS)]
    precision = next(iter(result.weights.values())).dtype
    traces = explain_many(model.to(precision), graphs, chosen)
    return list(_grouped(traces))


def _grouped(traces: Sequence[Trace]) -> Iterator[LearntRatio]:
    nodes = np.array([trace.num_nodes for trace in traces])
    ratio = np.array([[len(level.kept) for level in trace.levels] for trace in traces])
    ratio = ratio / nodes[:, None]  # [graphs, levels]
    order = np.argsort(nodes, kind="stable")
    of_size = [part for part in np.array_split(order, SIZES) if len(part)]
    groups = [("size", f"{nodes[p[0]]} to {nodes[p[-1]]}", p) for p in of_size]
    true = np.array([trace.true_class for trace in traces])
    names = traces[0].class_names
    groups += [("class", names[one], np.flatnonzero(true == one)) for one in np.unique(true)]
    for level in range(ratio.shape[1]):
        for kind, name, some in groups:
            yield LearntRatio(level + 1, kind, name, len(some), float(ratio[some, level].mean()))
