import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from sagpool.bench.run_table import read_runs
from sagpool.bench.store import Store
from sagpool.bench.summary import summarise
from sagpool.bench.variants import group_cells
from sagpool.models import registry
from sagpool.report import write_report
from sagpool.report.canvas import add_dots
from sagpool.report.sections.curves import VALIDATION, median_curve
from sagpool.report.sections.parameters import SIZES, alike, count_all
from sagpool.report.sections.sensitivity import effects


def curve_of(*losses):
    return np.tile(np.array(losses, float), (3, 1))


def test_the_median_curve_ends_where_fewer_than_half_of_the_runs_are_left():
    runs = [curve_of(5, 4, 3, 2, 1), curve_of(5, 2), curve_of(1, 6, 5), curve_of(3, 4, 9, 8)]
    curve = median_curve(runs, VALIDATION)
    np.testing.assert_allclose(
        curve.middle, [4, 4, 5, 5]
    )  # one run of four reaches the fifth epoch
    assert (curve.low <= curve.middle).all()


def test_the_median_curve_ignores_losses_that_are_not_finite():
    runs = [curve_of(np.nan, 2, np.inf), curve_of(np.nan, 4, 3)]
    np.testing.assert_allclose(median_curve(runs, VALIDATION).middle, [np.nan, 3, 3])


def test_a_setting_that_was_run_more_often_has_no_more_weight(make, made):
    """Three settings: (0.01, 16), (0.01, 32), (0.001, 16); the first has more seeds."""
    store = make(
        made(settings={"lr": 0.01, "hidden": 32}, seeds=1, accuracy=(60.0,) * 5),
        made(settings={"lr": 0.001, "hidden": 16}, seeds=1, accuracy=(50.0,) * 5),
        made(settings={"lr": 0.001, "hidden": 16, "max_epochs": 9}, accuracy=(10.0,) * 10),
        made(settings={"lr": 0.01, "hidden": 16}, seeds=3, accuracy=(70.0,) * 5 + (0.0,) * 10),
    )
    with Store.reading(store) as opened:
        runs = read_runs(opened)
        (summary,) = group_cells(summarise(opened.cells(), runs))[0].cells
        lr, hidden = effects(summary, runs)
    assert (lr.setting, hidden.setting) == ("lr", "hidden")
    np.testing.assert_allclose(lr.values, [0.001, 0.01])
    np.testing.assert_allclose(lr.accuracy, [50, 65])
    np.testing.assert_allclose(hidden.values, [16, 32])
    np.testing.assert_allclose(hidden.accuracy, [60, 60])


def effects_in(store):
    with Store.reading(store) as opened:
        runs = read_runs(opened)
        cells = group_cells(summarise(opened.cells(), runs))[0].cells
        return [
            (effect.method, effect.setting, effect.values, [round(a) for a in effect.accuracy])
            for summary in cells
            for effect in effects(summary, runs)
        ]


@pytest.fixture
def searched(made):
    """Cells with one seed each and these accuracies; a search has ranked all of them."""

    def new(method, accuracy, name, values, **others):
        every = [{"method_settings": ((name, value),)} for value in values]
        for other, some in others.items():
            every = [one | {other: value} for one, value in zip(every, some, strict=True)]
        cells = [
            made(method=method, settings=one, seeds=1, accuracy=(mean,) * 5)
            for one, mean in zip(every, accuracy, strict=True)
        ]
        return [*cells[:-1], replace(cells[-1], candidates=tuple(every[::-1]))]

    return new


CONVS = {"values": ("gin", "gcn", "gin", "gcn"), "lr": (0.01, 0.01, 0.1, 0.1)}


def test_settings_of_a_method_that_a_search_varied(make, searched):
    """Of words and of numbers; the defaults, ``gcn`` and 1, are not in the store."""
    cells = searched("gpool-h", (70.0, 50.0, 60.0, 40.0), "conv", **CONVS)
    hops = searched("kmis-h", (50.0, 60.0, 70.0), "hops", (3, 1, 2))
    assert effects_in(make(*cells, *hops)) == [
        ("gpool-h", "lr", [0.01, 0.1], [60, 50]),
        ("gpool-h", "conv", ["gcn", "gin"], [45, 65]),
        ("kmis-h", "hops", [1, 2, 3], [60, 70, 50]),
    ]


def test_the_default_of_a_method_that_is_not_loaded_is_not_known(make, searched, monkeypatch):
    store = make(*searched("kmis-h", (50.0, 60.0, 70.0), "hops", (3, 1, 2)))
    # A copy: an entry that is deleted and restored is the last one, and reports follow the order.
    others = {name: one for name, one in registry._methods.items() if name != "kmis-h"}
    monkeypatch.setattr(registry, "_methods", others)
    assert effects_in(store) == [("kmis-h", "hops", [2, 3, None], [70, 50, 60])]


def test_settings_of_a_method_that_no_search_varied_have_no_effect(make, made):
    """The cells may differ in more than these, and each has a row of its own."""
    own = [{"method_settings": (("conv", conv),)} for conv in ("gcn", "gin")]
    assert effects_in(make(*(made(method="gpool-h", settings=one) for one in own))) == []


def test_effects_of_words_are_drawn(make, searched, tmp_path):
    accuracy = (70.0, 50.0, 60.0, 40.0)
    cells = [
        one
        for method in ("gpool-h", "sagpool-h")
        for one in searched(method, accuracy, "conv", **CONVS)
    ]
    page = write_report(make(*cells), tmp_path / "report").read_text()
    for name in ("lr", "conv"):
        assert (tmp_path / f"report/figures/sensitivity-MADE-{name}.png").is_file()
    assert "Validation accuracy on MADE against conv, from 40 trainings" in page


def test_only_the_parameters_of_clusters_grow_with_the_graphs():
    groups = alike(count_all())
    growing = [g for g in groups if len(set(g[0].parameters[0.5])) > 1]
    clusters = {"diffpool-h", "mincut-h", "dmon-h", "justbalance-h", "hosc-h"}
    assert {one.method for group in growing for one in group} == clusters
    assert growing[0][0].method == "diffpool-h"
    (together,) = [g for g in groups if "sagpool-h" in [one.method for one in g]]
    assert "gpool-h" in [one.method for one in together]
    diffpool = growing[0][0].parameters
    assert diffpool[0.5][-1] > diffpool[0.25][-1] > diffpool[0.25][0]
    assert len(diffpool[0.5]) == len(SIZES)


@pytest.mark.parametrize(
    "name", ["accuracy-FIRST", "curves-FIRST-global", "kept-FIRST-0-sagpool-h"]
)
def test_figure_files_are_named_after_their_content(rich, name):
    assert (rich / "figures" / f"{name}.svg").is_file()


@pytest.mark.parametrize("count", [3, 200])
def test_every_dot_is_drawn(count):
    figure = Figure(figsize=(4, 3), dpi=200)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set(xlim=(0, 100), ylim=(13, 0))
    x, y = np.random.default_rng(0).uniform([[5], [1]], [[95], [12]], (2, count))
    add_dots(ax, x, y, "#000000")
    png = io.BytesIO()
    figure.savefig(png, format="png")
    png.seek(0)
    shade = imread(png)[::-1, :, 0]  # [pixels upwards, pixels across]
    across, up = ax.transData.transform(np.stack([x, y], 1)).astype(int).T
    assert (shade[up, across] < 0.7).all()
