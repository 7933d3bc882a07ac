"""`Plan`: a trained model as JSON values and arrays, which the runtime can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import sagpool
from sagpool.classifier.calibration import LEAST
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import NetPart, Part
from sagpool.errors import SagpoolError
from sagpool.export.parts import describe_nets
from sagpool.graphs.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Plan:
    """What is computed (`sagpool.export.runtime.model.forward`), with which weights.

    Args:
        description: JSON values
        arrays: the weights, by the names in the description
        metadata: JSON values for people and for programs that use the file
    """

    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


def plan_of(model: TrainedModel) -> Plan:
    """The plan of a model; an error that says what cannot be exported."""
    arrays: dict[str, np.ndarray] = {}
    parts = [
        _part(model, number, part, arrays) | {"mixture": weight}
        for number, (part, weight) in enumerate(zip(model.parts, model.mixture, strict=True))
        if weight
    ]
    description = {
        **_inputs(model.vocabulary),
        "names": list(model.output_names),
        "task": model.task,
        "parts": parts,
        "kept": None if model.net is None else model.parts.index(model.net),
        "temperature": model.temperature,
        "least": LEAST,
        "decision": None if model.decision is None else list(model.decision),
        "conformal": _bounds(model),
        "novelty": None,
    }
    metadata = {
        "sagpool": sagpool.__version__,
        "model": model.name,
        "task": model.task,
        "names": list(model.output_names),
        "node_labels": description["labels"],
        "inputs": description["inputs"],
        "coverage": None if model.conformal is None else model.conformal.coverage,
    }
    return Plan(description, arrays, metadata)


def _bounds(model: TrainedModel) -> list[float] | None:
    """The conformal thresholds; where there is none, a set or an interval contains everything."""
    if model.conformal is None:
        return None
    everything = np.inf if model.task == "regression" else 1.0
    return [everything if one is None else one for one in model.conformal.thresholds]


def _inputs(vocabulary: Vocabulary) -> dict[str, Any]:
    """Which inputs there are (with their numbers of columns), and the columns made of them."""
    is_degree = vocabulary.feature_kind == "degree"
    groups: list[dict[str, Any]] = []
    inputs = {} if is_degree or not vocabulary.node_labels else {"labels": 0}
    if vocabulary.attributes:
        inputs["features"] = vocabulary.attributes
        groups.append({"kind": "attributes"})
    return {
        "inputs": inputs,
        "labels": list(vocabulary.node_labels),
        "label_is_degree": is_degree,
        "groups": groups,
        "edge_groups": [],
    }


def _part(
    model: TrainedModel, number: int, part: Part, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    prefix = f"part {number}."
    if isinstance(part, NetPart):
        return describe_nets(part, model.task, prefix, arrays)
    raise SagpoolError(f"{part.name} cannot be exported: it is not a graph net.")
