"""PyG at its fastest: many processes that share the GPU under NVIDIA MPS."""

import gc
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch
from torch_geometric.loader import DataLoader

from pyg_models import pyg_epoch, pyg_model
from sagpool import load
from sagpool.fleet import Training
from sagpool.fleet.schedule import split_of

CONTROL = "nvidia-cuda-mps-control"
# Checks that a process can use a GPU, and does so through MPS. If MPS starts but does not work, as
# in some containers, the first use of CUDA fails or never returns.
PROBE = f"""
import subprocess, sys, torch
torch.zeros(1, device="cuda").item()
ask = dict(input="get_server_list\\n", capture_output=True, text=True, timeout=20)
servers = subprocess.run(["{CONTROL}"], **ask).stdout
print(servers)
sys.exit(not any(line.strip().isdigit() for line in servers.splitlines()))
"""
PROBE_SECONDS = 90
WARM_UP = 2  # epochs
PATIENCE = 240  # seconds to start the processes, collate and warm up


class PeerError(Exception):
    """A process of the peer failed."""


class Case(NamedTuple):
    dataset: str
    training: Training


class Outcome(NamedTuple):
    mps: bool  # whether the processes shared the GPU under MPS instead of time slices
    rates: dict[str, float]  # models · training steps per second
    failures: dict[str, str]  # reasons why a case has no rate


def mps_rates(cases: Mapping[str, Case], device: str, seconds: float, processes: int) -> Outcome:
    """Models · training steps per second of ``processes`` PyG models at the same time.

    PyG cannot train several models together, but processes can share a GPU without any change to
    the model, and small data need be collated only once.

    Call it before this process has a CUDA context, which MPS would not manage.
    """
    rates, failures, crew = {}, {}, None
    with mps_server(device) as mps:
        try:
            for name, case in cases.items():
                crew = crew or Crew(processes, device)
                try:
                    rates[name] = crew.rate(case, seconds)
                    print(f"{name}: {processes} PyG processes {rates[name]:.1f}", file=sys.stderr)
                except PeerError as error:
                    failures[name] = str(error)
                    print(f"{name}: PyG processes failed: {error}", file=sys.stderr)
                    crew.close()
                    crew = None  # the next case starts new processes
        finally:
            if crew is not None:
                crew.close()
    return Outcome(mps, rates, failures)


class Crew:
    """Processes that train one PyG model each, at the same time."""

    def __init__(self, processes: int, device: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        threads = max(1, torch.get_num_threads() // processes)
        self.connections: list[Connection] = []
        self.processes = []
        for number in range(processes):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_work, args=(theirs, number, device, threads))
            process.daemon = True
            process.start()
            theirs.close()  # so that the pipe closes when the process ends
            self.connections.append(ours)
            self.processes.append(process)

    def rate(self, case: Case, seconds: float) -> float:
        """The total rate of all processes, measured while all of them train."""
        self._tell((case, seconds))
        self._answers(PATIENCE)  # all are ready
        self._tell("go")
        rates = self._answers(seconds + PATIENCE)
        self._tell("stop")
        return sum(rates)

    def close(self) -> None:
        for connection in self.connections:
            with suppress(OSError):
                connection.send(None)
        deadline = time.monotonic() + 30
        for process, connection in zip(self.processes, self.connections, strict=True):
            process.join(max(0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(10)
            connection.close()

    def _tell(self, what: object) -> None:
        for number, connection in enumerate(self.connections):
            try:
                connection.send(what)
            except OSError:
                raise PeerError(self._ended(number)) from None

    def _answers(self, limit: float) -> list[float]:
        """One number from each process."""
        answers, deadline = [], time.monotonic() + limit
        for number, connection in enumerate(self.connections):
            if not connection.poll(max(0, deadline - time.monotonic())):
                raise PeerError(f"process {number} did not answer within {limit:.0f} s")
            try:
                answer = connection.recv()
            except (EOFError, OSError):
                raise PeerError(self._ended(number)) from None
            if isinstance(answer, str):
                raise PeerError(f"process {number}: {answer}")
            answers.append(answer)
        return answers

    def _ended(self, number: int) -> str:
        self.processes[number].join(10)
        return f"process {number} ended with exit code {self.processes[number].exitcode}"


def _work(connection: Connection, number: int, device: str, threads: int) -> None:
    """One process: measures case after case, until it receives None or something fails."""
    torch.set_num_threads(threads)
    try:
        while (order := connection.recv()) is not None:
            case, seconds = order
            training = replace(case.training, seed=number // 10, fold=number % 10)
            if not _serve(connection, collated_epochs(case.dataset, training, device), seconds):
                return
            gc.collect()
            if device != "cpu":
                torch.cuda.empty_cache()  # other processes may need the memory in the next case
    except (EOFError, BrokenPipeError):
        return  # the parent has ended
    except Exception as error:
        text = str(error).strip() or "no reason given"
        with suppress(OSError):
            connection.send(f"{type(error).__name__}: {text.splitlines()[0][:300]}")


def _serve(connection: Connection, epoch: Callable[[], int], seconds: float) -> bool:
    """Measure one case together with the others; False if it was cancelled."""
    for _ in range(WARM_UP):
        epoch()
    connection.send(0.0)
    if connection.recv() is None:
        return False
    steps, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        steps += epoch()
    connection.send(steps / elapsed)
    while not connection.poll():
        epoch()  # while other processes are being measured
    return connection.recv() is not None


def collated_epochs(dataset: str, training: Training, device: str) -> Callable[[], int]:
    """Epochs of one PyG model, over batches that were collated once and stay on the device."""
    torch.manual_seed(training.seed * training.folds + training.fold)
    shuffled = random.Random(training.seed * training.folds + training.fold)
    graphs = load(dataset)
    data, parts = graphs.to_pyg(), split_of(graphs, training)
    train, validation = (
        [
            (batch.y, (batch.x, batch.edge_index, batch.batch, batch.num_graphs))
            for batch in (
                batch.to(device)
                for batch in DataLoader(
                    [data[i] for i in ids], batch_size=training.batch_size, shuffle=shuffle
                )
            )
        ]
        for ids, shuffle in ((parts.train, True), (parts.validation, False))
    )
    model = pyg_model(training, graphs).to(device)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=training.lr, weight_decay=training.weight_decay, fused=True
    )

    def epoch() -> int:
        return pyg_epoch(model, optimiser, shuffled.sample(train, len(train)), validation)

    return epoch


@contextmanager
def mps_server(device: str) -> Iterator[bool]:
    """Start MPS for the processes started inside, which find it by environment variables.

    Yields whether it works; if not, processes share the GPU by time slices.
    """
    if device == "cpu" or shutil.which(CONTROL) is None:
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="mps", ignore_cleanup_errors=True) as folder:
        try:
            running = _start(Path(folder))
            if not running:
                _stop()
            yield running
        finally:
            _stop()


def _start(folder: Path) -> bool:
    """Start the daemon; returns whether a process can use the GPU through it."""
    for use in ("pipe", "log"):
        (folder / use).mkdir()
        os.environ[f"CUDA_MPS_{use.upper()}_DIRECTORY"] = str(folder / use)
    try:
        # Output goes to a file: the daemon would keep a pipe open, and run() would never return.
        with (folder / "start").open("w") as output:
            subprocess.run(
                [CONTROL, "-d"],
                check=True,
                timeout=30,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        with (folder / "probe").open("w") as output:
            subprocess.run(
                [sys.executable, "-c", PROBE],
                check=True,
                timeout=PROBE_SECONDS,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
    except (OSError, subprocess.SubprocessError) as error:
        what = type(error).__name__
        print(f"No MPS ({what}): processes share the GPU by time slices.", file=sys.stderr)
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            text = file.read_text(errors="replace").strip()
            print(f"{file.name}: {text[-600:]}", file=sys.stderr)
        return False
    return True


def _stop() -> None:
    """Stop the daemon, if there is one, and remove its environment variables."""
    if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ:
        return
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([CONTROL], input="quit\n", text=True, capture_output=True, timeout=30)
    for use in ("PIPE", "LOG"):
        os.environ.pop(f"CUDA_MPS_{use}_DIRECTORY", None)
