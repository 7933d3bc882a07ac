"""Accuracies of `sagpool train`, simple models and GIN, for docs/accuracy.md.

python scripts/accuracy_table.py run --dataset MUTAG --model sagpool [--repeats 10]
python scripts/accuracy_table.py table [--page docs/accuracy.md] [--json]

In each of ten stratified folds, a model is chosen and trained on nine tenths of the graphs, and
then classifies the others, which it has not seen. ``run`` measures one cell of the table: folds
that have a row are not run again. ``table`` only reads the rows.
"""

import argparse
import csv
import json
import re
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from accuracy_peers import PEERS, Peer
from sklearn.model_selection import StratifiedKFold

from sagpool import Graphs, SagpoolError, load
from sagpool.classifier import fit
from sagpool.statistics import paired_difference

FOLDS = 10
OURS = "sagpool"
ROWS = Path(__file__).parent.parent / "results" / "accuracy" / "rows.csv"
MARKS = re.compile("(<!-- begin accuracy -->\n).*(<!-- end accuracy -->)", re.DOTALL)


class Row(NamedTuple):
    dataset: str
    model: str
    repeat: int
    fold: int
    correct: int
    graphs: int
    seconds: float


def ours(graphs: Graphs, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """The predictions of `sagpool train` with its default options."""
    model = fit(graphs[train], seed=seed).model
    return model.predict_proba(graphs[test]).probabilities.argmax(1)


MODELS: dict[str, Peer] = {OURS: ours, **PEERS}


def run(options: argparse.Namespace) -> None:
    graphs = load(options.dataset, "all")
    y = graphs.y.numpy()
    done = {row[:4] for row in read_rows(options.rows)}
    for repeat in range(options.repeats):
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(y, y)
        for fold, (train, test) in enumerate(folds):
            key = (options.dataset, options.model, repeat, fold)
            if not options.first_fold <= fold < options.folds or key in done:
                continue
            start = time.perf_counter()
            predicted = MODELS[options.model](graphs, train, test, repeat)
            seconds = round(time.perf_counter() - start, 2)
            row = Row(*key, int((predicted == y[test]).sum()), len(test), seconds)
            append(options.rows, row)
            print(*row, file=sys.stderr, flush=True)


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


class Cell(NamedTuple):
    """Accuracies in per cent."""

    mean: float  # over folds, weighted by their numbers of graphs
    std: float | None  # over folds; None for a single fold
    folds: int
    seconds: float  # mean of a fold


def cells(rows: Iterable[Row]) -> dict[str, dict[str, Cell]]:
    """The table, by data set and model."""
    table: dict[str, dict[str, Cell]] = {}
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.model), []).append(row)
    for (dataset, model), group in groups.items():
        accuracies = [100 * row.correct / row.graphs for row in group]
        table.setdefault(dataset, {})[model] = Cell(
            round(100 * sum(r.correct for r in group) / sum(r.graphs for r in group), 2),
            round(statistics.stdev(accuracies), 2) if len(group) > 1 else None,
            len(group),
            round(statistics.mean(row.seconds for row in group), 1),
        )
    return table


class Gain(NamedTuple):
    """How far ours is above the best of the others, in points."""

    points: float  # over all graphs of the folds that both have
    error: float | None  # standard error, corrected for folds that share data; None of one fold


def gains(rows: Sequence[Row]) -> dict[str, Gain]:
    """By data set, the gain over the peer that comes closest."""
    by_model: dict[str, dict[str, dict[tuple[int, int], Row]]] = {}
    for row in rows:
        of_model = by_model.setdefault(row.dataset, {}).setdefault(row.model, {})
        of_model[row.repeat, row.fold] = row
    found = {}
    for dataset, models in by_model.items():
        own = models.pop(OURS, {})
        common = [
            [(own[fold], other[fold]) for fold in own.keys() & other.keys()]
            for other in models.values()
        ]
        behind = [gain(pairs) for pairs in common if pairs]
        if behind:
            found[dataset] = min(behind, key=lambda one: one.points)
    return found


def gain(pairs: Sequence[tuple[Row, Row]]) -> Gain:
    """Ours less the other, on the same folds."""
    more = sum(ours.correct - other.correct for ours, other in pairs)
    points = 100 * more / sum(ours.graphs for ours, _ in pairs)
    if len(pairs) == 1:
        return Gain(points, None)
    sides = (
        np.array([100 * row.correct / row.graphs for row in side])
        for side in zip(*pairs, strict=True)
    )
    return Gain(points, paired_difference(*sides, FOLDS).error)


def markdown(table: dict[str, dict[str, Cell]], above: Mapping[str, Gain]) -> str:
    lines = [
        f"| | {' | '.join(MODELS)} | above the best peer |",
        "|---|" + "---:|" * (len(MODELS) + 1),
    ]
    for dataset, row in table.items():
        best = max(cell.mean for cell in row.values())
        texts = []
        for model in MODELS:
            if model not in row:
                texts.append("–")
                continue
            cell = row[model]
            mean = f"**{cell.mean:.1f}**" if cell.mean == best else f"{cell.mean:.1f}"
            spread = "" if cell.std is None else f" ± {cell.std:.1f}"
            texts.append(f"{mean}{spread} ({cell.folds})")
        texts.append(gain_text(above[dataset]) if dataset in above else "–")
        lines.append(f"| {dataset} | {' | '.join(texts)} |")
    if above:
        mean = signed(statistics.mean(one.points for one in above.values()))
        lines.append(f"| mean |{' |' * len(MODELS)} {mean} |")
    return "\n".join(lines) + "\n"


def gain_text(found: Gain) -> str:
    return signed(found.points) + ("" if found.error is None else f" ± {found.error:.1f}")


def signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


def show(options: argparse.Namespace) -> None:
    rows = read_rows(options.rows)
    table, above = cells(rows), gains(rows)
    if options.page:
        page = options.page.read_text()
        if not MARKS.search(page):
            sys.exit(f"{options.page} has no place for the table of accuracies.")
        options.page.write_text(MARKS.sub(lambda m: m[1] + markdown(table, above) + m[2], page))
    if options.json:
        print(json.dumps({d: {m: c._asdict() for m, c in r.items()} for d, r in table.items()}))
    else:
        print(markdown(table, above), end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=Path, default=ROWS)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run", help="measure one cell")
    running.add_argument("--dataset", required=True)
    running.add_argument("--model", choices=MODELS, required=True)
    running.add_argument("--repeats", type=int, default=1, help="of the ten folds")
    running.add_argument("--folds", type=int, default=FOLDS, help="only the first so many")
    running.add_argument("--first-fold", type=int, default=0, help="leave out those before it")
    running.set_defaults(do=run)
    table = commands.add_parser("table", help="show what was measured")
    table.add_argument("--page", type=Path, help="whose table is written anew")
    table.add_argument("--json", action="store_true", help="print JSON for machines")
    table.set_defaults(do=show)
    options = parser.parse_args()
    try:
        options.do(options)
    except SagpoolError as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
