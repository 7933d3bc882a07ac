"""The section of the reproduction page on settings chosen by test accuracy.

What would a search report that chose by test accuracy? The finalists of a race, which have all
folds of the first seed, tell.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markdown_table import table_row
from published_rows import Key, Published, PublishedGroup, read_csv

from sagpool.bench.claims.phrases import signed
from sagpool.bench.variants import Chosen
from sagpool.report import names

SAME = ("name", "data", "method", "precision", "numerics")  # columns in which candidates agree
HEADS = ("data set", "method", "paper", "by validation, 20 seeds", "by validation, first seed")
HEADS += ("by test, first seed",)


class Choice(NamedTuple):
    """The candidates of a cell that have all folds of the first seed, by their test accuracies."""

    key: Key
    chosen: np.ndarray  # [seeds, folds], in percent, of the settings chosen by validation
    finalists: Sequence[np.ndarray]  # of all candidates; those of a race have few seeds

    def best(self, seeds: int, among: int) -> float:
        """The highest mean over the first seeds, among the finalists that have so many."""
        return max(float(one[:seeds].mean()) for one in self.finalists if len(one) >= among)

    def gain(self, seeds: int, among: int) -> float:
        """By how much it is above that of the chosen settings, in the folds that choose."""
        return self.best(seeds, among) - float(self.chosen[:seeds].mean())

    @property
    def gain_elsewhere(self) -> float:
        """The same in a fold of the first seed that does not choose, in the mean over the folds."""
        first = np.array([one[0] for one in self.finalists])
        gains = []
        for fold in range(first.shape[1]):
            others = np.delete(first, fold, axis=1).mean(1)
            gains.append(first[others.argmax(), fold] - self.chosen[0, fold])
        return float(np.mean(gains))

    @property
    def luck(self) -> float:
        """By how much the chosen settings are better in the first seed than over all seeds."""
        return float(self.chosen[0].mean() - self.chosen.mean())

    def having(self, seeds: int) -> int:
        """How many finalists have all folds of so many seeds."""
        return sum(len(one) >= seeds for one in self.finalists)


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
    lines = [table_row(HEADS), table_row(["---", "---", *["---:"] * 4])]
    below = [choice for choice in choices if choice.key in lower]
    lines += [_line(group, choice) for choice in below]
    return "\n".join([*lines, "", " ".join(_sentences(choices, below))])


def _sentences(choices: Sequence[Choice], below: Sequence[Choice]) -> Iterator[str]:
    elsewhere = np.array([choice.gain_elsewhere for choice in choices])
    error = ""
    if len(choices) > 1:
        by_cell = elsewhere.std(ddof=1) / len(choices) ** 0.5
        error = (
            f"; its standard error over the cells is {by_cell:.2f}, which is too small, since the "
            "cells of a data set share their splits"
        )
    gain = _mean(choice.gain(1, among=1) for choice in choices)
    yield (
        f"In the mean over all {len(choices)} searched cells, settings chosen by test accuracy "
        f"look {gain} points better than those chosen by validation, in the folds that chose them. "
        "If all folds but one choose, the difference in that one is "
        f"{signed(float(elsewhere.mean()))} points{error}."
    )
    two = [choice for choice in choices if choice.having(2) > 1]
    if two:
        one_seed, both = (_mean(choice.gain(seeds, among=2) for choice in two) for seeds in (1, 2))
        yield (
            f"Where at least two candidates have two seeds ({len(two)} cells), the gain among "
            f"these is {one_seed} points if the first seed chooses, and {both} if both do."
        )
    if below:
        luck, here = (_mean(choice.luck for choice in some) for some in (choices, below))
        yield (
            "In the first seed, the settings chosen by validation differ from their mean over all "
            f"seeds by {luck} points, and by {here} in the cells of the table."
        )


def _mean(values: Iterable[float]) -> str:
    return signed(float(np.mean([*values])))


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
                yield Choice(key, finalists[row["settings"]], [*finalists.values()])


def _finalists(
    group: PublishedGroup,
    row: dict[str, str],
    rows: Sequence[dict[str, str]],
    settings: dict[str, dict[str, Any]],
) -> dict[str, np.ndarray]:
    """Candidates of the cell of this row: their first seeds with all folds, by their settings."""
    searched = group.experiment.grid_of(row["name"], row["method"])

    def fixed(number: str) -> dict[str, Any]:
        return {name: value for name, value in settings[number].items() if name not in searched}

    found: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for other in rows:
        same = all(other[column] == row[column] for column in SAME)
        if same and fixed(other["settings"]) == fixed(row["settings"]):
            split = (int(other["seed"]), int(other["fold"]))
            found[other["settings"]][split] = 100 * float(other["test_accuracy"])
    folds = settings[row["settings"]]["folds"]
    complete = {number: [*_seeds(accuracy, folds)] for number, accuracy in found.items()}
    return {number: np.array(seeds) for number, seeds in complete.items() if seeds}


def _seeds(accuracy: Mapping[tuple[int, int], float], folds: int) -> Iterator[list[float]]:
    """The accuracies in the folds of each seed, up to the first seed that lacks one."""
    for seed in itertools.count():
        splits = [(seed, fold) for fold in range(folds)]
        if not accuracy.keys() >= set(splits):
            return
        yield [accuracy[split] for split in splits]


def _line(group: PublishedGroup, choice: Choice) -> str:
    dataset, method = choice.key
    paper, ours = group.experiment.accuracy[choice.key], group.spread(choice.key)
    return table_row(
        [
            dataset,
            names.plain(method),
            f"{paper.mean:.2f} ± {paper.std:.2f}",
            f"{ours.mean:.2f} ± {ours.std_seeds:.2f}",
            f"{choice.chosen[0].mean():.2f}",
            f"{choice.best(1, among=1):.2f}",
        ]
    )
