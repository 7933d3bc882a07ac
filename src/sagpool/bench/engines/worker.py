"""What runs in a process of the cluster: fleets, one after the other."""

import os
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
from sagpool.bench.engines.suspended import Piece, cut
from sagpool.bench.precision import PRECISIONS, computing_in
from sagpool.errors import SagpoolError
from sagpool.fleet import NUMERICS, Progress, Result, Training
from sagpool.fleet.memory import choose_fleet_size
from sagpool.graphs import Graphs
from sagpool.ops.device import find_device

# A chunk is so many times as large as the fleet that fits beside each other: slots are refilled,
# and the driver need not be asked too often.
FLEETS = 4


def build() -> dict[str, str]:
    """What has to be the same on all machines, for rows to be comparable."""
    return {"sagpool": sagpool.__version__, "numerics": str(NUMERICS), "torch": torch.__version__}


@dataclass(frozen=True)
class Hello:
    """Of a worker that is ready."""

    build: dict[str, str]
    node: str  # id of the machine
    process: int


@dataclass(frozen=True, eq=False)
class Task:
    """A chunk, and all that is needed to do it.

    Args:
        trainings: of one shape
        keeps: those of them whose results are to carry their weights
        precision: a name in `PRECISIONS`
        members: how many side by side at the most; None: as many as fit
        state: of a fleet that was stopped, to go on with
    """

    trainings: tuple[Training, ...]
    keeps: frozenset[Training]
    precision: str
    members: int | None
    state: bytes | None


@dataclass(frozen=True, eq=False)
class Report:
    """What is new since the last one.

    Args:
        results: of trainings that are done
        epochs: of all members together
        running: members
        ended: whether the worker is idle
        error: what went wrong
        pieces: of a fleet that was stopped to be split
    """

    results: tuple[Result, ...]
    epochs: int
    running: int
    ended: bool
    error: str
    pieces: tuple[Piece, ...]


class _SplitError(Exception):
    """Ends a fleet, to be cut into pieces."""


class Worker:
    """Trains chunks, in a thread: so it can be asked while it does.

    Args:
        device: where to train
        threads: of the CPU
        train: `sagpool.fleet.train`, or what takes its place
    """

    def __init__(self, device: str, threads: int, train: Callable[..., object]) -> None:
        self.device, self.threads, self.train = find_device(device), threads, train
        self.lock = threading.Lock()
        self.data = ""
        self.ended = threading.Event()

    def hello(self) -> Hello:
        return Hello(build(), ray.get_runtime_context().get_node_id(), os.getpid())

    def begin(self, data: Sequence[Any], task: Task) -> int:
        """Start to train as many of the trainings, from the first on, as make a good chunk.

        Args:
            data: a reference to the graphs, in a list so that they are fetched when they change
            task: what is to be done
        """
        if data[0].hex() != self.data:
            self.graphs = ray.get(data[0]).to(self.device)
            self.data = data[0].hex()
        torch.set_num_threads(self.threads)
        trainings = list(task.trainings)
        if task.state is None:
            dtype = PRECISIONS[task.precision].dtype
            room = choose_fleet_size(self.graphs, trainings, dtype, task.members)
            trainings = trainings[: FLEETS * room.members]
        self.results: list[Result] = []
        self.epochs = self.told = self.running = self.split_into = 0
        self.error, self.pieces = "", list[Piece]()
        self.ended.clear()
        arguments = (self.graphs, trainings, task)
        threading.Thread(target=self._run, args=arguments, daemon=True).start()
        return len(trainings)

    def poll(self, seconds: float) -> Report:
        """What is new, after so many seconds or at the end of the chunk."""
        self.ended.wait(seconds)
        with self.lock:
            ended = self.ended.is_set()
            results, self.results = self.results, []
            epochs, self.told = self.epochs - self.told, self.epochs
            return Report(
                tuple(results), epochs, self.running, ended, self.error, tuple(self.pieces)
            )

    def split(self, pieces: int) -> None:
        """Stop after this epoch, and give all that is not done back in so many pieces."""
        self.split_into = pieces

    def _run(self, graphs: Graphs, trainings: list[Training], task: Task) -> None:
        torch.set_num_threads(self.threads)  # each thread of Python has its own number
        dtype, keeps = PRECISIONS[task.precision].dtype, task.keeps.__contains__
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
                        keep_weights=keeps,
                        on_result=self._keep,
                        on_progress=self._look,
                        checkpoint=file,
                        checkpoint_seconds=float("inf"),
                    )
                except _SplitError:
                    self.pieces = cut(file, graphs, trainings, dtype, keeps, self.split_into)
        except SagpoolError as error:
            self.error = str(error)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(at.filename).name}, line {at.lineno}"
            self.error = f"{type(error).__name__} in {where}: {error}"
        finally:
            with self.lock:
                self.ended.set()

    def _keep(self, result: Result) -> None:
        with self.lock:
            self.results.append(result)

    def _look(self, progress: Progress) -> None:
        self.epochs, self.running = progress.epochs, progress.running
        if self.split_into > 1 and progress.total - progress.done > 1:
            raise _SplitError
