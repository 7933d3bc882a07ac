"""Kill a bench repeatedly, and check that nothing is lost.

Runs 60 trainings undisturbed, then again into another store with ``kill -9`` at random moments,
each followed by the same command. At the end the second store must have every training exactly
once, with the rows of the undisturbed run.
"""

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

METHODS = "sagpool-h,sagpool-g,gpool-h"
TOLERANCE = 1e-9
# Columns that may differ between equal results.
CIRCUMSTANCES = ("invocation", "finished", "seconds", "checksum")


class Outcome(NamedTuple):
    trainings: int
    kills: int
    killed_rows: int  # rows of the disturbed run at the end
    difference: float  # the largest difference between two rows
    equal: bool


def command(store: Path, seeds: int, epochs: int) -> list[str]:
    options = f"--method {METHODS} --seeds {seeds} --folds 10 --precision float64 --device cpu"
    settings = f"--set hidden=8 --set max_epochs={epochs} --set patience={epochs}"
    run = f"bench demo {options} {settings} --checkpoint-seconds 0.5 --members 7"
    program = "from sagpool.cli.main import main; main()"
    return [sys.executable, "-c", program, *run.split(), "--store", str(store)]


def run(folder: Path, kills: int, seeds: int, epochs: int, seed: int) -> Outcome:
    undisturbed, disturbed = folder / "undisturbed.sqlite", folder / "disturbed.sqlite"
    begin = time.perf_counter()
    subprocess.run(command(undisturbed, seeds, epochs), check=True, capture_output=True)
    whole = time.perf_counter() - begin
    begin = time.perf_counter()
    subprocess.run(
        [*command(undisturbed, seeds, epochs), "--dry-run"], check=True, capture_output=True
    )
    start_up = time.perf_counter() - begin
    draws, done = random.Random(seed), 0
    for _ in range(kills):
        process = subprocess.Popen(
            command(disturbed, seeds, epochs), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        # Rarely before the first training; and the last kill comes before the end.
        delay = (
            start_up * draws.uniform(0.7, 1) + draws.uniform(0, 1.3) * (whole - start_up) / kills
        )
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            done += 1
        if process.wait() > 0:
            raise SystemExit(process.stderr.read().decode())
        process.stderr.close()
    subprocess.run(command(disturbed, seeds, epochs), check=True, capture_output=True)
    if list(folder.glob("disturbed.sqlite-*")):
        raise SystemExit("There are files left beside the store.")
    rows, other = read(undisturbed), read(disturbed)
    same_keys = rows.keys() == other.keys()
    difference = max(distance(rows[key], other[key]) for key in rows) if same_keys else float("inf")
    return Outcome(len(rows), done, len(other), difference, difference <= TOLERANCE)


def read(store: Path) -> dict[str, dict[str, object]]:
    with sqlite3.connect(store) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM runs")]
    connection.close()
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row for row in rows}


def distance(row: dict[str, object], other: dict[str, object]) -> float:
    """The largest relative difference of two rows; infinite if other columns differ."""
    largest = 0.0
    for name, value in row.items():
        if name in CIRCUMSTANCES or name == "traces":
            continue
        theirs = other[name]
        if name == "curve":
            ours, theirs = np.frombuffer(value, "<f4"), np.frombuffer(theirs, "<f4")
            if len(ours) != len(theirs) or not np.allclose(ours, theirs, rtol=1e-6):
                return float("inf")
        elif isinstance(value, float) and isinstance(theirs, float):
            largest = max(largest, abs(value - theirs) / max(abs(value), 1e-12))
        elif value != theirs:
            return float("inf")
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2, help="30 trainings each")
    parser.add_argument("--epochs", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), options.kills, options.seeds, options.epochs, options.seed)
    if options.json:
        print(json.dumps(outcome._asdict()))
    else:
        print(
            f"{outcome.kills} kills in {outcome.trainings} trainings: {outcome.killed_rows} rows "
            f"at the end, largest difference {outcome.difference:.1e}."
        )
    sys.exit(not (outcome.equal and outcome.killed_rows == outcome.trainings))


if __name__ == "__main__":
    main()
