import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

import sagpool
from sagpool.bench.experiment_file import read_experiment
from sagpool.fleet import Curve, MemoryShortageError, Paused, Result, Score, Training
from sagpool.graphs import split

SMALL = """
title: A small one
datasets: {MUTAG: }
tables:
  main: {datasets: [MUTAG], methods: [sagpool-h, gpool-h]}
protocol: {seeds: 2, folds: 2, max_epochs: 2}
grid:
  - set: {lr: [1.0e-3, 1.0e-2], hidden: [4, 6]}
settings:
  - set: {lr: 1.0e-2, hidden: 4}
published:
  statistics: {MUTAG: {graphs: 188, classes: 2, avg_nodes: 17.93, avg_edges: 19.79}}
  accuracy: {sagpool-h: {MUTAG: [76.5, 1.5]}}
"""


@pytest.fixture(scope="session")
def mutag():
    return sagpool.load("MUTAG")


@pytest.fixture
def small_text():
    return SMALL


@pytest.fixture
def small():
    """Two methods on MUTAG, two seeds of two folds, two epochs each."""
    return read_experiment(SMALL, "small")


def made_up_curve(epochs: int, accuracy: float) -> Curve:
    """The loss falls from epoch to epoch; the accuracy stays."""
    loss = 1 / (1 + np.arange(epochs))
    return Curve(loss, loss, np.full(epochs, accuracy))


def made_up(training: Training, *, accuracy=0.75, validation=None, epochs=3) -> Result:
    """A made-up result."""
    validation = accuracy if validation is None else validation
    score = Score(0.5, accuracy)
    return Result(
        training=training,
        diverged=False,
        best_epoch=epochs,
        epochs=epochs,
        train=score,
        validation=Score(0.5, validation),
        test=score,
        confusion=np.array([[3, 1], [2, 4]]),
        curve=made_up_curve(epochs, validation),
        parameters=100,
        seconds=1.5,
    )


@dataclass
class PretendEngine:
    """Reports made-up results at once, and records what it was asked to train.

    Trainings end after ``epochs`` epochs. The jobs of all cells are at work at once: one training
    of each in turn.
    """

    accuracy: dict[float, float] = field(default_factory=dict)  # validation, by learning rate
    test_accuracy: dict[float, float] = field(default_factory=dict)
    asked: list[Training] = field(default_factory=list)  # not those that went on
    epochs: int = 3
    trained: int = 0  # epochs, of all trainings together
    fail: Exception | None = None
    stop_after: int | None = None  # trainings, as if the process was killed
    device = "nowhere"

    def run(self, jobs, watcher):
        at_work = [(job, self._left(job), {}, {}) for job in jobs]
        while at_work:
            job, left, begun, paused = at_work.pop(0)
            problem = ""
            if left:
                try:
                    outcome = self._train(left.pop(0), job.until, begun)
                except MemoryShortageError as error:
                    problem = str(error)
                else:
                    if isinstance(outcome, Paused):
                        paused[outcome.training] = job.until
                    watcher.outcome(job, outcome)
            if left and not problem:
                at_work.append((job, left, begun, paused))
                continue
            following = watcher.ended(job, problem)
            at_work += [(later, self._left(later), paused, {}) for later in following]

    def _left(self, job):
        return [training for training in job.trainings if training not in job.done]

    def _train(self, training, until, begun):
        if self.stop_after is not None:
            if not self.stop_after:
                raise KeyboardInterrupt
            self.stop_after -= 1
        if training not in begun:
            self.asked.append(training)
        if self.fail is not None:
            raise self.fail
        validation = self.accuracy.get(training.lr, 0.6)
        ends = until is None or until >= self.epochs
        self.trained += (self.epochs if ends else until) - begun.get(training, 0)
        if not ends:
            return Paused(training, made_up_curve(until, validation), state=None)
        return made_up(
            training,
            accuracy=self.test_accuracy.get(training.lr, 0.7),
            validation=validation,
            epochs=self.epochs,
        )


@pytest.fixture
def rare(tmp_path):
    """A file of 40 graphs of two classes.

    Of two contiguous folds of seed 0, the validation part of the first lacks the second class.
    """
    parts = [split(np.zeros(40), 0, fold, folds=2, kind="contiguous") for fold in (0, 1)]
    known = parts[1].validation[:1], np.setdiff1d(parts[0].train, parts[1].validation)[:5]
    graph, file = {"nodes": ["a"] * 3, "edges": [[0, 1], [1, 2]]}, tmp_path / "rare.jsonl"
    second = set(np.concatenate(known).tolist())
    file.write_text(
        "".join(json.dumps({**graph, "label": f"{i in second}"}) + "\n" for i in range(40))
    )
    return file


@pytest.fixture
def pretend():
    return PretendEngine()


@pytest.fixture
def result():
    return made_up


@pytest.fixture
def trainings():
    """Two seeds of two folds."""
    one = Training("sagpool-h", hidden=4, lr=0.01, folds=2, max_epochs=2)
    return [replace(one, seed=seed, fold=fold) for seed in range(2) for fold in range(2)]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """So one fleet, which stops at a known epoch."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
