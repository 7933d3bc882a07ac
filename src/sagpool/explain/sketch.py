"""Positions of the nodes of a graph and, for a molecule, the strokes of RDKit's drawing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib.path import Path

from sagpool.explain.layout import layout
from sagpool.explain.surroundings import drawn_part
from sagpool.explain.trace import Trace
from sagpool.graphs.molecules import rdkit

# Matplotlib's code for each point of an SVG path command.
_COMMANDS = {
    "M": Path.MOVETO,
    "L": Path.LINETO,
    "Q": Path.CURVE3,
    "C": Path.CURVE4,
    "Z": Path.CLOSEPOLY,
}


@dataclass(frozen=True, eq=False)
class Stroke:
    """A line of a bond, or a letter of an atom."""

    path: Path
    nodes: tuple[int, ...]  # the atom, or the two atoms of the bond
    filled: bool


@dataclass(frozen=True, eq=False)
class Sketch:
    """The layout of a graph; edges and bonds have a length of about 1."""

    trace: Trace  # what is drawn: of a very large graph, a part
    positions: np.ndarray  # [nodes, 2]
    strokes: tuple[Stroke, ...] = ()  # of a molecule; other graphs are drawn as circles and lines

    @cached_property
    def edges(self) -> list[Path]:
        """A line for each edge of the trace; made once for all panels, which takes long."""
        return [Path(ends) for ends in self.positions[self.trace.edges]]

    @property
    def outline(self) -> np.ndarray:
        """Points that enclose the whole drawing, ``[points, 2]``."""
        corners = [stroke.path.get_extents().get_points() for stroke in self.strokes]
        return np.concatenate([self.positions, *corners])


@lru_cache(maxsize=4)  # several pictures are drawn of each trace, one after the other
def sketch(trace: Trace) -> Sketch:
    if trace.molecule is not None:
        return _molecule_sketch(trace, trace.molecule)
    drawn = drawn_part(trace)
    return Sketch(drawn, layout(drawn.num_nodes, drawn.edges))


def _molecule_sketch(trace: Trace, block: str) -> Sketch:
    rdkit()  # raises an error that says what to install
    from rdkit import Chem
    from rdkit.Chem.Draw import rdMolDraw2D

    molecule = Chem.MolFromMolBlock(block, removeHs=False)
    # Adding no atoms keeps the atom numbers equal to the node numbers.
    molecule = rdMolDraw2D.PrepareMolForDrawing(molecule, addChiralHs=False, forceCoords=False)
    drawer = rdMolDraw2D.MolDraw2DSVG(-1, -1)
    options: Any = drawer.drawOptions()  # RDKit's type stubs are wrong here
    options.prepareMolsBeforeDrawing = False
    options.clearBackground = False
    options.scalingFactor = 30
    options.maxFontSize = -1
    options.baseFontSize = 0.75  # small panels need larger letters than RDKit's 0.6
    options.useBWAtomPalette()
    drawer.DrawMolecule(molecule)
    coordinates = [drawer.GetDrawCoords(atom) for atom in range(trace.num_nodes)]
    points = np.array([[at.x, -at.y] for at in coordinates])
    drawer.FinishDrawing()
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]
    lengths = [float(np.linalg.norm(points[a] - points[b])) for a, b in bonds]
    unit = float(np.median(lengths)) if lengths else 45.0
    return Sketch(trace, points / unit, _strokes(drawer.GetDrawingText(), unit))


def _strokes(svg: str, unit: float) -> tuple[Stroke, ...]:
    """Without strokes that belong to no atom: they only round corners, as our line caps do."""
    found = []
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"):
        nodes = tuple(int(n) for n in re.findall(r"atom-(\d+)", element.get("class", "")))
        if nodes:
            filled = "fill:none" not in element.get("style", "")
            found.append(Stroke(_path(element.get("d", ""), unit), nodes, filled))
    return tuple(found)


def _path(commands: str, unit: float) -> Path:
    vertices: list[list[float]] = []
    codes: list[Any] = []
    for letter, numbers in re.findall(r"([MLQCZ])([^MLQCZ]*)", commands):
        values = [float(value) / unit for value in re.findall(r"-?[\d.]+", numbers)]
        points = [[x, -y] for x, y in zip(values[::2], values[1::2], strict=True)]
        vertices += points or [[0.0, 0.0]]  # Z has no point, but matplotlib needs one
        codes += [_COMMANDS[letter]] * max(len(points), 1)
    return Path(np.array(vertices), codes)
