"""Disturb a bench on a GPU while it records its steps, and compare its rows with undisturbed ones.

Memory runs out in the middle of a recording, Ctrl-C and SIGTERM arrive while a step is recorded,
and members are corrupted. Without a GPU the same faults happen in the middle of ordinary steps,
except for faults that need the memory of a GPU.
"""

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Container
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from kill_bench import distance, read

from sagpool.cli.main import main as sagpool
from sagpool.fleet import lockstep, recording
from sagpool.fleet.fleet import Fleet

WORDS = (
    "bench demo --method sagpool-h,gpool-h --seeds 2 --folds 10 --precision float64 "
    "--set hidden=8 --set max_epochs=60 --set patience=8 --checkpoint-seconds 1"
)
# Shrunken fleets, and members beside others, round differently; in float64 that stays small.
TOLERANCE = 1e-6
TOO_MUCH = 2**50  # bytes
NOTICED = 0.3  # seconds after which a signal has reached the main thread
HUGE_RATE = 1e300


class Fault(NamedTuple):
    """A fault of the bench.

    Args:
        code: exit code after the fault
        gpu_only: whether the fault needs the memory of a GPU
    """

    name: str
    code: int = 0
    gpu_only: bool = False


FAULTS = {
    "undisturbed": Fault("nothing"),
    "memory-once": Fault("out of memory in a recording"),
    "memory-always": Fault("out of memory in every recording", gpu_only=True),
    "memory-scarce": Fault("no memory beyond that of the first epoch", gpu_only=True),
    "int-early": Fault("Ctrl-C in an early recording", 130),
    "int-late": Fault("Ctrl-C in a late recording", 130),
    "term-early": Fault("SIGTERM in an early recording", 143),
    "term-late": Fault("SIGTERM in a late recording", 143),
    "poison": Fault("a member with NaN weights, and one with a huge learning rate"),
}


class Trial(NamedTuple):
    """The outcome of a fault."""

    name: str
    details: str
    problem: str  # empty if there was none


class Notes:
    """Messages of the disturbed process to the script: a line of a file for each event."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, line: str) -> None:
        with self.file.open("a") as out:
            out.write(f"{line}\n")

    def read(self, first_word: str) -> list[list[str]]:
        """The other words of the lines that begin with this word."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [line.split()[1:] for line in lines if line.split()[0] == first_word]


def run_disturbed(name: str, notes: Notes, number: int, on_gpu: bool, store: Path) -> None:
    """Run the bench in this process, with a fault in the step of this number."""
    run_out = partial(torch.empty, TOO_MUCH, dtype=torch.uint8, device=device_name(on_gpu))
    steps: Container[int] = (number,)
    match name.split("-"):
        case ["undisturbed"]:
            disturb_steps((), run_out, notes, on_gpu)
        case ["memory", "scarce"]:
            limit_memory(notes)
        case ["memory", when]:
            every = range(1, sys.maxsize)
            disturb_steps(every if when == "always" else steps, run_out, notes, on_gpu)
        case ["int", _]:
            disturb_steps(steps, partial(send, signal.SIGINT, notes, store), notes, on_gpu)
        case ["term", _]:
            disturb_steps(steps, partial(send, signal.SIGTERM, notes, store), notes, on_gpu)
        case ["poison"]:
            poison_members(notes)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    sys.argv[1:] = [*WORDS.split(), "--device", device_name(on_gpu), "--store", str(store)]
    sagpool()


def device_name(on_gpu: bool) -> str:
    return "cuda" if on_gpu else "cpu"


def disturb_steps(
    numbers: Container[int], act: Callable[[], object], notes: Notes, on_gpu: bool
) -> None:
    """Call a function in the middle of training steps that are being recorded.

    The call comes between the backward pass and Adam. Without a GPU nothing is recorded, and it
    comes in every step.
    """
    adam_step, counter, lock = lockstep.adam_step, itertools.count(1), threading.Lock()

    def disturbed(*arguments: object) -> None:
        if not on_gpu or torch.cuda.is_current_stream_capturing():
            with lock:
                number = next(counter)
                notes.add(f"step {number}")
            if number in numbers:
                notes.add("fault")
                act()
        adam_step(*arguments)

    lockstep.adam_step = disturbed


def send(sent: signal.Signals, notes: Notes, store: Path) -> None:
    """Send a signal to this process, and continue the step when the main thread has received it."""
    notes.add(f"rows {len(read(store))}")
    os.kill(os.getpid(), sent)
    time.sleep(NOTICED)


def limit_memory(notes: Notes) -> None:
    """From the first recording on, limit the process to the GPU memory that it has by then."""
    captured, limited = recording._captured, threading.Event()

    def with_limit(*arguments: object) -> torch.cuda.CUDAGraph:
        if not limited.is_set():
            limited.set()
            total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            torch.cuda.set_per_process_memory_fraction(torch.cuda.memory_reserved() / total)
        try:
            return captured(*arguments)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError):
                notes.add("fault")
            raise

    recording._captured = with_limit


def poison_members(notes: Notes) -> None:
    """Give a member of the first fleet NaN weights, and another one a huge learning rate."""
    advance, poisoned, calls = Fleet.advance, list[Fleet](), itertools.count(1)

    def with_poison(fleet: Fleet, *arguments: object) -> object:
        if not poisoned:
            poisoned.append(fleet)
        # In the second call, when the fleet has trained for some epochs.
        if fleet is poisoned[0] and next(calls) == 2:
            notes.add("fault")
            fleet.state.weights[0] = float("nan")
            fleet.settings.lr[1] = HUGE_RATE
            for number in fleet.slots.running[:2].tolist():
                training = fleet.trainings[number]
                notes.add(f"poisoned {training.method} {training.seed} {training.fold}")
        return advance(fleet, *arguments)

    Fleet.advance = with_poison


class Process(NamedTuple):
    code: int
    printed: str


def start(name: str, folder: Path, number: int, on_gpu: bool) -> Process:
    """Run the bench with a fault in a separate process."""
    words = [__file__, "--inside", name, "--folder", str(folder), "--number", str(number)]
    if not on_gpu:
        words.append("--cpu")
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    return Process(done.returncode, done.stderr)


Rows = dict[str, dict[str, object]]


def largest_difference(rows: Rows, expected: Rows) -> float:
    """The largest difference between rows with the same key; infinite for an unknown key."""
    if not rows.keys() <= expected.keys():
        return float("inf")
    return max((distance(expected[key], row) for key, row in rows.items()), default=0.0)


def try_fault(name: str, folder: Path, number: int, on_gpu: bool, expected: Rows) -> Trial:
    """Disturb the bench; if it was stopped, run it again to its end."""
    fault, store, notes = FAULTS[name], folder / "runs.sqlite", Notes(folder / "notes")
    done = start(name, folder, number, on_gpu)
    details = ""

    def trial(problem: str) -> Trial:
        return Trial(fault.name, details, problem)

    if done.code != fault.code or "Traceback" in done.printed:
        return trial(f"exit code {done.code}: {done.printed[-500:]}")
    if not notes.read("fault"):
        return trial("the fault did not happen")
    if fault.code:
        before = int(notes.read("rows")[0][0])
        kept = read(store)
        details = f"{len(kept)} rows when it was stopped, "
        if len(kept) < before:
            return trial(f"{before - len(kept)} rows were lost")
        if (difference := largest_difference(kept, expected)) > TOLERANCE:
            return trial(f"rows of the stopped run differ by {difference:.1e}")
        done = start("undisturbed", folder, 0, on_gpu)
        if done.code:
            return trial(f"cannot be continued: {done.printed[-500:]}")
    rows = read(store)
    details += f"{len(rows)} rows"
    if rows.keys() != expected.keys():
        return trial(f"{len(expected.keys() - rows.keys())} rows are missing")
    poisoned = {tuple(words) for words in notes.read("poisoned")}
    others = {
        key: row
        for key, row in rows.items()
        if (row["method"], str(row["seed"]), str(row["fold"])) not in poisoned
    }
    if poisoned:
        details += f", {len(poisoned)} of them poisoned"
        if not all(row["diverged"] for key, row in rows.items() if key not in others):
            return trial("a poisoned member is not recorded as diverged")
    difference = largest_difference(others, expected)
    details += f", largest difference {difference:.1e}"
    return trial("other rows" if difference > TOLERANCE else "")


def try_all(names: list[str], folder: Path, on_gpu: bool, at_once: int) -> list[Trial]:
    for name in ("undisturbed", *names):
        (folder / name).mkdir()
    whole = folder / "undisturbed"
    done = start("undisturbed", whole, 0, on_gpu)
    if done.code:
        raise SystemExit(f"The undisturbed bench ended with {done.code}:\n{done.printed}")
    expected, steps = read(whole / "runs.sqlite"), len(Notes(whole / "notes").read("step"))
    if steps < 2:
        raise SystemExit("No step was recorded, so there is nothing to disturb.")
    print(f"undisturbed: {len(expected)} rows, {steps} {'recorded ' * on_gpu}steps", flush=True)

    def disturbed(name: str) -> Trial:
        number = max(2, int(0.8 * steps)) if name.endswith("late") else 2
        trial = try_fault(name, folder / name, number, on_gpu, expected)
        outcome = f"FAILED: {trial.problem}" if trial.problem else "ok"
        print(f"{trial.name}: {trial.details}{', ' * bool(trial.details)}{outcome}", flush=True)
        return trial

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(disturbed, names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = [name for name in FAULTS if name != "undisturbed"]
    parser.add_argument("--only", nargs="+", choices=known, default=known)
    parser.add_argument("--cpu", action="store_true", help="even if there is a GPU")
    parser.add_argument("--at-once", type=int, help="processes; by default 4 on a GPU, else 1")
    parser.add_argument("--inside", choices=FAULTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    on_gpu = torch.cuda.is_available() and not options.cpu
    if options.inside:
        folder = options.folder
        notes, store = Notes(folder / "notes"), folder / "runs.sqlite"
        run_disturbed(options.inside, notes, options.number, on_gpu, store)
        return
    names = [name for name in options.only if on_gpu or not FAULTS[name].gpu_only]
    for name in options.only:
        if name not in names:
            print(f"{FAULTS[name].name}: skipped, there is no GPU")
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trials = try_all(names, Path(folder), on_gpu, options.at_once or (4 if on_gpu else 1))
    failed = sum(bool(trial.problem) for trial in trials)
    print(f"{len(trials)} faults, {failed} failed, {time.perf_counter() - begin:.0f} s.")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
