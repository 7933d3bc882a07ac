"""The section about the time of the device."""

import csv

import numpy as np
import pytest
from matplotlib.figure import Figure

from sagpool.bench.records import DeviceTime
from sagpool.bench.store import Store
from sagpool.fleet.profile import KINDS, WAITING
from sagpool.report import colours, write_report
from sagpool.report.sections.profile import draw_time

FRACTIONS = {
    "steps": [0.2, 0.8],
    "evaluation": [0.1, 0.0],
    "compiling": [0.4, 0.0],
    "recording": [0.1, 0.0],
    "waiting": [0.2, 0.2],
}


@pytest.fixture
def store(make, made):
    path = make(made())
    with Store.writing(path) as store:
        store.add_profile(1, DeviceTime(30.0, 1, FRACTIONS, [10, 50]))
        for number, models in ((2, [0, 0]), (3, [5, 6])):
            store.begin("sagpool bench", f"experiment {number}", "a CPU", {})
            store.add_profile(number, DeviceTime(900.0, 2, FRACTIONS, models))
    return path


def test_the_page_has_a_figure_and_a_table_for_each_command_that_trained(store, tmp_path):
    page = write_report(store, tmp_path / "report")
    text = page.read_text()
    assert '<section id="profile">' in text
    assert "Of 30 s, the device spent 50 % on steps, 5 % on evaluation, 20 % on compiling" in text
    figures = {path.name for path in (page.parent / "figures").glob("profile-*.png")}
    assert figures == {"profile-1.png", "profile-3.png"}  # the second one trained nothing
    with open(page.parent / "tables" / "profile-3.csv") as file:
        rows = {row["kind"]: (float(row["seconds"]), float(row["percent"]))
                for row in csv.DictReader(file)}  # fmt: skip
    assert list(rows) == list(FRACTIONS)
    assert rows["steps"] == pytest.approx((900, 50))
    assert sum(seconds for seconds, _ in rows.values()) == pytest.approx(1800)


def test_without_a_profile_there_is_no_section(make, made, tmp_path):
    page = write_report(make(made()), tmp_path / "report")
    assert 'id="profile"' not in page.read_text()


@pytest.mark.parametrize(("seconds", "unit", "last"), [(30, "seconds", 30), (900, "minutes", 15)])
def test_the_axes(seconds, unit, last):
    stack, rate = Figure().subplots(2)
    draw_time(stack, rate, DeviceTime(seconds, 1, FRACTIONS, [10, 50]))
    assert rate.get_xlabel() == unit
    assert stack.get_xlim() == (0, last)
    tops = [patch.get_data().values.tolist() for patch in stack.patches]
    assert np.allclose(tops, np.cumsum(list(FRACTIONS.values()), 0) * 100)
    (models,) = rate.patches
    assert np.allclose(models.get_data().values, np.array([10, 50]) * 2 / seconds)


def test_every_kind_has_a_colour():
    assert list(colours.KINDS) == [*KINDS, WAITING]
    assert len(set(colours.KINDS.values())) == len(colours.KINDS)
