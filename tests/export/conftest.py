"""Models with random weights, whose probabilities differ from graph to graph."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sagpool import load
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import NetPart
from sagpool.graphs import Graphs, pack
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build


@pytest.fixture(scope="session")
def mutag() -> Graphs:
    return load("MUTAG")


@pytest.fixture(scope="session")
def everything() -> Graphs:
    return load("MUTAG", "all")


@pytest.fixture(scope="session")
def new_part():
    def make(graphs: Graphs, method: str, *, members: int = 1, k: Any = 6, **other: Any) -> NetPart:
        """Nets with random weights whose logits have a spread of 1."""
        torch.manual_seed(len(method))
        outputs = graphs.num_classes or len(graphs.target_names)
        shape = Shape(graphs.num_features, outputs, hidden=6, k=k, max_nodes=28, **other)
        module = build(method, replace(shape, members=members)).eval()
        ids = np.broadcast_to(np.arange(len(graphs)), (members, len(graphs)))
        with torch.no_grad():
            logits = module(pack(graphs, ids)).logits[:, :-1]
            last = getattr(module, "model", module).classifier.last
            # Not magnified without bound: rounding would be, too.
            spread = logits.std(1, keepdim=True).clamp(min=1e-2)
            last.weight /= spread
            last.bias.copy_((last.bias - logits.mean(1, keepdim=True)) / spread)
        return NetPart(method, shape, dict(module.state_dict()))

    return make


@pytest.fixture(scope="session")
def new_model():
    def make(graphs: Graphs, *parts: Any, **fields: Any) -> TrainedModel:
        """A mixture with equal weights."""
        mixture = tuple(1 / len(parts) for _ in parts)
        return TrainedModel(Vocabulary.of(graphs), tuple(parts), mixture, **fields)

    return make
