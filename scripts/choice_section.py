"""The section of the reproduction page on settings chosen by test accuracy.

The authors' first released code records test accuracies only. What would a search report that chose
by them? The finalists of a race, which have all folds of the first seed, tell.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from published_rows import Key, Published, PublishedGroup, read_csv

from sagpool.bench.claims.phrases import signed
from sagpool.bench.variants import Chosen
from sagpool.report import names

FIRST_SEED = "0"
SAME = ("name", "data", "method", "precision", "numerics")  # columns in which candidates agree
HEADS = ("data set", "method", "paper", "chosen by validation: 20 seeds", "the first seed")
HEADS += ("chosen by test: the first seed",)


class Choice(NamedTuple):
    """The finalists of a cell, by their test accuracies in the folds of the first seed."""

    key: Key
    chosen: np.ndarray  # [folds], in percent, of the settings chosen by validation
    finalists: np.ndarray  # [finalists, folds]

    @property
    def best(self) -> float:
        """The mean of the settings with the highest mean."""
        return float(self.finalists.mean(1).max())

    @property
    def gain(self) -> float:
        """By how much the mean of those settings is higher, in the folds that chose them."""
        return self.best - float(self.chosen.mean())

    @property
    def gain_elsewhere(self) -> float:
        """The same in a fold that does not choose, in the mean over the folds."""
        gains = []
        for fold in range(len(self.chosen)):
            others = np.delete(self.finalists, fold, axis=1).mean(1)
            gains.append(self.finalists[others.argmax(), fold] - self.chosen[fold])
        return float(np.mean(gains))


def choice_section(published: Published, folders: Sequence[Path]) -> str:
    """What a choice by test accuracy reports for cells below the paper; means over all cells."""
    group = next(
        (g for g in published.groups if g.chosen is Chosen.SEARCHED and not g.differences), None
    )
    choices = [choice for folder in folders for choice in _choices(group, folder)] if group else []
    if group is None or not choices:
        return ""
    lower = {(line.dataset, line.first[0]) for line in group.agreement() if line.outcome == "lower"}
    order = [*group.rows]
    choices.sort(key=lambda choice: order.index(choice.key))
    lines = [_row(HEADS), _row(["---", "---", *["---:"] * 4])]
    lines += [_line(group, choice) for choice in choices if choice.key in lower]
    return "\n".join([*lines, "", _sentence(choices)])


def _sentence(choices: Sequence[Choice]) -> str:
    elsewhere = np.array([choice.gain_elsewhere for choice in choices])
    error = ""
    if len(choices) > 1:
        by_cell = elsewhere.std(ddof=1) / len(choices) ** 0.5
        error = f", with a standard error over the cells of {by_cell:.2f}"
    return (
        f"In the mean over all {len(choices)} searched cells, settings chosen by test accuracy "
        f"look {signed(float(np.mean([choice.gain for choice in choices])))} points better than "
        "those chosen by validation, in the folds that chose them. If all folds but one choose, "
        f"the difference in that one is {signed(float(elsewhere.mean()))} points{error}."
    )


def _choices(group: PublishedGroup, folder: Path) -> Iterator[Choice]:
    """The searched cells of a folder that have at least two finalists."""
    if not (folder / "cells.json").exists():
        return
    cells = json.loads((folder / "cells.json").read_text("utf-8"))
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    rows = read_csv(folder / "rows.csv")
    for number, cell in cells.items():
        key = (cell["dataset"], cell["method"])
        if cell["chosen"] == str(group.chosen) and not cell["protocol"] and key in group.cells:
            row = next(row for row in rows if number in row["cells"].split())
            finalists = _finalists(group, row, rows, settings)
            if len(finalists) > 1:
                yield Choice(key, finalists[row["settings"]], np.array([*finalists.values()]))


def _finalists(
    group: PublishedGroup,
    row: dict[str, str],
    rows: Sequence[dict[str, str]],
    settings: dict[str, dict[str, Any]],
) -> dict[str, np.ndarray]:
    """Candidates of the cell of this row with all folds of the first seed, by their settings."""
    searched = group.experiment.grid_of(row["name"], row["method"])

    def fixed(number: str) -> dict[str, Any]:
        return {name: value for name, value in settings[number].items() if name not in searched}

    found: dict[str, dict[int, float]] = defaultdict(dict)
    for other in rows:
        same = all(other[column] == row[column] for column in SAME)
        if (
            same
            and other["seed"] == FIRST_SEED
            and fixed(other["settings"]) == fixed(row["settings"])
        ):
            found[other["settings"]][int(other["fold"])] = 100 * float(other["test_accuracy"])
    folds = range(settings[row["settings"]]["folds"])
    return {
        number: np.array([accuracy[fold] for fold in folds])
        for number, accuracy in found.items()
        if len(accuracy) == len(folds)
    }


def _line(group: PublishedGroup, choice: Choice) -> str:
    dataset, method = choice.key
    paper, ours = group.experiment.accuracy[choice.key], group.spread(choice.key)
    return _row(
        [
            dataset,
            names.plain(method),
            f"{paper.mean:.2f} ± {paper.std:.2f}",
            f"{ours.mean:.2f} ± {ours.std_seeds:.2f}",
            f"{choice.chosen.mean():.2f}",
            f"{choice.best:.2f}",
        ]
    )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
