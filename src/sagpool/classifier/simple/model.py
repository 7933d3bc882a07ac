"""`SimpleModel`: counts of whole graphs, and a linear model or a forest on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from sagpool.classifier.simple.counts import Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.forest import Forest
from sagpool.classifier.simple.forest_fit import fit_forest
from sagpool.classifier.simple.linear import Linear
from sagpool.classifier.simple.linear_fit import fit_linear
from sagpool.classifier.simple.link import Link
from sagpool.classifier.simple.problem import Problem
from sagpool.classifier.simple.saved import Arrays, Saved, below, prefixed
from sagpool.classifier.simple.subtrees import Subtrees
from sagpool.errors import SagpoolError
from sagpool.foreign.values import decode, decoding
from sagpool.graphs.graphs import Graphs, Task

Features = Counts | Subtrees | Environments


class Recipe(NamedTuple):
    """The two halves of a simple model."""

    features: type[Counts] | type[Subtrees] | type[Environments]
    linear: bool


RECIPES = {
    "counts-linear": Recipe(Counts, linear=True),
    "counts-forest": Recipe(Counts, linear=False),
    "wl-linear": Recipe(Subtrees, linear=True),
    "morgan-linear": Recipe(Environments, linear=True),
    "morgan-forest": Recipe(Environments, linear=False),
}


def simple_names(graphs: Graphs) -> tuple[str, ...]:
    """The simple models that can be fitted to these graphs."""
    return tuple(
        name
        for name, recipe in RECIPES.items()
        if recipe.features is not Environments or graphs.fragments is not None
    )


class _Config(NamedTuple):
    name: str
    task: Task
    outputs: int
    features: dict[str, Any]


@dataclass(frozen=True)
class SimpleModel:
    """A fitted simple model."""

    name: str
    task: Task
    outputs: int  # classes, or tasks
    features: Features
    fitted: Linear | Forest

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> SimpleModel:
        """The model of `to_saved`; an error that says what is wrong if it is anything else."""
        with decoding(lambda reason: f"A simple model is damaged: {reason}."):
            saved = decode(_Config, config, "a simple model")
            if saved.name not in RECIPES:
                raise SagpoolError(f"There is no simple model {saved.name[:60]!r}.")
            if not 1 <= saved.outputs < 2**20 or (saved.task, saved.outputs) == (
                "classification",
                1,
            ):
                raise SagpoolError(f"A simple model cannot have {saved.outputs} outputs.")
            recipe = RECIPES[saved.name]
            features = recipe.features.from_saved(saved.features, below("features", arrays))
            columns = len(features.names())
            own = below("model", arrays)
            raw = _raw_outputs(saved.task, saved.outputs)
            if recipe.linear:
                link = _link(saved.task, saved.outputs)
                fitted: Linear | Forest = Linear.from_saved(own, columns, raw, link)
            else:
                fitted = Forest.from_saved(own, columns, raw)
        return SimpleModel(saved.name, saved.task, saved.outputs, features, fitted)

    def to_saved(self) -> Saved:
        config, arrays = self.features.to_saved()
        return Saved(
            {
                "name": self.name,
                "task": self.task,
                "outputs": self.outputs,
                "features": config,
            },
            prefixed("features", arrays) | prefixed("model", self.fitted.to_saved()),
        )

    def predict(self, graphs: Graphs) -> np.ndarray:
        """``[graphs, outputs]`` float64: probabilities of the classes or of each task, or values"""
        raw = self.fitted.predict(_matrix(self.features, graphs, RECIPES[self.name].linear))
        if self.task == "classification" and self.outputs == 2:
            return np.concatenate([1 - raw, raw], axis=1)
        return raw


def fit_simple(
    name: str,
    graphs: Graphs,
    train_ids: np.ndarray,
    seed: int,
    *,
    class_weight: Literal["balanced"] | None = None,
) -> SimpleModel:
    """Fit a simple model to some of the graphs.

    Args:
        name: one of `simple_names`
        graphs: with classes or targets
        train_ids: the numbers of the training graphs
        seed: of the random numbers of a forest and of inner splits
        class_weight: ``balanced`` gives all classes the same total weight
    """
    if name not in simple_names(graphs):
        known = ", ".join(simple_names(graphs))
        raise SagpoolError(f"There is no simple model {name!r} for {graphs.name}, only {known}.")
    recipe = RECIPES[name]
    train = graphs[np.asarray(train_ids)]
    problem = Problem.of(train, class_weight)
    features = recipe.features.fit(train)
    matrix = _matrix(features, train, recipe.linear)
    fitted = (fit_linear if recipe.linear else fit_forest)(matrix, problem, seed)
    outputs = problem.classes if problem.task == "classification" else problem.tasks
    return SimpleModel(name, problem.task, outputs, features, fitted)


def _matrix(features: Features, graphs: Graphs, linear: bool) -> Any:
    """Logarithms of sparse counts for linear models: a second occurrence says less."""
    matrix = features.matrix(graphs)
    return matrix.log1p() if linear and not isinstance(matrix, np.ndarray) else matrix


def _raw_outputs(task: Task, outputs: int) -> int:
    return 1 if task == "classification" and outputs == 2 else outputs


def _link(task: Task, outputs: int) -> Link:
    if task == "regression":
        return "identity"
    return "softmax" if task == "classification" and outputs > 2 else "sigmoid"
