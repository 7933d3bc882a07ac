"""The section of the reproduction page that compares another protocol with the paper's."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from markdown_table import starred, table_row
from published_rows import Key, Published, PublishedGroup

from sagpool.bench.experiment import Accuracy
from sagpool.bench.variants import Chosen
from sagpool.statistics import holm, spread_ratio, welch

HEADS = ("data set", "method", "paper", "the paper's protocol", "this protocol", "change", "p")


class _Pair(NamedTuple):
    """A cell by both protocols: means of its seeds, in percent."""

    key: Key
    paper: Accuracy
    usual: np.ndarray
    other: np.ndarray

    @property
    def change(self) -> float:
        return float(self.other.mean() - self.usual.mean())

    @property
    def p(self) -> float:
        """Of Welch's test: the protocols have different splits, so nothing is paired."""
        return welch(
            self.other, float(self.usual.mean()), float(self.usual.std(ddof=1)), len(self.usual)
        ).p


def protocols_section(published: Published) -> str:
    """One block for each other protocol that shares cells with the paper's; settings are fixed."""
    fixed = [group for group in published.groups if group.chosen is Chosen.FIXED]
    usual = next((group for group in fixed if not group.differences), None)
    if usual is None:
        return ""
    blocks = [_block(usual, group) for group in fixed if group.differences]
    return "\n\n".join(block for block in blocks if block)


def _block(usual: PublishedGroup, other: PublishedGroup) -> str:
    pairs = [
        _Pair(key, usual.experiment.accuracy[key], _seed_means(usual, key), _seed_means(other, key))
        for key in other.plain
        if key in usual.plain and key in usual.experiment.accuracy
    ]
    if not pairs:
        return ""
    lines = [table_row(HEADS), table_row(["---", "---", *["---:"] * (len(HEADS) - 2)])]
    for pair, p in zip(pairs, holm([pair.p for pair in pairs]), strict=True):
        paper, ours = pair.paper, (_mean_and_std(one) for one in (pair.usual, pair.other))
        cells = [*pair.key, f"{paper.mean:.2f} ± {paper.std:.2f}", *ours]
        lines.append(table_row([*cells, _signed(pair.change), starred(p)]))
    table = "\n".join(lines)
    return f"This protocol: {'; '.join(other.differences)}.\n\n{table}\n\n{_sentences(pairs)}"


def _sentences(pairs: list[_Pair]) -> str:
    gaps = [
        float(np.mean([abs(means.mean() - pair.paper.mean) for pair, means in side]))
        for side in _sides(pairs)
    ]
    spreads = [
        spread_ratio((float(means.std(ddof=1)), pair.paper.std) for pair, means in side)
        for side in _sides(pairs)
    ]
    change = float(np.mean([pair.change for pair in pairs]))
    return (
        f"In the mean over these {len(pairs)} cells the accuracy changes by {_signed(change)} "
        f"points. The mean distance from the paper is {gaps[0]:.2f} points by the paper's protocol "
        f"and {gaps[1]:.2f} by this one, and the seed spread {spreads[0]:.2f} and "
        f"{spreads[1]:.2f} of the paper's."
    )


def _sides(pairs: list[_Pair]) -> Iterable[list[tuple[_Pair, np.ndarray]]]:
    yield [(pair, pair.usual) for pair in pairs]
    yield [(pair, pair.other) for pair in pairs]


def _seed_means(group: PublishedGroup, key: Key) -> np.ndarray:
    return np.array(list(group.cells[key].seed_means.values()))


def _mean_and_std(means: np.ndarray) -> str:
    return f"{means.mean():.2f} ± {means.std(ddof=1):.2f}"


def _signed(value: float) -> str:
    return f"{value:+z.2f}".replace("-", "−")
