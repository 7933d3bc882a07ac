"""The parts of a trained model: graph nets with one or more members, and simple models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.classifier.simple.contributions import Explained
from sagpool.errors import SagpoolError
from sagpool.explain.parts import Scale
from sagpool.fleet.evaluate import predict
from sagpool.graphs import Graphs
from sagpool.models import Shape
from sagpool.models.registry import build_for_weights

# The outputs of a part for fitted graphs, [graphs, outputs]: probabilities of the classes, of a 1
# for each task, or values of a regression.
Outputs = Callable[[Graphs], np.ndarray]


class FittedSimpleModel(Protocol):
    """The methods of `sagpool.classifier.simple.SimpleModel` that a part needs."""

    @property
    def name(self) -> str: ...

    @property
    def scale(self) -> Scale: ...

    def predict(self, graphs: Graphs) -> np.ndarray: ...

    def contributions(
        self, graphs: Graphs, outputs: np.ndarray, most: int
    ) -> tuple[Explained, ...]: ...

    def to_saved(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...


@dataclass(frozen=True, eq=False)
class NetPart:
    """Graph nets of one method and shape, whose outputs are averaged.

    Args:
        method: a registered name
        shape: shape of one member; ``k`` is ``[members, 1]`` if it differs between members
        weights: a state dict whose tensors have the members as their first dimension, the member
            with the lowest validation loss first
        name: name of the candidate; by default the method
    """

    method: str
    shape: Shape
    weights: dict[str, Tensor]
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.method)

    @staticmethod
    def stack(parts: Sequence[NetPart]) -> NetPart:
        """Parts with one member each as one part; all must have the same shapes of weights."""
        first = parts[0]
        keys = [part.shape.k for part in parts]
        k = first.shape.k if len(set(map(str, keys))) == 1 else np.array(keys)[:, None]
        weights = {name: torch.cat([p.weights[name] for p in parts]) for name in first.weights}
        return replace(first, shape=replace(first.shape, k=k), weights=weights)

    @property
    def members(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def best(self) -> NetPart:
        """The first member alone."""
        k = self.shape.k
        if isinstance(k, np.ndarray):
            k = int(k[0, 0])
        weights = {name: tensor[:1] for name, tensor in self.weights.items()}
        return replace(self, shape=replace(self.shape, k=k), weights=weights)

    def module(self, device: torch.device | str = "cpu") -> nn.Module:
        """All members as one module in evaluation mode, to be called with a packed batch."""
        model = build_for_weights(self.method, replace(self.shape, members=self.members))
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        model.load_state_dict(weights, assign=True)
        return model.to(device).eval()

    def outputs(self, device: torch.device | str = "cpu", batch_size: int | None = None) -> Outputs:
        """A function for many collections; the module is built only once.

        Without a ``batch_size``, each collection is one batch.
        """
        model = self.module(device)
        keys = torch.zeros(self.members, dtype=torch.int64, device=device)

        def outputs(graphs: Graphs) -> np.ndarray:
            # The members share the memory of a batch.
            chunk = -(-(batch_size or len(graphs)) // self.members)
            task = self.shape.task
            found = predict(model, graphs.to(device), self.members, keys, max(1, chunk), task)
            if task == "classification":
                found = np.exp(found)
            elif task == "multitask":
                found = 1 / (1 + np.exp(-found))
            return checked(found.mean(0), graphs)

        return outputs


@dataclass(frozen=True, eq=False)
class SimplePart:
    """A simple model, which counts."""

    model: FittedSimpleModel

    @property
    def name(self) -> str:
        return self.model.name

    def outputs(self, device: torch.device | str = "cpu", batch_size: int | None = None) -> Outputs:
        """Like `NetPart.outputs`; simple models are evaluated on the host."""
        return lambda graphs: checked(self.model.predict(graphs.to("cpu")), graphs)


Part = NetPart | SimplePart


def checked(outputs: np.ndarray, graphs: Graphs) -> np.ndarray:
    """The outputs ``[graphs, outputs]``; an error unless all are finite."""
    wrong = ~np.isfinite(outputs).all(1)
    if wrong.any():
        raise SagpoolError(
            f"The model gives no number for graph {int(wrong.argmax())} of {graphs.name}: its "
            "weights or the features are too large."
        )
    return outputs
