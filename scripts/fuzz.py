"""Give malformed inputs to all readers, and count the outcomes.

Deterministic: an input depends only on the seed, its target and its number. Each target knows the
content of an accepted input, from a second parser or by reading back what was written; any other
result is *wrong*. Inputs run in processes with a limit on memory and time.

    accepted    the result is right
    refused     a `SagpoolError`, one sentence
    traceback   any other exception
    hang        more than 10 seconds
    memory      more than 1 GB, or no memory
    wrong       accepted, and not what the input says; or a valid input that was refused
"""

import argparse
import json
import logging
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

TARGETS = {
    "tu": ("readers", "TU", 8000),
    "zip": ("readers", "Zip", 3000),
    "jsonl": ("readers", "JsonLines", 8000),
    "smiles": ("readers", "SmilesTable", 3000),
    "sdf": ("readers", "Sdf", 1500),
    "cache": ("readers", "Cache", 3000),
    "names": ("readers", "Loading", 500),
    "pyg": ("objects", "Pyg", 2500),
    "networkx": ("objects", "Networkx", 2500),
    "edge_index": ("objects", "EdgeIndex", 2000),
    "store": ("saved", "Stores", 4000),
    "model": ("saved", "Models", 3000),
    "checkpoint": ("saved", "Checkpoints", 3000),
    "yaml": ("saved", "Experiments", 4000),
    "options": ("options", "Options", 3000),
}
OUTCOMES = ("accepted", "refused", "traceback", "hang", "memory", "wrong")
SECONDS, MEGABYTES = 10, 1024
CHUNK = 100  # inputs that a process gets at a time


class Ended(NamedTuple):
    target: str
    number: int
    outcome: str
    reason: str = ""


class Inputs:
    """Runs inputs in this process."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.targets: dict[str, Any] = {}

    def prepare(self, name: str) -> None:
        if name not in self.targets:
            module, kind, _ = TARGETS[name]
            folder = self.folder / name
            folder.mkdir()
            self.targets[name] = getattr(import_module(f"fuzzing.{module}"), kind)(folder)

    def run(self, name: str, number: int) -> Ended:
        from fuzzing.target import WrongError

        from sagpool.errors import SagpoolError

        self.prepare(name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.targets[name].run(Random(f"{self.seed}/{name}/{number}"))
        except SagpoolError:
            return Ended(name, number, "refused")
        except WrongError as error:
            return Ended(name, number, "wrong", str(error))
        except MemoryError:
            return Ended(name, number, "memory", "no memory")
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            reason = f"{type(error).__name__} at {place}: {str(error)[:200]}"
            if "can't allocate memory" in reason:
                return Ended(name, number, "memory", reason)
            return Ended(name, number, "traceback", reason)
        return Ended(name, number, "accepted")


def quiet() -> None:
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    os.environ.update(
        no_proxy="*", http_proxy="http://127.0.0.1:1", https_proxy="http://127.0.0.1:1"
    )


def work(seed: int, pipe: Connection, folder: Path) -> None:
    """Run the inputs that come through the pipe; report each before and after it."""
    import torch

    torch.set_num_threads(1)
    quiet()
    os.environ["SAGPOOL_CACHE"] = str(folder / "cache")
    import_module("sagpool.graphs.named_datasets").official_site = lambda: "http://127.0.0.1:1"
    inputs = Inputs(seed, folder)
    # A forked process inherits the memory peak of its parent.
    most = max(MEGABYTES, _peak_megabytes() + MEGABYTES / 4)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    while True:
        name, first, last = pipe.recv()
        inputs.prepare(name)
        for number in range(first, last):
            pipe.send((name, number))
            ended = inputs.run(name, number)
            peak = _peak_megabytes()
            if peak > most:
                ended = ended._replace(outcome="memory", reason=f"{peak:.0f} MB")
            pipe.send(ended)
            if ended.outcome == "memory":
                return  # its peak would count for all later inputs
        pipe.send(None)


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Worker:
    """A process and its current input."""

    def __init__(self, seed: int, parent: Path) -> None:
        context = multiprocessing.get_context("fork")
        self.folder = Path(tempfile.mkdtemp(dir=parent))
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(seed, theirs, self.folder), daemon=True)
        self.process.start()
        theirs.close()
        self.chunk: tuple[str, int, int] | None = None
        self.current: tuple[str, int] | None = None
        self.since = time.monotonic()

    def give(self, chunk: tuple[str, int, int] | None) -> None:
        self.chunk, self.current = chunk, None
        if chunk is not None:
            self.since = time.monotonic() + 60  # preparing the target comes first
            self.pipe.send(chunk)

    def rest(self) -> tuple[str, int, int] | None:
        """The rest of the chunk after the current input."""
        assert self.chunk is not None
        name, first, last = self.chunk
        following = self.current[1] + 1 if self.current else first
        return (name, following, last) if following < last else None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_all(seed: int, chunks: list[tuple[str, int, int]], workers: int) -> Iterator[Ended]:
    """Run all inputs of the chunks in processes."""
    chunks = list(reversed(chunks))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as parent:
        pool = [Worker(seed, Path(parent)) for _ in range(workers)]
        for worker in pool:
            worker.give(chunks.pop() if chunks else None)
        while busy := [worker for worker in pool if worker.chunk]:
            ready = wait([worker.pipe for worker in busy], timeout=0.5)
            for worker in busy:
                failed = ""
                if worker.pipe in ready:
                    try:
                        told = worker.pipe.recv()
                    except (EOFError, ConnectionError):
                        worker.process.join()
                        failed = f"the process ended with {worker.process.exitcode}"
                    else:
                        if told is None:
                            worker.give(chunks.pop() if chunks else None)
                        elif isinstance(told, Ended):
                            yield told
                            if told.outcome == "memory":
                                failed = "told"
                        else:
                            worker.current, worker.since = told, time.monotonic()
                elif time.monotonic() - worker.since > SECONDS:
                    failed = "hang"
                if failed:
                    name, number = worker.current or worker.chunk[:2]
                    if failed != "told":
                        outcome = "hang" if failed == "hang" else "traceback"
                        yield Ended(name, number, outcome, failed)
                    worker.current = (name, number)
                    rest = worker.rest()
                    worker.stop()
                    pool[pool.index(worker)] = fresh = Worker(seed, Path(parent))
                    fresh.give(rest or (chunks.pop() if chunks else None))
        for worker in pool:
            worker.stop()


def chosen(options: argparse.Namespace) -> list[tuple[str, int, int]]:
    if options.only:
        name, _, number = options.only.partition(":")
        if name not in TARGETS:
            raise SystemExit(f"There is no target {name}; choose from {', '.join(TARGETS)}.")
        if number:
            return [(name, int(number), int(number) + 1)]
    chunks = []
    for name, (_, _, count) in TARGETS.items():
        count = max(1, round(count * options.scale))
        if not options.only or name == options.only:
            chunks += [(name, at, min(at + CHUNK, count)) for at in range(0, count, CHUNK)]
    return chunks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1, help="of the number of inputs")
    parser.add_argument("--only", metavar="TARGET[:NUMBER]", help="one target, or one input")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--here", action="store_true", help="in this process, without limits")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    begin = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    failures = []
    chunks = chosen(options)
    if options.here:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            inputs = Inputs(options.seed, Path(folder))
            results = [inputs.run(name, n) for name, a, b in chunks for n in range(a, b)]
            os.chdir(Path(__file__).parent)
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        import_module("sagpool")  # once, before the processes are forked
        results = run_all(options.seed, chunks, options.workers)
    for ended in results:
        counts.setdefault(ended.target, Counter())[ended.outcome] += 1
        if ended.outcome not in OUTCOMES[:2]:
            failures.append(ended)
            if not options.json:
                again = f"--seed {options.seed} --only {ended.target}:{ended.number}"
                print(
                    f"{ended.outcome}: {ended.reason}\n  python scripts/fuzz.py {again}", flush=True
                )
    if options.json:
        print(json.dumps({name: dict(count) for name, count in counts.items()}))
    else:
        rows = [*counts.items(), ("all", sum(counts.values(), Counter()))]
        print(f"{'':12}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES))
        for name, count in rows:
            print(f"{name:12}" + "".join(f"{count[outcome]:11}" for outcome in OUTCOMES))
        total = sum(rows[-1][1].values())
        print(f"{total} inputs in {time.monotonic() - begin:.0f} s, seed {options.seed}.")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
