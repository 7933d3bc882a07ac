"""The cost of planning, storing and reporting 10,000 trainings, without the trainings themselves.

Results are made up, with learning curves of the usual length. A few real trainings on the smallest
data set measure how long one takes.
"""

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sagpool.bench.engines import Job, Local
from sagpool.bench.engines.engine import Outcome, Watcher
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.experiment_plan import plan_experiment
from sagpool.bench.plan import Overrides
from sagpool.bench.run import ExperimentRunner
from sagpool.bench.store import Store
from sagpool.fleet import Curve, Progress, Result, Score, Training
from sagpool.fleet.versions import versions
from sagpool.graphs import load
from sagpool.report import write_report

METHODS = ("set2set-g", "sortpool-g", "sagpool-g*", "gpool-h", "diffpool-h", "sagpool-h*")
RATES = (5e-4, 1e-3, 5e-3)
SEEDS = 20
EPOCHS = 130  # mean on PROTEINS with the authors' settings


@dataclass(frozen=True)
class Pretend:
    """An engine that immediately reports made-up results."""

    device: str = "nowhere"

    def run(self, jobs: Iterable[Job], watcher: Watcher) -> None:
        waiting = deque(jobs)
        while waiting:
            job = waiting.popleft()
            for training in job.trainings:
                if training not in job.done:
                    watcher.outcome(job, made_up(training))
            waiting.extend(watcher.ended(job, ""))


@dataclass(frozen=True)
class Counter:
    """A watcher that counts trainings; the local engine reports some of them twice."""

    done: set[Training] = field(default_factory=set)

    def outcome(self, job: Job, outcome: Outcome) -> None:
        self.done.add(outcome.training)

    def progress(self, job: Job, progress: Progress) -> None:
        pass

    def ended(self, job: Job, problem: str) -> tuple[Job, ...]:
        return ()


def made_up(training: Training) -> Result:
    draws = np.random.default_rng([training.seed, training.fold, len(training.method)])
    epochs = int(draws.integers(EPOCHS // 2, EPOCHS * 3 // 2))
    loss = np.exp(-np.arange(epochs) / 40) * 0.3 + 0.5 + draws.normal(0, 0.02, epochs)
    score = Score(0.5, float(draws.normal(0.72, 0.04)))
    return Result(
        training=training,
        diverged=False,
        best_epoch=epochs - 50 if epochs > 50 else epochs,
        epochs=epochs,
        train=score,
        validation=score,
        test=score,
        confusion=np.array([[40, 10], [15, 46]]),
        curve=Curve(loss - 0.05, loss, 1 - loss / 2),
        parameters=60_000,
        seconds=1.0,
    )


def overhead(folder: Path) -> tuple[int, dict[str, float]]:
    """The number of trainings, and the seconds of each step."""
    store_path = folder / "runs.sqlite"
    experiment = load_experiment("lee2019")
    spent = {"plan": 0.0, "store": 0.0, "report": 0.0}
    for rate in RATES:
        begin = time.perf_counter()
        overrides = Overrides(("MUTAG",), METHODS, seeds=SEEDS, settings={"lr": (rate,)})
        planned = plan_experiment(experiment, overrides)
        spent["plan"] += time.perf_counter() - begin
        begin = time.perf_counter()
        with Store.writing(store_path) as store:
            invocation = store.begin("sagpool bench", "lee2019", "nowhere", versions())
            ExperimentRunner(planned, store, Pretend(), invocation).run()
            trainings = len(store.keys())
        spent["store"] += time.perf_counter() - begin
    begin = time.perf_counter()
    write_report(store_path, folder / "report")
    spent["report"] = time.perf_counter() - begin
    return trainings, spent


def seconds_of_a_training(folder: Path, device: str) -> float:
    """Ten folds on MUTAG with the authors' settings, in one fleet."""
    job = Job(
        load("MUTAG"),
        tuple(Training("sagpool-h", fold=fold) for fold in range(10)),
        frozenset(),
        "float32",
        lambda training: False,
    )
    begin = time.perf_counter()
    Local(folder / "checkpoints", device).run([job], Counter())
    return (time.perf_counter() - begin) / 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainings, spent = overhead(Path(folder))
        each = seconds_of_a_training(Path(folder), options.device)
    total = sum(spent.values())
    outcome = {
        "ratios": {"training_over_overhead": each * trainings / total},
        "trainings": trainings,
        "overhead_percent": 100 * total / (each * trainings),
        "seconds": spent,
        "seconds_of_a_training": each,
    }
    if options.json:
        print(json.dumps(outcome))
    else:
        print(
            f"{trainings} trainings: planning {spent['plan']:.1f} s, "
            f"storing {spent['store']:.1f} s, reporting {spent['report']:.1f} s; "
            f"{outcome['overhead_percent']:.2f} % of the "
            f"{each * trainings:.0f} s that the trainings would take"
        )


if __name__ == "__main__":
    main()
