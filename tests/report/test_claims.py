"""The section with the claims of the paper, in all formats."""

import csv
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from sagpool.bench.claims import Gap, Judged, Judgement, Line, Verdict
from sagpool.bench.experiment_file import read_experiment
from sagpool.bench.variants import Chosen
from sagpool.report import write_report
from sagpool.report.content import read_content
from sagpool.report.sections.claims import claims_table, gap_phrases
from sagpool.report.sections.differences import differences_drawing

EXPERIMENT = """
datasets: {FIRST: , SECOND: }
tables: {all: {methods: [sagpool-h, gpool-h]}}
protocol: {seeds: 4, folds: 5}
related: [[FIRST, SECOND]]
published: {accuracy: {sagpool-h: {FIRST: [50.0, 1.0]}}}
claims:
  - id: attention
    claim: "`sagpool-h` beats `gpool-h`."
    where: "4.6"
    test: {better: [sagpool-h, gpool-h]}
  - id: table
    claim: The table is right.
    where: Table 3
    test: {agrees-with-published: {methods: [sagpool-h], datasets: [FIRST]}}
  - id: few
    claim: "`sagpool-h` is small & <cheap>."
    where: Figure 4
    test: {parameters: {constant: [sagpool-h]}}
  - id: control
    claim: Chance is worse.
    where: control
    test: {better: [sagpool-h, random-h]}
"""


@pytest.fixture(scope="module")
def experiment():
    return read_experiment(EXPERIMENT, "claimed")


@pytest.fixture(scope="module")
def report(make_at, made, experiment, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("claims")
    noise = tuple(0.1 * (i % 7) for i in range(20))
    cells = [
        made("FIRST", "sagpool-h", seeds=4, accuracy=tuple(75 + x for x in noise)),
        made("FIRST", "gpool-h", seeds=4, accuracy=tuple(60 - 2 * x for x in noise)),
        made("SECOND", "sagpool-h", seeds=4, accuracy=tuple(70 + x for x in noise)),
        made("SECOND", "gpool-h", seeds=1, accuracy=tuple(60 - 2 * x for x in noise[:5])),
    ]
    write_report(make_at(folder / "runs.sqlite", cells), folder / "report", experiment)
    return folder / "report"


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_claims_that_do_not_hold_come_first(report):
    table = rows(report / "tables/claims.csv")
    assert {name: row["verdict"] for name, row in table.items()} == {
        "table": "does not hold",
        "attention": "holds",
        "few": "holds",
    }
    assert list(table) == ["table", "attention", "few"]
    assert table["attention"]["found"].startswith("SAGPool_h − gPool_h: +13.")
    assert table["attention"]["gaps"] == "gPool_h on SECOND: 5 of 20 runs"
    assert table["table"]["found"] == "1 of 1 cells differ; ours is higher in 1; SAGPool_h 1 of 1"


def test_claims_that_were_not_tested_are_folded_away(report):
    (one,) = rows(report / "tables/claims-not-tested.csv").values()
    assert (one["id"], one["verdict"]) == ("control", "not tested")
    assert one["gaps"] == "Random_h on FIRST, SECOND: no rows"
    page = (report / "report.html").read_text()
    details = page[page.index("<summary>Claims that were not tested") :]
    assert "Chance is worse." in details
    assert "Chance is worse." not in page[: page.index("<summary>Claims that were not tested")]


def test_the_page(report):
    page = (report / "report.html").read_text()
    section = page[page.index('<section id="claims">') : page.index('<section id="results">')]
    assert (
        "Of 2 claims of the paper about accuracy, 1 does not hold and 1 holds. Of 1 claim about "
        "other things, 1 holds. Of our control questions, 1 is not tested." in section
    )
    assert "SAGPool<sub>h</sub> beats gPool<sub>h</sub>." in section
    assert "is small &amp; &lt;cheap&gt;." in section
    assert '<span class="verdict fails">does not hold</span>' in section
    assert '<span class="verdict holds">holds†</span>' in section  # a cell is incomplete
    assert '<span class="verdict holds">holds</span>' in section
    assert "† Some of the rows are missing" in section
    assert "some share graphs (for example, the same molecules): FIRST and SECOND." in section
    assert "If their errors were fully correlated, no verdict would change." in section


def test_markdown_and_latex(report):
    markdown = (report / "tables/claims.md").read_text()
    assert (
        "| The table is right. | Table 3 | 1 of 1 cells differ; ours is higher in 1; " in markdown
    )
    tex = (report / "tables/claims.tex").read_text()
    assert r"\usepackage{booktabs,array}" in tex
    assert tex.count(r"p{0.18\linewidth}") == 5
    assert r"SAGPool$_h$ is small \& \textless{}cheap\textgreater{}." in tex


def test_every_comparison_is_listed(report):
    with (report / "tables/claims-comparisons.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["claim"], line["dataset"], line["runs"]) for line in lines] == [
        ("table", "FIRST", "4"),
        ("attention", "FIRST", "20"),
        ("attention", "SECOND", "5"),
        ("attention", "", "25"),
    ]
    assert [float(line["value"]) > 9 for line in lines] == [True] * 4
    assert [line["outcome"] for line in lines] == ["higher", "better", "better", "better"]


def drawn(judged) -> list[tuple[str, float]]:
    """The rows of the picture from top to bottom, with the places of their marks."""
    drawing = differences_drawing("differences", "Differences", judged)
    (axes,) = drawing.figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    found = {round(line.get_ydata()[0]): line.get_xdata()[0] for line in axes.lines[1:]}
    headings = {int(text.get_position()[1]): text.get_text() for text in axes.texts}
    return [(label or headings[row], found.get(row)) for row, label in enumerate(labels)]


def judged_by(lines: dict[tuple[str, str], list[float]], kind: str = "better") -> Judged:
    made = tuple(
        Line(name, (first,), (second,), value, value - 1, value + 1, 0.5, "undecided", 20)
        for (first, second), values in lines.items()
        for name, value in zip(("FIRST", "SECOND", ""), values, strict=True)
    )
    claim = replace(read_experiment(EXPERIMENT, "claimed").claims[0], kind=kind)
    return Judged(claim, Judgement(Verdict.UNDECIDED, lines=made), None)


def test_differences_are_drawn_once_and_in_order():
    one = judged_by({("sagpool-h", "gpool-h"): [1, 2, 1.5], ("sagpool-h", "random-h"): [-1, 0, -2]})
    again = judged_by({("sagpool-h", "gpool-h"): [1, 2, 1.5]}, "no-worse")
    mirrored = judged_by({("gpool-h", "sagpool-h"): [-1, -2, -1.5]}, "no-worse")
    assert drawn([one, again, mirrored]) == [
        *[("sagpool-h − gpool-h", None), ("FIRST", 1), ("SECOND", 2), ("mean", 1.5)],
        *[("sagpool-h − random-h", None), ("FIRST", -1), ("SECOND", 0), ("mean", -2)],
    ]


def test_headings_tell_settings_that_were_chosen_in_several_ways():
    searched = judged_by({("sagpool-h", "gpool-h"): [1, 2, 3]})._replace(chosen=Chosen.SEARCHED)
    fixed = judged_by({("sagpool-h", "random-h"): [1, 2, 3]})._replace(chosen=Chosen.FIXED)
    headings = [label for label, place in drawn([searched, fixed]) if place is None]
    assert headings == [
        "sagpool-h − gpool-h (searched settings)",
        "sagpool-h − random-h (fixed settings)",
    ]
    assert drawn([fixed])[0][0] == "sagpool-h − random-h"


def test_an_unknown_interval_is_explained_and_drawn_without_ends():
    one = judged_by({("sagpool-h", "gpool-h"): [1, 2, 3]})
    assert not any("unknown" in note for note in claims_table([one]).notes)
    lines = tuple(replace(line, low=None, high=None) for line in one.found.lines)
    one = one._replace(found=replace(one.found, lines=lines))
    assert any("resolution unknown" in note for note in claims_table([one]).notes)
    assert [place for _, place in drawn([one])] == [None, 1, 2, 3]


def test_a_long_heading_of_the_differences_has_two_rows():
    long = judged_by({("sagpool-h-augmentation", "a-method-with-a-long-name-h"): [1, 2, 3]})
    assert [label for label, _ in drawn([long])][:3] == [
        "sagpool-h-augmentation −",
        "a-method-with-a-long-name-h",
        "FIRST",
    ]


def test_what_compares_no_methods_is_not_drawn():
    ratios = judged_by({("sagpool-h", "gpool-h"): [1, 2, 1.5]}, "steadier")
    assert differences_drawing("differences", "Differences", [ratios]) is None


def test_the_report_has_the_picture_of_the_differences(report):
    assert (report / "figures/claims-differences.png").exists()
    assert "All differences in one picture" in (report / "report.html").read_text()


def test_without_claims_there_is_no_section(rich):
    assert "Claims and verdicts" not in (rich / "report.html").read_text()
    assert not (rich / "tables/claims.csv").exists()


def test_claims_about_other_data_are_not_shown(make, made, tmp_path, experiment):
    page = write_report(make(made("THIRD"), made("THIRD", "gpool-h")), tmp_path / "r", experiment)
    assert "Claims and verdicts" not in page.read_text()


def test_claims_say_on_which_cells_and_by_which_protocol_they_are_judged(
    make, made, tmp_path, experiment
):
    searched = {"seeds": 4, "candidates": ({"lr": 0.01}, {"lr": 0.001})}
    cells = [
        made("FIRST", method, seeds=4, settings={"lr": 0.1}) for method in ("sagpool-h", "gpool-h")
    ]
    cells.append(made("FIRST", "sagpool-h", settings={"lr": 0.01}, **searched))
    folder = tmp_path / "report"
    page = write_report(make(*cells), folder, experiment).read_text()
    found = {name: row["judged_on"] for name, row in rows(folder / "tables/claims.csv").items()}
    assert found == {
        "attention": "fixed settings",  # there is no searched gpool-h
        "table": "searched settings",
        "few": "",
    }
    assert "never on a mixture" in page
    markdown = (folder / "tables/claims.md").read_text()
    assert "| fixed settings; p " in markdown
    assert "| searched settings; Welch's test" in markdown
    assert "The protocol is not" not in page

    (tmp_path / "runs.sqlite").unlink()
    store = make(*(replace(cell, settings={**cell.settings, "patience": 9}) for cell in cells))
    page = write_report(store, folder, experiment).read_text()
    assert page.count("The protocol is not that of claimed: a patience of 9 epochs.") > 1


def test_the_experiment_is_the_one_that_the_store_names(make, made):
    store = make(made())
    assert read_content(store).experiment is None  # "made" comes from nowhere
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE invocations SET experiment = 'lee2019'")
    connection.close()
    found = read_content(store).experiment
    assert found is not None
    assert found.name == "lee2019"


def test_gaps_are_summed_up():
    gaps = [
        Gap("A", "gpool-h", "no rows"), Gap("B", "gpool-h", "no rows"),
        Gap("A", "random-h", "no rows"), Gap("B", "random-h", "no rows"),
        Gap("C", "", "structure only"), Gap("", "own-h", "not registered"),
        *(Gap(name, "mlp-g", "no rows") for name in "ABCD"),
    ]  # fmt: skip
    assert ["".join(phrase) for phrase in gap_phrases(gaps)] == [
        "gpool-h, random-h on A, B: no rows",
        "C: structure only",
        "own-h: not registered",
        "mlp-g on 4 data sets: no rows",
    ]
