"""Claims are judged from rows: each kind of test, with rows that are missing or incomplete."""

import numpy as np
import pytest
import yaml

from sagpool.bench.claims import CellRows, Evidence, Gap, Judgement, Verdict, read_claims
from sagpool.bench.experiment import Accuracy
from sagpool.bench.experiment_file import load_experiment, read_experiment
from sagpool.errors import SagpoolError
from sagpool.models import methods

SEEDS, FOLDS = 20, 10
NOISE = np.random.default_rng(0).normal(0, 1, (SEEDS, FOLDS))
NOISE -= NOISE.mean()


def rows(
    mean=70.0, spread=0.3, *, seeds=SEEDS, note="", splits=("same",), of_seeds=0.0
) -> CellRows:
    """A cell with this mean; ``spread`` is that of single runs and ``of_seeds`` that of seeds."""
    values = mean + spread * NOISE + of_seeds * np.linspace(-1, 1, SEEDS)[:, None]
    accuracy = {(seed, fold): values[seed, fold] for seed in range(seeds) for fold in range(FOLDS)}
    return CellRows(accuracy, splits, FOLDS, note)


def judge(test: dict, cells: dict[str, CellRows], published=None) -> Judgement:
    """Judge a test; the keys of ``cells`` are "data set method"."""
    (claim,) = read_claims([{"id": "x", "claim": "x", "where": "1", "test": test}], ("A", "B", "C"))
    by_cell = {tuple(key.split()): cell for key, cell in cells.items()}
    accuracy = {tuple(key.split()): Accuracy(*pair) for key, pair in (published or {}).items()}
    return claim.test.judge(Evidence(by_cell, accuracy, 20, dict.fromkeys("ABC", SEEDS * FOLDS)))


def text(phrases) -> str:
    return "; ".join("".join(phrase) for phrase in phrases)


BASE = {"A sagpool-h": rows(), "B sagpool-h": rows()}
# Pairs of differences on the data sets A and B, with the spread of the single differences.
CASES = {
    "better": [
        (3, 2, 1, Verdict.HOLDS),
        (3, 0, 1, Verdict.IN_PART),
        (-3, 0, 1, Verdict.FAILS),
        (0, 0, 0.1, Verdict.FAILS),  # equivalent
        (0.5, 0.5, 9, Verdict.UNDECIDED),
    ],
    "no-worse": [
        (3, 0, 1, Verdict.HOLDS),
        (0, 0, 1, Verdict.HOLDS),
        (6, -3, 1, Verdict.IN_PART),
        (-3, -3, 1, Verdict.FAILS),
        (0, 0, 9, Verdict.UNDECIDED),
    ],
    "equivalent": [
        (0, 0, 1, Verdict.HOLDS),
        (0.3, 0.3, 0.1, Verdict.HOLDS),  # significant, but below the margin
        (3, -3, 1, Verdict.IN_PART),
        (3, 3, 1, Verdict.FAILS),
        (0, 0, 9, Verdict.UNDECIDED),
    ],
    "differ": [
        (3, 0, 1, Verdict.HOLDS),
        (0, -3, 1, Verdict.HOLDS),
        (0, 0, 0.1, Verdict.FAILS),
        (0, 0, 9, Verdict.UNDECIDED),
    ],
}


@pytest.mark.parametrize(
    ("kind", "a", "b", "spread", "verdict"),
    [(kind, *case) for kind, cases in CASES.items() for case in cases],
)
def test_comparisons(kind, a, b, spread, verdict):
    # The spread of the base is 0.3, and that of the difference is to be `spread`.
    other = {
        "A gpool-h": rows(70 - a, 0.3 - spread), "B gpool-h": rows(70 - b, 0.3 - spread),
    }  # fmt: skip
    found = judge({kind: ["sagpool-h", "gpool-h"], "datasets": ["A", "B"]}, BASE | other)
    assert found.verdict == verdict
    assert found.gaps == ()
    # By hand: the corrected error is s √(1/200 + 1/9), and that of the mean √(e² + e²) / 2.
    single = NOISE.std(ddof=1) * spread * np.sqrt(1 / 200 + 1 / 9)
    line, _, overall = found.lines
    assert (line.dataset, line.value, line.runs) == ("A", pytest.approx(a), 200)
    assert line.high - line.value == pytest.approx(1.971957 * single, rel=1e-5)
    assert (overall.dataset, overall.value) == ("", pytest.approx((a + b) / 2))
    assert overall.high - overall.value == pytest.approx(1.965942 * single / np.sqrt(2), rel=1e-5)


def test_a_data_set_on_which_nothing_differs_leaves_the_mean_undecided():
    test = {"equivalent": ["sagpool-h", "gpool-h"], "datasets": ["A", "B", "C"]}
    same = {f"{name} {method}": rows() for name in "AB" for method in ("sagpool-h", "gpool-h")}
    noisy = {"C sagpool-h": rows(), "C gpool-h": rows(70, 4.3)}
    assert judge({**test, "datasets": ["C"]}, noisy).verdict == Verdict.UNDECIDED
    found = judge(test, same | noisy)
    assert found.verdict == Verdict.UNDECIDED
    assert [line.low is None for line in found.lines] == [True, True, False, True]
    assert text(found.found).startswith("sagpool-h − gpool-h: +0.00 (interval unknown), undecided")
    assert text(found.certainty).endswith("resolution unknown")


def test_methods_differ_if_one_of_them_does():
    def verdict(gpool, diffpool):
        cells = {"A sagpool-h": rows(), "A gpool-h": rows(*gpool), "A diffpool-h": rows(*diffpool)}
        test = {"differ": ["sagpool-h", "gpool-h", "diffpool-h"], "datasets": ["A"]}
        return judge(test, cells).verdict

    equal, noisy, other = (70, 0.2), (70, 9.3), (60, 0.2)
    assert verdict(equal, other) == Verdict.HOLDS
    assert verdict(noisy, other) == Verdict.HOLDS
    assert verdict(equal, noisy) == Verdict.UNDECIDED
    assert verdict(equal, equal) == Verdict.FAILS


@pytest.mark.parametrize(
    ("others", "verdict"),
    [
        ([(68, 0.2), (68, 0.2)], Verdict.HOLDS),
        ([(68, 0.2), (72, 0.2)], Verdict.IN_PART),
        ([(68, 0.2), (70, 9.3)], Verdict.IN_PART),
        ([(72, 0.2), (70, 9.3)], Verdict.FAILS),
        ([(70, 9.3), (70, 9.3)], Verdict.UNDECIDED),
    ],
)
def test_a_claim_about_several_methods(others, verdict):
    gpool, diffpool = (rows(*one) for one in others)
    cells = {"A sagpool-h": rows(), "A gpool-h": gpool, "A diffpool-h": diffpool}
    test = {"better": ["sagpool-h", "gpool-h", "diffpool-h"], "datasets": ["A"]}
    assert judge(test, cells).verdict == verdict


def test_the_margin_can_be_set():
    cells = {"A sagpool-h": rows(), "A gpool-h": rows(68.5, -0.7)}
    test = {"equivalent": ["sagpool-h", "gpool-h"], "datasets": ["A"]}
    assert judge(test, cells).verdict == Verdict.FAILS
    assert judge({**test, "margin": 3}, cells).verdict == Verdict.HOLDS
    assert judge({**test, "margin": "1/2"}, cells).verdict == Verdict.FAILS


def test_a_group_of_methods_counts_with_its_mean():
    cells = {
        "A sagpool-g": rows(72), "A sortpool-g": rows(74), "A sagpool-h": rows(70, 0.2),
    }  # fmt: skip
    test = {"better": [["sagpool-g", "sortpool-g"], "sagpool-h"], "datasets": ["A"]}
    found = judge(test, cells)
    assert found.lines[0].value == pytest.approx(3)
    assert "mean (sagpool-g, sortpool-g) − sagpool-h on A: +3.00" in text(found.found)


def test_p_values_are_corrected_for_the_number_of_comparisons():
    others = ["gpool-h", "diffpool-h", "random-h", "nopool-g"]
    cells = {"A sagpool-h": rows(70, 3)} | {f"A {method}": rows(67.9, 0) for method in others}
    alone = judge({"better": ["sagpool-h", "gpool-h"], "datasets": ["A"]}, cells)
    four = judge({"better": ["sagpool-h", *others], "datasets": ["A"]}, cells)
    assert alone.verdict == Verdict.HOLDS
    assert four.verdict == Verdict.UNDECIDED
    assert four.lines[0].p == pytest.approx(4 * alone.lines[0].p)


def test_missing_rows_are_never_dropped():
    test = {"better": ["sagpool-h", "gpool-h"], "datasets": ["A", "B"]}
    nothing = judge(test, {"A sagpool-h": rows()})
    assert nothing.verdict == Verdict.NOT_TESTED
    assert set(nothing.gaps) == {
        Gap("A", "gpool-h", "no rows"),
        Gap("B", "sagpool-h", "no rows"),
        Gap("B", "gpool-h", "no rows"),
    }
    some = judge(test, {"A sagpool-h": rows(), "A gpool-h": rows(60, 0.2, seeds=5)})
    assert some.verdict == Verdict.HOLDS
    assert Gap("A", "gpool-h", "50 of 200 runs") in some.gaps
    assert Gap("B", "gpool-h", "no rows") in some.gaps
    assert some.lines[0].runs == 50  # the splits that both have


def test_other_data_and_other_splits_are_left_out():
    test = {"better": ["sagpool-h", "gpool-h"], "datasets": ["A"]}
    noted = judge(test, {"A sagpool-h": rows(note="structure only"), "A gpool-h": rows(60)})
    assert (noted.verdict, noted.gaps) == (Verdict.NOT_TESTED, (Gap("A", "", "structure only"),))
    other = judge(test, {"A sagpool-h": rows(splits=("other",)), "A gpool-h": rows(60)})
    assert other.verdict == Verdict.NOT_TESTED
    assert "have other splits" in other.gaps[0].reason


def test_diverged_runs_are_left_out_of_pairs_and_means():
    cell = rows(60)
    broken = CellRows({**cell.accuracy, (3, 4): float("nan")}, cell.splits, FOLDS)
    found = judge({"better": ["sagpool-h", "gpool-h"], "datasets": ["A"]},
                  {"A sagpool-h": rows(), "A gpool-h": broken})  # fmt: skip
    assert found.lines[0].runs == 199
    assert found.gaps == ()  # it was run
    others = [value for (seed, fold), value in cell.accuracy.items() if seed == 3 and fold != 4]
    assert broken.seed_means[3] == pytest.approx(np.mean(others))


def test_only_seeds_with_all_folds_have_a_mean():
    cell = rows()
    cut = CellRows({k: v for k, v in cell.accuracy.items() if k != (2, 9)}, cell.splits, FOLDS)
    assert sorted(cut.seed_means) == [seed for seed in range(SEEDS) if seed != 2]


PUBLISHED = {"A sagpool-h": (70.0, 1.0), "B sagpool-h": (60.0, 1.0), "A gpool-h": (75.0, 1.0)}


def test_agreement_with_published_results():
    cells = {"A sagpool-h": rows(of_seeds=1), "B sagpool-h": rows(62, of_seeds=1)}
    test = {"agrees-with-published": {"methods": ["sagpool-h", "gpool-h"], "datasets": ["A", "B"]}}
    found = judge(test, cells, PUBLISHED)
    assert found.verdict == Verdict.IN_PART  # one of two
    assert [line.outcome for line in found.lines] == ["agrees", "higher"]
    assert found.found[0] == ("1 of 2 cells differ; ours is higher in 1",)
    assert text(found.found[1:]) == "sagpool-h 1 of 2"
    assert set(found.gaps) == {
        Gap("A", "gpool-h", "no rows"), Gap("B", "gpool-h", "nothing published"),
    }  # fmt: skip
    ratio = np.std(list(cells["A sagpool-h"].seed_means.values()), ddof=1)
    assert f"published: {ratio:.2f}" in text(found.certainty)
    only = {"agrees-with-published": {"methods": ["sagpool-h"], "datasets": ["A"]}}
    holds = judge(only, cells, PUBLISHED)
    assert holds.verdict == Verdict.HOLDS
    assert text(holds.found) == "the one cell agrees; tested: sagpool-h"
    lower = judge(only, {"A sagpool-h": rows(65, of_seeds=1)}, PUBLISHED)
    assert (lower.verdict, lower.lines[0].outcome) == (Verdict.FAILS, "lower")


def test_a_cell_with_few_trainings_does_not_agree():
    """Its difference is not significant, whatever it is."""
    test = {"agrees-with-published": {"methods": ["sagpool-h", "gpool-h"], "datasets": ["A"]}}
    few = rows(110.8, of_seeds=40, seeds=3)  # 70.8, 75.0 and 79.2
    found = judge(test, {"A sagpool-h": rows(of_seeds=1), "A gpool-h": few}, PUBLISHED)
    assert [line.outcome for line in found.lines] == ["agrees", "undecided"]
    assert found.verdict == Verdict.UNDECIDED
    assert found.found[0] == ("no cell differs, but 1 of 2 are undecided",)
    found = judge(test, {"A sagpool-h": rows(60, of_seeds=1), "A gpool-h": few}, PUBLISHED)
    assert found.verdict == Verdict.UNDECIDED  # neither agrees
    assert found.found[0] == ("1 of 2 cells differ; ours is higher in none; 1 undecided",)


def test_a_published_cell_has_the_same_p_value_in_all_claims():
    """Holm's correction is over all published cells, whichever a claim is about."""
    cells = {
        "A sagpool-h": rows(70.6, of_seeds=1),
        "B sagpool-h": rows(60.2, of_seeds=1),
        "A gpool-h": rows(75.1, of_seeds=1),
        "C gpool-h": rows(75.1, of_seeds=1),  # nothing published
    }

    def lines(**entry):
        found = judge({"agrees-with-published": entry}, cells, PUBLISHED)
        assert "Holm over 3 published cells" in text(found.certainty)
        return {(line.dataset, line.first): line.p for line in found.lines}

    every = lines(methods=["sagpool-h", "gpool-h"], datasets=["A", "B", "C"])
    assert len(every) == 3
    both = {"agrees-with-published": {"methods": ["sagpool-h", "gpool-h"], "datasets": ["A"]}}
    found = judge(both, cells, PUBLISHED)
    assert text(found.found) == "all 2 cells agree; tested: sagpool-h, gpool-h"
    one = lines(methods=["sagpool-h"], datasets=["A"])
    assert one == {key: every[key] for key in one}
    alone = judge(
        {"agrees-with-published": {"methods": ["sagpool-h"], "datasets": ["A"]}},
        {"A sagpool-h": cells["A sagpool-h"]},
        PUBLISHED,
    )
    assert one["A", ("sagpool-h",)] == pytest.approx(3 * alone.lines[0].p)


def test_cells_without_spread_are_not_dropped_silently():
    test = {"agrees-with-published": {"methods": ["sagpool-h"], "datasets": ["A", "B"]}}
    cells = {"A sagpool-h": rows(70, of_seeds=1), "B sagpool-h": rows(60)}
    published = PUBLISHED | {"B sagpool-h": (60.0, 0.0)}
    found = text(judge(test, cells, published).certainty)
    assert found.endswith("(of 1 of 2 cells; the others have a spread of 0)")


def test_one_seed_cannot_be_compared_with_a_published_result():
    test = {"agrees-with-published": {"methods": ["sagpool-h"], "datasets": ["A"]}}
    found = judge(test, {"A sagpool-h": rows(seeds=1)}, PUBLISHED)
    assert found.verdict == Verdict.NOT_TESTED
    assert found.gaps == (Gap("A", "sagpool-h", "10 of 200 runs, too few for a test"),)


def test_spreads_of_seeds():
    cells = {
        "A sagpool-h": rows(of_seeds=3), "A sagpool-h-parallel2": rows(of_seeds=0.1),
        "B sagpool-h": rows(of_seeds=1), "B sagpool-h-parallel2": rows(of_seeds=1, spread=0.31),
    }  # fmt: skip

    def verdict(first, second, *datasets):
        return judge({"steadier": [first, second], "datasets": list(datasets)}, cells).verdict

    assert verdict("sagpool-h-parallel2", "sagpool-h", "A") == Verdict.HOLDS
    assert verdict("sagpool-h", "sagpool-h-parallel2", "A") == Verdict.FAILS
    assert verdict("sagpool-h-parallel2", "sagpool-h", "B") == Verdict.UNDECIDED
    assert verdict("sagpool-h-parallel2", "sagpool-h", "A", "B") == Verdict.IN_PART
    assert verdict("sagpool-h-parallel2", "sagpool-h", "C") == Verdict.NOT_TESTED


@pytest.mark.parametrize(
    ("relation", "compared", "verdict"),
    [
        ("constant", ["sagpool-h", "gpool-h"], Verdict.HOLDS),
        ("constant", ["diffpool-h"], Verdict.FAILS),
        ("constant", ["sagpool-h", "diffpool-h"], Verdict.IN_PART),
        ("growing", ["diffpool-h"], Verdict.HOLDS),
        ("growing", ["sagpool-h"], Verdict.FAILS),
        ("fewer", ["sagpool-h", "diffpool-h"], Verdict.HOLDS),
        ("fewer", ["sagpool-h", "gpool-h"], Verdict.FAILS),  # three biases more
        ("same", ["sagpool-h", "gpool-h"], Verdict.HOLDS),
        ("same", ["sagpool-h", "diffpool-h"], Verdict.FAILS),
        ("constant", ["plugin-h"], Verdict.NOT_TESTED),
    ],
)
def test_numbers_of_parameters(relation, compared, verdict):
    assert judge({"parameters": {relation: compared}}, {}).verdict == verdict


def test_a_claim_that_rows_cannot_decide():
    found = judge({"untested": "No rows have it."}, BASE)
    assert (found.verdict, found.found) == (Verdict.NOT_TESTED, (("No rows have it.",),))


WRONG = {
    "claims: 5": r"claims must be a list, not 5",
    "claims: [x]": r"claims\[0\] must be a mapping, not 'x'",
    "titel: x": r"claims\[0\] has no 'titel'; choose from id, claim, where, test",
    "where: 4.6": r"claims\[0\]\.where must be a text, not 4\.6",
    "test: {}": r"claims\[0\]\.test must be a mapping with one of better, ",
    "test: {beter: [a, b]}": r"claims\[0\]\.test has no 'beter'; did you mean 'better'",
    "test: {better: [a, b], differ: [a, b]}": r"has both 'better' and 'differ'; write two claims",
    "test: {better: [a]}": r"better needs a list of at least two methods, not \['a'\]",
    "test: {better: [a, 5]}": r"better needs a method or a list of methods, not 5",
    "test: {better: [a, b], margn: 1}": r"better has no 'margn'; did you mean 'margin'",
    "test: {better: [a, b], margin: -1}": r"better needs a margin above 0, not -1",
    "test: {better: [a, b], margin: wide}": r"better needs a margin above 0, not 'wide'",
    "test: {better: [a, b], datasets: MUTAG}": r"better needs a list of data sets, not 'MUTAG'",
    "test: {better: [a, b], datasets: [MUTAGG]}": r"'MUTAGG'; did you mean 'MUTAG'",
    "test: {agrees-with-published: [a]}": r"must be a mapping with methods and datasets",
    "test: {agrees-with-published: {method: a}}": r"has no 'method'; did you mean 'methods'",
    "test: {agrees-with-published: {datasets: [MUTAG]}}": r"needs a method or a list of methods",
    "test: {parameters: {few: [a, b]}}": r"parameters has no 'few'; did you mean 'fewer'",
    "test: {parameters: [a]}": r"parameters must have one of constant, growing, fewer, same",
    "test: {parameters: {fewer: [a]}}": r"parameters needs a list of at least two different",
    "test: {parameters: {fewer: a}}": r"two different methods for 'fewer', not 'a'",
    "test: {parameters: {same: [a, a]}}": r"different methods for 'same', not \['a', 'a'\]",
    "test: {steadier: [a, b, c]}": r"steadier needs a list of two methods",
    "test: {untested: 5}": r"untested needs a sentence with the reason, not 5",
    "test: {untested: x, margin: 1}": r"untested has no 'margin'; it has no other keys",
}


@pytest.mark.parametrize("change", WRONG)
def test_an_error_is_explained(change, small_text):
    content = yaml.safe_load(small_text)
    change_to = yaml.safe_load(change)
    valid = {"id": "x", "claim": "x", "where": "1", "test": {"better": ["a", "b"]}}
    content |= change_to if "claims" in change_to else {"claims": [valid | change_to]}
    with pytest.raises(SagpoolError, match=f"^The experiment wrong: .*{WRONG[change]}"):
        read_experiment(yaml.safe_dump(content), "wrong")


def test_two_claims_with_one_name_are_an_error():
    claim = {"id": "x", "claim": "x", "where": "1", "test": {"untested": "x"}}
    with pytest.raises(SagpoolError, match=r"^claims\[1\]: there are two claims 'x'$"):
        read_claims([claim, claim], ("A",))


def test_methods_in_a_sentence_are_recognised():
    claim = {"id": "x", "claim": "`gpool-h` loses.", "where": "1", "test": {"untested": "x"}}
    (read,) = read_claims([claim], ("A",))
    assert read.text == ("gpool-h", " loses.")
    assert [type(part).__name__ for part in read.text] == ["Method", "str"]


def test_the_claims_of_the_paper():
    paper = load_experiment("lee2019")
    judged = {claim.id: claim.test.judge(Evidence.of(paper, {})) for claim in paper.claims}
    assert len(judged) == 32
    counted = {name for name, found in judged.items() if found.verdict != Verdict.NOT_TESTED}
    assert counted == {name for name in judged if name.startswith("parameters-")}
    gaps = [gap for found in judged.values() for gap in found.gaps]
    assert {gap.reason for gap in gaps} == {"no rows"}  # all that is to agree is published
    # A method may be named with unusual settings, as in tables.
    assert {gap.method.partition(", ")[0] for gap in gaps} <= set(methods())
    assert set(Evidence.of(paper, {}).runs.values()) == {200}
