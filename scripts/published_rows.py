"""The rows in folders of results, by cell: written from a run store, and read again.

rows.csv has a row per training, settings.json the settings by number, and cells.json the cells of
the tables, with the numbers of their rows.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from complexity_claims import with_measured
from more_seeds import FurtherSeeds

from sagpool import SagpoolError
from sagpool.bench.claims import (
    CellRows,
    Changed,
    Evidence,
    Judged,
    Line,
    judge_claims,
    related_changes,
)
from sagpool.bench.claims.published import AgreesWithPublished
from sagpool.bench.experiment import Experiment
from sagpool.bench.store import Store
from sagpool.bench.variants import Chosen
from sagpool.report import names
from sagpool.report.content import Content
from sagpool.statistics import Difference, Spread, paired_difference, spread

Key = tuple[str, str]  # data set and method, with unusual settings
FIRST_LOSSES = ("first_train_loss", "first_validation_loss")  # losses of epoch 1, for check_rows.py
COLUMNS = (
    *("name", "data", "method", "settings", "cells", "seed", "fold", "precision", "numerics"),
    *("commit", "kernels", "diverged"),
    *FIRST_LOSSES,
    *("best_epoch", "epochs", "train_loss", "train_accuracy", "validation_loss"),
    *("validation_accuracy", "test_loss", "test_accuracy", "parameters", "seconds"),
)


def write_rows(store: Path, folder: Path, content: Content) -> None:
    """Write rows.csv, settings.json and cells.json.

    Trainings without a cell come from searches or have older settings. Curves and confusion
    matrices stay in the store.
    """
    shown = [(group, summary) for group in content.groups for summary in group.cells]
    cells_of: dict[str, list[int]] = defaultdict(list)
    lines = []
    for number, (group, summary) in enumerate(shown):
        for run in summary.runs:
            cells_of[run.key].append(number)
        cell = {
            "dataset": summary.cell.dataset,
            "method": summary.method,
            "chosen": str(group.chosen),
            "protocol": group.differences,
            "note": summary.cell.note,
        }
        lines.append(f'"{number}": {json.dumps(cell)}')
    _write_lines(folder / "cells.json", lines)
    with Store.reading(store) as opened:
        runs = sorted(opened.runs(), key=lambda run: (run.name, run.method, run.seed, run.fold))
        commands = {one.id: one for one in opened.invocations()}
        tests = opened.tests()
    named = dict.fromkeys(name for scores in tests.values() for name in scores)
    numbers: dict[str, int] = {}
    with (folder / "rows.csv").open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*COLUMNS, *(f"{name} accuracy" for name in named)])
        for run in runs:
            settings = json.dumps(run.settings, sort_keys=True)
            exact = (f"{loss:.9g}" for loss in run.curve[:2, 0].tolist())
            values = {
                **vars(run),
                "data": run.fingerprint[:12],
                "settings": numbers.setdefault(settings, len(numbers)),
                "cells": " ".join(map(str, cells_of[run.key])),
                "commit": commands[run.invocation].commit,
                "kernels": commands[run.invocation].kernels,
                **dict(zip(FIRST_LOSSES, exact, strict=True)),
            }
            scores = tests.get(run.key, {})
            accuracy = [scores[name].accuracy if name in scores else "" for name in named]
            row = [*(values[column] for column in COLUMNS), *accuracy]
            writer.writerow([_short(value) for value in row])
    _write_lines(
        folder / "settings.json", [f'"{number}": {text}' for text, number in numbers.items()]
    )


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


@dataclass(frozen=True, eq=False)
class PublishedGroup:
    """Cells that share a table, in the order of the paper."""

    chosen: Chosen
    differences: tuple[str, ...]  # differences from the protocol of the experiment, in words
    rows: Mapping[Key, list[dict[str, str]]]
    cells: Mapping[Key, CellRows]
    experiment: Experiment

    @property
    def caption(self) -> str:
        words = f"{str(self.chosen).capitalize()}."
        if self.differences:
            words += f" The protocol is not the paper's: {'; '.join(self.differences)}."
        return words

    @property
    def plain(self) -> dict[Key, CellRows]:
        """The cells without unusual settings and without data that differ from the paper's."""
        return {
            key: cell for key, cell in self.cells.items() if ", " not in key[1] and not cell.note
        }

    def spread(self, key: Key) -> Spread:
        learnt = self.cells[key].learnt
        seeds = np.array([seed for seed, _ in learnt])
        return spread(np.array(list(learnt.values())), seeds, self.cells[key].folds)

    def agreement(self) -> list[Line]:
        """Welch's test of every cell with a published result, with Holm's correction."""
        methods = tuple(names.in_order(method for _, method in self.cells))
        datasets = tuple(dict.fromkeys(dataset for dataset, _ in self.cells))
        evidence = Evidence.of(self.experiment, self.cells)
        return list(AgreesWithPublished(methods, datasets).judge(evidence).lines)


class Pair(NamedTuple):
    """Two methods on the splits of a data set that both have."""

    difference: Difference  # of the test accuracies, in points
    splits: int


def paired(first: CellRows, second: CellRows) -> Pair | None:
    """The difference of two cells; None if they have fewer than two splits in common."""
    common = sorted(first.learnt.keys() & second.learnt.keys())
    if first.splits != second.splits or len(common) < 2:
        return None
    accuracies = (np.array([cell.learnt[split] for split in common]) for cell in (first, second))
    return Pair(paired_difference(*accuracies, first.folds), len(common))


@dataclass(frozen=True)
class Published:
    """The groups of cells in folders of results."""

    experiment: Experiment
    groups: list[PublishedGroup]
    judged: list[Judged]
    changes: list[Changed]  # verdicts that change if related data sets are fully correlated


def read_published(
    folders: Sequence[Path], experiment: Experiment, more: Sequence[Path] = ()
) -> Published:
    """Read the rows of all folders as if one store had made them.

    The folders in ``more`` have further seeds of the same cells.
    """
    further = FurtherSeeds.read([(folder, read_csv(folder / "rows.csv")) for folder in more])
    found: dict[tuple[tuple[str, ...], Chosen], dict[Key, list[dict[str, str]]]] = {}
    made: dict[tuple[tuple[str, ...], Chosen], dict[Key, CellRows]] = {}
    for folder in folders:
        settings = json.loads((folder / "settings.json").read_text("utf-8"))
        cells, rows_of = _cells(folder, read_csv(folder / "rows.csv"), experiment)
        for number, cell in cells.items():
            its_settings = settings[rows_of[number][0]["settings"]]
            here = further.extend(rows_of[number], its_settings)
            group = (tuple(cell["protocol"]), Chosen(cell["chosen"]))
            key = (cell["dataset"], cell["method"])
            if key in found.setdefault(group, {}):
                raise SagpoolError(f"{folder} has {' '.join(key)}, and so has another folder.")
            found[group][key] = here
            made.setdefault(group, {})[key] = _cell_rows(here, its_settings, cell["note"])
    further.check_all_used()
    groups = []
    for (differences, chosen), cell_rows in found.items():
        order = [
            *experiment.accuracy,
            *(key for key in cell_rows if key not in experiment.accuracy),
        ]
        ordered = {key: cell_rows[key] for key in order if key in cell_rows}
        groups.append(
            PublishedGroup(chosen, differences, ordered, made[differences, chosen], experiment)
        )
    usual = {group.chosen: group.cells for group in groups if not group.differences}
    judged = with_measured(judge_claims(experiment, usual), folders)
    return Published(experiment, groups, judged, related_changes(experiment, usual))


def _cells(
    folder: Path, rows: list[dict[str, str]], experiment: Experiment
) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, str]]]]:
    """The cells by number, and their rows.

    Older folders have one cell per method, and the kinds of features in tables/data.csv.
    """
    rows_of: dict[str, list[dict[str, str]]] = defaultdict(list)
    if (folder / "cells.json").exists():
        for row in rows:
            for number in row["cells"].split():
                rows_of[number].append(row)
        return json.loads((folder / "cells.json").read_text("utf-8")), rows_of
    kinds = {
        row["fingerprint"][:12]: row["feature_kind"] for row in read_csv(folder / "tables/data.csv")
    }
    cells: dict[str, dict[str, Any]] = {}
    for row in rows:
        number, kind = f"{row['name']} {row['method']}", kinds[row["data"]]
        usual = kind == experiment.feature_kinds.get(row["name"], kind)
        note = "" if usual else "structure only" if kind == "degree" else kind
        rows_of[number].append(row)
        cells[number] = {
            "dataset": row["name"], "method": row["method"], "note": note,
            "chosen": str(Chosen.FIXED), "protocol": [],
        }  # fmt: skip
        if row["settings"] != rows_of[number][0]["settings"]:
            raise SagpoolError(f"{folder} has rows of {number} with several settings.")
    return cells, rows_of


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _cell_rows(rows: list[dict[str, str]], settings: dict[str, Any], note: str) -> CellRows:
    return CellRows(
        {(int(row["seed"]), int(row["fold"])): 100 * float(row["test_accuracy"]) for row in rows},
        (rows[0]["name"], rows[0]["data"], settings["folds"], settings["validation"]),
        int(settings["folds"]),
        note,
    )
