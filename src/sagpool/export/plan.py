"""`Plan`: a trained model as JSON values and arrays, which the runtime can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import sagpool
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.novelty import MOST_COLUMNS
from sagpool.classifier.parts import NetPart, Part
from sagpool.export.features import describe_features
from sagpool.export.parts import describe_nets, describe_simple
from sagpool.export.runtime.inputs import FRAGMENTS
from sagpool.fleet.metrics import LEAST


@dataclass(frozen=True, eq=False)
class Plan:
    """The computation (`sagpool.export.runtime.model.forward`) and its weights.

    Args:
        description: JSON values
        arrays: the weights, by the names in the description
        metadata: JSON values for people and for programs that use the file
    """

    description: dict[str, Any]
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


def plan_of(model: TrainedModel) -> Plan:
    """The plan of a model; an error says what cannot be exported."""
    arrays: dict[str, np.ndarray] = {}
    features = describe_features(model.vocabulary)
    parts = [
        _part(model, number, part, arrays) | {"mixture": weight}
        for number, (part, weight) in enumerate(zip(model.parts, model.mixture, strict=True))
    ]
    counted = [block["kind"] for part in parts for block in part.get("features", ())]
    if "environments" in counted:
        features["inputs"] |= dict.fromkeys(FRAGMENTS, 0)
    description = {
        **features,
        "names": list(model.output_names),
        "task": model.task,
        "parts": parts,
        "kept": None if model.net is None else model.parts.index(model.net),
        "temperature": model.temperature,
        "least": LEAST,
        "decision": None if model.decision is None else list(model.decision),
        "conformal": _bounds(model),
        "novelty": _novelty(model, arrays),
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
    """The conformal thresholds; without a threshold, a set or an interval contains everything."""
    if model.conformal is None:
        return None
    everything = np.inf if model.task == "regression" else 1.0
    return [everything if one is None else one for one in model.conformal.thresholds]


def _part(
    model: TrainedModel, number: int, part: Part, arrays: dict[str, np.ndarray]
) -> dict[str, Any]:
    prefix = f"part {number}."
    if isinstance(part, NetPart):
        return describe_nets(part, model.task, prefix, arrays)
    return describe_simple(part, prefix, arrays)


def _novelty(model: TrainedModel, arrays: dict[str, np.ndarray]) -> dict[str, Any] | None:
    """Mean descriptors of the training graphs, if the model has them."""
    if model.novelty is None:
        return None
    arrays["novelty.mean"], arrays["novelty.root"] = model.novelty.mean, model.novelty.root
    labels = len(model.vocabulary.node_labels)
    return {
        "mean": "novelty.mean",
        "root": "novelty.root",
        "threshold": model.novelty.threshold,
        "attributes": min(model.vocabulary.attributes, MOST_COLUMNS),
        "labels": min(labels, MOST_COLUMNS) + 1 if labels else 0,
    }
