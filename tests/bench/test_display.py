"""The results of an experiment in notebooks."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from sagpool.bench import run_experiment

ODD = "<script>alert(1)</script>"


@pytest.fixture
def result(small, tmp_path, pretend):
    return run_experiment(small, store=tmp_path / "runs.sqlite", engine=pretend)


def test_a_row_for_each_cell(result):
    root = ElementTree.fromstring(result._repr_html_())
    heads = ["".join(cell.itertext()) for cell in root.iter("th")]
    rows = [["".join(cell.itertext()) for cell in row.iter("td")] for row in root.iter("tr")][1:]
    assert heads[:4] == ["data set", "method", "runs", "accuracy"]
    assert "paper" in heads
    for row, summary in zip(rows, result.summaries, strict=True):
        assert row[:2] == [summary.cell.dataset, summary.cell.method]
        assert f"{summary.spread.mean:.2f}" in row
    assert "2 cells, 8 trainings" in repr(result)
    assert len(repr(result).splitlines()) == 3


def test_names_stay_text(result):
    odd = [replace(s, cell=replace(s.cell, dataset=ODD)) for s in result.summaries]
    root = ElementTree.fromstring(replace(result, summaries=tuple(odd))._repr_html_())
    assert not list(root.iter("script"))
    assert ODD in "".join(root.itertext())


def test_a_column_without_values_is_left_out(result):
    cells = [replace(s, cell=replace(s.cell, paper_mean=None)) for s in result.summaries]
    assert ">paper<" not in replace(result, summaries=tuple(cells))._repr_html_()


def test_without_a_summary(result):
    assert "0 trainings" in replace(result, summaries=())._repr_html_()
