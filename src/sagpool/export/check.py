"""Compares an exported model with our own predictor, graph by graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import NetPart
from sagpool.errors import SagpoolError
from sagpool.export.parts import groups_of
from sagpool.export.plan import Plan
from sagpool.export.runtime.arrays import NumpyArrays
from sagpool.export.runtime.model import forward
from sagpool.export.samples import Sample, inputs_of
from sagpool.graphs import Graphs, pack
from sagpool.nn import Streams

TOLERANCE = 1e-5  # largest allowed difference of a probability
# Scores that differ by less than this fraction of the largest score differ only by rounding.
TIE = 1e-5

Run = Callable[[dict[str, Any]], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Agreement:
    """How well an exported model agrees with ours.

    Args:
        graphs: number of compared graphs
        largest: the largest difference of a probability, without ties
        ties: number of graphs in which nodes have the same score up to rounding, and another one of
            them is kept; with our choice of nodes, these agree as well
    """

    graphs: int
    largest: float
    ties: int


def compare(model: TrainedModel, plan: Plan, run: Run, samples: Iterable[Sample]) -> Agreement:
    """Run both on all samples; raises an error with the largest difference if it is too large."""
    predict = model.predictor()
    graphs = ties = 0
    largest = 0.0
    for sample in samples:
        ours = predict(sample.graphs).probabilities
        outputs = run(sample.inputs)
        theirs = outputs[_compared_output(model)].astype(np.float64)
        scale = np.maximum(1, np.abs(ours)) if model.task == "regression" else 1
        difference = np.nan_to_num(np.abs(theirs - ours) / scale, nan=np.inf).max(1)
        for number in np.flatnonzero(difference > TOLERANCE).tolist():
            with_ours = _difference_of_tie(model, plan, sample, number)
            if with_ours <= TOLERANCE:
                ties += 1
                difference[number] = with_ours
        graphs += len(ours)
        largest = max(largest, float(difference.max()))
    if largest > TOLERANCE:
        raise SagpoolError(
            f"The exported model does not agree with the model: probabilities of {graphs} graphs "
            f"differ by up to {largest:.1e}, more than {TOLERANCE:.0e}. No file was written."
        )
    return Agreement(graphs, largest, ties)


def _difference_of_tie(model: TrainedModel, plan: Plan, sample: Sample, number: int) -> float:
    """The difference on one graph if ties of scores are broken as our model breaks them.

    Both predict the graph alone: in another batch, ours may break ties differently.
    """
    graph = sample.graphs[[number]]
    fitted = model.vocabulary.fit(graph).graphs
    choices = [
        rows
        for part in model.parts
        if isinstance(part, NetPart)
        for rows in _kept_rows(part, fitted)
    ]
    if not choices:
        return np.inf  # no nodes are selected
    ops = PrescribedArrays(plan.arrays, choices)
    outputs = forward(ops, plan.description, inputs_of([sample.records[number]], plan))
    ours = model.predict_proba(graph).probabilities
    return float(np.abs(outputs[_compared_output(model)] - ours).max())


def _compared_output(model: TrainedModel) -> str:
    """The name of the output that is compared."""
    return "values" if model.task == "regression" else "probabilities"


class PrescribedArrays(NumpyArrays):
    """Operations that break ties of scores as prescribed.

    Args:
        weights: weights of the model
        choices: ``[rows]`` bool for each selection, in the order of the forward pass: the rows that
            win ties
    """

    def __init__(self, weights: dict[str, np.ndarray], choices: list[np.ndarray]) -> None:
        super().__init__(weights)
        self.choices = choices

    def by_falling(self, x: Any) -> Any:
        if self.choices and len(self.choices[0]) == len(x):
            x = x + TIE * np.abs(x).max() * self.choices.pop(0)
        return super().by_falling(x)


def _kept_rows(part: NetPart, graph: Graphs) -> list[np.ndarray]:
    """The rows that our own nets keep of one graph: for each group of members, level by level.

    All members are in one batch, as in a prediction: alone, they might break ties differently.
    Each mask is ``[members of the group * rows]`` bool.
    """
    members = part.members
    batch = pack(graph, np.zeros((members, 1), np.int64))
    with torch.no_grad():
        output = part.module()(batch, Streams(torch.zeros(members, dtype=torch.int64)))
    levels, layout = list[list[np.ndarray]](), batch.structure.layout
    for level in output.levels:
        if level.presence is None:
            mask = np.zeros(layout.total_rows, bool)
            mask[level.perm.numpy()] = True
            # The last rows of each member belong to the filler graph.
            pairs = zip(mask.reshape(members, -1), layout.sizes[:, 0], strict=True)
            levels.append([of_member[:rows] for of_member, rows in pairs])
        layout = level.structure.layout
    return [
        np.concatenate([of_members[member] for member in group])
        for group in groups_of(part)
        for of_members in levels
    ]
