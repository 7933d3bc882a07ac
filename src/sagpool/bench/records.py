"""What a run store holds."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Ranked(NamedTuple):
    """A candidate of a search."""

    settings: dict[str, Any]
    accuracy: float  # on validation, the mean over the trainings
    loss: float
    runs: int


@dataclass(frozen=True)
class CellRecord:
    """One method on one data set with the settings that were asked for or chosen."""

    dataset: str  # as the person calls it
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
    bytes: int  # held by a training step of one model; 0: not known
    paper_mean: float | None
    paper_std: float | None
    note: str  # how the data differ from those of the published experiment


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training."""

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


@dataclass(frozen=True)
class Failure:
    """A training that came to no result, however often it was tried."""

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
    reason: str


@dataclass(frozen=True)
class Invocation:
    id: int
    started: str
    command: str
    experiment: str
    device: str
    versions: dict[str, str]


class Validation(NamedTuple):
    """All that a search may know of a training."""

    accuracy: float
    loss: float
