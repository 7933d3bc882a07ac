"""What a published result is made of, and that anybody can check it."""

import csv
import json
import math
import re
import runpy
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sagpool import load
from sagpool.bench import run_experiment
from sagpool.bench.claims.published import differing
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.provenance import commit, kernel_hash
from sagpool.graphs import motifs

SCRIPTS = Path(__file__).parents[1] / "scripts"
ROOT = SCRIPTS.parent
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def published(run_script, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    run_experiment(
        "quick",
        datasets="MUTAG",
        methods=("sagpool-h", "diffpool-h"),
        seeds=1,
        folds=2,
        settings={"max_epochs": 2},
        store=folder / "runs.sqlite",
        device="cpu",
        command="sagpool bench quick --split=/home/me/a.csv --store /data/runs.sqlite",
    )
    shutil.copy(PAGE, folder / "page.md")
    options = [folder / "runs.sqlite", folder / "results", "--page", folder / "page.md"]
    done = run_script("publish_results.py", *options)
    assert done.code == 0, done.err
    return folder / "results"


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_what_is_published(published):
    rows = rows_of(published / "rows.csv")
    assert {(row["method"], row["fold"]) for row in rows} == {
        (method, fold) for method in ("sagpool-h", "diffpool-h") for fold in "01"
    }
    assert {row["method"]: row["cells"] for row in rows} == {"diffpool-h": "0", "sagpool-h": "1"}
    assert {(row["commit"], row["kernels"]) for row in rows} == {(commit(), kernel_hash())}
    cells = json.loads((published / "cells.json").read_text("utf-8"))
    assert cells["1"] == {
        "dataset": "MUTAG", "method": "sagpool-h", "chosen": "fixed settings", "note": "",
        "protocol": ["2 folds", "a patience of 20 epochs", "at most 2 epochs"],
    }  # fmt: skip
    table = (published / "comparison.md").read_text("utf-8")
    assert table.count("| MUTAG |") == 2
    page = (published.parent / "page.md").read_text("utf-8")
    assert table in page  # in place of the numbers of the paper's data sets
    assert "Of 2 cells, 0 have all 40 runs. 2 runs: DiffPool_h, ratio 0.5 on MUTAG, SAGP" in page
    assert f"Hash of the kernels that made the rows: {kernel_hash()}." in page
    assert (published / "figures" / "accuracy-MUTAG.png").exists()
    assert (published / "tables" / "cells.csv").exists()
    (command,) = rows_of(published / "tables" / "commands.csv")
    assert command["command"] == "sagpool bench quick --split=a.csv --store runs.sqlite"


# Of which the page is made.
FOLDERS = (
    *("lee2019", "controls", "searched", "searched-gpool", "searched-global", "searched-rest"),
    *("searched-set2set", "searched-baselines", "searched-controls", "forms", "forms-diffpool"),
    *("forms-link", "attributes", "table4", "table4-rest", "table4-fixed", "released"),
)
DERIVED = [
    *(f"{folder}/comparison.md" for folder in FOLDERS),
    *(f"claims/claims{which}.{kind}" for which in ("", "-comparisons") for kind in ("md", "csv")),
]


@pytest.fixture
def derive(run_script):
    return lambda *folders_and_page: run_script("reproduction_page.py", *folders_and_page)


def test_the_page_and_the_tables_follow_from_the_rows(derive, tmp_path):
    """After a change of the rows, the claims or the statistics, run reproduction_page.py."""
    results = tmp_path / "results"
    for name in FOLDERS:
        (results / name / "tables").mkdir(parents=True)
        for file in (
            *("rows.csv", "settings.json", "tables/data.csv", "cells.json", "complexity.json"),
        ):
            if (ROOT / "results" / name / file).exists():
                shutil.copy(ROOT / "results" / name / file, results / name / file)
    page = tmp_path / "page.md"
    between = re.compile(r"(<!-- begin \w+ -->\n).*?(<!-- end)", re.DOTALL)
    page.write_text(between.sub(r"\1\2", PAGE.read_text("utf-8")), "utf-8")
    done = derive(*(results / name for name in FOLDERS), page)
    assert done.code == 0, done.err
    assert page.read_bytes() == PAGE.read_bytes()
    for file in DERIVED:
        assert (results / file).read_bytes() == (ROOT / "results" / file).read_bytes(), file
    assert (results / "claims" / "controls.png").exists()


def test_a_cell_in_two_folders_is_an_error(published, derive, tmp_path):
    page = shutil.copy(PAGE, tmp_path / "page.md")
    again = shutil.copytree(published, tmp_path / "again")
    done = derive(published, again, page)
    assert done.code == 1
    assert done.err.endswith("again has MUTAG diffpool-h, ratio 0.5, and so has another folder.")
    assert page.read_bytes() == PAGE.read_bytes()


def test_the_agreement_with_the_paper_against_scipy():
    read_published = runpy.run_path(str(SCRIPTS / "published_rows.py"))["read_published"]
    paper = load_experiment("lee2019")
    published = read_published([ROOT / "results" / "lee2019"], paper)
    means: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows_of(ROOT / "results" / "lee2019" / "rows.csv"):
        seeds = means.setdefault((row["name"], row["method"]), {})
        seeds.setdefault(row["seed"], []).append(100 * float(row["test_accuracy"]))
    (group,) = published.groups
    lines = group.agreement()
    p = []
    for line in lines:
        key = (line.dataset, line.first[0])
        ours = [np.mean(folds) for folds in means[key].values()]
        theirs = paper.accuracy[key]
        p.append(
            stats.ttest_ind_from_stats(
                np.mean(ours), np.std(ours, ddof=1), len(ours), theirs.mean, theirs.std, 20,
                equal_var=False,
            ).pvalue
        )  # fmt: skip
        assert line.value == pytest.approx(np.mean(ours) - theirs.mean, abs=1e-4)
    smallest = min(range(len(p)), key=p.__getitem__)
    assert lines[smallest].p == pytest.approx(len(p) * p[smallest], rel=1e-4)
    rejected = 0  # Holm's step-down procedure
    while rejected < len(p) and sorted(p)[rejected] * (len(p) - rejected) < 0.05:
        rejected += 1
    assert rejected == differing(lines)


def test_a_page_without_markers_is_an_error(published, derive, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Nothing to fill in\n")
    done = derive(published, page)
    assert done.code == 1
    assert "The page needs one '<!-- begin verdicts -->' and one '<!-- end verd" in done.err
    assert page.read_text() == "# Nothing to fill in\n"


def test_rows_that_the_tables_do_not_show_are_left_out(published, derive, tmp_path):
    folder = shutil.copytree(published, tmp_path / "results")
    rows = rows_of(folder / "rows.csv")
    other = {**rows[0], "seed": "7", "settings": "99", "cells": "", "test_accuracy": "0"}
    with (folder / "rows.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows([*rows, other])
    page = shutil.copy(PAGE, tmp_path / "page.md")
    assert derive(folder, page).code == 0
    assert (folder / "comparison.md").read_bytes() == (published / "comparison.md").read_bytes()
    (folder / "cells.json").unlink()
    for row in (*rows, other):  # as in folders that were published before
        del row["cells"]
    with (folder / "rows.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows([*rows, other])
    done = derive(folder, page)
    assert done.code == 1
    assert done.err.rstrip().endswith("MUTAG diffpool-h with several settings.")


@pytest.fixture(scope="module")
def variants(run_script, tmp_path_factory) -> Path:
    """Fixed and searched settings, other features, a method setting, another protocol."""
    folder = tmp_path_factory.mktemp("variants")
    small = {"max_epochs": 2, "hidden": 4, "patience": 50}
    usual = {"methods": "gpool-h", "seeds": 1, "folds": 10, "device": "cpu"}

    def bench(settings=None, **options) -> None:
        merged = {**small, **(settings or {})}
        options = {**usual, "datasets": "MUTAG", **options}
        run_experiment("lee2019", settings=merged, store=folder / "runs.sqlite", **options)

    bench()
    bench(search="grid", settings={"lr": (0.01, 0.001), "weight_decay": 1e-4, "ratio": 0.5})
    bench(settings={"conv": "gin"})
    bench(settings={"order": "fixed"})
    bench(features="degree")
    shutil.copy(PAGE, folder / "page.md")
    done = run_script(
        "publish_results.py", folder / "runs.sqlite", folder / "results", "--page",
        folder / "page.md",
    )  # fmt: skip
    assert done.code == 0, done.err
    return folder / "results"


def test_published_cells_are_kept_apart(variants):
    cells = json.loads((variants / "cells.json").read_text("utf-8"))
    epochs = "at most 2 epochs"
    assert {(c["dataset"], c["method"], c["chosen"], *c["protocol"]) for c in cells.values()} == {
        ("MUTAG", "gpool-h", "fixed settings", epochs),
        ("MUTAG", "gpool-h, conv gin", "fixed settings", epochs),
        ("MUTAG (degree)", "gpool-h", "fixed settings", epochs),
        ("MUTAG", "gpool-h, ratio 0.5", "searched settings", epochs),
        (
            "MUTAG", "gpool-h", "fixed settings", "training batches are the same in all epochs",
            epochs,
        ),
    }  # fmt: skip
    rows = rows_of(variants / "rows.csv")
    count = {number: sum(number in row["cells"].split() for row in rows) for number in cells}
    assert set(count.values()) == {10}
    assert sum(not row["cells"] for row in rows) == 10, "of the candidate that was not chosen"
    text = (variants / "comparison.md").read_text("utf-8")
    captions = re.findall(r"^\*\*(.*)\*\*$", text, re.M)
    assert captions == [
        "Fixed settings. The protocol is not the paper's: at most 2 epochs.",
        "Searched settings. The protocol is not the paper's: at most 2 epochs.",
        "Fixed settings. The protocol is not the paper's: training batches are the same in all "
        "epochs; at most 2 epochs.",
    ]
    first, *_ = text.split("**Searched")
    assert re.findall(r"^\| (MUTAG.*?) \| (gpool-h.*?) \|", first, re.M) == [
        ("MUTAG", "gpool-h"),
        ("MUTAG", "gpool-h, conv gin"),
        ("MUTAG (degree)", "gpool-h"),
    ]
    assert text in (variants.parent / "page.md").read_text("utf-8")


def test_every_published_cell_can_be_checked(variants, run_script):
    checked = run_script("check_rows.py", variants, variants)
    assert checked.code == 0, checked.out + checked.err
    assert checked.out.count("seed 0 fold 0: ") == 2 * 5
    assert "10 trainings, 10 within 1e-05" in checked.out
    assert "not checked" not in checked.out


def test_two_protocols_are_compared_by_welchs_test():
    folders = [ROOT / "results" / name for name in ("lee2019", "released")]
    means = []
    for folder in folders:
        by_seed: dict[str, list[float]] = {}
        for row in rows_of(folder / "rows.csv"):
            if (row["name"], row["method"]) == ("PROTEINS", "sagpool-h"):
                by_seed.setdefault(row["seed"], []).append(100 * float(row["test_accuracy"]))
        means.append([np.mean(folds) for folds in by_seed.values()])
    p = stats.ttest_ind(*means, equal_var=False).pvalue
    read_published = runpy.run_path(str(SCRIPTS / "published_rows.py"))["read_published"]
    section = runpy.run_path(str(SCRIPTS / "protocols_section.py"))["protocols_section"]
    text = section(read_published(folders, load_experiment("lee2019")))
    (line,) = re.findall(r"^\| PROTEINS \| sagpool-h \|.*", text, re.M)
    assert f"{np.mean(means[0]):.2f}" in line
    assert f"{np.mean(means[1]):.2f}" in line
    assert f"−{np.mean(means[0]) - np.mean(means[1]):.2f}" in line
    assert float(line.split("|")[-2]) == pytest.approx(6 * p, rel=0.02)  # the smallest of six


@pytest.mark.parametrize(
    ("other", "name"), [("dataset = 'MUTAG again'", "MUTAG again"), ("search = 'race'", "MUTAG")]
)
def test_a_run_of_a_finished_cell_is_published_with_it(variants, run_script, tmp_path, other, name):
    """Also if it belongs to an unfinished cell as well, but without the further seeds of that."""
    store = shutil.copy(variants.parent / "runs.sqlite", tmp_path / "runs.sqlite")
    with sqlite3.connect(store) as connection:
        connection.executescript(
            "CREATE TEMP TABLE again AS SELECT * FROM cells WHERE search = 'grid';"
            f"UPDATE again SET {other}, seeds = 2;"
            "INSERT INTO cells SELECT * FROM again;"
            "CREATE TEMP TABLE more AS SELECT runs.* FROM runs JOIN again USING (settings) LIMIT 1;"
            "UPDATE more SET key = 'more', seed = 1, checksum = NULL;"
            "INSERT INTO runs SELECT * FROM more"
        )
    connection.close()
    done = run_script("publish_results.py", store, tmp_path / "results")
    assert done.code == 0, done.err
    assert done.out == f"left out: {name} gpool-h: 11 trainings so far\n"
    for name in ("rows.csv", "cells.json"):
        assert (tmp_path / "results" / name).read_bytes() == (variants / name).read_bytes()


@pytest.fixture
def check(run_script):
    return lambda folder: run_script("check_rows.py", folder, "--each", 2)


@pytest.fixture
def changed(published, tmp_path):
    """The published rows with other values in a column."""

    def make(column: str, value: str) -> Path:
        shutil.copy(published / "settings.json", tmp_path)
        rows = [{**row, column: value} for row in rows_of(published / "rows.csv")]
        with (tmp_path / "rows.csv").open("w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return tmp_path

    return make


def test_published_rows_can_be_checked(published, check):
    checked = check(published)
    assert checked.code == 0, checked.out + checked.err
    assert checked.out.count("seed 0 fold") == 4


def test_rows_of_other_trainings_are_told_from_these(changed, check):
    checked = check(changed("seed", "1"))
    assert checked.code == 1, checked.out
    checked = check(changed("first_validation_loss", "nan"))
    assert checked.code == 1, checked.out


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("numerics", "0", "another version of the numerics"),
        ("method", "sagpool-h-ratio", "another version of the method"),
        ("data", "0123456789ab", "The local data set is different"),
        ("name", "nowhere", "nowhere"),
        ("precision", "tf32", "tf32"),
    ],
)
def test_what_cannot_be_checked_is_no_success(column, value, reason, changed, check):
    checked = check(changed(column, value))
    assert checked.code == 1
    lines = checked.out.splitlines()
    assert len(lines) == (2 if column == "method" else 4), "two of each cell"
    assert all("not checked" in line and reason in line.split(":", 1)[1] for line in lines)
    assert "No training could be checked" in checked.err


def test_few_may_differ_a_little():
    names = runpy.run_path(str(SCRIPTS / "check_rows.py"))
    distance, checked = names["distance"], names["Checked"]

    def agree(*differences: float, sensitive: bool = False) -> bool:
        return names["agree"]([checked(one, sensitive) for one in differences])

    assert agree(1e-7, 1e-7, 1e-7, 1e-4)
    assert not agree(1e-7, 1e-7, 1e-4, 1e-4)
    assert not agree(1e-7, 1e-7, 1e-7, 1e-2)
    assert agree(1e-7, 1e-7, 1e-7, 1e-2, sensitive=True)
    assert not agree()
    settings = {"hidden": 8, "ratio": 0.5}
    row = {"method": "sagpool-h", "seed": "0", "fold": "0"}
    assert 0 < names["rounding"](row, load("MUTAG"), settings) < 1e-5
    assert distance(math.nan, math.nan) == 0
    assert distance(1.0, math.nan) == math.inf


def test_the_numbers_of_the_gpu_page_follow_from_rows(run_script, tmp_path):
    page = tmp_path / "gpu.md"
    text = (ROOT / "docs" / "gpu.md").read_text("utf-8")
    page.write_text(
        re.sub(r"(<!-- begin \w+ -->\n).*?(<!-- end)", r"\1\2", text, flags=re.S), "utf-8"
    )
    done = run_script("gpu_page.py", ROOT / "results", page)
    assert done.code == 0, done.err
    assert page.read_text("utf-8") == text
    assert "| `tf32` | 200 | 72.83 % | ± 0.74 | 157 |" in text


def test_the_numbers_of_the_page_of_poolings_follow_from_rows(run_script, tmp_path):
    page = tmp_path / "poolers.md"
    text = (ROOT / "docs" / "poolers.md").read_text("utf-8")
    page.write_text(
        re.sub(r"(<!-- begin \w+ -->\n).*?(<!-- end)", r"\1\2", text, flags=re.S), "utf-8"
    )
    names = ("poolers", "poolers-link", "poolers-readouts", "poolers-dd")
    folders = [ROOT / "results" / name for name in names]
    copy = shutil.copytree(folders[0], tmp_path / "poolers")
    (copy / "pairs.csv").unlink()
    more = sorted((ROOT / "results").glob("poolers-seeds*"))
    done = run_script("poolers_page.py", copy, *folders[1:], page, "--more", *more)
    assert done.code == 0, done.err
    assert page.read_text("utf-8") == text
    assert (copy / "pairs.csv").read_bytes() == (folders[0] / "pairs.csv").read_bytes()


def test_recall_of_motifs(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    names = runpy.run_path(str(SCRIPTS / "motif_recall.py"))
    settings = {"hidden": 4, "lr": 0.01, "patience": 2, "max_epochs": 2}
    found = {m: names["measure"](motifs(60), m, 2, **settings) for m in ("random-h", "gpool-h")}
    text = names["means_table"](found)
    assert "| `random-h` (control) | " in text
    random = np.mean([one.random for one in found["random-h"]], axis=0)
    assert f"| the same number of random nodes |  | {random[0]:.2f} | {random[1]:.2f} |" in text
    assert 0.45 < random[0] < 0.6
    lines = names["trainings_table"]("gpool-h", found["gpool-h"]).splitlines()
    assert len(lines) == 4 + 2


def test_rows_of_different_folders_are_compared_on_the_same_splits(published, run_script, tmp_path):
    """Also if a folder has only one of the two methods."""
    folders = {}
    for method in ("sagpool-h", "diffpool-h"):
        folders[method] = shutil.copytree(published, tmp_path / method)
        cells = json.loads((published / "cells.json").read_text("utf-8"))
        kept = {number: cell for number, cell in cells.items() if method in cell["method"]}
        (folders[method] / "cells.json").write_text(json.dumps(kept), "utf-8")
        with (published / "rows.csv").open(newline="") as lines:
            first, *others = lines
        lines = [first, *(line for line in others if f",{method}," in line)]
        (folders[method] / "rows.csv").write_text("".join(lines), "utf-8")
    options = ("--against", "diffpool-h, ratio 0.5", "--method", "sagpool-h")
    done = run_script("compare_rows.py", *folders.values(), *options)
    accuracy = {
        method: [float(row["test_accuracy"]) for row in rows_of(folder / "rows.csv")]
        for method, folder in folders.items()
    }
    mean = 100 * float(np.mean(np.subtract(accuracy["sagpool-h"], accuracy["diffpool-h"])))
    sign = f"{mean:+z.2f}".replace("-", "−")
    assert done.out.startswith(f"MUTAG: sagpool-h − diffpool-h, ratio 0.5 {sign} (")
    assert done.out.endswith(" 2 splits\n")
    # A method that is in two folders is compared with the rows beside it, and only once.
    with_both = run_script("compare_rows.py", folders["diffpool-h"], published, *options)
    assert with_both.out == done.out
    twice = run_script("compare_rows.py", *folders.values(), published, *options)
    assert twice.code == 1
    assert "2 tables have rows of sagpool-h on MUTAG." in twice.err
    alone = run_script("compare_rows.py", folders["sagpool-h"], *options)
    assert alone.code == 1
    assert "No data set has rows of diffpool-h, ratio 0.5 and of one of these." in alone.err


def test_the_gains_over_controls(published, run_script, tmp_path):
    folder = shutil.copytree(published, tmp_path / "results")
    rows = rows_of(folder / "rows.csv")
    known = {"sagpool-h": ("0.6", "0.7"), "diffpool-h": ("0.4", "0.6")}
    for row in rows:
        row["test_accuracy"] = known[row["method"]][int(row["fold"])]
    with (folder / "rows.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    done = run_script("control_tables.py", folder, "--control", "sagpool-h", "unknown")
    assert done.out.startswith("**Fixed settings. The protocol is not the paper's: 2 folds;")
    assert "| SAGPool_h | **65.00** |" in done.out
    assert "| DiffPool_h, ratio 0.5 | 50.00 |" in done.out
    # Differences of −20 and −10: the corrected error is s √(1/2 + 1), with s = √50.
    half = stats.t.ppf(0.975, 1) * math.sqrt(50 * 1.5)
    interval = f"(−{half + 15:.2f} to +{half - 15:.2f})"
    assert f"| DiffPool_h, ratio 0.5 | −15.00 {interval} | " in done.out
    assert ": 0 better than SAGPool_h, 0 worse, 1 without a significant difference." in done.out


def test_gains_on_data_sets_that_another_experiment_has(run_script):
    done = run_script("control_tables.py", ROOT / "results/lee2019", "--control", "sagpool-g")
    assert "| method | DD | FRANKENSTEIN | NCI1 | NCI109 | PROTEINS |" in done.out


def test_other_forms_of_the_baselines_against_their_rows():
    """A row of the section, computed again from rows.csv."""
    names = runpy.run_path(str(SCRIPTS / "baselines_section.py"))
    read_published = runpy.run_path(str(SCRIPTS / "published_rows.py"))["read_published"]
    folders = [ROOT / "results" / name for name in ("lee2019", "forms-diffpool", "attributes")]
    table = names["baselines_section"](read_published(folders, load_experiment("lee2019")))

    def accuracies(folder: str, method: str, losses: str | None = None) -> dict:
        settings = json.loads((ROOT / "results" / folder / "settings.json").read_text("utf-8"))
        return {
            (row["seed"], row["fold"]): 100 * float(row["test_accuracy"])
            for row in rows_of(ROOT / "results" / folder / "rows.csv")
            if (row["name"], row["method"]) == ("NCI1", method)
            and settings[row["settings"]].get("losses") == losses
            and (losses is None or settings[row["settings"]]["ratio"] == 0.25)
        }

    changed = accuracies("forms-diffpool", "diffpool-h", "link")
    for other, column in (("diffpool-h", 6), ("sagpool-h", 9)):
        usual = accuracies("lee2019", other)
        values = np.array([changed[split] - usual[split] for split in changed])
        assert len(values) == 50
        error = math.sqrt(values.var(ddof=1) * (1 / 50 + 1 / 9))
        half = stats.t.ppf(0.975, 49) * error
        shown = f"{values.mean():+.2f} ({values.mean() - half:+.2f} to {values.mean() + half:+.2f})"
        (line,) = (line for line in table.splitlines() if "| losses link |" in line)
        assert line.split(" | ")[column - 1] == shown.replace("-", "−")
    (line,) = (line for line in table.splitlines() if "| DiffPool_h | attributes" in line)
    assert line.startswith("| PROTEINS | DiffPool_h | attributes+labels | 72.44 → ")
    assert " | 50 | " in line
