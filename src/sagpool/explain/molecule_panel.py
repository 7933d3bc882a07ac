"""One panel of a molecule: RDKit's drawing, with kept atoms coloured by score."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from sagpool.explain.panel import DARK, POINTS, RING, circles, fills, fit
from sagpool.explain.sketch import Sketch, Stroke
from sagpool.explain.trace import Level, Trace

RADIUS = 0.4  # of an atom; a bond has length 1
BOND_WIDTH = 0.05
FADED = 0.3  # opacity; thin lines need more than circles


def draw_molecule(trace: Trace, ax: Axes, sketch: Sketch, level: Level | None, ink: str) -> None:
    """Draw a level, or the input if it is None; dropped atoms and their bonds are faded."""
    unit = POINTS / fit(ax, sketch.outline)  # points
    width = float(np.clip(BOND_WIDTH * unit, 0.5, 1.6))
    kept = np.ones(trace.num_nodes, bool)
    if level is not None:
        kept = np.isin(np.arange(trace.num_nodes), level.kept)
    whole = [stroke for stroke in sketch.strokes if kept[list(stroke.nodes)].all()]
    faded = [stroke for stroke in sketch.strokes if not kept[list(stroke.nodes)].all()]
    _add(ax, faded, ink, width, zorder=1, alpha=FADED)
    _add(ax, whole, ink, width, zorder=1)
    if trace.ground_truth is not None:
        at = sketch.positions[trace.ground_truth]
        ring: dict[str, Any] = {"edgecolors": [to_rgba(RING)], "linewidths": 1.5, "zorder": 1.5}
        circles(ax, at, RADIUS * unit + 1.5, "none", **ring)
    if level is None or not len(level.kept):
        return
    at = sketch.positions[level.kept]
    outline: dict[str, Any] = {"edgecolors": [to_rgba(DARK, 0.5)], "linewidths": 0.5, "zorder": 2}
    circles(ax, at, RADIUS * unit, fills(level), **outline)
    # Discs are light, so strokes on top of them are dark even if the ink is light.
    on_atoms = _add(ax, whole, DARK, width, zorder=3)
    discs = [Path.circle((x, y), RADIUS) for x, y in at]
    for drawn in on_atoms:
        drawn.set_clip_path(PathPatch(Path.make_compound_path(*discs), transform=ax.transData))


def _add(
    ax: Axes, strokes: list[Stroke], colour: str, width: float, *, zorder: float, alpha: float = 1
) -> list[PathCollection]:
    line: dict[str, Any] = {"facecolors": "none", "edgecolors": colour, "linewidths": width}
    line |= {"capstyle": "round", "joinstyle": "round"}
    letter = {"facecolors": colour, "linewidths": 0}
    drawn = []
    for style, filled in ((line, False), (letter, True)):
        paths = [stroke.path for stroke in strokes if stroke.filled == filled]
        if paths:
            drawn.append(PathCollection(paths, **style, alpha=alpha, zorder=zorder))
            ax.add_collection(drawn[-1], autolim=False)
    return drawn
