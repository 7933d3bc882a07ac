"""The worker process of a Ray cluster: trains one chunk after another."""

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch

import sagpool
from sagpool.bench.engines.suspended import FleetPart, split_checkpoint
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError
from sagpool.fleet import NUMERICS, Progress, Result, Training
from sagpool.fleet.memory import choose_fleet_size
from sagpool.graphs import Graphs
from sagpool.models import load_plugin, method_version, methods
from sagpool.ops.device import find_device

# A worker accepts this many times the trainings that fit into one fleet: freed slots are refilled
# without a round trip to the driver.
FLEETS = 4


def library_versions() -> dict[str, str]:
    """Versions that must be the same on all machines for rows to be comparable."""
    return {"sagpool": sagpool.__version__, "numerics": str(NUMERICS), "torch": torch.__version__}


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that is ready."""

    node: str  # id of its machine
    libraries: dict[str, str]  # its `library_versions`
    methods: dict[str, str]  # versions of all methods that it knows, by name


@dataclass(frozen=True, eq=False)
class Task:
    """A chunk with everything that a worker needs to train it."""

    trainings: tuple[Training, ...]  # of one shape
    keep_weights: frozenset[Training]  # those whose results should include the weights
    precision: str  # a name in `PRECISIONS`
    members: int | None  # the largest fleet; None: as many as fit
    state: bytes | None  # checkpoint of a stopped fleet to resume


@dataclass(frozen=True, eq=False)
class Report:
    """What has happened since the last report."""

    results: tuple[Result, ...]
    epochs: int  # of all members together
    running: int  # members
    ended: bool  # whether the worker is idle
    error: str
    parts: tuple[FleetPart, ...]  # of a fleet that was stopped to be split


class _SplitError(Exception):
    """Stops a fleet so that it can be split."""


class Worker:
    """Trains chunks in a background thread, with `train` of `sagpool.fleet` or a replacement."""

    def __init__(self, device: str, threads: int, train: Callable[..., object]) -> None:
        self.device, self.threads, self.train = find_device(device), threads, train
        self.lock = threading.Lock()
        self.data = ""
        self.ended = threading.Event()

    def start(self, plugins: Sequence[str]) -> WorkerInfo:
        """Load the plugins of the driver."""
        for plugin in plugins:
            load_plugin(plugin)
        node = ray.get_runtime_context().get_node_id()
        known = {name: method_version(name) for name in methods()}
        return WorkerInfo(node, library_versions(), known)

    def begin(self, data: Sequence[Any], task: Task) -> int:
        """Start to train; returns how many of the trainings, from the first, are accepted.

        ``data`` is a reference to the graphs, in a list so that Ray does not fetch them each time.
        """
        if data[0].hex() != self.data:
            self.graphs = ray.get(data[0]).to(self.device)
            self.data = data[0].hex()
        torch.set_num_threads(self.threads)
        trainings = list(task.trainings)
        if task.state is None:
            dtype = PRECISIONS[task.precision].dtype
            size = choose_fleet_size(self.graphs, trainings, dtype, task.members)
            trainings = trainings[: FLEETS * size.members]
        self.results: list[Result] = []
        self.epochs = self.reported_epochs = self.running = self.split_into = 0
        self.error, self.parts = "", list[FleetPart]()
        self.ended.clear()
        arguments = (self.graphs, trainings, task)
        threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return len(trainings)

    def poll(self, seconds: float) -> Report:
        """Report after that many seconds, or when the chunk ends."""
        self.ended.wait(seconds)
        with self.lock:
            ended = self.ended.is_set()
            results, self.results = self.results, []
            epochs, self.reported_epochs = self.epochs - self.reported_epochs, self.epochs
            return Report(
                tuple(results), epochs, self.running, ended, self.error, tuple(self.parts)
            )

    def split(self, parts: int) -> None:
        """Stop after this epoch and return the unfinished trainings in that many parts."""
        self.split_into = parts

    def _run(self, graphs: Graphs, trainings: list[Training], task: Task) -> None:
        torch.set_num_threads(self.threads)  # the setting is per Python thread
        dtype, keep_weights = PRECISIONS[task.precision].dtype, task.keep_weights.__contains__
        try:
            with computing_in(task.precision, self.device), TemporaryDirectory() as folder:
                file = Path(folder) / "fleet.npz"
                if task.state is not None:
                    file.write_bytes(task.state)
                try:
                    self.train(
                        graphs,
                        trainings,
                        members=task.members,
                        device=self.device,
                        dtype=dtype,
                        keep_weights=keep_weights,
                        on_result=self._on_result,
                        on_progress=self._on_progress,
                        checkpoint=file,
                        checkpoint_seconds=float("inf"),
                    )
                except _SplitError:
                    self.parts = split_checkpoint(
                        file, graphs, trainings, dtype, keep_weights, self.split_into
                    )
        except SagpoolError as error:
            self.error = str(error)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            line = f"{Path(at.filename).name}, line {at.lineno}"
            self.error = f"{type(error).__name__} in {line}: {error}"
        finally:
            with self.lock:
                self.ended.set()

    def _on_result(self, result: Result) -> None:
        with self.lock:
            self.results.append(result)

    def _on_progress(self, progress: Progress) -> None:
        self.epochs, self.running = progress.epochs, progress.running
        if self.split_into > 1 and progress.total - progress.done > 1:
            raise _SplitError
