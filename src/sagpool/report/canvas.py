"""Small figures that can be read on a phone: axes, legends, labels and dots."""

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath

from sagpool.explain.draw import INK
from sagpool.report.colours import FAINT, MUTED
from sagpool.statistics import evenly_spaced

# Lengths in inches.
WIDTH = 3.9  # a page 374 CSS pixels wide, on which a point is 4 / 3 of a pixel
LEFT = 0.58  # for the numbers and the label of a y axis
BOTTOM = 0.45  # for the numbers and the label of an x axis
TITLE, LEGEND_LINE = 0.34, 0.16

# Font sizes in points.
SMALL = 8.0
SMALLEST_LABEL = 6.2  # eight pixels on a phone

MOST_DOTS = 500  # most dots of a cell


def new_panel(
    title: str, height: float, keys: Sequence[Artist] = (), *, left: float = LEFT
) -> tuple[Figure, Axes]:
    """A new figure with a title, a legend and axes of this height in inches."""
    top = head_height(keys)
    figure = new_figure(title, top + height + BOTTOM, keys)
    return figure, add_axes(figure, left=left, bottom=BOTTOM, top=top)


def new_figure(title: str, height: float, keys: Sequence[Artist] = ()) -> Figure:
    """A figure of the common width, with a title and a legend in its upper left corner."""
    figure = Figure(figsize=(WIDTH, height), facecolor="none")
    figure.text(
        0.06 / WIDTH, 1 - 0.06 / height, short(title, 46), color=INK, size=9.5, weight="bold",
        va="top",
    )  # fmt: skip
    if keys:
        columns = _legend_columns(keys)
        # Matplotlib fills the columns of a legend; readers follow its rows.
        ordered = [key for column in range(columns) for key in keys[column::columns]]
        figure.legend(
            handles=ordered, loc="upper left", ncols=columns, frameon=False,
            bbox_to_anchor=(0, 1 - 0.27 / height), fontsize=SMALL, labelcolor=INK, borderpad=0,
            borderaxespad=0.35, handlelength=1.3, handletextpad=0.5, columnspacing=1.2,
            labelspacing=0.3,
        )  # fmt: skip
    return figure


def head_height(keys: Sequence[Artist]) -> float:
    """The height of the title and the legend, in inches."""
    if not keys:
        return TITLE
    lines = [label.count("\n") + 1 for label in _labels(keys)]
    columns = _legend_columns(keys)
    return TITLE + LEGEND_LINE * sum(
        max(lines[start : start + columns]) for start in range(0, len(lines), columns)
    )


def add_axes(
    figure: Figure, *, left: float, bottom: float, top: float, right: float = 0.12
) -> Axes:
    """Axes with these margins, in inches, and as few lines as possible."""
    width, height = figure.get_size_inches()
    ax = figure.add_axes(
        (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height),
        facecolor="none",
    )
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set(color=MUTED, linewidth=0.6)
    ax.tick_params(colors=INK, labelsize=SMALL, length=0, pad=3)
    ax.tick_params(axis="x", which="both", color=MUTED, length=2.5, width=0.6)
    ax.set_axisbelow(True)
    return ax


def label_x(ax: Axes, label: str) -> None:
    ax.set_xlabel(label, color=INK, size=SMALL)


def label_y(ax: Axes, label: str) -> None:
    """A label at the left edge of the figure, whatever the width of the numbers."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    middle = (ax.get_position().y0 + ax.get_position().y1) / 2
    ax.set_ylabel(label, color=INK, size=SMALL)
    ax.yaxis.set_label_coords(0.15 / WIDTH, middle, transform=figure.transFigure)


def label_rows(ax: Axes, labels: Sequence[str]) -> None:
    """Turn the y axis into a list of rows, the first one on top."""
    ax.set_yticks(range(len(labels)), labels, color=INK)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    add_grid(ax, "x")


def add_grid(ax: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    ax.grid(axis=axis, color=FAINT, linewidth=0.6)


def add_dots(ax: Axes, x: np.ndarray, y: np.ndarray, tint: str, size: float = 2.2) -> None:
    """Many small dots as one path, so that a file holds one element instead of thousands.

    At most `MOST_DOTS` are drawn, evenly spaced in their order.
    """
    some = evenly_spaced(len(x), MOST_DOTS)
    x, y = x[some], y[some]
    few = len(x) <= 60
    line = np.full((len(x), 3, 2), np.nan)
    line[:, 0], line[:, 1] = np.stack([x, y], 1), np.stack([x, y + 0.004], 1)
    (drawn,) = ax.plot(
        *line.reshape(-1, 2).T, color=tint, linewidth=size + 0.6 * few, solid_capstyle="round",
        alpha=0.8 if few else 0.55, zorder=2,
    )  # fmt: skip
    # Otherwise matplotlib would simplify such short strokes away.
    drawn.set_snap(False)
    drawn.get_path().should_simplify = False


def jitter(count: int, width: float) -> np.ndarray:
    """Offsets in ``[-width / 2, width / 2]`` that look random but are reproducible."""
    return ((np.arange(count) * 0.6180339887) % 1 - 0.5) * width


def short(label: str, most: int = 26) -> str:
    """Cut a long label; data sets and methods of users may have names of any length.

    The settings of a method go on a separate line.
    """
    if len(label) <= most:
        return label
    name, _, settings = label.partition(", ")
    lines = [(name, most), (settings, most + 10)] if settings else [(label, most)]
    return "\n".join(line if len(line) <= n else f"{line[: n - 1]}…" for line, n in lines)


def width_of(labels: Sequence[str]) -> float:
    """The width of the longest label with some space around it, in inches."""
    lines = [line for label in labels for line in label.split("\n")]
    return 0.15 + max(map(_line_width, lines)) / 72


@cache
def _line_width(line: str) -> float:
    """Width in points; cached, because the same names are in many figures."""
    return float(TextPath((0, 0), line, size=SMALL).get_extents().width)


def hide_small_labels(figure: Figure) -> None:
    """Hide node labels that are too small to read."""
    for ax in figure.axes:
        for label in ax.texts:
            label.set_visible(float(label.get_fontsize()) >= SMALLEST_LABEL)


def _labels(keys: Sequence[Artist]) -> list[str]:
    return [str(key.get_label()) for key in keys]


def _legend_columns(keys: Sequence[Artist]) -> int:
    most = max(1, int((WIDTH - 0.1) / (width_of(_labels(keys)) + 0.32)))
    rows = -(-len(keys) // most)
    return -(-len(keys) // rows)
