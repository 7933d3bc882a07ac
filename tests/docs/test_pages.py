"""Commands and examples of the documentation run in the order of the page.

They run as they stand there, but for the number of epochs.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from sagpool.bench.experiment_file import read_experiment
from sagpool.cli.main import main
from sagpool.models import methods

DOCS = Path(__file__).parents[2] / "docs"
# The first has a test of its own, and the server is asked by tests/export/test_serving.py.
ELSEWHERE = ("scikit-learn.md", "serving.md")
# Of the site alone, without code.
CODELESS = ("gallery.md",)
PAGES = sorted(page.name for page in DOCS.glob("*.md") if page.name not in (*ELSEWHERE, *CODELESS))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_top_to_bottom(page, monkeypatch, tmp_path, capsys):
    if page == "cluster.md":
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # what a page writes, it may import
    short = {"batch_size": 128, "max_epochs": 2}
    monkeypatch.setattr("sagpool.models.sagnet.lengths_for", lambda graphs: short)
    blocks = re.findall(r"^```(.*?)\n(.*?)^```$", (DOCS / page).read_text(), re.M | re.S)
    names: dict[str, object] = {}
    ran = 0
    for language, text in blocks:
        text = re.sub(r"max_epochs=\d+", "max_epochs=2", text)
        if language not in ("", "python"):
            continue
        if language:
            exec(compile(text, page, "exec"), names)
            ran += 1
            continue
        for command in re.findall(r"^(sagpool .*)$", text, re.M):
            monkeypatch.setattr(sys, "argv", shlex.split(command, comments=True))
            with pytest.raises(SystemExit) as ended:
                main()
            assert not ended.value.code, f"{command}: {capsys.readouterr().err}"
            ran += 1
    sys.modules.pop("model", None)  # of export.md
    assert ran


def test_the_classifier_learns_on_its_page(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    page = DOCS / "scikit-learn.md"
    text = page.read_text("utf-8").replace("max_epochs=60", "max_epochs=20")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, page.name, "exec"), names)
    assert names["scores"].mean() > 0.7  # always "mutagenic" would be 0.665
    assert sorted(path.name for path in (tmp_path / "mutagenic").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    assert "over three folds" in capsys.readouterr().out


def test_the_experiment_of_ones_own_is_a_valid_one():
    (text,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "bench.md").read_text(), re.S)
    experiment = read_experiment(text, "mine")
    assert experiment.settings_of("MUTAG", "sagpool-g")["lr"] == 1e-3
    assert experiment.grid_of("MUTAG", "gpool-h")["ratio"] == (0.5, 0.25)


def test_the_table_of_methods_is_complete():
    """There, `-sage` stands for sagpool-h-sage and sagpool-g-sage."""
    table = (DOCS / "bench.md").read_text("utf-8").split("## Methods\n")[1].split("\n\n")[0]
    named = set(re.findall(r"`([a-z0-9-]+)`", table))
    for method in methods():
        variant = re.sub("^sagpool-[hg]", "", method)
        assert named & {method, variant, f"sagpool-h{variant}"}, method
