"""The differences behind the verdicts on claims, with their intervals, in one picture."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import offset_copy

from sagpool.bench.claims import COMPARED, Judged, Line
from sagpool.bench.variants import Chosen
from sagpool.explain.draw import INK
from sagpool.report import canvas, names
from sagpool.report.colours import FAINT, MUTED
from sagpool.report.picture import Drawing
from sagpool.statistics import MARGIN

ROW = 0.2  # inches
LONGEST = 46  # characters of a heading
MEAN: dict[str, Any] = {"marker": "D", "markersize": 4, "color": INK}
SINGLE: dict[str, Any] = {"marker": "o", "markersize": 3.2, "color": MUTED}


def differences_drawing(name: str, title: str, judged: Sequence[Judged]) -> Drawing | None:
    """A row for each data set of each comparison of two methods; None if there is none.

    Args:
        name: name of the file
        title: title above the figure
        judged: the claims; comparisons of methods are drawn, each once
    """
    compared = [one for one in judged if one.claim.kind in COMPARED and one.found.lines]
    shown: dict[tuple[Any, ...], tuple[tuple[Line, ...], Chosen | None]] = {}
    for one in compared:
        for lines in _by_pair(one.found.lines):
            # A pair in the other order is the same comparison.
            pair = frozenset([lines[0].first, lines[0].second])
            key = (pair, one.chosen, *(line.dataset for line in lines))
            shown.setdefault(key, (lines, one.chosen))
    if not shown:
        return None
    several = len({one.chosen for one in compared}) > 1
    rows: list[str | Line] = []
    for lines, chosen in shown.values():
        rows += [*_heading(lines[0], f" ({chosen})" if several else ""), *lines]
    keys = [
        Line2D([], [], label="mean over data sets, 95 %", linewidth=1.4, **MEAN),
        Line2D([], [], label="one data set, 95 %", linewidth=1, **SINGLE),
        Patch(facecolor=FAINT, label=f"within {MARGIN:g} point"),
    ]
    labels = ["" if isinstance(row, str) else canvas.short(row.dataset or "mean") for row in rows]
    left = canvas.width_of([label for label in labels if label])
    figure, ax = canvas.new_panel(title, ROW * len(rows) + 0.05, keys, left=left)
    canvas.label_rows(ax, labels)
    canvas.label_x(ax, "difference of the test accuracy in points")
    ax.axvspan(-MARGIN, MARGIN, color=FAINT, linewidth=0, zorder=0)
    ax.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    edge = offset_copy(ax.get_yaxis_transform(), figure, x=0.06 - left)
    for place, row in enumerate(rows):
        if isinstance(row, str):
            ax.text(0, place + 0.1, row, transform=edge, size=canvas.SMALL, color=INK,
                    weight="bold", va="center", zorder=5)  # fmt: skip
        else:
            _draw(ax, place, row)
    caption = "Differences between methods, with corrected 95 % intervals"
    return Drawing(name, caption, figure)


def _by_pair(lines: Sequence[Line]) -> list[tuple[Line, ...]]:
    pairs = dict.fromkeys((line.first, line.second) for line in lines)
    return [tuple(line for line in lines if (line.first, line.second) == pair) for pair in pairs]


def _heading(line: Line, settings: str) -> list[str]:
    """Text of the difference, in two rows if it is long."""
    first, second = (_group(methods) for methods in (line.first, line.second))
    whole = f"{first} − {second}{settings}"
    return [whole] if len(whole) <= LONGEST else [f"{first} −", f"{second}{settings}"]


def _draw(ax: Axes, row: int, line: Line) -> None:
    style, width = (SINGLE, 1.0) if line.dataset else (MEAN, 1.4)
    ends = None
    if line.low is not None and line.high is not None:
        ends = [[line.value - line.low], [line.high - line.value]]
    ax.errorbar(line.value, row, xerr=ends, zorder=3, elinewidth=width, **style)


def _group(methods: Sequence[str]) -> str:
    if len(methods) == 1:
        return names.label(methods[0])
    return f"mean of {', '.join(map(names.label, methods))}"
