"""Stop every command at random moments, and run it again to its end.

Then its results must be those of an undisturbed run, and no other file may have changed. A command
is stopped by ``kill -9``, by SIGTERM, or by a full disk: a small one in memory, which only root can
make.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kill_bench import TOLERANCE, distance, read

WAYS = ("kill", "term", "disk")
FOREIGN = {"notes.txt": b"mine", "out/.hidden": b"mine too", "model.txt": b"and this"}
ROOM = "64m"  # size of the disk when it is no longer full
SMALL = "--set hidden=8 --set max_epochs=20 --device cpu"


class Command(NamedTuple):
    """A command, and the files that must not depend on how often it was stopped."""

    words: str  # {here} is its folder, {base} the folder with a finished model and store
    results: Callable[[Path], object]


def hashes(pattern: str) -> Callable[[Path], object]:
    """Hashes of the files that match, by name."""
    return lambda here: {
        str(file.relative_to(here)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(here.glob(pattern))
    }


def cached(here: Path) -> object:
    """The arrays in the cache folder, by name."""
    found = {}
    for file in sorted(here.glob("cache/packed/*.npz")):
        with np.load(file) as content:
            found |= {name: hashlib.sha256(content[name].data).hexdigest() for name in content}
    return found


def write_rings(folder: Path, count: int = 20_000) -> None:
    """Write a TU data set that takes a moment to read."""
    folder.mkdir()
    edges, graph_of, labels, first = list[str](), list[str](), list[str](), 1
    for number in range(1, count + 1):
        size = 3 + number % 5
        edges += [f"{first + i}, {first + (i + 1) % size}" for i in range(size)]
        graph_of += [str(number)] * size
        labels.append(str(size % 2))
        first += size
    lines = {"A": edges, "graph_indicator": graph_of, "graph_labels": labels}
    for kind, some in lines.items():
        (folder / f"RINGS_{kind}.txt").write_text("\n".join(some))


COMMANDS = {
    "data": Command("data {base}/RINGS", cached),
    "bench": Command(
        f"bench demo --method gpool-h --seeds 1 --folds 5 --precision float64 {SMALL} "
        "--checkpoint-seconds 0.2 --store {here}/runs.sqlite",
        lambda here: read(here / "runs.sqlite"),
    ),
    "train": Command(
        f"train MUTAG -o {{here}}/out --quick --method sagpool-h --folds 2 {SMALL}",
        hashes("out/*.safetensors"),
    ),
    "report": Command("report {base}/runs.sqlite -o {here}/out", hashes("out/tables/*.csv")),
    "explain": Command(
        "explain {base}/out MUTAG -o {here}/out --limit 4", hashes("out/scores.csv")
    ),
    "predict": Command("predict {base}/out MUTAG -o {here}/out.csv", hashes("out.csv")),
    "export": Command("export {base}/out -o {here}/net.py --force", hashes("net.py")),
}


class Trial(NamedTuple):
    command: str
    way: str
    stopped: bool  # before its end
    problem: str  # empty if there was none


def run(words: str, here: Path, base: Path) -> subprocess.Popen[bytes]:
    program = "from sagpool.cli.main import main; main()"
    given = words.format(here=here, base=base).split()
    return subprocess.Popen(
        [sys.executable, "-c", program, *given],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "SAGPOOL_CACHE": str(here / "cache")},
    )


def end(process: subprocess.Popen[bytes]) -> str:
    """The output of the process, once it has ended."""
    return process.communicate()[1].decode(errors="replace")


def finish(words: str, here: Path, base: Path) -> float:
    """Run the command to its end; returns its seconds."""
    begin = time.perf_counter()
    process = run(words, here, base)
    printed = end(process)
    if process.returncode:
        raise SystemExit(f"{words} ended with {process.returncode}:\n{printed}")
    return time.perf_counter() - begin


@contextmanager
def folder(full: bool, room: int) -> Iterator[Path]:
    """A folder with foreign files; if full, on a disk with ``room`` bytes."""
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        if full:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", here], check=True
            )
        try:
            for file, content in FOREIGN.items():
                (here / file).parent.mkdir(exist_ok=True)
                (here / file).write_bytes(content)
            yield here
        finally:
            if full:
                subprocess.run(["umount", "-l", here], check=True)


def try_once(
    name: str,
    way: str,
    base: Path,
    seconds: float,
    size: int,
    expected: object,
    draws: random.Random,
) -> Trial:
    command = COMMANDS[name]
    # Enough for the foreign files, and for a part of the results.
    room = 4096 * len(FOREIGN) + draws.randrange(max(1, size))
    with folder(way == "disk", room) as here:
        process = run(command.words, here, base)
        if way != "disk":
            try:
                process.wait(seconds * draws.uniform(0.2, 1.0))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL if way == "kill" else signal.SIGTERM)
        printed = end(process)
        stopped = process.returncode != 0
        # SIGTERM before the first line of the program, or after its last one, is -15.
        usual = {"kill": (-9,), "term": (143, -15), "disk": (2,)}[way]
        if stopped and process.returncode not in usual:
            return Trial(name, way, stopped, f"exit code {process.returncode}: {printed[-500:]}")
        if "Traceback" in printed:
            return Trial(name, way, stopped, printed[-500:])
        if way == "disk":
            subprocess.run(["mount", "-o", f"remount,size={ROOM}", here], check=True)
        process = run(command.words, here, base)
        printed = end(process)
        if process.returncode:
            return Trial(name, way, stopped, f"cannot be run again: {printed[-500:]}")
        if not same(command.results(here), expected):
            return Trial(name, way, stopped, "other results")
        for file, content in FOREIGN.items():
            if not (here / file).is_file() or (here / file).read_bytes() != content:
                return Trial(name, way, stopped, f"{file} was changed")
        if left := [file.name for file in here.rglob("*.part")]:
            return Trial(name, way, stopped, f"left behind: {left}")
    return Trial(name, way, stopped, "")


def same(found: object, expected: object) -> bool:
    if not isinstance(found, dict) or not isinstance(expected, dict) or not expected:
        return False
    if found.keys() != expected.keys():
        return False
    rows = all(isinstance(row, dict) for row in expected.values())
    if rows:
        return all(distance(expected[key], found[key]) <= TOLERANCE for key in expected)
    return found == expected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--times", type=int, default=20, help="of each way, for each command")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    draws, trials = random.Random(options.seed), list[Trial]()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "base"
        base.mkdir()
        write_rings(base / "RINGS")
        for needed in ("bench", "train"):
            finish(COMMANDS[needed].words, base, base)
        for command in options.only:
            with folder(full=False, room=0) as here:
                seconds = finish(COMMANDS[command].words, here, base)
                expected = COMMANDS[command].results(here)
                size = sum(file.stat().st_size for file in here.rglob("*") if file.is_file())
            for way in options.ways:
                for _ in range(options.times):
                    trial = try_once(command, way, base, seconds, size, expected, draws)
                    trials.append(trial)
                    if trial.problem:
                        print(f"{command}, {way}: {trial.problem}", file=sys.stderr, flush=True)
        shutil.rmtree(base)
    problems = [trial for trial in trials if trial.problem]
    counts = Counter((t.command, t.way) for t in trials if t.stopped)
    summary = {
        "trials": len(trials),
        "stopped": {" ".join(pair): count for pair, count in counts.items()},
        "problems": [trial._asdict() for trial in problems],
    }
    if options.json:
        print(json.dumps(summary))
    else:
        print(
            f"{len(trials)} trials, {sum(counts.values())} of them stopped: {len(problems)} failed."
        )
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
