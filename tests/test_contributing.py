"""CONTRIBUTING.md is true: its recipes work as they stand there, its walks name what runs."""

import re
import sys
from pathlib import Path

import pytest
import torch

import sagpool
from sagpool import load
from sagpool.bench import run_experiment
from sagpool.classifier import fit
from sagpool.classifier.candidates import NetCandidate
from sagpool.fleet import Training, train
from sagpool.fleet.lockstep import Lockstep
from sagpool.graphs import pack
from sagpool.graphs.record_files import FORMATS
from sagpool.models import Shape, build, methods, registry
from sagpool.report import write_report
from sagpool.report.sections import SECTIONS

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
PACKAGE = Path(sagpool.__file__).parent


def section(heading: str) -> str:
    return re.search(rf"^## {heading}\n(.*?)(?=^## )", PAGE, re.M | re.S)[1]


def run_blocks(heading: str) -> dict[str, object]:
    """All names after the Python blocks of a section have run."""
    names: dict[str, object] = {"__name__": "example"}
    for block in re.findall(r"^```python\n(.*?)^```", section(heading), re.M | re.S):
        exec(compile(block, f"CONTRIBUTING.md, {heading}", "exec"), names)
    return names


@pytest.fixture
def hubpool(monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    # The code of a page has no source file, of which a version could be made.
    monkeypatch.setattr(registry, "source_version", lambda name, build: "page")
    return run_blocks("Add a pooling method")


def test_the_method_is_like_any_other(hubpool):
    """A step of training on MUTAG with two members, which keep half of the nodes three times."""
    assert "hubpool-h" in methods()
    graphs = sagpool.load("MUTAG")
    batch = pack(graphs, [range(20), range(20, 40)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build("hubpool-h", Shape(graphs.num_features, 2, hidden=32, members=2)).train()

    output = model(batch)

    loss = torch.nn.functional.cross_entropy(output.logits[batch.real], batch.y[batch.real])
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert all(pool.linear.weight.grad.abs().amax((1, 2)).min() > 0 for pool in model.pools)
    sizes = batch.structure.layout.sizes[:, :-1]
    for level in output.levels:
        sizes = -(-sizes // 2)
        assert (level.structure.layout.sizes[:, :-1] == sizes).all()


def test_its_setting_reaches_the_layer(hubpool):
    model = build("hubpool-h", Shape(7, 2, hidden=8, settings={"temperature": 3}))
    assert [pool.temperature for pool in model.pools] == [3.0] * 3


def test_the_method_leaves_no_trace():
    assert "hubpool-h" not in methods()


def test_the_format_can_be_loaded(tmp_path):
    for suffix in run_and_undo(FORMATS, "Add a file format"):
        path = tmp_path / f"graphs{suffix}"
        path.write_text("ring 0-1 1-2 2-0\nline 0-1\n")
        graphs = load(path)
        assert graphs.node_counts.tolist() == [3, 2]
        assert graphs.class_names == ("line", "ring")


def run_and_undo(table, heading):
    before = dict(table)
    try:
        run_blocks(heading)
        yield from table.keys() - before.keys()
    finally:
        table.clear()
        table.update(before)


def test_the_section_is_in_the_report(tmp_path):
    run_experiment(
        "quick",
        datasets=["MUTAG"],
        methods=["sagpool-h"],
        seeds=1,
        folds=2,
        settings={"max_epochs": 2, "hidden": 8},
        store=tmp_path / "runs.sqlite",
        device="cpu",
    )
    before = list(SECTIONS)
    try:
        run_blocks("Add a section to the report")
        page = write_report(tmp_path / "runs.sqlite", tmp_path / "report")
    finally:
        SECTIONS[:] = before
    assert "How long the trainings ran" in page.read_text("utf-8")
    assert (tmp_path / "report" / "tables" / "epochs.csv").exists()


def files_named(heading: str) -> set[str]:
    return set(re.findall(r"`((?:\w+/)+\w+\.py)`", section(heading)))


class Files:
    """The files of the package whose functions are called."""

    def __init__(self):
        self.seen: set[str] = set()

    def __enter__(self):
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def note(self, frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            self.seen.add(path.relative_to(PACKAGE).as_posix())


def test_a_training_step_is_in_the_few_files_of_the_map(monkeypatch):
    step, files = Lockstep._step_in_parts, Files()

    def watched(*arguments):
        with files:
            return step(*arguments)

    monkeypatch.setattr(Lockstep, "_step_in_parts", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # one fleet
    try:
        train(load("MUTAG"), [Training("sagpool-h", hidden=8, max_epochs=1, batch_size=64)])
    finally:
        torch.set_num_threads(before)
    assert files.seen == files_named("One training step, file by file")
    assert len(files.seen) <= 21


def test_a_prediction_is_in_the_files_of_the_map():
    graphs = load("MUTAG", "all")
    net = NetCandidate("sagpool-h", Training("sagpool-h", hidden=8, max_epochs=1))
    model = fit(graphs, candidates=[net], folds=2).model
    new = graphs[list(range(10, 30))]
    files = Files()
    with files:
        model.predict_proba(new)
    both = files_named("One prediction, file by file") | files_named(
        "One training step, file by file"
    )
    assert files.seen <= both
    assert files_named("One prediction, file by file") <= files.seen
