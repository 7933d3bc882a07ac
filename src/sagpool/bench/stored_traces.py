"""Traces in the form of a run store, checked before they become pictures."""

import math
from typing import Any, NamedTuple

from sagpool.explain import Trace
from sagpool.foreign.values import DecodingError, decode


class _Mask(NamedTuple):
    kept: list[int]
    score: list[float] | None


class _Level(NamedTuple):
    kept: list[int]
    score: list[float] | None
    masks: tuple[_Mask, ...] = ()


class _StoredTrace(NamedTuple):
    """The values of `Trace.to_json`."""

    name: str
    number: int
    num_nodes: int
    edges: list[list[int]]
    node_labels: list[str]
    class_names: list[str]
    true_class: int | None
    probabilities: list[float]
    ground_truth: list[int] | None
    levels: list[_Level]
    title: str | None = None
    molecule: str | None = None


def read_traces(entries: Any) -> list[Trace]:
    """The traces of a run; an error if a trace names a node or a class that does not exist."""
    return [_trace(one) for one in decode(list[_StoredTrace], entries, "the traces")]


def _trace(stored: _StoredTrace) -> Trace:
    nodes, classes = range(stored.num_nodes), range(len(stored.class_names))
    named = [*(stored.ground_truth or ()), *(end for edge in stored.edges for end in edge)]
    every: list[_Level | _Mask] = [*stored.levels]
    every += [mask for level in stored.levels for mask in level.masks]
    for level in every:
        named += level.kept
        if level.score is not None and len(level.score) != len(level.kept):
            raise DecodingError("a trace has another number of scores than of kept nodes")
        if any(one >= other for one, other in zip(level.kept, level.kept[1:], strict=False)):
            raise DecodingError("the kept nodes of a trace are not in ascending order")
    if any(len(edge) != 2 for edge in stored.edges):
        raise DecodingError("an edge of a trace has not two ends")
    if any(node not in nodes for node in named):
        raise DecodingError("a trace names a node that is not in its graph")
    if len(stored.node_labels) != stored.num_nodes:
        raise DecodingError("a trace has another number of labels than of nodes")
    if len(stored.probabilities) != len(classes) or not classes:
        raise DecodingError("a trace has another number of probabilities than of classes")
    if not all(math.isfinite(value) for value in stored.probabilities):
        raise DecodingError("a probability of a trace is not a finite number")
    if stored.true_class is not None and stored.true_class not in classes:
        raise DecodingError("a trace names a class that is not there")
    levels = [
        {**level._asdict(), "masks": [mask._asdict() for mask in level.masks]}
        for level in stored.levels
    ]
    return Trace.from_json({**stored._asdict(), "levels": levels})
