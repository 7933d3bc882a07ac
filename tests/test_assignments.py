"""Over how many clusters DiffPool spreads a graph."""

import runpy
from pathlib import Path

import pytest
import torch

from sagpool.graphs import motifs, pack

SCRIPT = Path(__file__).parents[1] / "scripts" / "assignments.py"


def test_the_spread_of_known_assignments():
    spread_of = runpy.run_path(str(SCRIPT))["spread_of"]
    graphs = motifs(3, seed=0)
    layout = pack(graphs, [[0, 1, 2]]).structure.layout
    rows, ptr = layout.total_rows, layout.node_ptr.tolist()

    uniform = spread_of(torch.full((rows, 4), 0.25), layout)
    assert uniform == pytest.approx((1.3863, 4.0, 4), abs=1e-3)  # ln 4
    one = torch.eye(4)[torch.zeros(rows, dtype=torch.long)]
    one[ptr[3] :] = 0.25  # the filler does not count
    assert spread_of(one, layout) == (0, 1, 4)
    # The first graph's nodes alternate between two clusters, and the others' are all in one.
    one[: ptr[1] : 2] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    first = (ptr[1] + 1) // 2 / ptr[1]
    spread = first**-first * (1 - first) ** (first - 1)
    assert spread_of(one, layout) == pytest.approx((0, (spread + 2) / 3, 4))


def test_a_line_for_each_layer(run_script):
    done = run_script("assignments.py", "--epochs", "1", "--losses", "link")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("losses link, level ") for line in lines)
    assert lines[0].endswith(" of 7 clusters")  # a quarter of 28, the largest graph's nodes
