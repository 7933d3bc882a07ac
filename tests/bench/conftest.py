from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import sagpool
from sagpool.bench.experiment_file import read_experiment
from sagpool.fleet import Curve, Result, Score, Training

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


def made_up(training: Training, *, accuracy=0.75, validation=None, epochs=3) -> Result:
    """A made-up result."""
    curve = np.linspace(1, 0.5, epochs)
    score = Score(0.5, accuracy)
    return Result(
        training=training,
        diverged=False,
        best_epoch=epochs,
        epochs=epochs,
        train=score,
        validation=Score(0.5, accuracy if validation is None else validation),
        test=score,
        confusion=np.array([[3, 1], [2, 4]]),
        curve=Curve(curve, curve, curve),
        parameters=100,
        seconds=1.5,
    )


@dataclass
class PretendEngine:
    """Reports made-up results at once, and records what it was asked to train."""

    accuracy: dict[float, float] = field(default_factory=dict)  # validation, by learning rate
    test_accuracy: dict[float, float] = field(default_factory=dict)
    asked: list[Training] = field(default_factory=list)
    fail: Exception | None = None
    device = "nowhere"

    def run(self, job, on_result, on_progress):
        for training in job.trainings:
            if training in job.done:
                continue
            self.asked.append(training)
            if self.fail is not None:
                raise self.fail
            result = made_up(
                training,
                accuracy=self.test_accuracy.get(training.lr, 0.7),
                validation=self.accuracy.get(training.lr, 0.6),
            )
            on_result(result)


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
