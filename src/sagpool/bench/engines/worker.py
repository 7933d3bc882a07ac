"""The worker process of a Ray cluster: trains one chunk after another."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import torch

import sagpool
from sagpool.bench.engines.suspended import FleetPart, split_checkpoint
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError, place
from sagpool.fleet import NUMERICS, Outcome, Progress, Training
from sagpool.fleet.memory import choose_fleet_size
from sagpool.fleet.state import MemberState
from sagpool.graphs import Graphs
from sagpool.models import load_plugin, method_version, methods
from sagpool.ops.device import find_device

# A worker accepts this many times the trainings of one fleet, so that free slots are refilled
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

    trainings: tuple[Training, ...]  # trainings of one shape
    keep_weights: frozenset[Training]  # trainings whose results should include the weights
    precision: str  # a name in `PRECISIONS`
    members: int | None  # size of the largest fleet; None for as many members as fit
    until: int | None  # the epoch after which trainings pause
    begun: Mapping[Training, Any]  # references to the states of begun trainings


@dataclass(frozen=True, eq=False)
class Report:
    """Events since the last report."""

    outcomes: tuple[Outcome, ...]
    epochs: int  # sum over all members, since the last report
    running: int  # number of members
    ended: bool  # whether the worker is idle
    error: str
    parts: tuple[FleetPart, ...]  # parts of a fleet that was stopped to be split


class _SplitError(Exception):
    """Stops a fleet so that it can be split."""


class Worker:
    """Trains chunks in a background thread, with `train_until` or a replacement."""

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
        """Start to train; returns how many trainings, counted from the first, are accepted.

        ``data`` is a reference to the graphs, in a list so that Ray does not fetch them each time.
        """
        if data[0].hex() != self.data:
            self.graphs = ray.get(data[0]).to(self.device)
            self.data = data[0].hex()
        torch.set_num_threads(self.threads)
        trainings = list(task.trainings)
        dtype = PRECISIONS[task.precision].dtype
        size = choose_fleet_size(self.graphs, trainings, dtype, task.members)
        trainings = trainings[: FLEETS * size.members]
        self.outcomes: list[Outcome] = []
        self.epochs = self.reported_epochs = self.running = self.split_into = 0
        self.reported: set[Training] = set()
        self.error, self.parts = "", tuple[FleetPart, ...]()
        self.ended.clear()
        started = [one for one in trainings if one in task.begun]
        begun = dict(zip(started, ray.get([task.begun[one] for one in started]), strict=True))
        arguments = (self.graphs, trainings, begun, task)
        threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return len(trainings)

    def poll(self, seconds: float) -> Report:
        """Report after ``seconds``, or when the chunk ends."""
        self.ended.wait(seconds)
        with self.lock:
            ended = self.ended.is_set()
            outcomes, self.outcomes = self.outcomes, []
            epochs, self.reported_epochs = self.epochs - self.reported_epochs, self.epochs
            return Report(tuple(outcomes), epochs, self.running, ended, self.error, self.parts)

    def split(self, parts: int) -> None:
        """Stop after this epoch and return the unfinished trainings in ``parts`` parts."""
        self.split_into = parts

    def _run(
        self,
        graphs: Graphs,
        trainings: list[Training],
        begun: dict[Training, MemberState],
        task: Task,
    ) -> None:
        torch.set_num_threads(self.threads)  # the setting is per Python thread
        dtype, keep_weights = PRECISIONS[task.precision].dtype, task.keep_weights.__contains__
        try:
            with computing_in(task.precision, self.device), TemporaryDirectory() as folder:
                file = Path(folder) / "fleet.npz"
                try:
                    self.train(
                        graphs,
                        trainings,
                        members=task.members,
                        device=self.device,
                        dtype=dtype,
                        keep_weights=keep_weights,
                        keep_predictions=True,
                        on_result=self._on_outcome,
                        on_progress=self._on_progress,
                        checkpoint=file,
                        checkpoint_seconds=float("inf"),
                        until=task.until,
                        begun=begun,
                    )
                except _SplitError:
                    stopped = split_checkpoint(
                        file, graphs, trainings, dtype, keep_weights, task.until, self.split_into
                    )
                    for outcome in stopped.outcomes:
                        if outcome.training not in self.reported:
                            self._on_outcome(outcome)
                    self.parts = stopped.parts
                    # Some epochs may have followed the last reported progress.
                    self.epochs = stopped.epochs - sum(state.epoch for state in begun.values())
        except SagpoolError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"{type(error).__name__} in {place(error)}: {error}"
        finally:
            with self.lock:
                self.ended.set()

    def _on_outcome(self, outcome: Outcome) -> None:
        with self.lock:
            self.outcomes.append(outcome)
            self.reported.add(outcome.training)

    def _on_progress(self, progress: Progress) -> None:
        self.epochs, self.running = progress.epochs, progress.running
        if self.split_into > 1 and progress.total - progress.done > 1:
            raise _SplitError
