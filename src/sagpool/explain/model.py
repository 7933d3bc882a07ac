"""What can be explained: a module, or a model that knows its node features and targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.explain.parts import Reasons
from sagpool.explain.target import Target
from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models.rescaled import Rescaled

BATCH_SIZE = 1024  # graphs in a forward pass


class Predicted(Protocol):
    """What a model predicts for some graphs."""

    @property
    def probabilities(self) -> np.ndarray: ...  # [graphs, classes or targets]

    @property
    def predicted(self) -> np.ndarray: ...  # [graphs], or [graphs, targets]

    @property
    def interval(self) -> np.ndarray | None: ...  # [graphs, targets, 2]

    @property
    def unlike(self) -> np.ndarray: ...  # [graphs] bool: unlike the training data


class Nets(Protocol):
    """Graph nets of one kind."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> int: ...


class GraphClassifier(Protocol):
    """A model with the names of its node features and classes, such as a `TrainedModel`.

    It may be an average of graph nets and simple models; ``module`` is the best net.
    """

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def novelty(self) -> object | None: ...  # None: nothing is known about the training data

    @property
    def net(self) -> Nets | None: ...

    @property
    def net_weight(self) -> float: ...

    def module(self) -> nn.Module: ...

    def predict_proba(self, graphs: Graphs) -> Predicted: ...

    def reasons(
        self,
        graphs: Graphs,
        target: Target,
        predicted: np.ndarray,
        molecules: Sequence[str | None],
    ) -> Reasons | None: ...


def module_and_graphs(
    model: GraphClassifier | nn.Module, graphs: Graphs
) -> tuple[nn.Module, Graphs]:
    """The module, and the graphs with their features and classes in the order it expects."""
    if isinstance(model, nn.Module):
        return model, graphs
    return model.module(), model.vocabulary.fit(graphs).graphs


def target_of(model: GraphClassifier | nn.Module, graphs: Graphs, wanted: str | None) -> Target:
    """The target of this name, by default the first one; a module's are those of the graphs."""
    if not isinstance(model, nn.Module):
        return Target.of(model.vocabulary.task, model.vocabulary.target_names, wanted)
    task = "regression" if isinstance(model, Rescaled) else graphs.task
    if task != "classification" and not graphs.target_names:
        raise SagpoolError(
            f"{graphs.name} has no targets, so what the module predicts has no names: give a "
            "TrainedModel, or Graphs with targets."
        )
    return Target.of(task, graphs.target_names, wanted)


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
