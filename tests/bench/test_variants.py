"""Cells that differ by protocol, by the way their settings were chosen, or by method settings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sagpool.bench import Store, load_experiment, run_experiment
from sagpool.bench.claims import RULE, CellRows, judge_claims, related_changes
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.summary import summarise
from sagpool.bench.variants import Chosen, group_cells


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.sqlite"


@pytest.fixture
def bench(small, path, pretend):
    def run(experiment=small, **options):
        usual = {"methods": "gpool-h", "engine": pretend, "store": path}
        return run_experiment(experiment, **usual | options)

    return run


def groups(path, experiment=None):
    """The names of the cells by the way their settings were chosen, of each protocol."""
    with Store.reading(path) as store:
        found = group_cells(summarise(store.cells(), store.runs()), experiment)
    return [(g.chosen.name, g.differences, [s.method for s in g.cells]) for g in found]


def test_settings_of_a_method_are_told_in_its_name(bench, small, path):
    bench()
    bench(settings={"conv": "gin"})
    bench(settings={"readout": "sum", "ratio": 0.25})
    names = ["gpool-h", "gpool-h, conv gin", "gpool-h, readout sum, ratio 0.25"]
    assert groups(path) == [("FIXED", (), names)]
    assert groups(path, small) == [("FIXED", (), names)]
    gin = replace(
        small, settings=(*small.settings, replace(small.settings[0], values={"conv": ("gin",)}))
    )
    assert groups(path, gin)[0][2][:2] == ["gpool-h, conv gcn", "gpool-h"], "it has gin itself"


def test_learning_rates_are_no_part_of_a_name(bench, path):
    bench(settings={"lr": 0.1})
    bench(settings={"lr": 0.2})
    with Store.reading(path) as store:
        (group,) = group_cells(summarise(store.cells(), store.runs()))
    (shown,) = group.cells
    assert shown.cell.settings["lr"] == 0.2, "the last requested one, never the best"


CHANGED = {"schedule": "cosine"}, {"batch_size": 32, "dropout": 0.1}, {"class_weight": "balanced"}


def test_settings_that_change_a_training_are_told_in_its_name(bench, small, path):
    bench(methods=("sagpool-h", "gpool-h"))
    for method, settings in zip(("sagpool-h", "gpool-h", "gpool-h"), CHANGED, strict=True):
        bench(methods=method, settings=settings)
    names = [
        *("sagpool-h", "gpool-h", "sagpool-h, schedule cosine"),
        *("gpool-h, batch size 32, dropout 0.1", "gpool-h, class weight balanced"),
    ]
    elsewhere = replace(small, datasets={})
    for experiment in (None, small, elsewhere):
        assert groups(path, experiment) == [("FIXED", (), names)]


def test_settings_that_an_experiment_has_need_no_mention(bench, small, path):
    for method in ("sagpool-h", "gpool-h"):
        bench(methods=method, settings={"dropout": 0.1})
    assert groups(path, small)[0][2] == ["sagpool-h, dropout 0.1", "gpool-h, dropout 0.1"]
    own = replace(small, protocol={**small.protocol, "dropout": 0.1})
    # Other data sets may need other values; those that most methods have are usual.
    for experiment in (None, own, replace(small, datasets={})):
        assert groups(path, experiment) == [("FIXED", (), ["sagpool-h", "gpool-h"])]


def test_an_unusual_setting_that_a_search_varies_is_no_part_of_a_name(bench, small, path, pretend):
    bench(search="grid", settings={"schedule": ("cosine", "constant"), "lr": 0.01})
    bench(search="grid", methods="sagpool-h", settings={"schedule": "cosine", "lr": 0.01})
    assert groups(path, small) == [("SEARCHED", (), ["gpool-h", "sagpool-h, schedule cosine"])]


def test_variants_of_a_method_do_not_decide_what_is_usual(bench, path):
    bench(methods="gpool-h")
    for method in ("sagpool-h", "gpool-h", "random-h"):
        bench(methods=method, settings={"conv": "gin", "batch_size": 32})
    assert groups(path)[0][2][:2] == ["gpool-h", "sagpool-h, conv gin, batch size 32"]


def test_earlier_cells_of_the_same_name_are_kept_apart(bench, path):
    for lr in (0.1, 0.2, 0.3):
        bench(settings={"lr": lr})
    with Store.reading(path) as store:
        (group,) = group_cells(summarise(store.cells(), store.runs()))
    assert [s.cell.settings["lr"] for s in group.cells] == [0.3]
    assert [s.cell.settings["lr"] for s in group.superseded] == [0.1, 0.2]


def test_what_a_search_varies_is_no_part_of_a_name(bench, small, path, pretend):
    pretend.accuracy = {0.001: 0.9, 0.01: 0.6}
    bench(search="grid", settings={"conv": ("gin", "gcn"), "lr": 0.01})
    bench(search="grid", settings={"conv": "gin", "ratio": (0.25,)})
    assert groups(path, small) == [("SEARCHED", (), ["gpool-h", "gpool-h, conv gin, ratio 0.25"])]
    tried = replace(small.grid[0], values={"ratio": (0.25, 0.5)})
    both = replace(small, grid=(*small.grid, tried))
    assert groups(path, both)[0][2][0] == "gpool-h, ratio 0.5", "this grid would vary the ratio"


def test_fixed_and_searched_settings_are_never_mixed(bench, path, pretend):
    pretend.accuracy = {0.001: 0.9, 0.01: 0.6}
    bench()
    bench(search="grid")
    bench(methods="sagpool-h")
    assert groups(path) == [
        ("FIXED", (), ["gpool-h", "sagpool-h"]),  # the main group has the most cells
        ("SEARCHED", (), ["gpool-h"]),
    ]
    bench(methods="sagpool-h", search="grid")
    assert [chosen for chosen, *_ in groups(path)] == ["SEARCHED", "FIXED"]


@pytest.mark.parametrize("first", ["none", "grid"])
def test_a_search_that_chooses_the_fixed_settings_hides_nothing(bench, path, pretend, first):
    """The trainings are the same, but the cells are two, each in its table."""
    pretend.accuracy = {0.001: 0.6, 0.01: 0.9}
    for search in (first, "grid" if first == "none" else "none"):
        bench(search=search)
    assert groups(path) == [("SEARCHED", (), ["gpool-h"]), ("FIXED", (), ["gpool-h"])]
    bench(search="grid")
    assert len(groups(path)) == 2, "also after it was requested again"


def test_a_cell_that_was_only_searched_is_not_fixed(bench, path, pretend):
    pretend.accuracy = {0.001: 0.6, 0.01: 0.9}
    bench(search="grid")
    bench(search="grid")
    assert groups(path) == [("SEARCHED", (), ["gpool-h"])]


def test_protocols_are_told_in_words(bench, small, path):
    bench()
    bench(folds=3, settings={"max_epochs": 7, "order": "fixed"})
    words = ("training batches are the same in all epochs", "3 folds", "at most 7 epochs")
    assert groups(path, small) == [("FIXED", (), ["gpool-h"]), ("FIXED", words, ["gpool-h"])]
    # Without the experiment the last request counts for numbers.
    assert [differences for _, differences, _ in groups(path)] == [
        ("training batches are the same in all epochs",),
        ("2 folds", "at most 2 epochs"),
    ]


def test_the_released_protocol_in_words():
    paper, released = load_experiment("lee2019"), load_experiment("lee2019-released")
    assert {**paper.protocol, **released.protocol} != paper.protocol
    changed = [name for name in released.protocol if name not in paper.protocol]
    assert changed == ["split", "order", "stopping"]


CLAIMS = """
datasets: {A: , B: }
tables: {all: {methods: [sagpool-h, gpool-h, diffpool-h]}}
protocol: {seeds: 2, folds: 2}
claims:
  - {id: pair, claim: x, where: "1", test: {better: [sagpool-h, gpool-h], datasets: [A, B]}}
  - id: losses
    claim: x
    where: "1"
    test: {better: [diffpool-h, "diffpool-h, losses none"], datasets: [A]}
  - {id: few, claim: x, where: "1", test: {parameters: {constant: [sagpool-h]}}}
"""


def cell(mean, runs=4, note=""):
    splits = [(seed, fold) for seed in (0, 1) for fold in (0, 1)][:runs]
    return CellRows({s: mean * (1 + i / 1000) for i, s in enumerate(splits)}, ("same",), 2, note)


def judged(searched, fixed, *, by_test=None):
    experiment = read_experiment(CLAIMS, "claimed")
    cells = {Chosen.SEARCHED: searched, Chosen.FIXED: fixed, Chosen.BY_TEST: by_test or {}}
    return {one.claim.id: one for one in judge_claims(experiment, cells)}


def pair(mean, **options):
    return {(d, m): cell(mean, **options) for d in "AB" for m in ("sagpool-h", "gpool-h")}


def test_a_claim_is_judged_on_one_kind_of_cells():
    fixed = pair(70) | {("A", "sagpool-h"): cell(80)}
    searched = pair(60) | {("A", "sagpool-h"): cell(50)}
    found = judged(searched, fixed)["pair"]
    assert found.chosen is Chosen.SEARCHED, "both are complete"
    assert found.found.lines[0].value == pytest.approx(-10, abs=0.1)
    del searched["B", "gpool-h"]
    found = judged(searched, fixed)["pair"]
    assert found.chosen is Chosen.FIXED, "of the searched ones a cell is missing"
    assert found.found.lines[0].value == pytest.approx(10, abs=0.1)
    assert found.found.gaps == ()
    assert "never on a mixture" in RULE


def test_in_a_tie_the_way_that_the_rule_names_first_decides():
    experiment = read_experiment(CLAIMS, "claimed")
    ways = [Chosen.SEARCHED, Chosen.PER_FOLD, Chosen.FIXED]
    for number, way in enumerate(ways):
        cells = {one: pair(60) for one in reversed(ways[number:])}
        found = {one.claim.id: one for one in judge_claims(experiment, cells)}["pair"]
        assert found.chosen is way
    positions = [RULE.index(str(way)) for way in ways]
    assert positions == sorted(positions)


def test_the_verdict_of_the_other_cells_is_told():
    found = judged(pair(60), pair(70) | {("A", "sagpool-h"): cell(80)})["pair"]
    assert found.chosen is Chosen.SEARCHED
    assert {way: one.verdict for way, one in found.others.items()} == {
        Chosen.FIXED: "holds in part"
    }
    assert found.found.verdict != "holds in part"
    assert not judged(pair(60), {})["pair"].others
    assert not judged(pair(60), pair(70))["few"].others, "parameters need no cells"


def test_incomplete_cells_do_not_displace_complete_ones():
    assert judged(pair(60, runs=3), pair(70))["pair"].chosen is Chosen.FIXED
    assert judged(pair(60, runs=3), pair(70, runs=3))["pair"].chosen is Chosen.SEARCHED
    noted = pair(60) | {("A", "gpool-h"): cell(60, note="structure only")}
    assert judged(noted, pair(70))["pair"].chosen is Chosen.FIXED


def test_cells_that_cannot_test_a_claim_do_not_displace_others():
    searched = {("A", "sagpool-h"): cell(60), ("B", "sagpool-h"): cell(60)}
    found = judged(searched, pair(70, runs=3))["pair"]
    assert found.chosen is Chosen.FIXED, "the searched ones are complete, but nothing to compare"
    assert found.found.verdict != "not tested"
    assert RULE.index("can test it") < RULE.index("complete") < RULE.index("more numerous")


def test_figures_chosen_by_test_accuracy_decide_no_claim():
    found = judged({}, {}, by_test=pair(90))["pair"]
    assert (found.chosen, found.found.verdict) == (None, "not tested")


def test_a_claim_may_name_settings_of_a_method():
    cells = {("A", "diffpool-h"): cell(70), ("A", "diffpool-h, losses none"): cell(60)}
    found = judged({}, cells)
    assert found["losses"].found.verdict == "holds"
    assert found["few"].chosen is None


def test_verdicts_that_depend_on_the_independence_of_data_sets():
    text = CLAIMS + "related: [[A, B]]\n"
    noise = np.array([-1.0, 0.5, 1.5, -1.0])
    error = noise.std(ddof=1) * np.sqrt(1 / 4 + 1)

    def cells(difference):
        found = pair(70)
        for name in "AB":
            usual = found[name, "gpool-h"].accuracy
            for (split, accuracy), one in zip(usual.items(), noise, strict=True):
                found[name, "sagpool-h"].accuracy[split] = accuracy + difference + one
        return {Chosen.FIXED: found}

    def changes(difference, text=text):
        found = related_changes(read_experiment(text, "claimed"), cells(difference))
        return [(one.claim.id, one.chosen, one.verdict, one.bound) for one in found]

    # 2.5 errors are significant in the mean of independent data sets alone.
    assert 2 * stats.t.sf(2.5, 3) > 0.05 > 2 * stats.t.sf(2.5 * np.sqrt(2), 6)
    assert changes(2.5 * error) == [("pair", Chosen.FIXED, "holds in part", "undecided")]
    assert changes(20.0) == changes(0.0) == changes(2.5 * error, CLAIMS) == []


def test_without_an_experiment_most_cells_decide_what_is_usual(bench, path):
    for method in ("gpool-h", "sagpool-h"):
        bench(methods=method)
    bench(methods="gpool-h", settings={"patience": 7})
    assert [(differences, methods) for _, differences, methods in groups(path)] == [
        ((), ["gpool-h", "sagpool-h"]),
        (("a patience of 7 epochs",), ["gpool-h"]),
    ]


def test_the_usual_ratio_is_that_of_most_methods(bench, path):
    for method in ("gpool-h", "sagpool-h"):
        bench(methods=method)
    bench(methods="sagpool-h", settings={"ratio": 0.9})
    assert groups(path) == [("FIXED", (), ["gpool-h", "sagpool-h", "sagpool-h, ratio 0.9"])]


def test_a_method_at_another_ratio_than_the_others_is_named(bench, path):
    bench(methods="sagpool-h", settings={"ratio": 0.9})
    assert groups(path) == [("FIXED", (), ["sagpool-h"])], "there is no other"
    bench(methods="gpool-h")
    assert groups(path) == [("FIXED", (), ["sagpool-h, ratio 0.9", "gpool-h"])]


def test_a_data_set_may_have_a_ratio_of_its_own(bench, path):
    bench(methods=("gpool-h", "sagpool-h", "random-h"))
    bench(datasets="motifs", methods=("gpool-h", "sagpool-h"), settings={"ratio": 0.25})
    assert len(dict.fromkeys(groups(path)[0][2])) == 3, "no name has a ratio"


def test_only_the_version_of_a_method_requested_last_is_shown(bench, path, monkeypatch):
    for dataset in ("MUTAG", "motifs"):
        bench(datasets=dataset, methods=("gpool-h", "sagpool-h"))
    changed = {"sagpool-h": "2"}
    monkeypatch.setattr("sagpool.bench.plan.method_version", lambda name: changed.get(name, ""))
    bench(datasets="MUTAG", methods="sagpool-h")
    assert groups(path) == [("FIXED", (), ["gpool-h", "gpool-h", "sagpool-h"])]
