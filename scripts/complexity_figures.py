"""The figures of complexity.py, drawn from its JSON file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from sagpool.explain.draw import INK
from sagpool.report import canvas
from sagpool.report.colours import MUTED, colour
from sagpool.report.picture import STYLE, Drawing, render_all

MARKERS = dict(zip(("-g", "-h"), "so", strict=True))  # by architecture
DASHES: dict[str, Any] = {"1/10": (0, (1, 1.5)), "1/4": (0, (3, 2)), "1/2": "-", "1": (0, (6, 1.5))}
IN_FIGURE_4 = ("gpool-h", "sagpool-h", "diffpool-h")
HEIGHT = 1.9  # inches


def write_figures(result: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with rc_context(STYLE):
        for picture in render_all(drawings(result)).values():
            (folder / f"{picture.name}.png").write_bytes(picture.png)


def drawings(result: Mapping[str, Any]) -> Iterator[Drawing]:
    yield _parameters(result["parameters"])
    for series in ("nodes", "edges"):
        for what in ("time", "memory"):
            yield _cost(result, series, what)
    yield _clusters(result["clusters"])


def _parameters(found: Mapping[str, Any]) -> Drawing:
    methods = [method for method in IN_FIGURE_4 if method in found["counts"]]
    keys = [Line2D([], [], color=colour(m), linewidth=1.8, label=m) for m in methods]
    ratios = list(next(iter(found["counts"].values())))
    keys += [
        Line2D([], [], color=INK, linewidth=1.2, linestyle=DASHES[ratio], label=f"k = {ratio}")
        for ratio in ratios
    ]
    figure, ax = canvas.new_panel("Parameters", HEIGHT, keys)
    for method in methods:
        constant = len({count for line in found["counts"][method].values() for count in line}) == 1
        for ratio, counts in found["counts"][method].items():
            style = "-" if constant else DASHES[ratio]
            heights = np.array(counts) / 1000
            # SAGPool's line lies on gPool's.
            wide = 3.4 if method == "gpool-h" else 1.6
            ax.plot(found["nodes"], heights, color=colour(method), linewidth=wide, linestyle=style)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, found["nodes"][-1])
    canvas.add_grid(ax)
    canvas.label_x(ax, "nodes of the largest graph")
    canvas.label_y(ax, "parameters in thousands")
    return Drawing("parameters", "Parameters against the size of the largest graph", figure)


def _cost(result: Mapping[str, Any], series: str, what: str) -> Drawing:
    """Time or memory of a step against the size of the graphs, on logarithmic axes."""
    costs = [cost for cost in result["costs"] if cost["series"] == series]
    methods = list(dict.fromkeys(cost["method"] for cost in costs))
    looks = {
        m: {"color": colour(m), "marker": MARKERS[m[-2:]], "markersize": 3.5, "linewidth": 1.4}
        for m in methods
    }
    keys = [Line2D([], [], label=m, **looks[m]) for m in methods]
    title = f"{'Time' if what == 'time' else 'Memory'} of a step against {series}"
    figure, ax = canvas.new_panel(title, HEIGHT, keys)
    for method in methods:
        here = [cost for cost in costs if cost["method"] == method]
        scale = 1 if what == "time" else 2**-20
        heights = [scale * cost["milliseconds" if what == "time" else "bytes"] for cost in here]
        ax.plot([cost[series] for cost in here], heights, **looks[method])
    _logarithmic(ax, sorted({cost[series] for cost in costs}))
    canvas.label_x(ax, f"{series} of each graph")
    canvas.label_y(ax, "milliseconds" if what == "time" else "MiB")
    return Drawing(f"{what}-{series}", title, figure)


def _logarithmic(ax: Axes, values: list[int]) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(values, [f"{value:,}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())
    _log_labels(ax.yaxis)
    canvas.add_grid(ax)


def _log_labels(axis: Any) -> None:
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    low, high = axis.get_view_interval()
    few = high / low < 100
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if few else (1,)))


def _clusters(found: Mapping[str, Any]) -> Drawing:
    """Nodes or clusters after the first pooling against the nodes of a graph."""
    nodes = np.array(found["nodes"])
    tints = {"SAGPool": colour("sagpool-h"), "DiffPool": colour("diffpool-h")}
    keys = [
        Line2D([], [], color=tints["SAGPool"], linewidth=1.8, label="SAGPool: ⌈kN⌉ nodes"),
        Line2D([], [], color=tints["DiffPool"], linewidth=1.8, label="DiffPool: clusters"),
        *(
            Line2D([], [], color=INK, linewidth=1.2, linestyle=DASHES[ratio], label=f"k = {ratio}")
            for ratio in found["ratios"]
        ),
        Line2D([], [], color=MUTED, linewidth=0.8, label="as many as nodes"),
    ]
    title = f"{found['dataset']}: sizes after the first pooling"
    figure, ax = canvas.new_panel(title, HEIGHT, keys)
    ax.plot([nodes[0], nodes[-1]], [nodes[0], nodes[-1]], color=MUTED, linewidth=0.8)
    for ratio, clusters in found["ratios"].items():
        numerator, _, denominator = ratio.partition("/")
        kept = np.ceil(nodes * int(numerator) / int(denominator))
        ax.plot(nodes, kept, color=tints["SAGPool"], linewidth=1.4, linestyle=DASHES[ratio])
        height = clusters["clusters"]
        ax.plot(
            nodes[[0, -1]], [height, height], color=tints["DiffPool"], linewidth=1.4,
            linestyle=DASHES[ratio],
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    # The graphs themselves, as ticks at the bottom.
    low = ax.get_ylim()[0]
    ax.plot(
        nodes, np.full(len(nodes), low), "|", color=INK, markersize=5, alpha=0.25, clip_on=False
    )
    ax.set_ylim(bottom=low)
    for axis in (ax.xaxis, ax.yaxis):
        _log_labels(axis)
    canvas.add_grid(ax)
    canvas.label_x(ax, "nodes of a graph (marks: the graphs)")
    canvas.label_y(ax, "after the pooling")
    return Drawing("clusters", title, figure)
