"""The numbers in the tables against ones computed here, in all three formats."""

import csv
import re
import statistics
from pathlib import Path

import pytest

from sagpool.report import write_report

FIRST = (70.0, 74.0, 66.0, 72.0, 68.0, 75.0, 71.0, 73.0, 69.0, 77.0)  # two seeds, five folds
SECOND = (60.0, 61.0, 62.0, 59.0, 63.0, 62.0, 60.0, 61.0, 63.0, 64.0)
MEAN = statistics.mean(FIRST)
PER_SEED = [statistics.mean(FIRST[:5]), statistics.mean(FIRST[5:])]
STD = statistics.stdev(PER_SEED)
# t(0.975, 9) = 2.262157; the variance is corrected by 1/10 + 1/4.
HALF = 2.262157 * (statistics.variance(FIRST) * (1 / 10 + 1 / 4)) ** 0.5


@pytest.fixture(scope="module")
def tables(make_at, made, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    cells = [
        made(method="sagpool-h", accuracy=FIRST, paper=(70.0, 0.5)),
        made(method="gpool-h", accuracy=SECOND),
        made(
            method="sagpool-h-cheb",
            accuracy=tuple(a + 0.1 + 0.01 * (i % 2) for i, a in enumerate(FIRST)),
        ),
    ]
    write_report(make_at(folder / "runs.sqlite", cells), folder / "report")
    return folder / "report" / "tables"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_csv(tables):
    ours, other = sorted(rows(tables / "results.csv"), key=lambda row: row["method"], reverse=True)
    assert (ours["method"], other["method"]) == ("sagpool-h", "gpool-h")
    assert float(ours["mean"]) == pytest.approx(MEAN)
    assert float(ours["std_seeds"]) == pytest.approx(STD)
    assert float(ours["ci95_low"]) == pytest.approx(MEAN - HALF, abs=1e-5)
    assert float(ours["ci95_high"]) == pytest.approx(MEAN + HALF, abs=1e-5)
    assert float(ours["deviation"]) == pytest.approx((MEAN - 70) / 0.5)
    assert (ours["runs"], ours["paper_mean"], ours["paper_std"]) == ("10", "70.0", "0.5")
    assert (ours["best"], ours["significant"], ours["second"]) == ("True", "True", "gpool-h")
    assert other["paper_mean"] == other["deviation"] == ""


def test_markdown(tables):
    text = (tables / "results.md").read_text()
    deviation = (MEAN - 70) / 0.5
    assert (
        f"| SAGPool_h | **{MEAN:.2f}** ± {STD:.2f}; {MEAN - HALF:.1f} to {MEAN + HALF:.1f}; "
        f"paper 70.00 ± 0.50 (+{deviation:.1f}) |" in text
    )
    assert "| most frequent class | 60.00 |" in text


def test_latex(tables):
    text = (tables / "results.tex").read_text()
    assert rf"SAGPool$_h$ & \shortstack{{$\mathbf{{{MEAN:.2f}}} \pm {STD:.2f}$ \\" in text
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))
    # Every row has as many columns as the head.
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {2}


def test_a_small_but_steady_lead_is_significant(tables):
    best = next(row for row in rows(tables / "variants.csv") if row["best"] == "True")
    assert best["method"] == "sagpool-h-cheb"
    # Ahead by 0.10 or 0.11 points in every single training.
    assert best["significant"] == "True"


def test_variants_alone_have_the_only_table(make, made, tmp_path):
    store = make(made(method="sagpool-h-gat"), made(method="sagpool-h-sage"))
    write_report(store, tmp_path / "report")
    tables = tmp_path / "report" / "tables"
    assert not (tables / "results.csv").exists()
    assert "The settings are fixed" in (tables / "variants.md").read_text()
    assert {row["method"] for row in rows(tables / "variants.csv")} == {
        "sagpool-h-gat",
        "sagpool-h-sage",
    }


def test_a_lead_within_the_noise_is_marked(make, made, tmp_path):
    noisy = tuple(a + (1.5 if i % 2 else -1.4) for i, a in enumerate(FIRST))
    store = make(made(method="sagpool-h", accuracy=FIRST), made(method="gpool-h", accuracy=noisy))
    page = write_report(store, tmp_path / "report")
    best = next(r for r in rows(tmp_path / "report/tables/results.csv") if r["best"] == "True")
    assert (best["method"], best["significant"]) == ("gpool-h", "False")
    text = (tmp_path / "report/tables/results.md").read_text()
    assert "†; " in text
    assert "† It is not significantly ahead of the second" in text
    assert r"^\dagger$" in (tmp_path / "report/tables/results.tex").read_text()
    assert "not significantly ahead of SAGPool<sub>h</sub>" in page.read_text()


def test_pairs(tables):
    pair = next(
        row
        for row in rows(tables / "pairs.csv")
        if {row["first"], row["second"]} == {"sagpool-h", "gpool-h"}
    )
    difference = statistics.mean(FIRST) - statistics.mean(SECOND)
    assert abs(float(pair["difference"])) == pytest.approx(difference)
    assert float(pair["holm_p"]) >= float(pair["p"])


def test_the_tables_of_cells_and_searches(rich):
    cells = rows(rich / "tables/cells.csv")
    assert len(cells) == 8
    assert [row["setting_lr"] for row in cells if row["method"] == "sagpool-h"][:2] == [
        *("0.05", "0.005")
    ]
    (search,) = rows(rich / "tables/search.csv")
    assert (search["method"], search["candidates"]) == ("sagpool-h", "3")
    assert search["chosen_settings"] == "lr 5e-3, hidden 128"
    assert float(search["chosen_accuracy"]) == pytest.approx(75)
    assert float(search["second_accuracy"]) == pytest.approx(74)


def test_searches_of_other_protocols_and_of_earlier_requests(make, made, tmp_path):
    """They would be rows of one name in one table, with nothing to tell them apart."""

    def searched(method, lr, **protocol):
        candidates = ({"lr": lr}, {"lr": lr / 10})
        return made(method=method, settings={"lr": lr, **protocol}, candidates=candidates)

    store = make(
        searched("sagpool-h", 0.03),
        searched("sagpool-h", 0.01, patience=5),
        searched("gpool-h", 0.02),
        searched("sagpool-h", 0.02),
    )
    write_report(store, tmp_path / "report")
    tables = tmp_path / "report/tables"
    first, other = (rows(tables / name) for name in ("search.csv", "search-protocol2.csv"))
    assert [(row["method"], row["chosen_settings"]) for row in first] == [
        ("gpool-h", "lr 0.02"),
        ("sagpool-h", "lr 0.02"),
    ]
    assert [(row["method"], row["chosen_settings"]) for row in other] == [("sagpool-h", "lr 0.01")]
    assert "a patience of 5 epochs" in (tables / "search-protocol2.md").read_text()


def test_fixed_and_searched_settings_are_in_two_tables(rich):
    def means(table: str) -> list[str]:
        here = rows(rich / "tables" / table)
        return [r["mean"] for r in here if (r["dataset"], r["method"]) == ("FIRST", "sagpool-h")]

    fixed, searched = means("cells.csv")
    assert fixed != searched
    assert means("results.csv") == [fixed]
    assert means("results-searched.csv") == [searched]
    page = (rich / "report.html").read_text()
    assert "All figures, pairs and costs below are those of the first table." in page
    assert "The settings are fixed: there was no search." in page
    assert "The settings of each cell were chosen by a search, by validation results." in page


def test_the_results_table_shows_the_cell_requested_last(make, made, tmp_path):
    store = make(made(mean=80, settings={"lr": 0.1}), made(mean=60, settings={"lr": 0.01}))
    folder = write_report(store, tmp_path / "report").parent
    (shown,) = rows(folder / "tables/results.csv")
    first, last = rows(folder / "tables/cells.csv")
    assert shown["mean"] == last["mean"] != first["mean"]


def test_settings_of_a_method_are_rows_of_their_own(make, made, tmp_path):
    none, both = {"method_settings": {"losses": "none"}}, {}
    store = make(
        made(method="diffpool-h", mean=60, settings=both),
        made(method="sagpool-h", mean=70),
        made(method="diffpool-h", mean=90, settings=none),
        made(method="diffpool-h", mean=80, settings={"ratio": 0.25, **none}),
    )
    page = write_report(store, tmp_path / "report").read_text()
    table = rows(tmp_path / "report/tables/results.csv")
    assert [(row["group"], row["method"], row["best"]) for row in table] == [
        ("hierarchical pooling", "diffpool-h", "False"),
        ("hierarchical pooling", "sagpool-h", "True"),
        ("with other settings", "diffpool-h, losses none", "False"),
        ("with other settings", "diffpool-h, losses none, ratio 0.25", "False"),
    ]
    assert "DiffPool<sub>h</sub>, losses none" in page
    assert len(rows(tmp_path / "report/tables/pairs.csv")) == 1, "of the methods as they are"


def test_incomplete_and_diverged_runs_are_counted(rich):
    text = (rich / "tables/results.md").read_text()
    assert "FRANKENSTEIN (structure only)" in text
    assert "7 of 10 runs" in text
    assert "1 diverged" in text


def test_costs_are_relative_to_sagpool_h(rich):
    by_method = {
        row["method"]: row for row in rows(rich / "tables/costs.csv") if row["dataset"] == "FIRST"
    }
    base = by_method["sagpool-h"]
    assert float(base["seconds_relative"]) == float(base["step_bytes_relative"]) == 1
    ratio = float(by_method["gpool-h"]["seconds"]) / float(base["seconds"])
    assert float(by_method["gpool-h"]["seconds_relative"]) == pytest.approx(ratio)


def test_names_that_mean_something_in_latex_or_a_spreadsheet(make, made, tmp_path):
    write_report(make(made("[α]"), made("=1+1"), made("*β")), tmp_path / "report")
    text = (tmp_path / "report/tables/data.tex").read_text()
    starts = [line.split()[0] for line in text.splitlines() if line.endswith(r"\\")]
    assert starts[1:] == [r"{[}$\alpha$]", "=1+1", r"{*}$\beta$"]
    assert [row["name"] for row in rows(tmp_path / "report/tables/data.csv")] == [
        *("[α]", "'=1+1", "*β")
    ]


def test_a_note_names_cells_that_are_no_better_than_the_most_frequent_class(make, made, tmp_path):
    """Of two data sets: all methods, and one of two."""
    alike = {"confusion": ((7, 0), (5, 0))}
    cells = [
        made(dataset="LOST", method="sagpool-h", **alike),
        made(dataset="LOST", method="gpool-h", **alike),
        made(dataset="MADE", method="sagpool-h"),
        made(dataset="MADE", method="gpool-h", **alike),
    ]
    page = write_report(make(*cells), tmp_path / "report")
    sentence = (
        "Not better than always predicting the most frequent class, in at least 95 % of the runs: "
        "all 2 methods on LOST; gpool-h on MADE."
    )
    assert sentence in (tmp_path / "report/tables/results.md").read_text()
    assert page.read_text().count(sentence) == 1


def test_other_cells_get_no_such_note(tables):
    assert "Not better than" not in (tables / "results.md").read_text()
