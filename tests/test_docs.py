"""The commands of the documentation run as they stand."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from sagpool.bench.experiment_file import read_experiment
from sagpool.cli.main import main

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = {
    page.name: [
        line.split("#")[0].strip()
        for block in re.findall(r"```\n(.*?)```", page.read_text(), re.S)
        for line in block.splitlines()
        if line.startswith("sagpool ")
    ]
    for page in sorted(DOCS.glob("*.md"))
}


@pytest.mark.parametrize("page", COMMANDS)
def test_the_commands_of_a_page_run_one_after_the_other(page, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert COMMANDS[page]
    for command in COMMANDS[page]:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, f"{command}: {capsys.readouterr().err}"


def test_the_experiment_of_ones_own_is_a_valid_one():
    (text,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "bench.md").read_text(), re.S)
    experiment = read_experiment(text, "mine")
    assert experiment.settings_of("MUTAG", "sagpool-g")["lr"] == 1e-3
    assert experiment.grid_of("MUTAG", "gpool-h")["ratio"] == (0.5, 0.25)
