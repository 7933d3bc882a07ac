"""The public molecules in the folder SAGPOOL_MOLECULES, where it is given."""

import os
from itertools import islice
from pathlib import Path

import pytest

from sagpool import load
from sagpool.graphs.records import Columns

FOLDER = Path(os.environ.get("SAGPOOL_MOLECULES", "no such folder"))
ASSAYS = (
    *("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD", "NR-PPAR-gamma"),
    *("SR-ARE", "SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
)
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="SAGPOOL_MOLECULES is no folder")


def first(file: str, molecules: int, folder: Path) -> Path:
    """A file with the first molecules of another."""
    with (FOLDER / file).open() as lines:
        (folder / file).write_text("".join(islice(lines, molecules + 1)))
    return folder / file


def test_two_classes(cache):
    graphs = load(FOLDER / "bbbp.csv", columns=Columns(label="p_np"))
    assert len(graphs) == 2039
    assert graphs.num_classes == 2
    assert graphs.statistics().majority == pytest.approx(0.765, abs=0.001)


def test_everything_that_is_known_of_atoms_and_bonds(cache, tmp_path):
    path = first("esol.csv", 100, tmp_path)
    graphs = load(path, "all", columns=Columns(label="logp"), task="regression")
    assert graphs.targets.shape == (100, 1)
    assert graphs.num_features > 50


def test_several_tasks_with_gaps(cache, tmp_path):
    path = first("tox21.csv", 500, tmp_path)
    graphs = load(path, columns=Columns(label=ASSAYS), task="multitask")
    assert graphs.targets.shape == (500, 12)
    assert 0.1 < graphs.targets.isnan().float().mean() < 0.3
