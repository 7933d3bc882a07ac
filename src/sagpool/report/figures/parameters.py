"""Parameters against the size of the largest graph: the paper's Figure 4."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sagpool.explain.draw import INK
from sagpool.models import Shape, count_parameters, methods
from sagpool.report import names
from sagpool.report.canvas import FAINT, LEFT, SMALL, add_axes, label_y, new_figure
from sagpool.report.colours import colour

CHANNELS, CLASSES = 128, 2  # as in the paper's figure
SIZES = (20, 100, 200, 300, 400, 500)
RATIOS: dict[float, Any] = {0.25: (0, (3, 2)), 0.5: "-"}  # and how their lines look
ALIKE = 0.03  # lines that are closer than this share would lie on each other


@dataclass(frozen=True)
class Counts:
    """Of one method, by pooling ratio."""

    method: str
    parameters: dict[float, tuple[int, ...]]  # for each of `SIZES`


def count_all() -> list[Counts]:
    """All registered hierarchical methods."""
    hierarchical = [m for m in methods() if names.architecture(m) == "hierarchical"]
    return [Counts(m, {r: _count(m, r) for r in RATIOS}) for m in names.in_order(hierarchical)]


def _count(method: str, ratio: float) -> tuple[int, ...]:
    return tuple(
        count_parameters(
            method, Shape(CHANNELS, CLASSES, hidden=CHANNELS, ratio=ratio, max_nodes=size)
        )
        for size in SIZES
    )


def alike(counts: list[Counts]) -> list[list[Counts]]:
    """Methods whose lines coincide, the most frequent name first."""
    found: list[list[Counts]] = []
    for one in counts:
        for group in found:
            if _close(one, group[0]):
                group.append(one)
                break
        else:
            found.append([one])
    return found


def parameters_figure(title: str, counts: list[Counts]) -> Figure:
    """A line for each group of methods and each ratio; one line where the ratio is of no matter."""
    keys = []
    groups = alike(counts)
    for group in groups:
        label = "\n".join(
            textwrap.wrap(_listed([one.method for one in group]), 52, break_on_hyphens=False)
        )
        keys.append(Line2D([], [], color=colour(_face(group)), linewidth=1.8, label=label))
    if any(not _flat(group[0]) for group in groups):
        keys += [
            Line2D([], [], color=INK, linewidth=1.2, linestyle=dash, label=f"ratio {ratio:g}")
            for ratio, dash in RATIOS.items()
        ]
    lines = sum(str(key.get_label()).count("\n") + 1 for key in keys)
    top = 0.4 + 0.145 * lines
    figure = new_figure(top + 1.9 + 0.45, title)
    ax = add_axes(figure, left=LEFT, bottom=0.45, top=top)
    for group in groups:
        for ratio, dash in RATIOS.items():
            if _flat(group[0]) and ratio != 0.5:
                continue
            heights = [count / 1000 for count in group[0].parameters[ratio]]
            ax.plot(SIZES, heights, color=colour(_face(group)), linewidth=1.8, linestyle=dash)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, SIZES[-1])
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_xlabel("nodes of the largest graph", color=INK, size=SMALL)
    label_y(ax, "parameters in thousands")
    figure.legend(
        handles=keys, loc="upper left", bbox_to_anchor=(0, 1 - 0.27 / figure.get_size_inches()[1]),
        frameon=False, fontsize=SMALL, labelcolor=INK, borderpad=0, borderaxespad=0.35,
        handlelength=1.6, handletextpad=0.6, labelspacing=0.3,
    )  # fmt: skip
    return figure


def _listed(group: list[str]) -> str:
    """The variants of a method that is there are told by their endings."""
    short = [m.removeprefix("sagpool-h") if "sagpool-h" in group else m for m in group]
    return ", ".join(end or "sagpool-h" for end in short)


def _face(group: list[Counts]) -> str:
    """By whose colour a group is known."""
    known = [one.method for one in group]
    return "sagpool-h" if "sagpool-h" in known else known[0]


def _flat(one: Counts) -> bool:
    return len({count for line in one.parameters.values() for count in line}) == 1


def _close(one: Counts, other: Counts) -> bool:
    return all(
        abs(a - b) <= ALIKE * b
        for ratio in RATIOS
        for a, b in zip(one.parameters[ratio], other.parameters[ratio], strict=True)
    )
