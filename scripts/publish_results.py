"""Write the compact rows, the tables and the main figures of a run store to results/.

python scripts/publish_results.py STORE results/lee2019 --page docs/reproduction.md

What follows from the rows alone is written by reproduction_page.py. Unfinished cells are left out:
they only have the trainings that stopped first, a biased sample.
"""

import argparse
import csv
import json
import shutil
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from reproduction_page import write_derived

from sagpool import SagpoolError
from sagpool.bench.store import Store
from sagpool.report.content import read_content
from sagpool.report.write import write_content

CLAIMS = "claims"  # prefix of the tables that are made from the rows
FIGURES = ("accuracy-", "costs-", "parameters")
COSTS = "costs"  # prefix of the files that compare times
FIRST_LOSSES = ("first_train_loss", "first_validation_loss")  # of epoch 1, for check_rows.py
COLUMNS = (
    *("name", "data", "method", "settings", "shown", "seed", "fold", "precision", "numerics"),
    "diverged",
    *FIRST_LOSSES,
    *("best_epoch", "epochs", "train_loss", "train_accuracy", "validation_loss"),
    *("validation_accuracy", "test_loss", "test_accuracy", "parameters", "seconds"),
)


def finished_part(store: Path, copy: Path) -> list[str]:
    """Copy a store without its unfinished cells; return one line of text for each of those."""
    with Store.reading(store):  # raises if it is not a run store
        shutil.copy(store, copy)
    left_out = []
    unfinished = [
        summary
        for summary in read_content(copy).summaries
        if len(summary.runs) < summary.cell.seeds * int(summary.cell.settings["folds"])
    ]
    with sqlite3.connect(copy) as connection:
        for summary in unfinished:
            cell = summary.cell
            keys = [(run.key,) for run in summary.runs]
            connection.executemany("DELETE FROM runs WHERE key = ?", keys)
            connection.execute(
                "DELETE FROM cells WHERE dataset = ? AND method = ? AND invocation = ?",
                (cell.dataset, cell.method, cell.invocation),
            )
            left_out.append(f"{cell.dataset} {cell.method}: {len(keys)} trainings so far")
        connection.execute(
            "DELETE FROM invocations WHERE id NOT IN"
            " (SELECT invocation FROM runs UNION SELECT invocation FROM cells)"
        )
    return left_out


def write_rows(store: Path, folder: Path, shown: set[str]) -> None:
    """Write one row per training to rows.csv; its settings are a number, resolved in settings.json.

    Trainings with one of the keys ``shown`` are those of the tables; others come from searches or
    have older settings. Curves and confusion matrices stay in the store.
    """
    with Store.reading(store) as opened:
        runs = sorted(opened.runs(), key=lambda run: (run.name, run.method, run.seed, run.fold))
    numbers: dict[str, int] = {}
    with (folder / "rows.csv").open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for run in runs:
            settings = json.dumps(run.settings, sort_keys=True)
            exact = (f"{loss:.9g}" for loss in run.curve[:2, 0].tolist())
            values = {
                **vars(run),
                "data": run.fingerprint[:12],
                "settings": numbers.setdefault(settings, len(numbers)),
                "shown": int(run.key in shown),
                **dict(zip(FIRST_LOSSES, exact, strict=True)),
            }
            writer.writerow([_short(values[column]) for column in COLUMNS])
    lines = ",\n".join(f'"{number}": {settings}' for settings, number in numbers.items())
    (folder / "settings.json").write_text(f"{{\n{lines}\n}}\n", "utf-8")


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--shared",
        action="store_true",
        help="several cells ran on the device at once, so leave out the comparison of times",
    )
    parser.add_argument("--page", type=Path, help="whose numbers are written anew")
    arguments = parser.parse_args()
    folder = arguments.folder
    with TemporaryDirectory() as made:
        store = Path(made, "finished.sqlite")
        try:
            left_out = finished_part(arguments.store, store)
            content = read_content(store)
        except SagpoolError as error:
            sys.exit(f"{error}")
        for part in ("tables", "figures"):
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).mkdir(parents=True)
        write_rows(store, folder, {run.key for s in content.shown for run in s.runs})
        write_content(content, Path(made))
        tables = [file for file in Path(made, "tables").glob("*") if file.suffix in (".csv", ".md")]
        figures = [
            file for file in Path(made, "figures").glob("*.png") if file.name.startswith(FIGURES)
        ]
        for file in (*tables, *figures):
            costs = arguments.shared and file.name.startswith(COSTS)
            if not costs and not file.name.startswith(CLAIMS):
                shutil.copy(file, folder / file.parent.name)
        try:
            write_derived(folder, arguments.page)
        except (OSError, SagpoolError) as error:
            sys.exit(f"{error}")
    for sentence in left_out:
        print(f"left out: {sentence}")


if __name__ == "__main__":
    main()
