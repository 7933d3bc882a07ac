"""The verdicts, costs and comparisons of docs/poolers.md, on made-up rows."""

import csv
import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sagpool.bench.experiment_file import load_experiment

MARKERS = ("verdicts", "accuracy", "unsearched", "gains", "readouts", "cost", "published")
SETTINGS = {"folds": 10, "validation": 0.1}
SEARCHED = {"chosen": "searched settings", "protocol": [], "note": ""}
# Mean accuracies in percent. NDP is missing on MUTAG, and GIN everywhere.
MEANS = {
    ("PROTEINS", "random-h"): 70, ("MUTAG", "random-h"): 80,
    ("PROTEINS", "nopool-h"): 70.2, ("MUTAG", "nopool-h"): 79.8,
    ("PROTEINS", "gmt-g"): 75, ("MUTAG", "gmt-g"): 80.1,
    ("PROTEINS", "mlp-g"): 62, ("MUTAG", "mlp-g"): 72,
    ("PROTEINS", "sagpool-h"): 70.1, ("MUTAG", "sagpool-h"): 80,
    ("PROTEINS", "ndp-h"): 70.1,
}  # fmt: skip


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Five seeds of ten folds for each cell: its mean, what its method adds, and noise."""
    rng, rows, cells = np.random.default_rng(0), [], {}
    for number, ((dataset, method), mean) in enumerate(MEANS.items()):
        cells[number] = {"dataset": dataset, "method": method, **SEARCHED}
        noise = rng.normal(0, 1, (5, 10))
        noise -= noise.mean()
        rows += [
            {
                "name": dataset, "data": dataset, "method": method, "precision": "float32",
                "numerics": 2, "settings": 0, "cells": number, "seed": seed, "fold": fold,
                "test_accuracy": (mean + noise[seed, fold]) / 100,
            }
            for seed in range(5)
            for fold in range(10)
        ]  # fmt: skip
    results = tmp_path / "results"
    write_table(results / "rows.csv", rows)
    (results / "cells.json").write_text(json.dumps(cells))
    (results / "settings.json").write_text(json.dumps({"0": SETTINGS}))
    return results


@pytest.fixture
def blocks(folder, run_script) -> Callable[..., dict[str, str]]:
    """Runs the script; returns the text between each pair of markers."""

    def run(*options: object, others: Sequence[Path] = ()) -> dict[str, str]:
        page = folder.parent / "page.md"
        page.write_text("".join(f"<!-- begin {m} -->\n<!-- end {m} -->\n" for m in MARKERS))
        done = run_script("poolers_page.py", folder, *others, page, *options)
        assert done.code == 0, done.err
        pattern = r"<!-- begin (\w+) -->\n(.*?)\n<!-- end"
        return dict(re.findall(pattern, page.read_text("utf-8"), re.S))

    return run


def test_verdicts(blocks):
    text = blocks()["verdicts"]
    assert text.startswith(
        "**Methods that are better than each of Random_h, NoPool_h, MLP_g so far "
        "(11 of 103 cells): GMT_g.** A cell is one"
    )
    (random,) = re.findall(r"^- \*\*Random_h\.\*\* (.*)$", text, re.M)
    assert random == (
        "Better: GMT_g +2.55 (2 data sets)†. Worse: MLP_g −8.00 (2 data sets). "
        "No significant difference: 3 of 5."
    )
    assert "- **GIN_g.** No finished cells." in text
    (mlp,) = re.findall(r"^- \*\*MLP_g\.\*\* (.*)$", text, re.M)
    assert mlp == (
        "Better: all, by +8.00 (2 data sets) to +10.55 (2 data sets). Worse: none. "
        "No significant difference: 0 of 5."
    )


def test_gains_on_each_data_set_and_what_a_verdict_depends_on(blocks):
    text = blocks()["gains"].partition("\n\n| −")[0]
    assert text.startswith("| − Random_h | mean (95 % interval) | p | PROTEINS | MUTAG |")
    assert re.search(r"^\| GMT_g \| \+2\.55 \(.*\| \*\*\+5\.00\*\* \| \+0\.10 \|$", text, re.M)
    assert re.search(r"^\| NDP_h \| \+0\.10 \(.*\| \+0\.10 \| – \|$", text, re.M)
    # MLP_g is worse on both data sets, GMT_g better on one of them alone.
    assert text.endswith("Not significant without one of the data sets: GMT_g (PROTEINS).")


def test_cells_without_a_search_have_tables_of_their_own(folder, blocks, tmp_path):
    assert blocks()["unsearched"] == "No finished cells."
    with (folder / "rows.csv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["cells"] == "0" and row["seed"] < "2"]
    for row in rows:  # those of Random_h on PROTEINS, and two points more
        row["test_accuracy"] = str(float(row["test_accuracy"]) + 0.02)
    ways = {"fixed settings": ["a precision of tf32"], "searched settings": ["features of MUTAG"]}
    others = []
    for chosen, protocol in ways.items():
        other = tmp_path / chosen
        write_table(other / "rows.csv", rows)
        cell = {"dataset": "PROTEINS", "method": "diffpool-h", "note": ""}
        cells = {"0": {**cell, "chosen": chosen, "protocol": protocol}}
        (other / "cells.json").write_text(json.dumps(cells))
        (other / "settings.json").write_text(json.dumps({"0": SETTINGS}))
        others.append(other)
    found = blocks(others=others)
    assert "DiffPool" not in found["gains"]
    tables = [table.splitlines() for table in found["unsearched"].split("\n\n| data set")]
    assert [table[-1] for table in tables] == [
        "Fixed settings; a precision of tf32.", "Searched settings; features of MUTAG.",
    ]  # fmt: skip
    for table in tables:
        # Two points more on each split have no spread; MinCutPool has no rows here.
        start = "| PROTEINS | DiffPool_h | 20 | 71.69 ± 0.38 | +2.00 (interval unknown) |"
        assert table[2].startswith(start)
        assert table[2].endswith(" | – |")


def test_several_data_sets_of_which_one_is_left_out(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    from control_tables import _either

    assert [_either(some) for some in (["A"], ["A", "B"], ["A", "B", "C"])] == [
        "A", "A or B", "A, B or C",
    ]  # fmt: skip


def test_a_control_without_winners(folder, blocks):
    """Without the better and the worse method nothing is told apart."""
    cells = json.loads((folder / "cells.json").read_text())
    few = {n: c for n, c in cells.items() if c["method"] not in ("gmt-g", "mlp-g")}
    (folder / "cells.json").write_text(json.dumps(few))
    text = blocks()["verdicts"]
    assert text.startswith(
        "**Methods that are better than each of Random_h, NoPool_h so far (7 of 103 cells): none.**"
    )
    assert "- **Random_h.** Better: none. Worse: none. No significant difference: 3 of 3." in text


def test_if_most_methods_are_better_the_others_are_named(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    from poolers_page import _named

    found = [
        SimpleNamespace(
            method=method, sign=sign, mean=SimpleNamespace(mean=mean), datasets="AB", needed=needed
        )
        for method, sign, mean, needed in (
            ("gmt-g", -1, -9, ()), ("ndp-h", 0, 1, ()), ("gin-g", -1, -2, ("A",)),
        )
    ]  # fmt: skip
    assert _named(found, -1, 2) == "all but NDP_h, by −2.00 to −9.00 († GIN_g)"
    assert _named(found[1:], -1, 2) == "GIN_g −2.00†"


def test_missing_cells(blocks):
    text = blocks()["accuracy"]
    assert text.startswith(
        "11 of 103 cells are finished. Missing: PROTEINS (all but NDP_h, GMT_g, MLP_g, SAGPool_h, "
        "Random_h, NoPool_h); DD (all methods); NCI1 (all methods); NCI109 (all methods); "
        "MUTAG (all but GMT_g, MLP_g, SAGPool_h, Random_h, NoPool_h)."
    )
    assert re.search(r"^\| NDP_h \| 70\.10 ± [\d.]+ \| – \| – \| – \| – \|$", text, re.M)
    assert re.search(r"^\| GMT_g \| \*\*75\.00\*\* ± ", text, re.M)
    assert "| GIN_g | – | – | – | – | – |" in text


def test_few_missing_cells_are_listed(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    from poolers_page import missing, planned

    cells = planned(load_experiment("poolers"))
    assert missing(cells, cells) == "All 103 cells are finished."
    finished = [cell for cell in cells if cell != ("DD", "asap-h")]
    assert missing(finished, cells) == "102 of 103 cells are finished. Missing: DD (ASAP_h)."


def test_published_means_and_our_intervals(blocks):
    text = blocks()["published"]
    assert "| PROTEINS | GMT_g | CoCN | 75.09 ± 0.59 | 75.00 ± " in text
    assert re.search(r"^\| MUTAG \| GMT_g \|.* \| −3\.34 \| .* \| above \|$", text, re.M)
    assert text.endswith(
        "1 of 2 published means lie inside our interval. Above it: GMT_g on MUTAG (CoCN). "
        "Below it: none."
    )


def test_a_published_mean_is_not_compared_with_equal_runs(blocks, folder):
    rows = _rows(folder)
    for row in rows:
        if (row["name"], row["method"]) == ("MUTAG", "gmt-g"):
            row["test_accuracy"] = "0.801"
    write_table(folder / "rows.csv", rows)
    text = blocks()["published"]
    assert re.search(r"^\| MUTAG \| GMT_g \|.* \| −3\.34 \| – \| – \|$", text, re.M)
    assert "1 of 1 published means lie inside" in text


@pytest.fixture
def more(folder) -> Path:
    """Seven seeds of GMT on MUTAG: all of the first five are 5 points higher than in the cell."""
    more = folder.parent / "more"
    rows = [row for row in _rows(folder) if (row["name"], row["method"]) == ("MUTAG", "gmt-g")]
    rows = [row | {"test_accuracy": str(float(row["test_accuracy"]) + 0.05)} for row in rows]
    later = [row | {"seed": str(int(row["seed"]) + 5)} for row in rows if int(row["seed"]) < 2]
    # The settings have another number there.
    write_table(more / "rows.csv", [row | {"settings": "3"} for row in rows + later])
    (more / "settings.json").write_text(json.dumps({"3": SETTINGS}))
    return more


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_other_settings_of_a_method_are_a_method_of_their_own(folder, blocks):
    """They come from another folder, and have a name without a comma."""
    other = folder.parent / "link"
    rows = [row for row in _rows(folder) if (row["name"], row["method"]) == ("MUTAG", "gmt-g")]
    write_table(other / "rows.csv", [row | {"cells": "0", "method": "diffpool-h"} for row in rows])
    cell = {"dataset": "MUTAG", "method": "diffpool-h, losses link", **SEARCHED}
    (other / "cells.json").write_text(json.dumps({"0": cell}))
    (other / "settings.json").write_text(json.dumps({"0": SETTINGS}))
    found = blocks(others=[other])
    assert found["accuracy"].startswith("12 of 103 cells are finished.")
    assert re.search(
        r"^\| DiffPool_h \(link loss\) \| –.* \*\*80\.10\*\* ± ", found["accuracy"], re.M
    )
    assert "| DiffPool_h | – | – | – | – | – |" in found["accuracy"]
    assert "| DiffPool_h (link loss) | +0.10 (" in found["gains"]


def test_other_readouts_beside_the_usual_ones(folder, blocks):
    """GMT is as good as random nodes on MUTAG; with sums, random nodes are better than both."""
    assert blocks()["readouts"] == "No finished cells."
    other = folder.parent / "readouts"
    rng = np.random.default_rng(1)
    rows = [
        row | {
            "cells": str(number), "method": method, "train_accuracy": 0.95,
            "test_accuracy": (mean + float(rng.normal(0, 1))) / 100,
        }
        for number, (method, mean) in enumerate((("random-h", 95), ("mlp-g", 72.5)))
        for row in _rows(folder)
        if (row["name"], row["method"]) == ("MUTAG", method)
    ]  # fmt: skip
    write_table(other / "rows.csv", rows)
    write_table(folder / "rows.csv", [row | {"train_accuracy": 0.85} for row in _rows(folder)])
    cells = {
        str(number): {"dataset": "MUTAG", "method": f"{method}, readout sum", **SEARCHED}
        for number, method in enumerate(("random-h", "mlp-g"))
    }
    (other / "cells.json").write_text(json.dumps(cells))
    (other / "settings.json").write_text(json.dumps({"0": SETTINGS}))
    found = blocks(others=[other])
    table, _, sentence = found["readouts"].rpartition("\n\n")
    mlp, random = table.splitlines()[2:]
    assert random.startswith("| MUTAG | Random_h | mean-max → sum | 85.00 → 95.00 | 80.00 → 9")
    assert random.endswith("&lt; 0.001 * |")
    assert mlp.startswith("| MUTAG | MLP_g | mean-max → sum | 85.00 → 95.00 | 72.00 → 72.")
    assert not mlp.endswith("* |")
    assert sentence.startswith(
        "- **MUTAG, compared with Random_h with sums.** Of 5 methods with their usual readout, 0 "
        "are better, 5 worse. The best, GMT_g, differs by −1"
    )
    assert "Of 1 methods with sums, 0 are better, 1 worse. The best, MLP_g, differs by −2" in (
        sentence
    )
    assert "readout" not in found["accuracy"], "they are in no other table"


def test_all_pairs_are_in_a_table(folder, blocks):
    text = blocks()["accuracy"]
    with (folder / "pairs.csv").open(newline="") as lines:
        pairs = {
            (one["dataset"], one["first"], one["second"]): one for one in csv.DictReader(lines)
        }
    assert len(pairs) == 15 + 10  # of 6 and of 5 methods
    pair = pairs["PROTEINS", "gmt-g", "mlp-g"]
    assert float(pair["difference"]) == pytest.approx(13, abs=1e-4)
    assert float(pair["low"]) < 13 < float(pair["high"])
    assert float(pair["p"]) < float(pair["holm_p"]) < 0.05
    significant = [key for key, one in pairs.items() if float(one["holm_p"]) < 0.05]
    on = {name: sum(key[0] == name for key in significant) for name in ("PROTEINS", "MUTAG")}
    assert f"significantly: PROTEINS {on['PROTEINS']} of 15, MUTAG {on['MUTAG']} of 10." in text


def test_further_seeds_extend_a_cell(folder, blocks, more):
    before, after = blocks(), blocks("--more", more)
    assert "With" not in before["accuracy"].partition("\n")[0]
    assert (
        after["accuracy"]
        .partition("\n")[0]
        .endswith("With 7 seeds: MUTAG (GMT_g). The others have 5.")
    )
    # Only the two further seeds count: 80.1 + 2 / 7 of 5 points, and a little noise of these seeds.
    (mean,) = re.findall(
        r"^\| GMT_g \| \*\*75\.00\*\* ± [\d.]+ .*\*\*([\d.]+)\*\* ±", after["accuracy"], re.M
    )
    assert abs(float(mean) - 81.53) < 0.5
    # Random_h has five seeds, and the two are compared on these.
    assert before["gains"] == after["gains"]


@pytest.mark.parametrize(("column", "value"), [("data", "another"), ("precision", "tf32")])
def test_further_seeds_of_no_cell_are_refused(folder, run_script, more, column, value):
    write_table(more / "rows.csv", [row | {column: value} for row in _rows(more)])
    done = run_script("poolers_page.py", folder, folder.parent / "page.md", "--more", more)
    assert done.code == 1
    assert done.err.endswith("of gmt-g on MUTAG have settings or data that no cell has.")


def test_further_seeds_with_other_settings_are_refused(folder, run_script, more):
    (more / "settings.json").write_text(json.dumps({"3": SETTINGS | {"lr": 1}}))
    done = run_script("poolers_page.py", folder, folder.parent / "page.md", "--more", more)
    assert done.code == 1
    assert "that no cell has" in done.err


def test_further_seeds_in_two_folders_are_refused(folder, run_script, more):
    again = folder.parent / "again"
    shutil.copytree(more, again)
    page = folder.parent / "page.md"
    done = run_script("poolers_page.py", folder, page, "--more", more, again)
    assert done.code == 1
    assert done.err.endswith("on MUTAG, and so has another folder with further seeds.")


def test_further_seeds_without_all_folds_are_refused(folder, run_script, more):
    rows = _rows(more)
    write_table(more / "rows.csv", rows[:-1])
    done = run_script("poolers_page.py", folder, folder.parent / "page.md", "--more", more)
    assert done.code == 1
    assert done.err == f"Seed {rows[-1]['seed']} of gmt-g on MUTAG lacks some of its folds."


def test_costs_are_those_of_the_benchmark(folder, blocks):
    assert blocks()["cost"].startswith("Not measured yet.")
    rates = {"sagpool-h": (2000, 1.0), "gmt-g": (500, 3.0), "hosc-h": None}
    measured: dict[str, dict[str, object]] = {"models_steps_per_s": {}, "peak_gib": {}}
    for method, one in rates.items():
        case = f"PROTEINS/128/{method}"
        measured["models_steps_per_s"][case] = {"fleet": one[0], "members": 50} if one else {}
        measured["peak_gib"][case] = {"fleet": one[1]} if one else {}
    (folder / "rates.json").write_text(json.dumps(measured))
    text = blocks()["cost"]
    assert "| method | time, PROTEINS | memory, PROTEINS |" in text
    assert "| GMT_g | 4.0 | 3.0 |" in text
    assert "HOSC_h" not in text  # failed
    assert "a fleet of 50 models" in text
    assert text.endswith("a step of SAGPool_h takes 500 µs and 20 MiB on PROTEINS.")

    text = json.dumps(measured).replace("PROTEINS", "MUTAG").replace("500", "125")
    (folder / "rates-MUTAG.json").write_text(text.replace("gmt-g", "ndp-h"))
    text = blocks()["cost"]
    assert "| method | time, PROTEINS | time, MUTAG | mean time | mean memory |" in text
    assert "| NDP_h | – | 16.0 | 16.0 | 3.0 |" in text


def test_costs_without_sagpool_are_refused(folder, run_script, tmp_path):
    case = "PROTEINS/128/gmt-g"
    rates = {case: {"fleet": 500, "members": 50}}
    measured = {"models_steps_per_s": rates, "peak_gib": {case: {"fleet": 3.0}}}
    (folder / "rates.json").write_text(json.dumps(measured))
    page = tmp_path / "page.md"
    page.write_text("")
    done = run_script("poolers_page.py", folder, page)
    assert done.code == 1
    assert done.err.endswith("lack sagpool-h, which others are compared with.")


def test_rows_of_another_protocol_are_refused(folder, run_script, tmp_path):
    text = (folder / "cells.json").read_text()
    (folder / "cells.json").write_text(text.replace("searched settings", "fixed settings"))
    page = tmp_path / "page.md"
    done = run_script("poolers_page.py", folder, page)
    assert done.code == 1
    assert done.err.endswith("no searched cells with the protocol of poolers.")
