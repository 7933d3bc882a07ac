"""The tutorials run, with fewer epochs, and show what their code gives."""

import json
import re
import runpy
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "tutorials.py"))
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def shortened(code):
    return re.sub(r"(max_epochs\"?(?::| =) )\d+", r"\g<1>2", code)


def kinds(cell):
    return [(output["output_type"], *output.get("data", ())) for output in cell["outputs"]]


def texts(cell):
    return [output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]]


def test_there_are_three():
    assert [path.stem for path in TUTORIALS] == ["compare", "molecules", "pyg"]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_and_shows_what_it_gives(path, one_thread):
    if path.stem == "molecules":
        pytest.importorskip("rdkit")
    committed = json.loads(path.read_text("utf-8"))

    executed = SCRIPT["execute"](committed, shortened)

    for old, new in zip(committed["cells"], executed["cells"], strict=True):
        assert old["source"] == new["source"]
        if old["cell_type"] == "code":
            assert kinds(old) == kinds(new), "run make tutorials"
            if "varies" not in old["metadata"].get("tags", []):
                assert texts(old) == texts(new), "run make tutorials"


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_files_are_small_and_in_one_form(path):
    text = path.read_text("utf-8")
    notebook = json.loads(text)
    assert len(text) < 300_000
    assert SCRIPT["to_text"](notebook) == text
    assert notebook["metadata"] == SCRIPT["METADATA"]
    for number, cell in enumerate(notebook["cells"], 1):
        assert cell["id"] == f"cell-{number}"
        assert cell["metadata"] in ({}, {"tags": ["varies"]})
        assert "/tmp" not in json.dumps(cell.get("outputs", ""))
    assert "<script" not in text
    for link in re.findall(r"\]\(([^)#:]+)[^)]*\)", text):
        assert (path.parent / link).exists(), link


def test_a_cell_shows_what_it_prints_and_its_last_value():
    class Shown:
        def __repr__(self):
            return "plain"

        def _repr_html_(self):
            return "<b>rich</b>"

    printed, shown = SCRIPT["run_cell"]("print(1)\nx", {"x": Shown()}, "a cell", 3)
    assert printed == {"name": "stdout", "output_type": "stream", "text": ["1\n"]}
    assert shown["data"] == {"text/html": ["<b>rich</b>"], "text/plain": ["plain"]}
    assert SCRIPT["run_cell"]("x = 1", {}, "a cell", 1) == []
    with pytest.raises(ZeroDivisionError):
        SCRIPT["run_cell"]("1 / 0", {}, "a cell", 1)
