"""The examples of the README run as they stand."""

import re
from pathlib import Path

import pytest

from sagpool.bench import load_experiment

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"## ([^\n]+)\n(?:(?!## ).)*?```python\n(.*?)```", README.read_text(), re.S)


def test_there_are_three_examples():
    assert [title for title, _ in EXAMPLES] == ["A layer", "A comparison", "Your own graphs"]


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_example_runs(title, code, capsys):
    exec(compile(code, f"README.md, {title}", "exec"), {})
    printed = capsys.readouterr().out
    expected = {
        "A layer": "tensor(",
        "A comparison": "gpool-h: ",
        "Your own graphs": "training accuracy",
    }
    assert expected[title] in printed


def test_the_size_of_the_comparison():
    words = {5: "five", 6: "six", 7: "seven", 8: "eight"}
    paper = load_experiment("lee2019")
    main, variants, controls = (paper.tables[n].methods for n in ("table3", "table4", "controls"))
    others = set(variants) - set(main)
    assert (
        f"{words[len(paper.datasets)]} data sets, {words[len(main)]} methods, "
        f"{words[len(others)]} variants and {words[len(controls)]} controls, "
        f"{paper.seeds} seeds × {paper.protocol['folds']} folds"
    ) in README.read_text()
