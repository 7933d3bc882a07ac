"""Sections are added through one list; methods of any name are reported."""

import csv
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from torch import nn

from sagpool.models import Shape, registry
from sagpool.report import canvas, write_report
from sagpool.report.colours import colour
from sagpool.report.content import Content, read_content
from sagpool.report.picture import Drawing
from sagpool.report.runs import runs_behind
from sagpool.report.section import Part, Section
from sagpool.report.sections import SECTIONS
from sagpool.report.sections.accuracy import draw_accuracy
from sagpool.report.sections.costs import costs_of, draw_costs
from sagpool.report.sections.curves import draw_curves
from sagpool.report.sections.curves import section as curves_section
from sagpool.report.table import listing, method, numbers, words


# CONTRIBUTING.md quotes this function.
def section(content: Content) -> Section:
    cells = content.shown
    columns = [
        words("data set", [content.label(s.cell.dataset) for s in cells]),
        words("method", [method(s.cell.method) for s in cells]),
        numbers("epochs", [s.epochs for s in cells], ".1f"),
    ]
    records = [
        {"dataset": s.cell.dataset, "method": s.cell.method, "epochs": s.epochs} for s in cells
    ]
    table = listing("epochs", "Mean number of epochs of a training.", columns, records)
    return Section("epochs", "How long the trainings ran", [Part(table=table)])


def section_with_figure(content: Content) -> Section:
    figure, ax = canvas.new_panel("Epochs", 1.5)
    ax.hist([run.epochs for run in content.runs])
    drawing = Drawing("histogram", "Epochs of all trainings", figure)
    return Section("histogram", "Histogram", [Part(drawings=[drawing])])


def empty_section(_: Content) -> Section:
    return Section("empty", "Nothing to show", [])


def test_a_section_is_added_by_adding_it_to_the_list(make, made, tmp_path, monkeypatch):
    store = make(made(), made(method="hubpool-h"))
    folder = tmp_path / "report"
    with monkeypatch.context() as patch:
        added = [section, empty_section, section_with_figure]
        patch.setattr("sagpool.report.write.SECTIONS", [*added, *SECTIONS])
        page = write_report(store, folder).read_text()
    assert '<li><a href="#epochs">How long the trainings ran</a></li>' in page
    assert "<td>hubpool<sub>h</sub></td>" in page.split("</section>")[0]
    with (folder / "tables" / "epochs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["sagpool-h", "hubpool-h"]
    assert (folder / "tables" / "epochs.md").read_text().startswith("Mean number of epochs")
    assert (folder / "figures" / "histogram.png").is_file()
    assert 'aria-label="Epochs of all trainings"' in page
    assert "Nothing to show" not in page

    write_report(store, folder)  # without the new sections
    assert not list(folder.rglob("epochs.*")) + list(folder.rglob("histogram.*"))


def test_a_registered_plugin_is_counted_with_the_other_methods(make, made, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))

    @registry.register("hubpool-h", version="1")
    def wide(shape: Shape) -> nn.Module:
        return registry.build("gpool-h", replace(shape, hidden=500, settings={}))

    folder = write_report(make(made(method="hubpool-h")), tmp_path / "report").parent
    drawn = (folder / "figures" / "parameters.svg").read_text()
    assert "hubpool-h" in drawn
    assert colour("hubpool-h") in drawn


@pytest.mark.parametrize(
    ("stopping", "best", "solid"),
    [
        ("loss", "the lowest validation loss,", "validation loss"),
        ("loss+norm", "the lowest validation loss plus norm,", "validation loss + norm"),
        ("roc_auc", "the highest validation roc auc,", "negative validation roc auc"),
    ],
)
def test_curves_say_by_what_the_trainings_stopped(make, made, stopping, best, solid):
    content = read_content(make(made(settings={"stopping": stopping})))
    text = " ".join(curves_section(content).intro)
    assert f"dots are the epochs with {best} whose weights" in text
    assert ("of the predictions alone" in text) == (stopping == "loss")
    (runs,) = runs_behind(content).values()
    assert runs["curve"]["solid"] == solid


def test_figures_draw_on_axes_of_the_caller(rich_store):
    content = read_content(rich_store)
    here = content.of("FIRST")
    axes = Figure().subplots(2, 2).flat
    draw_accuracy(axes[0], here, content.majority(here))
    draw_costs(axes[1], costs_of(here))
    draw_curves(axes[2], axes[3], here, [content.curves[s.runs[0].key] for s in here])
    assert [tick.get_text() for tick in axes[0].get_yticklabels()] == [s.cell.method for s in here]
    assert [ax.get_xlabel() for ax in axes] == [
        *("test accuracy in %", "times sagpool-h", "", "epoch")
    ]
