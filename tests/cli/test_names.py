"""Names of data sets, methods and molecules that mean something in another language."""

import json

import pytest

EXPERIMENT = """
title: Odd names
datasets:
  '[/red]': {source: MUTAG}
  'C:\\data\\new': {source: MUTAG}
  ':smile: [bold]': {source: MUTAG}
tables:
  all:
    datasets: ['[/red]', 'C:\\data\\new', ':smile: [bold]']
    methods: [sagpool-h]
protocol: {seeds: 1, folds: 2, max_epochs: 2, hidden: 4}
"""
NAMES = ["[/red]", "C:\\data\\new", ":smile: [bold]"]


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_brackets_and_backslashes_are_printed_as_they_are(sagpool, experiment, tmp_path):
    ended = sagpool("bench", experiment, "--device", "cpu")
    assert ended.code == 0, ended.err
    for number, name in enumerate(NAMES, 1):
        assert f"[{number}/3] {name} sagpool-h: done" in ended.err
        assert any(line.startswith(f"{name} ") for line in ended.out.splitlines())
    ended = sagpool("report", "runs.sqlite", "-o", "report")
    assert ended.code == 0, ended.err
    page = (tmp_path / "report" / "report.html").read_text()
    for name in NAMES:
        assert f'aria-label="Test accuracies on {name};' in page


def test_a_table_of_data_sets_with_brackets(sagpool, small, tmp_path):
    folder = small.folder.rename(tmp_path / "[red]")
    for file in folder.iterdir():
        file.rename(folder / file.name.replace("SMALL_", "[red]_"))
    ended = sagpool("data", folder)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[2].startswith("[red] ")


def test_training_on_a_file_with_brackets(sagpool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [{"nodes": ["a", "b"], "edges": [[0, 1]], "label": i % 2} for i in range(20)]
    (tmp_path / "[bold] :smile:.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ("--quick", "--folds", 2, "--set", "max_epochs=2", "--device", "cpu")
    ended = sagpool("train", "[bold] :smile:.jsonl", "-o", "model", *options)
    assert ended.code == 0, ended.err
    assert "Graphs([bold] :smile:: 20 graphs" in ended.err
