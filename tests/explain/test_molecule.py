import dataclasses
import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

import sagpool
from sagpool import load
from sagpool.explain.draw import draw, svg
from sagpool.explain.molecule_panel import FADED
from sagpool.explain.panel import RANGE, SCORES
from sagpool.explain.sketch import sketch


@pytest.fixture(scope="module")
def chemist(molecules, new_trained):
    return new_trained(load(molecules))


@pytest.fixture(scope="module")
def trace(chemist):
    return sagpool.explain(chemist, "C[C@H](N)C(=O)Oc1ccc([N+](=O)[O-])cc1.[Na+]")


def panels(figure):
    return [ax for ax in figure.axes if "·" in ax.get_title()]


def drawn(ax, zorder):
    return [one for one in ax.collections if one.get_zorder() == zorder]


def test_the_sketch_is_that_of_rdkit(trace):
    found = sketch(trace)
    assert found.positions.shape == (16, 2)
    lengths = np.linalg.norm(np.diff(found.positions[trace.edges], axis=1)[:, 0], axis=1)
    assert lengths == pytest.approx(1, abs=0.05)
    written = {stroke.nodes[0] for stroke in found.strokes if len(stroke.nodes) == 1}
    # RDKit writes no letter for carbon.
    assert written == {node for node, label in enumerate(trace.node_labels) if label != "C"}
    bonds = {tuple(sorted(stroke.nodes)) for stroke in found.strokes if len(stroke.nodes) == 2}
    assert bonds == {tuple(edge) for edge in trace.edges.tolist()}
    # Letters are near their atoms, and not upside down.
    for stroke in found.strokes:
        if len(stroke.nodes) == 1:
            middle = stroke.path.get_extents().get_points().mean(axis=0)
            assert np.linalg.norm(middle - found.positions[stroke.nodes[0]]) < 0.8


def test_panels_have_the_same_coordinates_and_colour_kept_atoms(trace):
    first, *levels = panels(draw(trace))
    assert first.get_title() == "input · 16 atoms"
    assert drawn(first, 2) == []
    for ax, level in zip(levels, trace.levels, strict=True):
        (discs,) = drawn(ax, 2)
        places = sketch(trace).positions[level.kept]
        assert np.asarray(discs.get_offsets()) == pytest.approx(places)
        assert discs.get_facecolors() == pytest.approx(SCORES(RANGE(level.score)))
        assert ax.get_xlim() == pytest.approx(first.get_xlim())
        assert ax.get_ylim() == pytest.approx(first.get_ylim())


def test_dropped_atoms_are_faded(trace):
    strokes = sketch(trace).strokes
    for ax, level in zip(panels(draw(trace))[1:], trace.levels, strict=True):
        kept = [s for s in strokes if np.isin(s.nodes, level.kept).all()]
        paths = {
            faded: sum(
                len(one.get_paths())
                for one in drawn(ax, 1)
                if isinstance(one, PathCollection) and (one.get_alpha() == FADED) == faded
            )
            for faded in (True, False)
        }
        assert paths == {True: len(strokes) - len(kept), False: len(kept)}
        # The dark strokes on atoms are clipped to the atoms.
        assert all(one.get_clip_path() is not None for one in drawn(ax, 3))


def test_the_whole_drawing_is_visible(trace):
    ax = panels(draw(trace))[0]
    low, high = sketch(trace).outline.min(axis=0), sketch(trace).outline.max(axis=0)
    assert ax.get_xlim()[0] < low[0]
    assert ax.get_xlim()[1] > high[0]
    assert ax.get_ylim()[0] < low[1]
    assert ax.get_ylim()[1] > high[1]


@pytest.mark.parametrize(
    "text",
    ["C", "[Na+].[Cl-]", "[H][H]", "[CH3]", "C1CC2CC1CC2", "*", "[C-]#[O+]", "C" * 120,
     "F/C=C/F", "[2H]O[2H]", "c1ccc2c(c1)[nH]c1ccccc12", "CC(C)(C)c1cc(O)c(O)cc1[Si](C)(C)C"],
)  # fmt: skip
def test_unusual_molecules(text, chemist):
    trace = sagpool.explain(chemist, text)
    draw(trace).savefig(io.BytesIO(), format="png", dpi=30)
    assert svg(trace).startswith("<svg")


def test_molecules_survive_json(trace):
    again = type(trace).from_json(trace.to_json())
    assert (sketch(again).positions == sketch(trace).positions).all()
    assert again.title == trace.title


def test_a_single_axis_is_divided(trace):
    for one in (trace, dataclasses.replace(trace, molecule=None)):
        figure = Figure(figsize=(10, 3))
        ax = figure.subplots()
        assert one.plot(ax=ax) is figure
        assert len(ax.child_axes) == 4
        assert [part.get_title() for part in ax.child_axes] == [
            part.get_title() for part in panels(one.plot())
        ]
        figure.canvas.draw()
        boxes = [part.get_window_extent() for part in ax.child_axes]
        assert all(a.x1 <= b.x0 + 1 for a, b in pairwise(boxes))
        assert ax.get_window_extent().x1 + 1 >= boxes[-1].x1
