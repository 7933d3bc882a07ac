"""One panel of a picture: a graph in which some of the nodes are left."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb, to_rgba
from scipy.spatial import cKDTree

from sagpool.explain.trace import Level, Trace

PLAIN = "#d4d8dd"  # a node without a score
RING = "#e0a008"  # around the nodes that decide the class
# Dark text is readable on all of it, and with an outline it stands out from any ground.
SCORES = LinearSegmentedColormap.from_list(
    "scores", ["#3d7fcb", "#94b9e0", "#f0ede8", "#f3ad95", "#db5440"]
)
DARK = "#1a1a1a"  # labels and outlines of nodes, which are light on any ground
# The gate is a tanh; with all of its range, a colour means the same in every picture.
RANGE = Normalize(-1, 1)
MOST_LABELLED_NODES = 60
SMALLEST_RADIUS, LARGEST_RADIUS = 1.6, 8.0  # in points
FADED = 0.22
POINTS = 72  # in an inch


def draw_panel(trace: Trace, ax: Axes, positions: np.ndarray, level: Level, ink: str) -> None:
    """Draw a level; what was dropped is faded.

    Args:
        trace: of which the level is one, or the input with all nodes
        ax: where to draw
        positions: ``[nodes, 2]``, edges are of length one on average
        level: which nodes are left, and their scores
        ink: colour of edges and of dropped nodes
    """
    radius = _radius(positions, fit(ax, positions))
    left = np.zeros(trace.num_nodes, bool)
    left[level.kept] = True
    inside = left[trace.edges].all(axis=1)
    # Dense graphs have thinner edges, which would be one dark mass otherwise.
    thin = min(1.0, math.sqrt(3 * trace.num_nodes / max(len(trace.edges), 1)))
    for chosen, alpha in ((~inside, FADED), (inside, 0.85)):
        width = thin * min(1.2, 0.25 * radius)
        segments = list(positions[trace.edges[chosen]])
        lines = LineCollection(segments, colors=ink, alpha=thin * alpha, linewidths=width, zorder=1)
        ax.add_collection(lines, autolim=False)

    dot = 0.5 * radius
    circles(ax, positions[~left], dot, [to_rgba(ink, FADED)], zorder=2)
    if trace.ground_truth is not None:
        truth = np.isin(np.arange(trace.num_nodes), trace.ground_truth)
        circles(ax, positions[truth & ~left], dot + 2, "none", [to_rgba(RING, 0.6)], 1, zorder=3)
        circles(ax, positions[truth & left], radius + 2, "none", [to_rgba(RING)], 1.5, zorder=3)
    outline = min(0.8, 0.15 * radius)
    circles(ax, positions[level.kept], radius, fills(level), [to_rgba(DARK)], outline, zorder=4)
    if _shows_labels(trace):
        for node in level.kept:
            _add_label(ax, positions[node], trace.node_labels[node], radius)


def fills(level: Level) -> np.ndarray:
    """The colours of the nodes that are left, ``[kept, 3]``."""
    if level.score is None:
        return np.tile(to_rgb(PLAIN), (len(level.kept), 1))
    return np.asarray(SCORES(RANGE(level.score)))[:, :3]


def extent(positions: np.ndarray) -> np.ndarray:
    """Width and height of what a panel shows, ``[2]``; a lone node is not blown up to fill it."""
    span = np.ptp(positions, axis=0)
    margin = max(1.0, 0.06 * float(span.max()))
    return np.maximum(span + margin, [4.0, 1.4])


def fit(ax: Axes, positions: np.ndarray) -> float:
    """Give the axes the extent of the positions; how much of it then lies in an inch."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    inches = np.array([ax.bbox.width, ax.bbox.height]) / figure.dpi
    units_per_inch = float((extent(positions) / inches).max())
    middle = (positions.min(axis=0) + positions.max(axis=0)) / 2
    low, high = middle + np.outer([-0.5, 0.5], inches * units_per_inch)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    ax.set_axis_off()
    return units_per_inch


def _radius(positions: np.ndarray, units_per_inch: float) -> float:
    """Of the nodes, in points."""
    if len(positions) == 1:
        return LARGEST_RADIUS
    nearest = cKDTree(positions).query(positions, k=2)[0][:, 1]
    # Some nodes may touch: all would be tiny if two of them happened to lie on each other.
    crowded = np.quantile(nearest, 0.05 if len(positions) <= MOST_LABELLED_NODES else 0.3)
    room = min(0.32, 0.45 * float(crowded))
    return float(np.clip(room / units_per_inch * POINTS, SMALLEST_RADIUS, LARGEST_RADIUS))


def circles(
    ax: Axes,
    at: np.ndarray,
    radius: float,
    fill: Any,
    outline: Any = "none",
    width: float = 0,
    *,
    zorder: float,
) -> None:
    ax.scatter(
        at[:, 0],
        at[:, 1],
        s=(2 * radius) ** 2,
        facecolors=fill,
        edgecolors=outline,
        linewidths=width,
        zorder=zorder,
    )


def _shows_labels(trace: Trace) -> bool:
    if trace.num_nodes > MOST_LABELLED_NODES:
        return False
    # Where labels are degrees, the picture has them already.
    degree = np.bincount(trace.edges.ravel(), minlength=trace.num_nodes)
    return list(trace.node_labels) != [str(d) for d in degree]


def _add_label(ax: Axes, at: np.ndarray, text: str, radius: float) -> None:
    size = min(1.25 * radius, 2.6 * radius / max(len(text), 1))
    if not text or size < 3:  # too small to read
        return
    ax.text(at[0], at[1], text, size=size, color=DARK, ha="center", va="center_baseline", zorder=5)
