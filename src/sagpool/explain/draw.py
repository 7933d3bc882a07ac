"""Pictures of traces: the input graph, and beside it the nodes that each pooling kept."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sagpool.errors import SagpoolError
from sagpool.explain.molecule_panel import draw_molecule
from sagpool.explain.panel import (
    MANY_NODES,
    RANGE,
    RING,
    SCORES,
    draw_panel,
    extent,
    mark,
)
from sagpool.explain.parts import signed, strongest
from sagpool.explain.sketch import sketch
from sagpool.explain.trace import Level, Trace

INK = "#333333"

# In inches, so that the space for texts does not depend on the shape of the graph.
SIDE = 0.1
GAP = 0.08
LINE = 0.2
PANEL_TITLE = 0.27
LEGEND = 0.42


def draw(trace: Trace, *, ink: str = INK, wide: bool = True, captioned: bool = True) -> Figure:
    """The input graph and one panel for each level or mask, on a transparent background.

    Without levels, the nodes of the strongest reason are marked in the input graph.

    Args:
        trace: what to draw
        ink: colour of texts and edges; light for dark pages
        wide: up to four panels in a row, otherwise two
        captioned: whether to write the caption above the panels
    """
    panels = len(trace.panels) + 1
    columns = min(panels, 4 if wide else 2)
    across, up = extent(sketch(trace).outline)
    panel_width = 2.5 * _enlarged(trace.num_nodes) if wide else 1.8
    panel_height = panel_width * float(np.clip(up / across, 0.35, 1))
    scored = any(level.score is not None for level in trace.levels)

    width = 2 * SIDE + columns * panel_width + (columns - 1) * GAP
    caption = _wrap(trace.caption + _marked(trace), width) if captioned else []
    head = 0.12 + LINE * len(caption) if captioned else 0.02
    foot = LEGEND if scored or trace.ground_truth is not None else SIDE
    height = head + math.ceil(panels / columns) * (panel_height + PANEL_TITLE) + foot
    figure = Figure(figsize=(width, height), facecolor="none")
    axes = []
    for panel in range(panels):
        row, column = divmod(panel, columns)
        left = SIDE + column * (panel_width + GAP)
        bottom = height - head - (row + 1) * (panel_height + PANEL_TITLE)
        axes.append(_axes(figure, left, bottom, panel_width, panel_height))
    draw_panels(trace, axes, ink=ink)

    for line, text in enumerate(caption):
        top = 1 - (0.09 + line * LINE) / height
        figure.text(SIDE / width, top, text, color=ink, size=9.5, va="top", parse_math=False)
    if scored:
        _add_colour_bar(_axes(figure, width - SIDE - 1.25, 0.24, 1.15, 0.07), ink)
    if trace.ground_truth is not None:
        _add_ring_legend(figure, (SIDE / width, 0.18 / height), ink)
    return figure


def draw_panels(trace: Trace, axes: Axes | Sequence[Axes], *, ink: str = INK) -> Figure:
    """Draw only the panels, on one axis each or on a single one that is divided."""
    needed = len(trace.panels) + 1
    if isinstance(axes, Axes):
        axes.set_axis_off()
        axes = [axes.inset_axes((i / needed, 0, 1 / needed, 1)) for i in range(needed)]
    if len(axes) != needed:
        raise SagpoolError(f"The input and its levels need {needed} axes, not {len(axes)}.")
    drawn = sketch(trace)
    shown = drawn.trace
    everything = Level(kept=np.arange(shown.num_nodes), score=None)
    levels = (None, *(level for _, level in shown.panels))
    for ax, level, title in zip(axes, levels, _titles(trace, shown), strict=True):
        if trace.molecule is None:
            draw_panel(drawn, ax, level or everything, ink)
        else:
            draw_molecule(trace, ax, drawn, level, ink)
        reason = None if shown.levels else strongest(shown.reasons)
        if reason is not None:
            mark(ax, drawn.positions[list(reason.nodes)])
        ax.set_title(title, color=ink, size=8.5, pad=4)
    figure = axes[0].get_figure(root=True)
    assert figure is not None
    return figure


def _marked(trace: Trace) -> str:
    reason = None if trace.levels else strongest(trace.reasons)
    return "" if reason is None else f" · marked: {reason.name} ({signed(reason.amount)})"


def _titles(trace: Trace, shown: Trace) -> list[str]:
    nodes = "node" if trace.molecule is None else "atom"
    nodes += "" if trace.num_nodes == 1 else "s"
    titles = [f"input · {trace.num_nodes} {nodes}"]
    titles += [f"{title} · {len(level.kept)} kept" for title, level in trace.panels]
    if shown is trace:
        return titles
    counts = [shown.num_nodes, *(len(level.kept) for _, level in shown.panels)]
    return [f"{title}, {count} drawn" for title, count in zip(titles, counts, strict=True)]


def svg(trace: Trace, *, ink: str = "currentColor", captioned: bool = True) -> str:
    """The picture as an ``<svg>`` element, by default in the text colour and font of the page."""
    buffer = io.StringIO()
    # Salted ids are reproducible, and do not clash when a page has several pictures.
    with rc_context({"svg.hashsalt": f"{trace.name} {trace.number}", "svg.fonttype": "none"}):
        without = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        draw(trace, captioned=captioned).savefig(buffer, format="svg", metadata=without)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, ink)
    # Matplotlib's style sheet would apply to all of the page.
    text = re.sub(r"<style.*?</style>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", text)
    text = re.sub(r" font-family: [^;\"]*;", "", text)
    return re.sub(r' d="[^"]*"', lambda path: _shortened(path[0]), text)


def png(trace: Trace, *, ink: str, most_pixels: int) -> bytes:
    """The picture, without a caption, at most this many pixels wide."""
    buffer, figure = io.BytesIO(), draw(trace, ink=ink, captioned=False)
    dpi = min(100.0, most_pixels / figure.get_figwidth())
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _shortened(path: str) -> str:
    """Coordinates to a hundredth of a point."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path.replace(" \n", " "))


def _enlarged(num_nodes: int) -> float:
    """How much larger the panels of a large graph are, up to twice."""
    return float(np.clip(math.sqrt(num_nodes / MANY_NODES / 2.5), 1, 2))


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a position in inches."""
    across, up = figure.get_size_inches()
    box = (left / across, bottom / up, width / across, height / up)
    return figure.add_axes(box, facecolor="none")


def _add_colour_bar(ax: Axes, ink: str) -> None:
    mappable = ScalarMappable(RANGE, SCORES)
    bar = ax.figure.colorbar(mappable, cax=ax, orientation="horizontal", ticks=[-1, 0, 1])
    bar.outline.set(edgecolor=ink, linewidth=0.5)
    ax.tick_params(colors=ink, labelsize=7, length=2, width=0.5, pad=1.5)
    ax.annotate(
        "score", (-0.06, 0.5), xycoords="axes fraction", color=ink, size=7.5, ha="right",
        va="center",
    )  # fmt: skip


def _add_ring_legend(figure: Figure, at: tuple[float, float], ink: str) -> None:
    ring = Line2D(
        [], [], linestyle="", marker="o", markersize=7, markerfacecolor="none",
        markeredgecolor=RING, markeredgewidth=1.4, label="decides the class",
    )  # fmt: skip
    figure.legend(
        handles=[ring], loc="lower left", bbox_to_anchor=at, frameon=False, fontsize=7.5,
        labelcolor=ink, handletextpad=0.1, borderpad=0, borderaxespad=0,
    )  # fmt: skip


def _wrap(caption: str, inches: float) -> list[str]:
    """The caption in lines of at most this width, broken at its separators."""
    most = int(inches / 0.075)  # characters
    lines: list[str] = []
    for part in caption.split(" · "):
        if lines and len(lines[-1]) + 3 + len(part) <= most:
            lines[-1] += f" · {part}"
        else:
            lines.append(part if len(part) <= most else part[: most - 1] + "…")
    return lines
