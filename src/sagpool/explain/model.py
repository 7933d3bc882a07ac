"""What can be explained: a module, or a model that knows its node features and classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import nn

from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary

BATCH_SIZE = 1024  # graphs in a forward pass


class GraphClassifier(Protocol):
    """A module with the names of its node features and classes, such as a `TrainedModel`."""

    @property
    def method(self) -> str: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    def module(self) -> nn.Module: ...


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
