"""One panel of a picture: a graph with kept and dropped nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb, to_rgba
from scipy.spatial import cKDTree

from sagpool.explain.sketch import Sketch
from sagpool.explain.trace import Level, Trace

PLAIN = "#d4d8dd"  # a node without a score
RING = "#e0a008"  # around the nodes that decide the class
MARK = "#db5440"  # over the nodes that a reason counts
# Dark text is readable on all of these colours.
SCORES = LinearSegmentedColormap.from_list(
    "scores", ["#3d7fcb", "#94b9e0", "#f0ede8", "#f3ad95", "#db5440"]
)
DARK = "#1a1a1a"  # labels and outlines of nodes, whose fill is always light
# The full range of tanh, so that a colour means the same score in every picture.
RANGE = Normalize(-1, 1)
MOST_LABELLED_NODES = 60
MOST_VECTOR_NODES = 500  # larger graphs are pixels in an SVG, which would be huge otherwise
GREY = "#808080"  # edges made of pixels, on light and dark pages
SMALLEST_RADIUS, LARGEST_RADIUS = 1.6, 8.0  # in points
MANY_NODES = 1000  # more of them may be smaller
FADED = 0.22
POINTS = 72  # in an inch


def draw_panel(sketch: Sketch, ax: Axes, level: Level, ink: str) -> None:
    """Draw a level, with dropped nodes and their edges faded."""
    trace, positions = sketch.trace, sketch.positions
    pixels = trace.num_nodes > MOST_VECTOR_NODES
    ink = GREY if pixels else ink
    units_per_inch = fit(ax, positions)
    radius = _radius(positions, units_per_inch, len(level.kept))
    kept = np.zeros(trace.num_nodes, bool)
    kept[level.kept] = True
    inside = kept[trace.edges].all(axis=1)
    # Thinner edges in dense graphs, which would be a dark mass otherwise.
    thin = min(1.0, math.sqrt(3 * trace.num_nodes / max(len(trace.edges), 1)))
    for chosen, alpha in ((~inside, FADED), (inside, 0.85)):
        width = thin * min(1.2, 0.25 * radius)
        lines = PathCollection(
            [sketch.edges[edge] for edge in np.flatnonzero(chosen)], facecolors="none",
            edgecolors=ink, alpha=thin * alpha, linewidths=width, zorder=1, rasterized=pixels,
        )  # fmt: skip
        ax.add_collection(lines, autolim=False)

    dot = 0.5 * _radius(positions, units_per_inch, trace.num_nodes)
    style: dict[str, Any] = {"edgecolors": "none", "linewidths": 0, "zorder": 2}
    style["rasterized"] = pixels
    circles(ax, positions[~kept], dot, [to_rgba(ink, FADED)], **style)
    if trace.ground_truth is not None:
        truth = np.isin(np.arange(trace.num_nodes), trace.ground_truth)
        style |= {"edgecolors": [to_rgba(RING, 0.6)], "linewidths": 1, "zorder": 3}
        circles(ax, positions[truth & ~kept], dot + 2, "none", **style)
        style |= {"edgecolors": [to_rgba(RING)], "linewidths": 1.5}
        circles(ax, positions[truth & kept], radius + 2, "none", **style)
    style |= {"edgecolors": [to_rgba(DARK)], "linewidths": min(0.8, 0.15 * radius), "zorder": 4}
    circles(ax, positions[level.kept], radius, fills(level), **style)
    if _shows_labels(trace):
        for node in level.kept:
            _add_label(ax, positions[node], trace.node_labels[node], radius)


def mark(ax: Axes, positions: np.ndarray) -> None:
    """Mark these nodes in a finished panel."""
    style = {"edgecolors": "none", "linewidths": 0, "zorder": 6}
    circles(ax, positions, 6.0, [to_rgba(MARK, 0.35)], **style)


def fills(level: Level) -> np.ndarray:
    """The RGB colours of the kept nodes, ``[kept, 3]``."""
    if level.score is None:
        return np.tile(to_rgb(PLAIN), (len(level.kept), 1))
    return np.asarray(SCORES(RANGE(level.score)))[:, :3]


def extent(positions: np.ndarray) -> np.ndarray:
    """Width and height of the area a panel shows, ``[2]``, with a minimum for tiny graphs."""
    span = np.ptp(positions, axis=0)
    margin = max(1.0, 0.06 * float(span.max()))
    return np.maximum(span + margin, [4.0, 1.4])


def fit(ax: Axes, positions: np.ndarray) -> float:
    """Set the limits of the axes to show all positions; returns the length of an inch."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    inches = np.array([ax.bbox.width, ax.bbox.height]) / figure.dpi
    units_per_inch = float((extent(positions) / inches).max())
    middle = (positions.min(axis=0) + positions.max(axis=0)) / 2
    low, high = middle + np.outer([-0.5, 0.5], inches * units_per_inch)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    return units_per_inch


def _radius(positions: np.ndarray, units_per_inch: float, nodes: int) -> float:
    """The radius of nodes in points, by their number and distances."""
    if len(positions) == 1:
        return LARGEST_RADIUS
    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    # A low quantile, not the minimum: two overlapping nodes would make all nodes tiny.
    crowded = np.quantile(nearest, 0.05 if len(positions) <= MOST_LABELLED_NODES else 0.3)
    radius = min(0.32, 0.45 * float(crowded))
    smallest = SMALLEST_RADIUS * min(1.0, math.sqrt(MANY_NODES / max(nodes, 1)))
    return float(np.clip(radius / units_per_inch * POINTS, smallest, LARGEST_RADIUS))


def circles(ax: Axes, at: np.ndarray, radius: float, fill: Any, **style: Any) -> None:
    ax.scatter(at[:, 0], at[:, 1], s=(2 * radius) ** 2, facecolors=fill, **style)


def _shows_labels(trace: Trace) -> bool:
    if trace.num_nodes > MOST_LABELLED_NODES:
        return False
    # Labels that are degrees add nothing to the picture.
    degree = np.bincount(trace.edges.ravel(), minlength=trace.num_nodes)
    return list(trace.node_labels) != [str(d) for d in degree]


def _add_label(ax: Axes, at: np.ndarray, text: str, radius: float) -> None:
    size = min(1.25 * radius, 2.6 * radius / max(len(text), 1))
    if not text or size < 3:  # too small to read
        return
    ax.text(
        at[0], at[1], text, size=size, color=DARK, ha="center", va="center_baseline", zorder=5,
        parse_math=False,
    )  # fmt: skip
