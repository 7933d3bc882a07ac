"""Molecules: `sagpool train` against chemprop and Morgan counts with scikit-learn.

Every contender is a whole command, from a table of SMILES to predictions of held-out molecules,
start and imports included. The tables are BBBP (ROC-AUC), ESOL (RMSE) and Tox21 (mean ROC-AUC of
twelve targets with gaps) in the folder SAGPOOL_MOLECULES. All contenders see the same random and
scaffold splits, which are stored beside the rows. A row of the table of results that exists is not
measured again; give another --rows to start anew.

python benchmarks/molecules.py [--chemprop PATH] [--data bbbp] [--splits random] [--json]
"""

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from measure import versions
from molecule_splits import SPLITS, Dataset, Split, read_dataset, read_split

HERE = Path(__file__).parent
DATA = ("bbbp", "esol", "tox21")
ROWS = HERE.parent / "results" / "molecules" / "rows.csv"


class Row(NamedTuple):
    data: str
    split: str
    repeat: int
    contender: str
    score: float
    seconds: float  # wall time of the whole command
    cpu_seconds: float
    threads: int
    load: float  # load of the machine in the minute before the command, by os.getloadavg


class Tables(NamedTuple):
    """Files with SMILES and targets; ``everything`` has a column that says train, val or test."""

    train: Path
    test: Path
    everything: Path


Contender = Callable[[Dataset, Tables, Path, argparse.Namespace], np.ndarray]


def sagpool(dataset: Dataset, tables: Tables, folder: Path, _: argparse.Namespace) -> np.ndarray:
    """`sagpool train` with default options on the training and the validation part."""
    several = len(dataset.targets) > 1
    task = "multitask" if several and dataset.task == "classification" else dataset.task
    model, output = folder / "model", folder / "predictions.csv"
    command = [sys.executable, "-m", "sagpool.cli.main"]
    labels = ["--label-column", ",".join(dataset.targets)]
    run([*command, "train", str(tables.train), "-o", str(model), "--task", task, *labels])
    run([*command, "predict", str(model), str(tables.test), "-o", str(output)])
    columns = {
        "classification": ["p_1"],
        "multitask": [f"p_{name}" for name in dataset.targets],
        "regression": dataset.targets,
    }
    return read_columns(output, columns[task])


def chemprop(
    dataset: Dataset, tables: Tables, folder: Path, options: argparse.Namespace
) -> np.ndarray:
    """chemprop with its defaults: 50 epochs, the best epoch of the validation part."""
    run(
        [
            *(str(options.chemprop), "train", "--data-path", str(tables.everything)),
            *("--task-type", dataset.task, "--smiles-columns", "smiles"),
            *("--target-columns", *dataset.targets, "--splits-column", "split"),
            *("--output-dir", str(folder / "chemprop"), "--pytorch-seed", "0"),
        ]
    )
    return read_columns(folder / "chemprop/model_0/test_predictions.csv", dataset.targets)


def morgan(model: str) -> Contender:
    def contender(
        dataset: Dataset, tables: Tables, folder: Path, _: argparse.Namespace
    ) -> np.ndarray:
        output = folder / "predictions.csv"
        script = [sys.executable, str(HERE / "morgan_models.py"), model, dataset.task]
        run([*script, str(tables.train), str(tables.test), str(output)])
        return read_columns(output, dataset.targets)

    return contender


CONTENDERS: dict[str, Contender] = {
    "sagpool": sagpool,
    "chemprop": chemprop,
    "morgan-forest": morgan("forest"),
    "morgan-boosting": morgan("boosting"),
}


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nfailed:\n{done.stderr[-3000:]}")


def read_columns(path: Path, names: list[str] | tuple[str, ...]) -> np.ndarray:
    with path.open(newline="") as file:
        return np.array([[float(row[name]) for name in names] for row in csv.DictReader(file)])


def score(dataset: Dataset, split: Split, predicted: np.ndarray) -> float:
    """Mean ROC-AUC of targets with both classes, or RMSE; ``predicted [molecules, targets]``."""
    rows = [dataset.rows[i] for i in split.test]
    truth = np.array([[float(row[name] or "nan") for name in dataset.targets] for row in rows])
    if predicted.shape != truth.shape:
        sys.exit(f"{len(rows)} molecules of {dataset.name} have {len(predicted)} predictions.")
    if dataset.task == "regression":
        return float(np.sqrt(np.nanmean((predicted - truth) ** 2)))
    areas = []
    for true, probability in zip(truth.T, predicted.T, strict=True):
        measured = ~np.isnan(true)
        if len(set(true[measured])) == 2:
            areas.append(roc_auc_score(true[measured], probability[measured]))
    return float(np.mean(areas))


def write_tables(dataset: Dataset, split: Split, folder: Path) -> Tables:
    parts = {
        i: part for part, ids in zip(("train", "val", "test"), split, strict=True) for i in ids
    }
    tables = Tables(*(folder / f"{name}.csv" for name in Tables._fields))
    fields = ["smiles", *dataset.targets]
    chosen = {
        tables.train: sorted(split.train + split.validation),
        tables.test: split.test,
        tables.everything: sorted(parts),
    }
    for path, ids in chosen.items():
        with path.open("w", newline="") as file:
            extra = ["split"] if path == tables.everything else []
            rows = csv.DictWriter(file, fields + extra, extrasaction="ignore")
            rows.writeheader()
            rows.writerows(dataset.rows[i] | {"split": parts[i]} for i in ids)
    return tables


def measure(
    dataset: Dataset, split: Split, key: tuple[str, str, int, str], options: argparse.Namespace
) -> Row:
    load, before = os.getloadavg()[0], resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as name:
        tables = write_tables(dataset, split, Path(name))
        start = time.perf_counter()
        predicted = CONTENDERS[key[-1]](dataset, tables, Path(name), options)
        seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    figures = score(dataset, split, predicted), seconds, cpu
    return Row(*key, *(round(figure, 5) for figure in figures), options.threads, round(load, 2))


def read_rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    kinds = Row.__annotations__.values()
    with path.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [Row(*(kind(x) for kind, x in zip(kinds, row, strict=True))) for row in rows]


def append(path: Path, row: Row) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            rows.writerow(Row._fields)
        rows.writerow(row)


def time_ratios(rows: list[Row]) -> dict[str, float]:
    """Seconds of chemprop over those of sagpool, on common splits, wall and processor time."""
    ratios = {}
    for data in DATA:
        times: dict[str, dict[tuple[str, int, int], Row]] = {"chemprop": {}, "sagpool": {}}
        for row in rows:
            if row.data == data and row.contender in times:
                times[row.contender][row.split, row.repeat, row.threads] = row
        for name, field in (("chemprop_time", "seconds"), ("chemprop_cpu", "cpu_seconds")):
            common = times["chemprop"].keys() & times["sagpool"].keys()
            if common:
                sums = [sum(getattr(side[key], field) for key in common) for side in times.values()]
                ratios[f"{name}/{data}"] = round(sums[0] / sums[1], 2)
    return ratios


def scores(rows: list[Row]) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Mean, spread and number of the scores, and mean times, of each cell of the table."""
    for data, split, contender in product(DATA, SPLITS, CONTENDERS):
        cell = [r for r in rows if (r.data, r.split, r.contender) == (data, split, contender)]
        if cell:
            values = [row.score for row in cell]
            yield (
                f"{data}/{split}/{contender}",
                {
                    "mean": round(statistics.mean(values), 4),
                    "std": round(statistics.stdev(values), 4) if len(values) > 1 else None,
                    "splits": len(values),
                    "seconds": round(statistics.mean(row.seconds for row in cell), 1),
                    "cpu_seconds": round(statistics.mean(row.cpu_seconds for row in cell), 1),
                },
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS)
    parser.add_argument("--repeats", type=int, default=5, help="splits of each kind")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--chemprop", type=Path, help="its command, in an environment of its own")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every contender")
    parser.add_argument("--rows", type=Path, default=ROWS, help="table of results to continue")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    options = parser.parse_args()
    folder = os.environ.get("SAGPOOL_MOLECULES")
    if not folder:
        print("Skipped: SAGPOOL_MOLECULES names no folder of bbbp.csv, esol.csv and tox21.csv.")
        return
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # for the commands

    rows = read_rows(options.rows)
    done = {row[:4] for row in rows}
    datasets = {name: read_dataset(Path(folder), name) for name in options.data}
    wanted = product(options.data, options.splits, range(options.repeats), options.contenders)
    for key in wanted:
        if key in done:
            continue
        data, kind, repeat, contender = key
        if contender == "chemprop" and not options.chemprop:
            continue
        split = read_split(options.rows.parent / "splits", datasets[data], kind, repeat)
        row = measure(datasets[data], split, key, options)
        append(options.rows, row)
        rows.append(row)
        words = f"{data:<6} {kind:<8} {repeat} {contender:<16} {row.score:.4f} {row.seconds:8.1f} s"
        print(words, file=sys.stderr, flush=True)

    table = dict(scores(rows))
    ratios = time_ratios(rows)
    if not any(row.contender == "chemprop" for row in rows):
        print("No chemprop: give its command with --chemprop.", file=sys.stderr)
    if options.json:
        packages = versions("sagpool", "torch", "scikit-learn", "rdkit")
        print(json.dumps({"ratios": ratios, "scores": table, "versions": packages}))
        return
    for name, cell in table.items():
        print(
            f"{name:<32} {cell['mean']:.4f} ± {cell['std'] or 0:.4f}  {cell['splits']} splits"
            f" {cell['seconds']:8.1f} s wall {cell['cpu_seconds']:8.1f} s processor"
        )
    for name, ratio in ratios.items():
        print(f"{name:<32} {ratio:.2f} ×")


if __name__ == "__main__":
    main()
