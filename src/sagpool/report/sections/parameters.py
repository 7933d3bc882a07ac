"""Parameters against the size of the largest graph: the paper's Figure 4."""

import textwrap
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from sagpool.explain.draw import INK
from sagpool.models import Shape, count_parameters, method_version, methods
from sagpool.report import canvas, names
from sagpool.report.colours import colour
from sagpool.report.content import Content
from sagpool.report.picture import Drawing
from sagpool.report.section import Part, Section

CHANNELS, CLASSES = 128, 2  # as in the paper's figure
SIZES = (20, 100, 200, 300, 400, 500)
RATIOS: dict[float, Any] = {0.25: (0, (3, 2)), 0.5: "-"}  # line style of each ratio
ALIKE = 0.03  # relative difference below which lines would coincide


def section(_: Content) -> Section:
    return Section(
        "parameters",
        "Parameters and the size of graphs",
        [Part(drawings=[_drawing()])],
        [
            "The paper's Figure 4 for all registered hierarchical methods: 128 node features, "
            "hidden size 128, two classes, all graphs of one size. Methods whose counts differ by "
            "less than 3 % share a line."
        ],
    )


def _drawing() -> Drawing:
    groups = alike(count_all())
    keys = []
    for group in groups:
        methods = textwrap.wrap(_listed([one.method for one in group]), 52, break_on_hyphens=False)
        key = Line2D([], [], color=_colour(group), linewidth=1.8, label="\n".join(methods))
        keys.append(key)
    if not all(_flat(group[0]) for group in groups):
        keys += [
            Line2D([], [], color=INK, linewidth=1.2, linestyle=dash, label=f"ratio {ratio:g}")
            for ratio, dash in RATIOS.items()
        ]
    figure, ax = canvas.new_panel("Parameters", 1.9, keys)
    draw_parameters(ax, groups)
    return Drawing("parameters", "Parameters against the size of the largest graph", figure)


@dataclass(frozen=True)
class Counts:
    """The numbers of parameters of a method, by pooling ratio."""

    method: str
    parameters: dict[float, tuple[int, ...]]  # parameters for each of `SIZES`, by ratio


def count_all() -> list[Counts]:
    """Counts of all registered hierarchical methods."""
    hierarchical = [m for m in methods() if names.architecture(m) == "hierarchical"]
    return [
        Counts(m, {r: _count(m, method_version(m), r) for r in RATIOS})
        for m in names.in_order(hierarchical)
    ]


@cache  # hundreds of models are built; every report of a process needs them
def _count(method: str, version: str, ratio: float) -> tuple[int, ...]:
    shapes = [Shape(CHANNELS, CLASSES, hidden=CHANNELS, ratio=ratio, max_nodes=n) for n in SIZES]
    return tuple(count_parameters(method, shape) for shape in shapes)


def alike(counts: list[Counts]) -> list[list[Counts]]:
    """Groups of methods whose lines would coincide."""
    found: list[list[Counts]] = []
    for one in counts:
        group = next((group for group in found if _close(one, group[0])), None)
        if group is None:
            found.append([one])
        else:
            group.append(one)
    return found


def draw_parameters(ax: Axes, groups: list[list[Counts]]) -> None:
    """Draw a line for each group and ratio; one line if the ratio makes no difference."""
    for group in groups:
        for ratio, dash in RATIOS.items():
            if _flat(group[0]) and ratio != 0.5:
                continue
            heights = [count / 1000 for count in group[0].parameters[ratio]]
            ax.plot(SIZES, heights, color=_colour(group), linewidth=1.8, linestyle=dash)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, SIZES[-1])
    canvas.add_grid(ax)
    canvas.label_x(ax, "nodes of the largest graph")
    canvas.label_y(ax, "parameters in thousands")


def _listed(group: list[str]) -> str:
    """The methods of a group; variants whose method is in the group only by their suffixes."""
    short = [m.removeprefix("sagpool-h") if "sagpool-h" in group else m for m in group]
    return ", ".join(end or "sagpool-h" for end in short)


def _colour(group: list[Counts]) -> str:
    methods = [one.method for one in group]
    return colour("sagpool-h" if "sagpool-h" in methods else methods[0])


def _flat(one: Counts) -> bool:
    return len({count for line in one.parameters.values() for count in line}) == 1


def _close(one: Counts, other: Counts) -> bool:
    return all(
        abs(a - b) <= ALIKE * b
        for ratio in RATIOS
        for a, b in zip(one.parameters[ratio], other.parameters[ratio], strict=True)
    )
