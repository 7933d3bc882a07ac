"""Names, colours and order of methods as the reader wants them; results published by others."""

import pytest

from sagpool.bench.experiment_file import read_experiment
from sagpool.errors import SagpoolError
from sagpool.models import Display, registry
from sagpool.report import names, write_report
from sagpool.report.colours import colour
from sagpool.report.content import read_content

TEXT = """
datasets: {MADE: }
tables: {all: {methods: [sagpool-h, gpool-h]}}
protocol: {folds: 5}
"""


@pytest.fixture
def own_method(monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    build = registry.find_method("gpool-h").build
    own = Display("HubPool", "#123456")
    registry.register("hub-h", version="1", display=own)(lambda shape: build(shape))


def test_a_registered_method_has_its_name_and_colour(make, made, own_method, tmp_path):
    store = make(made(method="hub-h", mean=80), made(method="sagpool-h", mean=60))
    page = write_report(store, tmp_path / "report").read_text()
    assert "<strong>HubPool</strong> has the highest mean" in page
    assert "#123456" in (tmp_path / "report/figures/accuracy-MADE.svg").read_text()
    assert "HubPool" in (tmp_path / "report/figures/accuracy-MADE.svg").read_text()
    assert "hub-h" in (tmp_path / "report/tables/results.csv").read_text(), "files for machines"
    assert names.plain("hub-h") == "hub_h", "in a report alone"
    assert colour("hub-h") != "#123456"


def test_an_experiment_file_decides_about_names_colours_and_order(make, made, own_method, tmp_path):
    display = (
        'display: {random-h: {name: Dice}, hub-h: {name: Hub}, sagpool-h: {colour: "#00aa00"}}'
    )
    experiment = read_experiment(TEXT + display, "mine")
    order = ("sagpool-h", "gpool-h", "hub-h", "random-h")
    content = read_content(make(*(made(method=m) for m in order)), experiment)
    assert [s.method for s in content.shown] == ["random-h", "hub-h", "sagpool-h", "gpool-h"]
    assert content.display["hub-h"] == Display("Hub", "#123456")
    with names.displayed(content.display, content.first):
        assert names.html("random-h, ratio 0.25") == "Dice, ratio 0.25"
        assert names.tex("random-h") == "Dice"
        assert names.label("sagpool-h") == "sagpool-h"
        assert colour("sagpool-h") == "#00aa00"


def test_methods_of_one_name_are_told_apart(make, made, own_method, tmp_path):
    display = "display: {random-h: {name: Mine}, hub-h: {name: Mine}, sagpool-h: {name: Other}}"
    store = make(*(made(method=m) for m in ("sagpool-h", "hub-h", "random-h")))
    write_report(store, tmp_path / "report", read_experiment(TEXT + display, "mine"))
    text = (tmp_path / "report/tables/results.md").read_text()
    for name in ("hub-h (Mine)", "random-h (Mine)", "Other"):
        assert f"| {name} |" in text


def test_results_of_others_have_a_table_of_their_own(make, made, tmp_path):
    others = 'published: {elsewhere: {"GIN (Xu, 2019)": {MADE: [89.4, 5.6]}, WL: {MADE: 82.1}}}'
    store = make(made(method="sagpool-h"), made(method="gpool-h"))
    report = write_report(store, tmp_path / "report", read_experiment(TEXT + others, "mine"))
    page = report.read_text()
    assert "Published by others" in page
    assert "these figures are not compared with ours" in page
    text = (tmp_path / "report/tables/elsewhere.md").read_text()
    assert "| GIN (Xu, 2019) | 89.40 ± 5.60 |" in text
    assert "| WL | 82.10 |" in text
    assert "GIN" not in (tmp_path / "report/tables/results.md").read_text()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("display: {sagpol-h: {}}", "display has no 'sagpol-h'; did you mean"),
        ("display: {sagpool-h: {colour: red}}", "A colour is written as #1f78c8, not 'red'"),
        ("display: {sagpool-h: {size: 3}}", "display.sagpool-h has no 'size'"),
        ("published: {elsewhere: {GIN: {NONE: 3}}}", "published.elsewhere.GIN has no 'NONE'"),
        ("published: {elsewhere: {GIN: {MADE: 300}}}", "must be in percent, not 300"),
        ("published: {elsewhere: {GIN: {MADE: [1, 2, 3]}}}", "must be a mean, or"),
    ],
)
def test_wrong_entries_are_named(text, sentence):
    with pytest.raises(SagpoolError, match=sentence):
        read_experiment(TEXT + text, "mine")
