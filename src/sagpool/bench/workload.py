"""How much a cell has to compute, estimated before training: epochs, steps and bytes."""

import math
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import torch
import yaml

from sagpool.bench.records import Validation
from sagpool.bench.rounds import Round
from sagpool.bench.run_table import RunTable
from sagpool.fleet import Training
from sagpool.fleet.memory import StepBytes, trial_step
from sagpool.fleet.schedule import split_of
from sagpool.graphs import Graphs

# Runs with other values of these say little about the epochs of a training.
DECIDE_EPOCHS = ("lr", "hidden", "weight_decay", "patience", "max_epochs")


@cache
def reference_figures() -> dict[str, Any]:
    text = (resources.files("sagpool.bench") / "reference_figures.yaml").read_text("utf-8")
    return yaml.safe_load(text)


@dataclass(frozen=True)
class Epochs:
    """How many epochs a training is expected to take."""

    measured: Mapping[tuple[float, ...], float]  # means by the settings in `DECIDE_EPOCHS`
    best_epoch: float  # mean best epoch with lr 5e-4, hidden 128, weight decay 1e-4

    @staticmethod
    def of(dataset: str, method: str, runs: RunTable | None = None) -> "Epochs":
        """From the runs of a cell and, for other settings, from the packaged figures.

        Methods without figures use the mean of the data set; data sets without figures use the
        mean of all.
        """
        epochs: dict[tuple[float, ...], list[np.ndarray]] = defaultdict(list)
        for group, some in runs.by_group if runs else ():
            key = tuple(group.settings[name] for name in DECIDE_EPOCHS)
            epochs[key].append(some.column("epochs"))
        figures: dict[str, dict[str, tuple[float, int, float, float]]]
        figures = reference_figures()["best_epochs"]
        known = figures.get(dataset, {})
        every = [known[method]] if method in known else list(known.values())
        every = every or [entry for methods in figures.values() for entry in methods.values()]
        best = float(np.mean([epoch / _slowness(*settings) for *settings, epoch in every]))
        means = {key: float(np.concatenate(parts).mean()) for key, parts in epochs.items()}
        return Epochs(means, best)

    def __call__(self, training: Training) -> float:
        slowness = _slowness(training.lr, training.hidden, training.weight_decay)
        expected = training.patience + self.best_epoch * slowness
        settings = tuple(getattr(training, name) for name in DECIDE_EPOCHS)
        return min(training.max_epochs, self.measured.get(settings, expected))


def _slowness(lr: float, hidden: float, weight_decay: float) -> float:
    """Factor on the number of epochs, relative to lr 5e-4, hidden 128, weight decay 1e-4."""
    figures = reference_figures()
    return math.prod(
        _interpolate(value, figures[name])
        for value, name in (
            (lr, "learning_rates"),
            (hidden, "hidden_sizes"),
            (max(weight_decay, 1e-9), "weight_decays"),
        )
    )


def _interpolate(value: float, known: Mapping[float, float]) -> float:
    values, factors = np.array(sorted(known.items()), float).T
    return float(np.interp(math.log(value), np.log(values), factors))


def steps_per_epoch(graphs: Graphs, training: Training) -> int:
    return math.ceil(len(split_of(graphs, training).train) / training.batch_size)


def bytes_per_epoch(
    graphs: Graphs, trainings: Iterable[Training], dtype: torch.dtype
) -> dict[Training, float]:
    """Bytes that the steps of one epoch save for the backward pass, for each training.

    Only the smallest and the largest hidden size are tried. In between, the bytes of a batch grow
    with the hidden size, and those of the weights with its square.
    """
    by_shape: dict[Training, list[Training]] = defaultdict(list)
    for training in trainings:
        other = replace(training, lr=1.0, weight_decay=0.0, dropout=0.0, patience=1, max_epochs=1)
        by_shape[replace(other, hidden=2)].append(training)
    found = {}
    for some in by_shape.values():
        smallest, largest = (pick(some, key=lambda one: one.hidden) for pick in (min, max))
        steps = steps_per_epoch(graphs, smallest)
        low = trial_step(graphs, smallest, dtype)
        same = smallest.hidden == largest.hidden
        high = low if same else trial_step(graphs, largest, dtype)
        for one in some:
            ends = (smallest.hidden, largest.hidden)
            found[one] = steps * _interpolated_bytes(one.hidden, ends, low, high)
    return found


def _interpolated_bytes(
    hidden: int, ends: tuple[int, int], low: StepBytes, high: StepBytes
) -> float:
    batch = np.interp(hidden, ends, (low.batch, high.batch))
    weights = np.interp(hidden**2, np.square(ends), (low.weights, high.weights))
    return float(batch + weights)


def chance(candidate: Training) -> float:
    """How likely a search is to choose this candidate, relative to others.

    Of the 15 winners in results/searched, nine had the hidden size 128 and two each 64, 32 and 16.
    Of the 13 in results/table4 and results/searched-gpool, trained later: six, four, three, none.
    """
    return candidate.hidden


def expected_epochs(
    program: Generator[Round, Sequence[Validation], Any],
    epochs: Epochs,
    known: Sequence[Sequence[Validation]] = (),
) -> dict[Training, float]:
    """The trainings that a search begins, with the epochs that it is expected to train them.

    After its first rounds, whose results are known, the search gets random results, by which
    candidates win in proportion to `chance`.
    """
    trained: dict[Training, float] = {}
    random, luck = np.random.default_rng(0), dict[Training, np.ndarray]()
    asked, results = next(program), iter(known)
    while True:
        seen = list[Validation]()
        for training in asked.trainings:
            length = epochs(training)
            reached = length if asked.until is None else min(length, asked.until)
            trained[training] = reached
            candidate = replace(training, seed=0, fold=0)
            if candidate not in luck:
                luck[candidate] = random.random(2) ** (1 / chance(candidate))
            accuracy, loss = luck[candidate] * [1, -1]
            curve = np.tile([[loss], [accuracy]], max(1, round(reached)))
            seen.append(Validation(accuracy, loss, curve.shape[1], reached == length, curve))
        try:
            asked = program.send(next(results, seen))
        except StopIteration:
            return trained
