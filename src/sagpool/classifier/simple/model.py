"""`SimpleModel`: counts of whole graphs, and a linear model or a forest on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from sagpool.classifier.simple.boosting_fit import fit_boosting
from sagpool.classifier.simple.contributions import (
    Explained,
    Importance,
    explained,
    in_words,
    largest,
)
from sagpool.classifier.simple.counts import Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.features import Features, Kind
from sagpool.classifier.simple.forest import Forest, dense_parts
from sagpool.classifier.simple.forest_fit import fit_forest
from sagpool.classifier.simple.linear import Linear
from sagpool.classifier.simple.linear_fit import fit_linear
from sagpool.classifier.simple.link import Link
from sagpool.classifier.simple.problem import Problem
from sagpool.classifier.simple.saved import Arrays, Saved, below, prefixed
from sagpool.classifier.simple.subtrees import Subtrees
from sagpool.errors import SagpoolError
from sagpool.explain.parts import Scale
from sagpool.foreign.values import decode, decoding
from sagpool.graphs.graphs import Graphs, Task


class Recipe(NamedTuple):
    """Features and model: the two halves of a simple model."""

    features: tuple[Kind, ...]
    model: Literal["linear", "forest", "boosted"]


RECIPES = {
    "counts-linear": Recipe((Counts,), "linear"),
    "counts-forest": Recipe((Counts,), "forest"),
    "counts-boosted": Recipe((Counts,), "boosted"),
    "wl-linear": Recipe((Subtrees,), "linear"),
    "morgan-linear": Recipe((Counts, Environments), "linear"),
    "morgan-forest": Recipe((Counts, Environments), "forest"),
}


def simple_names(graphs: Graphs) -> tuple[str, ...]:
    """The simple models that can be fitted to these graphs."""
    return tuple(
        name
        for name, recipe in RECIPES.items()
        if Environments not in recipe.features or graphs.fragments is not None
    )


class _Config(NamedTuple):
    name: str
    task: Task
    outputs: int
    features: list[Any]


@dataclass(frozen=True)
class SimpleModel:
    """A fitted simple model."""

    name: str
    task: Task
    outputs: int  # number of classes, or of tasks
    features: Features
    fitted: Linear | Forest

    @staticmethod
    def from_saved(config: Any, arrays: Arrays) -> SimpleModel:
        """The model of `to_saved`; an error names what is wrong if the values are anything else."""
        with decoding(lambda reason: f"A simple model is damaged: {reason}."):
            saved = decode(_Config, config, "a simple model")
            if saved.name not in RECIPES:
                raise SagpoolError(f"There is no simple model {saved.name[:60]!r}.")
            fewest = 2 if saved.task == "classification" else 1
            if not fewest <= saved.outputs < 2**20:
                raise SagpoolError(f"A simple model cannot have {saved.outputs} outputs.")
            recipe = RECIPES[saved.name]
            features = Features.from_saved(
                recipe.features, saved.features, below("features", arrays), recipe.model == "linear"
            )
            columns = len(features.names())
            own = below("model", arrays)
            raw = _raw_outputs(saved.task, saved.outputs)
            kind = Linear if recipe.model == "linear" else Forest
            link = _link(recipe, saved.task, saved.outputs)
            fitted = kind.from_saved(own, columns, raw, link)
        return SimpleModel(saved.name, saved.task, saved.outputs, features, fitted)

    def to_saved(self) -> Saved:
        config, arrays = self.features.to_saved()
        return Saved(
            {"name": self.name, "task": self.task, "outputs": self.outputs, "features": config},
            prefixed("features", arrays) | prefixed("model", self.fitted.to_saved()),
        )

    def predict(self, graphs: Graphs) -> np.ndarray:
        """``[graphs, outputs]`` float64: probabilities of classes or of each task, or values."""
        raw = self.fitted.predict(self.features.matrix(graphs))
        if self.task == "classification" and self.outputs == 2:
            return np.concatenate([1 - raw, raw], axis=1)
        return raw

    def contributions(
        self, graphs: Graphs, outputs: np.ndarray, most: int = 10
    ) -> tuple[Explained, ...]:
        """The columns that moved one output of each graph most.

        Args:
            graphs: graphs with the features of the training graphs
            outputs: ``[graphs]`` the class or task of each graph to explain
            most: most columns per graph
        """
        found: dict[int, Explained] = {}
        words: dict[str, str] = {}  # shared, because a graph may lack the subtree of a column
        for rows, dense in dense_parts(self.features.matrix(graphs)):
            chosen = np.asarray(outputs)[rows]
            for output in np.unique(chosen).tolist():
                place = np.flatnonzero(chosen == output)
                raw, sign = self._raw(output)
                base = self._base(output)
                # All graphs with this output at once: a forest is walked tree by tree.
                amounts = sign * self.fitted.amounts(dense[place], raw)
                for values, own, number in zip(
                    dense[place], amounts, (rows.start + place).tolist(), strict=True
                ):
                    top = tuple(explained(self.features, graphs[number], values, own, most, words))
                    rest = float(own.sum() - sum(one.amount for one in top))
                    found[number] = Explained(output, base, top, rest)
        return tuple(in_words(found[number], words) for number in range(len(graphs)))

    @property
    def scale(self) -> Scale:
        """The quantity that the amounts of `contributions` add up to."""
        if self.task == "regression":
            return "value"
        return "probability" if self.fitted.link == "identity" else "log-odds"

    def importances(self, graphs: Graphs, most: int = 20) -> tuple[Importance, ...]:
        """The columns that move the outputs of these graphs most, on average."""
        total = 0.0
        for _, dense in dense_parts(self.features.matrix(graphs)):
            for output in range(_raw_outputs(self.task, self.outputs)):
                total = total + np.abs(self.fitted.amounts(dense, output)).sum(0)
        mean = np.asarray(total) / max(len(graphs) * _raw_outputs(self.task, self.outputs), 1)
        names = self.features.names()
        return tuple(Importance(names[one], float(mean[one])) for one in largest(mean, most))

    def _raw(self, output: int) -> tuple[int, float]:
        """The number of the raw output, and its sign; two classes have one, of the second class."""
        if not 0 <= output < self.outputs:
            raise SagpoolError(f"There is no output {output}, only {self.outputs} of them.")
        if self.task == "classification" and self.outputs == 2:
            return 0, 1.0 if output else -1.0
        return output, 1.0

    def _base(self, output: int) -> float:
        raw, sign = self._raw(output)
        base = self.fitted.base(raw)
        if sign > 0:
            return base
        return 1 - base if self.fitted.link == "identity" else -base


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
        graphs: graphs with classes or targets
        train_ids: the numbers of the training graphs
        seed: seed of a forest's random numbers and of inner splits
        class_weight: ``balanced`` gives all classes the same total weight
    """
    if name not in simple_names(graphs):
        known = ", ".join(simple_names(graphs))
        raise SagpoolError(f"There is no simple model {name!r} for {graphs.name}, only {known}.")
    recipe = RECIPES[name]
    train = graphs[np.asarray(train_ids)]
    problem = Problem.of(train, class_weight)
    features = Features.fit(recipe.features, train, logarithmic=recipe.model == "linear")
    matrix = features.matrix(train)
    outputs = problem.classes if problem.task == "classification" else problem.tasks
    link = _link(recipe, problem.task, outputs)
    fitted: Linear | Forest
    if recipe.model == "linear":
        fitted = fit_linear(matrix, problem, seed, link, dense=features.dense)
    elif recipe.model == "forest":
        fitted = fit_forest(matrix, problem, seed)
    else:
        fitted = fit_boosting(matrix, problem, seed, link)
    return SimpleModel(name, problem.task, outputs, features, fitted)


def _raw_outputs(task: Task, outputs: int) -> int:
    return 1 if task == "classification" and outputs == 2 else outputs


def _link(recipe: Recipe, task: Task, outputs: int) -> Link:
    # The leaves of a forest are probabilities already.
    if task == "regression" or recipe.model == "forest":
        return "identity"
    return "softmax" if task == "classification" and outputs > 2 else "sigmoid"
