"""What can be explained: a module, or a model that knows its node features and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from torch import nn

from sagpool.explain.parts import Reasons
from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary

BATCH_SIZE = 1024  # graphs in a forward pass


class Predicted(Protocol):
    """What a model says about some graphs."""

    @property
    def probabilities(self) -> np.ndarray: ...  # [graphs, classes]

    @property
    def predicted(self) -> np.ndarray: ...  # [graphs]


class Nets(Protocol):
    """Graph nets of one kind."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> int: ...


class GraphClassifier(Protocol):
    """A model with the names of its node features and classes, such as a `TrainedModel`.

    It may be an average of graph nets, of which ``module`` is the best, and of simple models.
    """

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def net(self) -> Nets | None: ...

    @property
    def net_weight(self) -> float: ...

    def module(self) -> nn.Module: ...

    def predict_proba(self, graphs: Graphs) -> Predicted: ...

    def reasons(
        self, graphs: Graphs, outputs: np.ndarray, molecules: Sequence[str | None]
    ) -> Reasons | None: ...


def module_and_graphs(
    model: GraphClassifier | nn.Module, graphs: Graphs
) -> tuple[nn.Module, Graphs]:
    """The module, and the graphs with their features and classes in the order it expects."""
    if isinstance(model, nn.Module):
        return model, graphs
    return model.module(), model.vocabulary.fit(graphs).graphs


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put all layers into evaluation mode, and restore the mode of each of them at the end."""
    modes = [(layer, layer.training) for layer in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training
