"""``sagpool bench`` as users call it."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from sagpool.bench import rows

SMALL = (
    "--dataset", "MUTAG", "--seeds", 1, "--folds", 2,
    "--set", "max_epochs=2", "--set", "hidden=4", "--device", "cpu",
)  # fmt: skip


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs.sqlite"


def test_the_results_are_printed(sagpool, store):
    ended = sagpool("bench", "--method", "sagpool-h,gpool-h", *SMALL)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].split()[:4] == ["data", "set", "method", "runs"]
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["MUTAG", "sagpool-h", "2"],
        ["MUTAG", "gpool-h", "2"],
    ]
    assert "sagpool report runs.sqlite -o report" in ended.out
    assert "[1/2] MUTAG sagpool-h: training, 0/2 trainings" in ended.err
    assert "[2/2] MUTAG gpool-h: done, 2/2 trainings" in ended.err
    assert os.listdir(store.parent) == ["runs.sqlite"]


def test_json_has_the_cells(sagpool, store):
    ended = sagpool("bench", "--method", "sagpool-h", "--json", "--search", "halving", *SMALL)
    (cell,) = json.loads(ended.out)
    assert cell["dataset"] == "MUTAG"
    assert cell["method"] == "sagpool-h"
    assert cell["settings"]["hidden"] == 4
    assert cell["runs"] == 2
    assert 0 <= cell["mean"] <= 100
    assert cell["std_seeds"] is None
    assert len(cell["ci95"]) == 2
    assert cell["paper_mean"] is None
    assert (cell["search"], cell["select"]) == ("halving", "over-folds")
    assert 0 < cell["search_epochs"] <= cell["grid_epochs"]


def test_a_profile_is_one_line_and_json_is_the_same(sagpool, store):
    ended = sagpool("bench", "quick", "--method", "sagpool-h", "--profile", *SMALL)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("Of ")]
    assert re.fullmatch(
        r"Of [\d.]+ s( on \d+ threads)?, the device spent \d+ % on steps, \d+ % on evaluation, "
        r"\d+ % waiting\.",
        line,
    )
    assert sagpool("report", "runs.sqlite", "-o", "report").code == 0
    assert (store.parent / "report" / "figures" / "profile-1.png").exists()
    ended = sagpool("bench", "quick", "--method", "sagpool-h", "--profile", "--json", *SMALL)
    assert len(json.loads(ended.out)) == 1
    ended = sagpool("bench", "--profile", "--engine", "ray", *SMALL)
    assert (ended.code, "it needs the engine 'local'" in ended.err) == (2, True)


def test_settings_are_selected_per_fold(sagpool, store):
    options = ("--method", "gpool-h", "--set", "lr=0.01,0.1", "--search", "grid", *SMALL)
    nested = ("--select", "per-fold", "--set", "weight_decay=0", "--set", "ratio=0.5")
    ended = sagpool("bench", *options, *nested)
    assert ended.code == 0
    assert "MUTAG gpool-h: search (grid, per fold): 8 models·epochs, 100 % of the full" in ended.out
    assert "MUTAG gpool-h: chosen over all folds, the mean would be " in ended.out
    (cell,) = json.loads(sagpool("bench", "--json", *options, *nested).out)
    assert (cell["select"], cell["runs"], cell["settings"]["lr"]) == ("per-fold", 2, [0.01, 0.1])
    difference = cell["over_folds_mean"] - cell["mean"]
    assert cell["over_folds_difference"] == pytest.approx(difference)
    ended = sagpool("bench", "--dry-run", *options, *nested)
    assert (
        "gpool-h: 2 trainings, 2 of them stored, each the best of 2 candidates, out of 4, "
        "4 of them stored; chosen; about 0 s"
    ) in ended.out


def test_other_node_features(sagpool, store):
    options = ("bench", "--dry-run", "--dataset", "MUTAG", "--method", "gpool-h", "--json")
    (row,) = json.loads(sagpool(*options, "--features", "degree").out)
    assert row["dataset"] == "MUTAG (degree)"
    ended = sagpool(*options, "--features", "both")
    assert (ended.code, ended.err) == (2, "sagpool: MUTAG has no node attributes.\n")


def test_a_dry_run_writes_nothing(sagpool, store):
    ended = sagpool("bench", "--dry-run", "--dataset", "MUTAG", "--seeds", 3)
    assert "6 cells, 3 seeds" in ended.out
    assert "MUTAG sagpool-h: 30 trainings, 0 of them stored; lr 0.0005, weight_decay" in ended.out
    options = ("--dataset", "MUTAG", "--method", "sagpool-h", "--seeds", 1)
    ended = sagpool("bench", "--dry-run", "--search", "grid", *options)
    assert "1 cell, 1 seed, search: grid" in ended.out
    assert "MUTAG sagpool-h: 10 trainings, after choosing from 192 candidates in 1920" in ended.out
    assert "in 1920 more, 0 of them stored; not chosen yet; about" in ended.out
    assert not store.exists()


def test_the_settings_of_a_method(sagpool, store):
    options = ("--method", "gpool-h", "--set", "conv=gin", *SMALL)
    (cell,) = json.loads(sagpool("bench", "--json", *options).out)
    assert (cell["runs"], cell["settings"]["conv"]) == (2, "gin")
    (row,) = json.loads(sagpool("bench", "--json", "--dry-run", *options).out)
    assert (row["stored"], row["conv"]) == (2, "gin")
    default = [option for option in options if option != "conv=gin"]
    default[default.index("--set")] = "--set=conv=gcn"
    (row,) = json.loads(sagpool("bench", "--json", "--dry-run", *default).out)
    assert row["stored"] == 0
    assert "conv" not in row, "the default is not stored"


def test_a_dry_run_names_options_that_are_not_the_defaults(sagpool):
    options = ("--method", "gpool-h", *SMALL)
    (row,) = json.loads(sagpool("bench", "--json", "--dry-run", *options).out)
    assert "schedule" not in row
    options = ("--set", "schedule=cosine", "--set", "class_weight=balanced", *options)
    (row,) = json.loads(sagpool("bench", "--json", "--dry-run", *options).out)
    assert (row["schedule"], row["class_weight"]) == ("cosine", "balanced")


def test_a_dry_run_counts_stored_trainings(sagpool, store):
    sagpool("bench", "--method", "gpool-h", *SMALL)
    more = [3 if option == 1 else option for option in SMALL]
    (row,) = json.loads(sagpool("bench", "--method", "gpool-h", "--dry-run", "--json", *more).out)
    assert (row["trainings"], row["stored"], row["hidden"]) == (6, 2, 4)


def test_only_the_given_seeds_are_summarised(sagpool, store):
    more = [3 if option == 1 else option for option in SMALL]
    (all_seeds,) = json.loads(sagpool("bench", "--method", "gpool-h", "--json", *more).out)
    (one,) = json.loads(sagpool("bench", "--method", "gpool-h", "--json", *SMALL).out)
    assert (all_seeds["runs"], one["runs"]) == (6, 2)


def test_a_cell_without_any_result(sagpool, store):
    ended = sagpool("bench", "--method", "gpool-h", "--set", "lr=1e30", *SMALL)
    assert "2 (2 diverged)   none learnt" in ended.out
    (cell,) = json.loads(
        sagpool("bench", "--method", "gpool-h", "--set", "lr=1e30", "--json", *SMALL).out
    )
    assert (cell["mean"], cell["diverged"]) == (None, 2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["nothing"],
            "There is no experiment 'nothing'; name a .yaml file or one of attention-real, demo",
        ),
        (["none.yaml"], "The experiment none.yaml cannot be read: No such file or directory."),
        (["--method", "sagpol"], "There is no method 'sagpol'; did you mean 'sagpool-"),
        (["--dataset", "NOWHERE"], "No data set 'NOWHERE'"),
        (["--set", "lrr=1"], "'lrr' is not a setting; did you mean 'lr'."),
        (["--set", "conf=gin"], "'conf' is not a setting; did you mean 'conv'."),
        (["--set", "conv=gni"], "Unknown convolution 'gni'; choose from gcn"),
        (["--set", "lr"], "--set takes NAME=VALUE, not 'lr'."),
        (["--set", "lr=inf"], "lr must be a number, not 'inf'."),
        (["--set", "lr=1", "--set", "lr=2"], "lr has 2 values; give one, or use a search."),
        (["--store", "."], ". is a folder; a run store is a file."),
        (["--set", "lr=fast"], "lr must be a number, not 'fast'."),
        (["--set", "lr=1,2"], "lr has 2 values; give one, or use a search."),
        (
            ["--precision", "float16"],
            "precision must be one of float32, float64, tf32, bf16, not 'float16'.",
        ),
        (["--table", "table9"], "The experiment has no table 'table9'; "),
        (["--address", "auto"], "The address of a Ray cluster needs the engine 'ray'."),
        (["--select", "per-fold"], "Settings can only be selected per fold by a search: grid or"),
        (
            ["--select", "per-fold", "--search", "race"],
            "A race compares candidates over the folds, so it cannot select per fold; search by",
        ),
        (["--device", "gpu"], "There is no kind of device named 'gpu'."),
        (["--store", "text.txt"], "text.txt is not a sagpool run store."),
        (["--store", "text.txt/runs.sqlite"], "text.txt/runs.sqlite cannot be written: "),
        (["--dataset", "MUTAG", "--folds", 90], "Class 0 has 63 graphs, too few for 90 folds."),
    ],
)
def test_wrong_input_is_one_sentence(sagpool, store, options, sentence):
    (store.parent / "text.txt").write_text("Some notes of mine. " * 100)
    data = [] if "--dataset" in options else ["--dataset", "MUTAG"]
    ended = sagpool("bench", *options, *data, "--seeds", 1, "--set", "max_epochs=1")
    assert ended.code == 2
    last = ended.err.splitlines()[-1]
    assert last.startswith(f"sagpool: {sentence}")
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert sorted(os.listdir(store.parent)) == ["text.txt"], "nothing was written"


def test_without_ray_the_error_says_what_to_install(sagpool, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    ended = sagpool("bench", "--engine", "ray", *SMALL)
    assert ended.code == 2
    assert ended.err == (
        "sagpool: The engine 'ray' needs Ray; install it with: pip install 'sagpool[ray]'\n"
    )
    assert not store.exists()


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("127.0.0.1:1", "There is no Ray cluster at '127.0.0.1:1': Connection refused."),
        ("ray://127.0.0.1:1", "There is no Ray cluster at 'ray://127.0.0.1:1': Connection refused"),
        ("127.0.0.1:99999", "There is no Ray cluster at '127.0.0.1:99999': "),
        ("nonsense", "The address must be auto, HOST:PORT or ray://HOST:PORT, not 'nonsense'."),
    ],
)
def test_a_missing_cluster_is_one_sentence(sagpool, store, address, sentence):
    pytest.importorskip("ray")
    ended = sagpool("bench", "--engine", "ray", "--address", address, *SMALL)
    assert ended.code == 2
    assert ended.err.startswith(f"sagpool: {sentence}")
    assert len(ended.err.splitlines()) == 1
    assert not store.exists()


def test_ray_is_only_imported_when_needed():
    code = "import sys, sagpool.cli.commands; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_stop_and_the_same_command_continues(sagpool, store, sent, status):
    options = [str(option) for option in (*SMALL, "--method", "sagpool-h", "--store", store)]
    long = [option.replace("max_epochs=2", "max_epochs=100000") for option in options]
    long += ["--set", "patience=100000"]
    run = [sys.executable, "-c", "from sagpool.cli.main import main; main()", "bench"]
    process = subprocess.Popen(
        [*run, *long, "--checkpoint-seconds", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    folder = store.with_name("runs.sqlite-checkpoints")
    while process.poll() is None and not (folder.is_dir() and any(folder.glob("*.npz"))):
        time.sleep(0.01)
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert out == ""
    assert err.splitlines()[-1] == "Stopped. Run the same command to continue."
    assert "Traceback" not in err
    short = sagpool("bench", *options)
    assert short.code == 0, short.err


def test_two_commands_cannot_write_one_store(store):
    run = [sys.executable, "-c", "from sagpool.cli.main import main; main()", "bench"]
    options = [str(option) for option in (*SMALL, "--method", "sagpool-h", "--store", store)]
    processes = [
        subprocess.Popen(
            [*run, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    ended = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    for out, err, code in ended:
        assert code in (0, 2)
        assert (code == 0 and "sagpool-h" in out) or "is being written by another process" in err
    assert any(code == 0 for *_, code in ended)
    from sagpool.bench.store import Store

    with Store.reading(store) as rows:
        assert len(rows.runs()) == 2


PLUGIN = """
from sagpool.models import hierarchical, register
from sagpool.nn import GPool

@register("edited-h")
def edited(shape):
    return hierarchical(shape, lambda block: GPool(shape.hidden, {ratio}, members=shape.members))
"""


def test_a_plugin_that_was_changed_is_trained_again(store):
    """Each command is a process of its own, as for somebody who edits the file in between."""
    plugin = store.parent / "edited.py"
    options = ("bench", "quick", "--plugin", plugin, "--method", "edited-h", *SMALL, "--json")

    def bench(ratio):
        plugin.write_text(PLUGIN.format(ratio=ratio))
        command = "from sagpool.cli.main import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", command, *map(str, options)],
            capture_output=True,
            text=True,
            check=True,
        )
        (cell,) = json.loads(ended.stdout)
        return cell["settings"]["method_version"], "0/2 trainings" in ended.stderr

    (first, trained), (second, again), (third, nothing) = bench(0.5), bench(0.1), bench(0.5)
    assert first == third != second
    assert (trained, again, nothing) == (True, True, False)
    found = rows(store, frame=False)
    assert [row["method_version"] for row in found].count(first) == 2
    assert [row["method_version"] for row in found].count(second) == 2
