"""The records of a run store."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Validation(NamedTuple):
    """All that a search may know about a training."""

    accuracy: float
    loss: float


class Ranked(NamedTuple):
    """A candidate of a search."""

    settings: dict[str, Any]
    accuracy: float  # validation, the mean over the trainings
    loss: float
    runs: int


@dataclass(frozen=True)
class CellRecord:
    """One method on one data set, with the settings that were given or found."""

    dataset: str  # its name in the experiment
    name: str  # of the graphs
    fingerprint: str
    method: str
    settings: dict[str, Any]
    precision: str
    numerics: int
    seeds: int
    invocation: int
    search: str
    ranking: tuple[Ranked, ...]
    bytes: int  # memory of one model's training step; 0: unknown
    paper_mean: float | None
    paper_std: float | None
    note: str  # how the data differ from those of the published experiment


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """What identifies a training, and when it ended."""

    key: str
    name: str  # of the graphs
    fingerprint: str
    method: str
    settings: dict[str, Any]
    seed: int
    fold: int
    precision: str
    numerics: int
    invocation: int
    finished: str


@dataclass(frozen=True, eq=False)
class Run(TrainingRecord):
    """A finished training."""

    diverged: bool
    best_epoch: int
    epochs: int
    train_loss: float
    train_accuracy: float
    validation_loss: float
    validation_accuracy: float
    test_loss: float
    test_accuracy: float
    confusion: list[list[int]]
    parameters: int
    seconds: float
    curve: np.ndarray  # [3, epochs] train loss, validation loss, validation accuracy


@dataclass(frozen=True, eq=False)
class Failure(TrainingRecord):
    """A training that failed on every attempt."""

    reason: str


@dataclass(frozen=True)
class Invocation:
    """One call of `run_experiment` or ``sagpool bench``."""

    id: int
    started: str
    command: str
    experiment: str
    device: str
    versions: dict[str, str]
