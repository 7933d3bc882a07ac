"""The examples of the README run as they stand."""

import re
from pathlib import Path

import pytest

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
