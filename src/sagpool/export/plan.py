"""`Plan`: a trained model as JSON values and arrays, which the runtime can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import sagpool
from sagpool.classifier.model import TrainedModel
from sagpool.export.layers import Describer


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
    vocabulary = model.vocabulary
    module = model.module()
    describer = Describer(module, "net.")
    net = describer.describe(module)
    part = {
        "mixture": 1.0,
        "members": 1,
        "outputs": model.shape.classes,
        "link": "softmax",
        "nets": [{"members": 1, "net": net}],
    }
    names = [] if vocabulary.feature_kind == "degree" or not vocabulary.node_labels else ["labels"]
    description = {
        "feature_kind": vocabulary.feature_kind,
        "labels": list(vocabulary.node_labels),
        "features": vocabulary.attributes,
        "inputs": names + (["features"] if vocabulary.attributes else []),
        "class_names": list(vocabulary.class_names),
        "task": "classification",
        "parts": [part],
        "kept": 0,
        "temperature": 1.0,
        "least": 1e-6,
        "decision": None,
        "conformal": None,
    }
    metadata = {
        "sagpool": sagpool.__version__,
        "method": model.method,
        "class_names": list(vocabulary.class_names),
        "feature_kind": vocabulary.feature_kind,
        "node_labels": list(vocabulary.node_labels),
        "features": vocabulary.attributes,
    }
    return Plan(description, describer.arrays, metadata)
