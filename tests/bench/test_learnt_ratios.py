"""How much a model with a learnt ratio keeps: measured, stored and shown."""

import pytest

from sagpool.bench import run_experiment
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.store import Store
from sagpool.report.content import read_content
from sagpool.report.sections.ratios import section

TEXT = """
datasets: {MUTAG: }
tables: {main: {methods: [sagpool-h-ratio, sagpool-h]}}
protocol: {seeds: 2, folds: 2, max_epochs: 1, hidden: 4}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("ratios") / "runs.sqlite"
    run_experiment(read_experiment(TEXT, "ratios"), store=path, device="cpu")
    return path


def test_ratios_of_the_first_run_are_stored_by_size_and_class(store):
    with Store.reading(store) as opened:
        runs = {(r.method, r.seed, r.fold): opened.ratios(r.key) for r in opened.runs()}
    found = runs.pop(("sagpool-h-ratio", 0, 0))
    assert not any(runs.values()), "other runs, and methods whose ratio is given, have none"
    assert {one.level for one in found} == {1, 2, 3}
    for grouping in ("size", "class"):
        here = [one for one in found if one.grouping == grouping and one.level == 1]
        assert sum(one.graphs for one in here) == 94, "the test graphs"
    assert all(0 <= one.ratio <= 1 for one in found)
    by_level = [[one.ratio for one in found if one.level == level] for level in (1, 2)]
    assert all(first >= second for first, second in zip(*by_level, strict=True))


def test_the_report_shows_them(store):
    (part,) = section(read_content(store)).parts
    assert "sagpool-h-ratio" in part.heading
    text = part.table.to_markdown()
    assert "level 3" in text
    assert "nodes" in text
