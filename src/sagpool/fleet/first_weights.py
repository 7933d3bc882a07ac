"""The weights that trainings begin with."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.fleet.random_guard import SeededDraws, SkippedDraws
from sagpool.fleet.stack import Stack, columns_from_graphs, row_length
from sagpool.graphs import Graphs, pack
from sagpool.nn import Standardise, Streams
from sagpool.nn.from_graphs import layers_from_graphs
from sagpool.ops.alignment import aligned

GRAPHS = 128  # training graphs that set the scale of a new model's layers


class FirstWeights:
    """Draws the weights of new models of one member.

    A fleet needs hundreds of models, and building all of them would take a second or two. So the
    random draws of one model are repeated with other seeds, if that gives the same weights as
    building a model.

    Args:
        build: makes a new model
    """

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        self.build = build
        self.draws: list[_Draw] | None = None
        self.rest: Tensor | None = None  # the weights of one model, for those that are not random

    def draw(self, seed: int) -> Tensor:
        """``[numbers]`` on the CPU, as in a row of `Stack.weights`."""
        if self.rest is None:
            return self._observe(seed)
        if self.draws is None:
            return self._built(SeededDraws(seed))
        return self._repeated(seed)

    def _observe(self, seed: int) -> Tensor:
        """Find out whether draws can be repeated: two models must differ in nothing else."""
        observed, weights = _ObservedDraws(seed + 1), self._built(SeededDraws(seed))
        self.rest = self._built(observed)
        self.draws = observed.draws
        if not torch.equal(self._repeated(seed), weights):
            self.draws = None
        return weights

    def _repeated(self, seed: int) -> Tensor:
        assert self.rest is not None
        assert self.draws is not None
        weights, generator = self.rest.clone(), torch.Generator().manual_seed(seed)
        for draw in self.draws:
            draw.function(weights[draw.start : draw.end], *draw.arguments, generator=generator)
        return weights

    def _built(self, draws: SeededDraws) -> Tensor:
        with draws:
            model = self.build()
        weights, start = torch.zeros(row_length(model)), 0
        for parameter in model.parameters():
            end = start + parameter.numel()
            weights[start:end] = parameter.detach().view(-1)
            if isinstance(draws, _ObservedDraws):
                draws.place(parameter, start)
            start = aligned(end)
        return weights


class StartFromGraphs:
    """Parameters of new models whose first values come from the training graphs.

    Args:
        build: makes a new model
    """

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        with torch.device("meta"):
            model = build()
        self.build = build
        self.layers, self.columns = layers_from_graphs(model), columns_from_graphs(model)

    def put(self, weights: Tensor, graphs: Graphs, train: np.ndarray) -> None:
        """Set these parameters in ``[numbers]`` weights of a model that trains on these graphs."""
        if not self.layers:
            return
        values = {name: layer.start_from(graphs, train) for name, layer in self.layers.items()}
        self._write(values, weights)
        if any(isinstance(layer, Standardise) for layer in self.layers.values()):
            self._write(self._run(weights, graphs, train), weights)

    def _write(self, values: Mapping[str, dict[str, Tensor]], weights: Tensor) -> None:
        for (layer, parameter), columns in self.columns.items():
            if layer in values:
                weights[columns] = values[layer][parameter].view(-1).to(weights)

    def _run(
        self, weights: Tensor, graphs: Graphs, train: np.ndarray
    ) -> dict[str, dict[str, Tensor]]:
        """The values that layers compute from a pass of some graphs through the new model."""
        with SkippedDraws():
            stack = Stack(self.build().to(graphs.device))
        stack.load(weights[None])
        found: dict[str, dict[str, Tensor]] = {}

        def inspect(name: str, layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            assert isinstance(layer, Standardise)
            found[name] = layer.start_from_rows(given[0][:-1])  # the last graph is a filler

        for name, layer in stack.model.named_modules():
            if isinstance(layer, Standardise):
                layer.register_forward_pre_hook(partial(inspect, name))
        # Evenly spaced, because data sets are often sorted by class.
        chosen = train[np.unique(np.linspace(0, len(train) - 1, GRAPHS).astype(np.int64))]
        with torch.no_grad():
            stack.model.eval()(pack(graphs, [chosen]), Streams(torch.zeros_like(stack.ones).long()))
        return found


class _Draw(NamedTuple):
    function: Any
    arguments: tuple[Any, ...]
    start: int  # first column in the row of all weights
    end: int


class _ObservedDraws(SeededDraws):
    """Records the operators that fill parameters with random numbers, in their order."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[tuple[int, Any, tuple[Any, ...]]] = []
        self.places: dict[int, tuple[int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags and func._schema.is_mutable:
            self.seen.append((args[0].data_ptr(), func, tuple(args[1:])))
        return super().__torch_dispatch__(func, types, args, kwargs)

    def place(self, parameter: Tensor, start: int) -> None:
        self.places[parameter.data_ptr()] = (start, start + parameter.numel())

    @property
    def draws(self) -> list[_Draw]:
        """The draws of parameters that the model still has."""
        return [
            _Draw(func, arguments, *self.places[address])
            for address, func, arguments in self.seen
            if address in self.places
        ]
