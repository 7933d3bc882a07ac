"""One panel of a molecule: RDKit's drawing, with kept atoms coloured by score."""

from __future__ import annotations

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
    """Draw a level of a molecule, with dropped atoms and their bonds faded.

    Args:
        trace: the trace of the level
        ax: where to draw
        sketch: positions of the atoms, and strokes
        level: the kept atoms and their scores; None for the input
        ink: colour of bonds and letters
    """
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
        circles(ax, at, RADIUS * unit + 1.5, "none", [to_rgba(RING)], 1.5, zorder=1.5)
    if level is None or not len(level.kept):
        return
    at = sketch.positions[level.kept]
    circles(ax, at, RADIUS * unit, fills(level), [to_rgba(DARK, 0.5)], 0.5, zorder=2)
    # Discs are light, so strokes on top of them are dark even if the ink is light.
    on_atoms = _add(ax, whole, DARK, width, zorder=3)
    discs = [Path.circle((x, y), RADIUS) for x, y in at]
    for drawn in on_atoms:
        drawn.set_clip_path(PathPatch(Path.make_compound_path(*discs), transform=ax.transData))


def _add(
    ax: Axes, strokes: list[Stroke], colour: str, width: float, *, zorder: float, alpha: float = 1
) -> list[PathCollection]:
    lines = [stroke.path for stroke in strokes if not stroke.filled]
    shapes = [stroke.path for stroke in strokes if stroke.filled]
    drawn = []
    if lines:
        drawn.append(
            PathCollection(
                lines, facecolors="none", edgecolors=colour, linewidths=width, capstyle="round",
                joinstyle="round", alpha=alpha, zorder=zorder,
            )
        )  # fmt: skip
    if shapes:
        drawn.append(
            PathCollection(shapes, facecolors=colour, linewidths=0, alpha=alpha, zorder=zorder)
        )
    for collection in drawn:
        ax.add_collection(collection, autolim=False)
    return drawn
