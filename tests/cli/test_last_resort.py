"""Whatever happens ends with one line: bugs, no memory, a full or closed output, no home."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sagpool import TrainedModel, load
from sagpool.cli import commands
from sagpool.cli.main import main
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, plugins, registry
from sagpool.termination import Terminated

PROGRAM = "from sagpool.cli.main import main; main()"


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    options = {"capture_output": True, "text": True, "encoding": "utf-8"} | options
    return subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=False, **options)


# Prints the code and the standard error of each command in a line of the standard error.
ONE_AFTER_ANOTHER = """
import contextlib, io, json, sys
from sagpool.cli.main import main

for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    print(json.dumps([code, err.getvalue()]), file=sys.stderr)
"""


def run_all(commands: list[list[str]], before: str = "", **options) -> list[tuple[int, str]]:
    """In one process, which takes seconds to start; the code and standard error of each."""
    ended = subprocess.run(
        [sys.executable, "-c", before + ONE_AFTER_ANOTHER, json.dumps(commands)],
        check=True,
        capture_output=True,
        text=True,
        **options,
    )
    return [tuple(json.loads(line)) for line in ended.stderr.splitlines()]


@pytest.fixture
def failing(monkeypatch):
    """Makes every command raise this exception."""

    def make(error: BaseException) -> None:
        def app():
            raise error

        monkeypatch.setattr(commands, "app_for", lambda arguments: app)

    return make


def test_a_bug_is_one_line_with_the_place_of_its_traceback(failing, sagpool, cache):
    failing(TypeError("unsupported operand\nand more"))
    outcome = sagpool("data", "MUTAG")
    assert outcome.code == 70
    (log,) = (cache / "logs").iterdir()
    assert outcome.err == (
        "sagpool: This is a bug in sagpool (TypeError: unsupported operand); the traceback is in "
        f"{log}. Please report it.\n"
    )
    text = log.read_text()
    assert "arguments: ['data', 'MUTAG']" in text
    assert "Traceback (most recent call last)" in text
    assert "and more" in text


PLUGIN = """
from layers_of_failing import Failing
from sagpool.models import hierarchical, register

@register("failing-h")
def failing(shape):
    return hierarchical(shape, lambda block: Failing(shape.hidden, members=shape.members))
"""
LAYERS = """
from sagpool.nn import GPool

class Failing(GPool):
    def scores(self, x, structure, context):
        raise ValueError("a mistake of mine")
"""


@pytest.mark.parametrize("named", ["failing.py", "failing_plugin"])
def test_an_error_in_a_plugin_is_no_bug(sagpool, cache, tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})
    (tmp_path / "layers_of_failing.py").write_text(LAYERS)
    (tmp_path / "failing.py").write_text(PLUGIN)
    (tmp_path / "failing_plugin.py").write_text(PLUGIN)
    monkeypatch.delitem(sys.modules, "layers_of_failing", raising=False)
    method = ("--method", "failing-h", "--plugin", named)
    outcome = sagpool("bench", "quick", "--dataset", "MUTAG", *method, "--device", "cpu")
    assert outcome.code == 2
    *_, last = outcome.err.splitlines()
    assert last == (
        "sagpool: The method 'failing-h' failed (ValueError: a mistake of mine) in "
        "layers_of_failing.py, line 6; its traceback is above."
    )
    assert 'raise ValueError("a mistake of mine")' in outcome.err
    assert not (cache / "logs").exists()


WRONG = """
from torch_geometric.nn import TopKPooling
from sagpool.models import register_pyg

register_pyg("wrong-h", lambda s: TopKPooling(s.hidden + 1, s.ratio))
"""


@pytest.mark.parametrize(
    "command",
    [
        ["bench", "quick", "--dataset", "MUTAG", "--device", "cpu"],
        ["train", "MUTAG", "-o", "model", "--folds", "2"],
    ],
    ids=["bench", "train"],
)
def test_an_error_in_a_layer_of_pyg_is_that_of_its_method(
    sagpool, cache, tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    monkeypatch.setattr(plugins, "_loaded", {})
    (tmp_path / "wrong.py").write_text(WRONG)
    outcome = sagpool(*command, "--plugin", "wrong.py", "--method", "wrong-h")
    assert outcome.code == 2
    *_, last = outcome.err.splitlines()
    assert last.startswith("sagpool: The method 'wrong-h' failed (RuntimeError: The size of tensor")
    (log,) = (cache / "logs").iterdir()
    assert re.search(r"\) in topk\.py, line \d+; the traceback is in ", last)
    assert last.endswith(f" {log}.")
    text = log.read_text()
    assert f"arguments: {[*command, '--plugin', 'wrong.py', '--method', 'wrong-h']!r}" in text
    assert "topk_pool.py" in text
    assert "Traceback" not in outcome.err


def test_a_bug_without_a_place_for_its_log(failing, sagpool, cache, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SAGPOOL_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "file"))
    failing(ZeroDivisionError())
    outcome = sagpool("data")
    assert outcome.code == 70
    assert "(ZeroDivisionError); its traceback could not be written." in outcome.err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate mem"
                     "ory: you tried to allocate 8796093022216 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=["Python", "torch", "CUDA", "cuBLAS"],
)  # fmt: skip
def test_no_memory_is_a_sentence(failing, sagpool, cache, error):
    failing(error)
    outcome = sagpool("data")
    assert outcome.code == 2
    assert outcome.err == (
        "sagpool: There is not enough memory for this; try fewer or smaller graphs, or end other "
        "programs that use memory.\n"
    )
    assert not (cache / "logs").exists()


@pytest.mark.parametrize(("signal", "code"), [(Terminated, 143), (KeyboardInterrupt, 130)])
def test_an_error_on_the_way_out_is_no_bug(failing, sagpool, cache, signal, code):
    """As of a context that the signal left half entered."""
    error = RuntimeError("trying to pop from empty mode stack")
    error.__context__ = signal()
    failing(error)
    outcome = sagpool("data", "MUTAG")
    assert outcome.code == code
    assert not (cache / "logs").exists()


def test_an_error_of_the_system_names_its_file(failing, sagpool):
    failing(OSError(28, "No space left on device", "/data/model.safetensors"))
    assert sagpool("data").err == "sagpool: /data/model.safetensors: No space left on device.\n"


def test_output_in_a_terminal_that_knows_only_ascii(tmp_path):
    data = tmp_path / "x.jsonl"
    data.write_text('{"nodes": ["ä", "ö"], "label": "é"}\n{"nodes": ["ä"], "label": "ü"}\n')
    named = tmp_path / "größe.jsonl"
    named.write_bytes(data.read_bytes())
    ended = run("data", str(named), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in ended.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk(unbuffered):
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        ended = run(
            "data", "MUTAG", capture_output=False, stdout=full, stderr=subprocess.PIPE, env=env
        )
    assert ended.returncode == 2
    assert ended.stderr == "sagpool: The output or a file: No space left on device.\n"


def test_what_is_still_buffered_at_the_end_does_not_fit(failing, monkeypatch, capsys):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(28, "No space left on device")

    failing(SystemExit(0))
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "sagpool: The output cannot be printed: No space left on device. Files are complete.\n"
    )


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2)])
def test_closed_output(closed):
    def close():
        for number in closed:
            os.close(number)

    ended = run("data", "MUTAG", preexec_fn=close)
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_predictions_need_an_output(tmp_path):
    graphs = load("MUTAG")
    shape = Shape(graphs.num_features, 2, hidden=4)
    weights = build("sagpool-h", shape).state_dict()
    model = TrainedModel.of_net("sagpool-h", shape, Vocabulary.of(graphs), weights)
    arguments = ["predict", str(model.save_pretrained(tmp_path / "model")), "--smiles", "CO"]
    commands = [arguments, [*arguments, "-o", str(tmp_path / "x.csv")]]
    ended = run_all(commands, preexec_fn=lambda: os.close(1))
    refused = "sagpool: The standard output is closed; name a file with -o.\n"
    assert ended == [(2, refused), (0, "")]
    assert (tmp_path / "x.csv").read_text().startswith("id,class,")


def test_without_a_home(tmp_path):
    data = tmp_path / "x.jsonl"
    data.write_text('{"nodes": 2}\n')
    before = "import pwd\ndef unknown(number): raise KeyError(number)\npwd.getpwuid = unknown\n"
    known = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "SAGPOOL_CACHE", "XDG_CACHE_HOME")
    }
    ended = run_all([["data", str(data)], ["data", "~/x.jsonl"], ["data", "N"]], before, env=known)
    assert [code for code, _ in ended] == [0, 2, 2], ended
    assert not any("Traceback" in err or "bug" in err for _, err in ended)
