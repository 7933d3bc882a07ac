"""The numbers in the summary of docs/reproduction.md, computed again from published rows."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.variants import Chosen

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reproduction.md").read_text("utf-8")
SUMMARY = PAGE.partition("\n## ")[0]


@pytest.fixture(scope="module")
def groups():
    """Cells with the paper's protocol, by how their settings were chosen."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from published_rows import read_published
    finally:
        sys.path.pop(0)
    (folders,) = re.findall(r"^python scripts/reproduction_page.py (.*) docs/", PAGE, re.M)
    published = read_published([ROOT / one for one in folders.split()], load_experiment("lee2019"))
    return {group.chosen: group for group in published.groups if not group.differences}


@pytest.fixture
def gain(groups):
    """A function for the difference of two methods on a data set, in points."""
    from published_rows import paired

    def gain(way: Chosen, dataset: str, first: str, second: str):
        cells = groups[way].cells
        return paired(cells[dataset, first], cells[dataset, second])

    return gain


def test_cells_that_agree_with_the_paper(groups):
    group = groups[Chosen.SEARCHED]
    lines = group.agreement()
    known = group.experiment.tables["table3"].methods
    three = Counter(line.outcome for line in lines if line.first[0] in known)
    four = Counter(line.outcome for line in lines if line.first[0] not in known)
    assert (
        f"**Of the {three.total()} cells of Table 3 with searched settings, {three['agrees']} do "
        f"not differ significantly from the paper**, {three['higher']} are higher here and "
        f"{three['lower']} lower. In Table 4, {four['lower']} of {four.total()} are lower and "
        "none is higher."
    ) in SUMMARY
    assert not four["higher"]
    lower = [
        line for line in lines if line.outcome == "lower" and line.first[0].startswith("sagpool")
    ]
    assert [line.dataset for line in lower] == ["DD"] * 4
    assert "The four SAGPool cells that are lower are all on DD." in SUMMARY
    (own,) = (line for line in lower if line.first == ("sagpool-h",))
    assert f"by {-own.value:.1f} points" in SUMMARY


def test_diffpool_with_and_without_its_entropy_loss(gain):
    both = gain(Chosen.FIXED, "NCI1", "sagpool-h", "diffpool-h")
    link = gain(Chosen.FIXED, "NCI1", "diffpool-h, losses link", "sagpool-h")
    assert both.splits == link.splits
    assert (
        f"is {both.difference.mean:.1f} points below SAGPool_h on NCI1; without it, "
        f"{link.difference.mean:.1f} above (fixed settings, {link.splits} trainings)"
    ) in SUMMARY


def test_no_pooling_and_random_nodes(gain):
    assert "is more than five points better than SAGPool_h" in SUMMARY
    assert "On DD and PROTEINS random nodes are ahead." in SUMMARY
    for way in (Chosen.SEARCHED, Chosen.FIXED):
        for dataset in ("NCI1", "NCI109"):
            assert gain(way, dataset, "nopool-h", "sagpool-h").difference.mean > 5
        for dataset in ("DD", "PROTEINS"):
            assert gain(way, dataset, "random-h", "sagpool-h").difference.mean > 0
    datasets = ("DD", "PROTEINS", "NCI1", "NCI109")
    behind = [gain(Chosen.SEARCHED, name, "nopool-g", "sagpool-g") for name in datasets]
    mean = sum(pair.difference.mean for pair in behind) / len(behind)
    assert f"In the mean over four data sets, SAGPool_g is {mean:.1f} points below" in SUMMARY
    ahead = gain(Chosen.SEARCHED, "DD", "random-h", "sagpool-h").difference.mean
    assert f"{ahead:.1f} points below random nodes" in SUMMARY
