"""The cost of the Ray engine compared with the local one, on one machine.

First, 200 trainings with each engine, with one thread for each core. Second, an experiment of
1,000,000 fake trainings that take no time, to measure planning, chunking, sending and storing: a
grid search over 5,000 learning rates on ten folds for each of 20 methods.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from ray import cloudpickle

import overhead
from measure import by_turns
from overhead import Counter, made_up
from sagpool.bench.engines import Job, Local
from sagpool.bench.engines.cluster import connected
from sagpool.bench.engines.on_ray import Ray
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.experiment_plan import plan_experiment
from sagpool.bench.plan import Overrides, repeat
from sagpool.bench.run import ExperimentRunner
from sagpool.bench.store import Store
from sagpool.fleet import Result, Training
from sagpool.fleet.versions import versions
from sagpool.graphs import Graphs, load
from sagpool.models import methods

METHODS, FOLDS = 20, 10
FLEET = 500  # as on a GPU


def seconds_of_200(
    dataset: str, epochs: int, repeats: int, folder: Path
) -> tuple[dict[str, float], float]:
    """Seconds with each engine, and seconds of the first run with Ray, which starts the workers."""
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    template = Training("sagpool-h", hidden=32, lr=5e-3, max_epochs=epochs, patience=epochs)
    trainings = tuple(repeat(template, seeds=20))
    assert len(trainings) == 200
    # With equal lengths, all trainings would end at the same time.
    lengths = np.random.default_rng(0).integers(epochs // 2, epochs * 3 // 2, len(trainings))
    trainings = tuple(
        replace(one, max_epochs=int(length)) for one, length in zip(trainings, lengths, strict=True)
    )
    job = Job(load(dataset), trainings, frozenset(), "float32", lambda training: False)
    engines = {"local": Local(folder / "checkpoints"), "ray": Ray("cpu")}

    def run(name: str) -> float:
        counter = Counter()
        begin = time.perf_counter()
        engines[name].run([job], counter)
        assert counter.done == set(trainings)
        return time.perf_counter() - begin

    first = run("ray")
    seconds = by_turns({"local": lambda: run("local"), "ray": lambda: run("ray")}, repeats)
    return seconds, first


def pretend(
    graphs: Graphs,
    trainings: Sequence[Training],
    *,
    on_result: Callable[[Result], None],
    **others: object,
) -> None:
    for training in trainings:
        on_result(made_up(training))


def drain(trainings: int, folder: Path) -> tuple[float, float]:
    """Rows per second, from the plan to the last row in the store, and the driver's peak megabytes.

    Call it in a separate process.
    """
    for module in (overhead, sys.modules[pretend.__module__]):
        cloudpickle.register_pickle_by_value(module)  # workers cannot import it
    with connected():
        rows = _drain(trainings, folder)
    status = Path("/proc/self/status").read_text()  # getrusage would include the parent
    return rows, int(status.split("VmHWM:")[1].split()[0]) / 1024


def _drain(trainings: int, folder: Path) -> float:
    rates = tuple(np.geomspace(1e-5, 1e-1, trainings // (METHODS * FOLDS)).tolist())
    begin = time.perf_counter()
    experiment = replace(load_experiment("lee2019"), grid=(), statistics={})
    overrides = Overrides(("MUTAG",), methods()[:METHODS], seeds=1, settings={"lr": rates})
    planned = plan_experiment(experiment, overrides, search="grid")
    with Store.writing(folder / "runs.sqlite") as store:
        number = store.begin("sagpool bench", "lee2019", "nowhere", versions())
        engine = Ray("cpu", members=FLEET, train=pretend)
        ExperimentRunner(planned, store, engine, number).run()
        stored = len(store.keys())
    assert stored == len(rates) * METHODS * FOLDS, stored
    return stored / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="MUTAG")
    parser.add_argument("--epochs", type=int, default=40, help="of a training, on average")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trainings", type=int, default=1_000_000, help="that take no time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with connected():
            seconds, first = seconds_of_200(
                options.dataset, options.epochs, options.repeats, folder
            )
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:
            rows, driver = apart.submit(drain, options.trainings, folder).result()
    outcome = {
        "ratios": {"ray_vs_local": seconds["local"] / seconds["ray"]},
        "rows_per_s": rows,
        "driver_mb": driver,
        "trainings": options.trainings,
        "seconds": {**seconds, "ray_first": first},
        "threads": torch.get_num_threads(),
    }
    if options.json:
        print(json.dumps(outcome))
        return
    print(
        f"200 trainings on {options.dataset} with {outcome['threads']} threads: local "
        f"{seconds['local']:.1f} s, Ray {seconds['ray']:.1f} s (the first time {first:.1f} s); "
        f"Ray's throughput is {100 * outcome['ratios']['ray_vs_local']:.0f} % of the local one\n"
        f"{options.trainings:,} trainings that take no time: {rows:.0f} rows/s, driver at most "
        f"{outcome['driver_mb']:.0f} MB"
    )


if __name__ == "__main__":
    main()
