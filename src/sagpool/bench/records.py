"""The records of a run store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sagpool.bench.provenance import COMMIT, KERNELS, UNKNOWN
from sagpool.bench.retention import Retention
from sagpool.bench.selection import BY_TEST, SELECTED, Select
from sagpool.fleet.profile import WAITING, Profile
from sagpool.fleet.training import PROTOCOL


class Validation(NamedTuple):
    """All that a search may know about a training."""

    accuracy: float  # at the epoch of the lowest validation loss so far; NaN if it failed
    loss: float  # the lowest validation loss so far; NaN if it failed
    epochs: int  # epochs trained so far
    ended: bool  # stopped by itself (early stopping, divergence) rather than paused
    curve: np.ndarray  # [2, epochs] validation loss and accuracy
    # Ranks the training instead of the accuracy; higher is better. NaN if undefined for its split,
    # -inf if it failed.
    value: float | None = None

    @property
    def rank(self) -> float:
        return self.accuracy if self.value is None else self.value

    @staticmethod
    def seen(curve: np.ndarray, *, ended: bool) -> Validation:
        """From the validation loss and accuracy of each epoch, ``curve``."""
        epoch = best_epoch(curve[0])
        loss, accuracy = curve[:, epoch - 1].tolist() if epoch else (float("nan"), float("nan"))
        return Validation(accuracy, loss, curve.shape[1], ended, curve)

    @property
    def best_epoch(self) -> int:
        """The epoch of the lowest validation loss, counted from 1; 0 if no loss was finite."""
        return best_epoch(self.curve[0])


def best_epoch(losses: np.ndarray) -> int:
    """The first epoch with the lowest finite loss, counted from 1; 0 if there is none."""
    finite = np.where(np.isfinite(losses), losses, np.inf)
    return int(finite.argmin()) + 1 if np.isfinite(finite).any() else 0


class Ranked(NamedTuple):
    """A candidate of a search."""

    settings: dict[str, Any]
    accuracy: float  # validation, the mean over the trainings
    loss: float
    runs: int


class SearchCost(NamedTuple):
    """The cost of a search, in models × epochs, compared with the full grid."""

    epochs: int
    grid: int  # cost of the full grid; a lower bound if some of its trainings did not end
    exact: bool  # whether ``grid`` is known exactly

    @property
    def fraction(self) -> float:
        """Fraction of the full grid; an upper bound unless the cost is exact."""
        return self.epochs / self.grid if self.grid else 1.0

    def __str__(self) -> str:
        most = "" if self.exact else "at most "
        percent = math.ceil(100 * self.fraction - 1e-9)
        return f"{self.epochs:,} models·epochs, {most}{percent} % of the full grid"


@dataclass(frozen=True)
class CellRecord:
    """One method on one data set, with the settings that were given or found.

    The same settings found by another search, or given without one, are another cell.

    If settings were chosen for each fold, a setting that differs between candidates is a list of
    values. If they were chosen by test accuracy, there is no ranking: rankings are by validation.
    """

    dataset: str  # its name in the experiment
    name: str  # name of the graphs
    fingerprint: str
    method: str
    settings: dict[str, Any]
    precision: str
    numerics: int
    seeds: int
    invocation: int
    search: str
    ranking: tuple[Ranked, ...]
    bytes: int  # memory of one model's training step; 0 if unknown
    paper_mean: float | None
    paper_std: float | None
    note: str  # how the data differ from those of the published experiment
    # Keys of its trainings, if they were chosen for each fold or by test accuracy.
    chosen: tuple[str, ...] = ()
    cost: SearchCost | None = None  # cost of the search
    paper_tests: dict[str, tuple[float, float]] | None = None  # published mean and std, by test
    retention: Retention | None = None  # in a comparison of methods with equal retention

    @property
    def select(self) -> Select:
        """How the settings were selected, if there was a search."""
        if self.settings.get(SELECTED) == BY_TEST:
            return Select.TEST
        return Select.PER_FOLD if self.chosen else Select.OVER_FOLDS

    @property
    def per_fold(self) -> bool:
        """Whether the settings were chosen for each fold."""
        return self.select is Select.PER_FOLD

    @property
    def protocol(self) -> dict[str, str]:
        """Differences from the usual protocol; cells with different ones are not comparable."""
        found = {name: self.settings[name] for name in PROTOCOL if name in self.settings}
        return found | ({SELECTED: BY_TEST} if self.select is Select.TEST else {})


class Trained(NamedTuple):
    """Runs of an invocation with the same settings."""

    invocation: int
    method: str
    fingerprint: str
    numerics: int
    settings: dict[str, Any]
    finished: str  # when the last run ended


@dataclass(frozen=True, eq=False)
class TrainingRecord:
    """The identity of a training, and when it ended."""

    key: str
    name: str  # name of the graphs
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

    @property
    def commit(self) -> str:
        return self.versions.get(COMMIT, UNKNOWN)

    @property
    def kernels(self) -> str:
        """A hash of the source of the kernels."""
        return self.versions.get(KERNELS, UNKNOWN)


SLICES = 100  # number of slices of the wall time of an invocation


@dataclass(frozen=True)
class DeviceTime:
    """How the device spent its time in an invocation.

    Fractions are given for equal slices of the wall time; in each slice they add up to 1.
    """

    wall_seconds: float
    threads: int  # number of CPU threads; 1 for a GPU
    fractions: dict[str, list[float]]  # by kind: steps, evaluation, ..., waiting
    models: list[int]  # models × epochs that ended in each slice

    @staticmethod
    def of(profile: Profile, end: float) -> DeviceTime:
        """From the start of the profile until ``end``, in seconds of ``time.perf_counter``."""
        edges = np.linspace(profile.start, end, SLICES + 1)
        fractions = {
            kind: values.round(4).tolist() for kind, values in profile.fractions(edges).items()
        }
        models = profile.models_trained(edges).tolist()
        return DeviceTime(end - profile.start, profile.threads, fractions, models)

    @property
    def whole(self) -> dict[str, float]:
        """The fraction of each kind in the whole time."""
        return {kind: sum(values) / len(values) for kind, values in self.fractions.items()}

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each kind; they add up to the wall time, times the number of CPU threads."""
        total = self.wall_seconds * self.threads
        return {kind: fraction * total for kind, fraction in self.whole.items()}

    def __str__(self) -> str:
        threads = f" on {self.threads} threads" if self.threads > 1 else ""
        spent = [
            f"{100 * part:.0f} % on {kind}"
            for kind, part in self.whole.items()
            if part and kind != WAITING
        ]
        waited = f"{100 * self.whole[WAITING]:.0f} % waiting"
        listed = ", ".join([*spent, waited])
        return f"Of {self.wall_seconds:.3g} s{threads}, the device spent {listed}."
