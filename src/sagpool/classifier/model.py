"""`TrainedModel`: a trained model with all that is needed to predict other graphs."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.classifier.calibration import with_temperature
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.hub import download, is_name, similar_folder, upload
from sagpool.classifier.novelty import Novelty
from sagpool.classifier.parts import NetPart, Part, SimplePart
from sagpool.errors import SagpoolError
from sagpool.explain.parts import Reasons
from sagpool.explain.target import Target
from sagpool.fleet import Result
from sagpool.fleet.schedule import shape_of
from sagpool.fleet.versions import versions
from sagpool.foreign.paths import user_path
from sagpool.graphs import Graphs
from sagpool.graphs.graphs import Task
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape

BATCH_SIZE = 1024
MOST_LISTED = 5  # unknown node labels that a warning names


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model for some graphs, with their uncertainty.

    Args:
        probabilities: ``[graphs, classes]``; with several tasks ``[graphs, tasks]`` of a 1; for a
            regression the values, ``[graphs, tasks]``
        predicted: ``[graphs]`` number of the class; with several tasks ``[graphs, tasks]`` of 0
            and 1; for a regression the values
        sets: ``[graphs, classes]`` bool, the plausible classes at the promised coverage; with
            several tasks ``[graphs, tasks, 2]``; None without a promised coverage
        interval: ``[graphs, tasks, 2]`` for a regression, in place of sets
        unlike: ``[graphs]`` bool, whether a graph is unlike the training data
        unseen: for each node label that is not in the vocabulary, its number of nodes
        unseen_nodes: ``[graphs]`` number of nodes with an unknown label
    """

    probabilities: np.ndarray
    predicted: np.ndarray
    sets: np.ndarray | None
    interval: np.ndarray | None
    unlike: np.ndarray
    unseen: Counter[str]
    unseen_nodes: np.ndarray


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A weighted average of parts, its features and classes, and how it was trained.

    Args:
        vocabulary: the meaning of feature columns and classes
        parts: graph nets and simple models
        mixture: weight of each part in the average; they sum to 1
        temperature: divides the log-odds of the average
        decision: factor of each class before the most probable class is chosen, or the threshold of
            each task; None for 1 and 0.5
        conformal: promise and bounds of the prediction sets; None for no sets
        novelty: recognises graphs unlike the training graphs
        about: JSON values for the model card
    """

    vocabulary: Vocabulary
    parts: tuple[Part, ...]
    mixture: tuple[float, ...] = (1.0,)
    temperature: float = 1.0
    decision: tuple[float, ...] | None = None
    conformal: Conformal | None = None
    novelty: Novelty | None = None
    about: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def of_net(
        method: str,
        shape: Shape,
        vocabulary: Vocabulary,
        weights: dict[str, Tensor],
        about: dict[str, Any] | None = None,
    ) -> TrainedModel:
        """A model of one graph net; ``weights`` is a state dict for ``build(method, shape)``."""
        return TrainedModel(vocabulary, (NetPart(method, shape, weights),), about=about or {})

    @property
    def net(self) -> NetPart | None:
        """The net part with the largest weight; None without one."""
        place = self._heaviest(NetPart)
        part = None if place is None else self.parts[place]
        return part if isinstance(part, NetPart) else None

    @property
    def net_weight(self) -> float:
        """Weight of `net` in the average; 0 without one."""
        place = self._heaviest(NetPart)
        return 0.0 if place is None else self.mixture[place]

    @property
    def method(self) -> str:
        """The method of the best net."""
        return self._best().method

    @property
    def shape(self) -> Shape:
        """The shape of the best net."""
        return self._best().shape

    @property
    def weights(self) -> dict[str, Tensor]:
        """The weights of the best net, a state dict for ``build(method, shape)``."""
        return self._best().weights

    def module(self, device: torch.device | str = "cpu") -> nn.Module:
        """The best net as a module in evaluation mode, to be called with a packed batch."""
        return self._best().module(device)

    @property
    def name(self) -> str:
        """The names of the parts, the largest weight first."""
        order = np.argsort([-weight for weight in self.mixture], kind="stable")
        return " + ".join(self.parts[number].name for number in order)

    @property
    def task(self) -> Task:
        """The task: classes, several tasks, or a regression."""
        return self.vocabulary.task

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the columns of the probabilities: classes or tasks."""
        known = self.vocabulary
        return known.class_names if self.task == "classification" else known.target_names

    def predict_proba(self, graphs: Graphs, *, batch_size: int = BATCH_SIZE) -> Predictions:
        """Predictions for each graph; feature columns are matched by name."""
        return self.predictor(graphs.device, batch_size=batch_size)(graphs)

    def predictor(
        self, device: torch.device | str = "cpu", *, batch_size: int | None = None
    ) -> Callable[[Graphs], Predictions]:
        """A function like `predict_proba` for many collections: modules are built only once.

        Without a ``batch_size``, each collection is one batch.
        """
        outputs = [part.outputs(device, batch_size) for part in self.parts]

        def predictions(graphs: Graphs) -> Predictions:
            fitted, unseen = self.vocabulary.fit(graphs)
            of_parts = zip(self.mixture, outputs, strict=True)
            mean = sum(weight * function(fitted) for weight, function in of_parts)
            p = with_temperature(self.task, np.asarray(mean), self.temperature)
            sets = interval = None
            if self.conformal is not None and self.task == "regression":
                interval = self.conformal.interval(p)
            elif self.conformal is not None:
                sets = self.conformal.sets(self.task, p)
            unlike = np.zeros(len(graphs), bool)
            if self.novelty is not None and len(graphs):
                unlike = self.novelty.unlike(fitted)
            predicted = decide(self.task, p, self.decision)
            unseen_nodes = np.zeros(len(graphs), np.int64)
            if unseen:
                unseen_nodes = self.vocabulary.unseen_nodes(graphs)
            return Predictions(p, predicted, sets, interval, unlike, unseen, unseen_nodes)

        return predictions

    def reasons(
        self,
        graphs: Graphs,
        target: Target,
        predicted: np.ndarray,
        molecules: Sequence[str | None],
    ) -> Reasons | None:
        """The reasons of the simple model with the largest weight; None without one.

        Args:
            graphs: graphs fitted to the vocabulary
            target: the output to explain
            predicted: ``[graphs]`` the predicted class, or the prediction for the target
            molecules: MOL block of each graph whose nodes are its atoms, or None
        """
        from sagpool.classifier.reasons import reasons_of

        place = self._heaviest(SimplePart)
        part = None if place is None else self.parts[place]
        if place is None or not isinstance(part, SimplePart):
            return None
        return reasons_of(part, self.mixture[place], graphs, target, predicted, molecules)

    def __repr__(self) -> str:
        from sagpool.classifier.display import model_text

        return model_text(self)

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import model_html

        return model_html(self)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write weights, configuration and model card into a folder; returns its path."""
        from sagpool.classifier.folder import write_folder

        write_folder(self, Path(folder))
        return Path(folder)

    @staticmethod
    def from_pretrained(source: str | Path) -> TrainedModel:
        """Read a model from a folder, or by name from the Hugging Face Hub."""
        from sagpool.classifier.folder import CONFIG, WEIGHTS, read_folder

        folder = user_path(source)
        if folder.is_dir():
            return read_folder(folder)
        if folder.exists():
            raise SagpoolError(
                f"{source} is a file; a model is a folder with {CONFIG} and {WEIGHTS}."
            )
        similar = similar_folder(str(source))
        if similar or folder.parent.is_dir() or isinstance(source, Path) or not is_name(source):
            # Looks like a mistyped local path; do not send it to the Hub.
            hint = f"; did you mean {similar}?" if similar else "."
            raise SagpoolError(f"There is no model folder {source}{hint}")
        return read_folder(download(source, [WEIGHTS, CONFIG]))

    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Upload the model to the Hugging Face Hub (extra ``hub``); returns its URL."""
        with tempfile.TemporaryDirectory() as folder:
            return upload(self.save_pretrained(folder), name, private=private)

    def _heaviest(self, kind: type[Part]) -> int | None:
        """The number of the part of this kind with the largest weight."""
        places = [number for number, part in enumerate(self.parts) if isinstance(part, kind)]
        return max(places, key=lambda number: self.mixture[number], default=None)

    def _best(self) -> NetPart:
        net = self.net
        if net is None:
            raise SagpoolError(
                f"The model has no graph net: it is {self.name}. `sagpool train --only graph-nets` "
                "trains one."
            )
        return net.best


def decide(task: Task, outputs: np.ndarray, decision: tuple[float, ...] | None) -> np.ndarray:
    """The class ``[graphs]``, or 0 or 1 for each task, or the values; see `TrainedModel`."""
    if task == "regression":
        return outputs
    if task == "multitask":
        return (outputs >= (0.5 if decision is None else np.array(decision))).astype(np.int64)
    return np.asarray((outputs if decision is None else outputs * np.array(decision)).argmax(1))


def trained_model(graphs: Graphs, result: Result, **about: Any) -> TrainedModel:
    """The model of a training that ran with ``keep_weights=True`` on these graphs."""
    part = net_part(graphs, result)
    training = result.training
    settings = {
        name: value
        for name, value in training.to_dict().items()
        if name not in ("method", "fold", "folds", "validation", "patience", "max_epochs")
    }
    described = {
        "data": vars(graphs.statistics()),
        "settings": settings,
        "versions": versions([training.method]),
    }
    return TrainedModel(Vocabulary.of(graphs), (part,), about=described | about)


def net_part(graphs: Graphs, result: Result) -> NetPart:
    """The net of a training that ran with ``keep_weights=True`` on these graphs."""
    if result.weights is None or not result.best_epoch:
        raise SagpoolError("The training diverged; try a lower learning rate.")
    training = result.training
    return NetPart(training.method, shape_of(graphs, training), result.weights)


def describe_unseen(unseen: Counter[str], what: str = "labels") -> str:
    """The labels that the model does not know, the most frequent first.

    A node may have several of them, such as an element and a charge.
    """
    listed = ", ".join(f"{name} ({nodes})" for name, nodes in unseen.most_common(MOST_LISTED))
    more = ", ..." if len(unseen) > MOST_LISTED else ""
    return f"{what} of nodes that the model does not know: {listed}{more}"
