"""A report of a million rows: its time, its memory, and the size of its page.

python benchmarks/large_report.py [--rows 1000000] [--store FILE] [--json]

The store is generated: five data sets and six methods; half of the rows belong to the cells that
the report shows, the other half to candidates of searches. A store in FILE is kept and reused.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from measure import versions
from sagpool.bench.database import RUN_COLUMNS, row_checksum
from sagpool.bench.plan import settings_of
from sagpool.bench.records import CellRecord
from sagpool.bench.store import Store
from sagpool.bench.stored_cells import settings_text
from sagpool.fleet import NUMERICS, Training
from sagpool.graphs import motifs

DATASETS = ("DD", "PROTEINS", "NCI1", "NCI109", "FRANKENSTEIN")
METHODS = ("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h")
FOLDS, CANDIDATE_SEEDS = 10, 2
MOST_SECONDS, MOST_MEGABYTES = 60, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of a report of many rows.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the store (1000000)")
    parser.add_argument("--store", type=Path, help="where to keep the store, or to find it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or Path(folder) / "runs.sqlite"
        if not store.exists():
            make_store(store, options.rows)
        figures = measure(store, Path(folder) / "report")
    if options.json:
        print(json.dumps(figures | {"versions": versions("sagpool", "numpy", "matplotlib")}))
    else:
        for name, value in figures.items():
            print(f"{name:<16} {value:12,.1f}")
        print(f"Allowed are {MOST_SECONDS} seconds and {MOST_MEGABYTES} megabytes.")


def measure(store: Path, folder: Path) -> dict[str, float]:
    with Store.reading(store) as opened:
        (rows,) = opened.connection.execute("SELECT count(*) FROM runs").fetchone()
    command = [sys.executable, "-m", "sagpool.cli.main", "report", str(store), "-o", str(folder)]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": rows,
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss * 1024 / 1e6,
        "page_megabytes": (folder / "report.html").stat().st_size / 1e6,
    }


def make_store(path: Path, rows: int) -> None:
    """Fill a store with random results."""
    random = np.random.default_rng(0)
    graphs = motifs(20)
    with Store.writing(path) as store:
        invocation = store.begin("sagpool bench large", "large", "none", {"sagpool": "0"})
        store.connection.execute("BEGIN")
        for dataset in DATASETS:
            store.add_data(replace(graphs, name=dataset), dataset)
            for method in METHODS:
                seeds = math.ceil(rows / (len(DATASETS) * len(METHODS) * 2 * FOLDS))
                template = Training(method, folds=FOLDS)
                store.add_cell(
                    CellRecord(
                        dataset, dataset, dataset, method, settings_of(template), "float32",
                        NUMERICS, seeds, invocation, "none", (), 1_000_000, None, None, "",
                    )
                )  # fmt: skip
                add_runs(store, random, dataset, template, seeds, invocation)
                for number in range(math.ceil(seeds / CANDIDATE_SEEDS)):
                    lr, decay = 10.0 ** -(2 + number % 6), 1e-5 * (1 + number // 6)
                    other = replace(template, lr=lr, weight_decay=decay)
                    add_runs(store, random, dataset, other, CANDIDATE_SEEDS, invocation)
        store.connection.execute("COMMIT")


def add_runs(
    store: Store,
    random: np.random.Generator,
    name: str,
    template: Training,
    seeds: int,
    number: int,
) -> None:
    settings = settings_text(settings_of(template))
    columns = [row[1] for row in store.connection.execute("PRAGMA table_info(runs)")]
    known = {
        "name": name, "fingerprint": name, "method": template.method, "settings": settings,
        "precision": "float32", "numerics": NUMERICS, "invocation": number,
        "finished": "2026-01-01T00:00:00+00:00", "diverged": 0,
        "confusion": "[[40, 10], [12, 50]]", "parameters": 50_000, "traces": None,
    }  # fmt: skip

    def values(seed: int, fold: int) -> list[object]:
        epochs = int(random.gamma(8, 12)) + 2
        curve = random.random((3, epochs), np.float32)
        loss, accuracy = random.normal(0.5, 0.05, 3), random.normal(0.72, 0.03, 3)
        row = known | {
            "key": random.bytes(32).hex(), "seed": seed, "fold": fold, "best_epoch": epochs // 2,
            "epochs": epochs, "seconds": 0.01 * epochs, "curve": curve.tobytes(),
        }  # fmt: skip
        for i, part in enumerate(("train", "validation", "test")):
            row |= {f"{part}_loss": float(loss[i]), f"{part}_accuracy": float(accuracy[i])}
        row["checksum"] = row_checksum([row[column] for column in RUN_COLUMNS])
        return [row[column] for column in columns]

    rows = [values(seed, fold) for seed in range(seeds) for fold in range(FOLDS)]
    marks = ", ".join("?" * len(columns))
    store.connection.executemany(f"INSERT INTO runs VALUES ({marks})", rows)


if __name__ == "__main__":
    main()
