"""The explorer in Chromium, if it is installed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sagpool.explain import Reason
from sagpool.explain.explained import Explained
from sagpool.explain.parts import ReasonSource, ShownNet
from sagpool.explain.trace import Level
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer import write_explorer

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def shown(explained: Explained) -> Explained:
    """Molecules, and one drawn as a graph, whose names are an attack."""
    classes = (EVIL, "yes")
    traces = [replace(trace, class_names=classes) for trace in explained.traces]
    labels = (EVIL, *traces[0].node_labels[1:])
    traces[0] = replace(traces[0], title=EVIL, molecule=None, node_labels=labels)
    return replace(explained, data=EVIL, traces=tuple(traces))


@pytest.fixture(scope="module")
def file(shown: Explained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explorer(shown, OutputFolder(tmp_path_factory.mktemp("explorer"), "explain"))


@pytest.fixture
def visit(open_page, file: Path) -> Callable[..., Any]:
    return lambda *arguments, **changes: open_page(*arguments, **{"file": file, **changes})


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "dark"), (899, "light"), (1280, "dark"), (2560, "light")]
)
def test_it_fits_and_asks_for_nothing(visit, file, width, scheme):
    here = visit(width, scheme, "#3")
    for view in ("graph", "list"):
        here.page.evaluate("(view) => { document.body.dataset.view = view; }", view)
        assert here.page.evaluate("document.documentElement.scrollWidth") <= width
        assert here.nameless == []
    assert here.complaints == []
    assert here.requests == [file.as_uri()]


def test_filters(visit, shown):
    here = visit()
    best = sorted(shown.traces, key=lambda trace: -trace.confidence)
    titles = [trace.title for trace in best]
    assert here.names == titles
    page = here.page
    for verdict in ("right", "wrong"):
        page.locator("#verdict").select_option(verdict)
        assert here.names == [t.title for t in best if t.correct == (verdict == "right")]
    page.locator("#verdict").select_option("")
    page.locator("#search").fill("cc(=o)NC")
    assert here.text("#count") == "1 of 7 graphs"
    page.locator("#reset").click()
    assert here.names == titles
    page.locator("#order").select_option("most nodes first")
    page.locator("#most-size").fill("13")
    sizes = [trace.num_nodes for trace in shown.traces if trace.num_nodes <= 13]
    assert [int(t.split()[0]) for t in page.locator(".size").all_inner_texts()] == sorted(
        sizes, reverse=True
    )
    page.locator("#reset").click()
    page.locator("#predicted").select_option("1")
    confident = f"{100 * best[2].confidence + 1e-4:.4f}"
    page.locator("#most-confidence").fill(confident)
    expected = [
        t.title for t in best if t.prediction == 1 and t.confidence * 100 <= float(confident)
    ]
    assert here.names == expected
    assert here.complaints == []


def test_keys(visit, shown):
    here = visit()
    best = [t.title for t in sorted(shown.traces, key=lambda trace: -trace.confidence)]
    page = here.page
    page.locator("#list").focus()
    page.keyboard.press("ArrowDown")
    assert here.text("#name") == best[1]
    page.keyboard.press("End")
    assert here.text("#name") == best[-1]
    page.keyboard.press("Home")
    assert here.text("#name") == best[0]
    assert here.text("#level-text").startswith("Level 1 of 3")
    page.keyboard.press("ArrowRight")
    assert here.text("#level-text").startswith("Level 2 of 3")
    page.keyboard.press("/")
    page.keyboard.type("no such graph")
    assert here.names == []
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    assert here.complaints == []


def test_a_molecule_and_its_atoms(visit, shown):
    here = visit(graph="#3")
    trace, page = shown.traces[3], here.page
    assert here.text("#name") == trace.title
    assert page.locator("#picture circle.node").count() == len(trace.levels[0].kept)
    letters = page.locator("#picture .letter").all_text_contents()
    assert {"Cl", "N", "⁺", "⁻"} <= set(letters)
    page.locator("#level").fill("0")
    assert page.locator("#picture circle.node").count() == 0
    assert here.text("#level-text") == "Input: 10 atoms"
    page.locator("#picture").focus()
    for node in range(trace.num_nodes):
        page.keyboard.press("ArrowRight")
        levels = [i for i, level in enumerate(trace.levels, 1) if node not in level.kept]
        end = f"left at level {levels[0]}" if levels else "kept to the end"
        said = here.text("#node")
        assert said.startswith(f"Atom {node} ({trace.node_labels[node]}): ")
        assert said.endswith(f"{end}.")
        if node in trace.levels[0].kept:
            score = trace.levels[0].score[trace.levels[0].kept.tolist().index(node)]
            assert f"score {score:.3f} at level 1".replace("-", "−") in said
    page.locator("#level").fill("1")
    page.locator("#picture circle.node").first.hover(force=True)
    assert here.text("#node").startswith(f"Atom {trace.levels[0].kept[0]} ")
    assert here.complaints == []


def test_the_effect_of_a_part_in_words(visit, shown):
    here = visit(graph="#3")
    effect, trace = shown.effects[3], shown.traces[3]
    first, kept, dropped, _ = here.page.locator("#parts p").all_inner_texts()
    name = trace.class_names[trace.prediction]
    assert first == f"Given the whole graph, “{name}” has {100 * trace.confidence:.1f} %."
    assert kept.startswith("Given only the 2 atoms that the last level keeps")
    assert f"{100 * effect.only_kept.probability:.1f} %" in kept
    assert dropped.startswith("Given only the other 8 atoms")
    assert f"{100 * effect.only_dropped.probability:.1f} %" in dropped


def test_names_from_data_are_text(visit):
    here = visit(graph="#0")
    page = here.page
    assert here.text("#name") == EVIL
    assert here.text("h1") == f"What sagpool-h keeps of {EVIL}"
    assert EVIL in here.text("#outputs")
    page.locator("#picture").focus()
    page.keyboard.press("ArrowRight")
    assert EVIL in here.text("#node")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert here.complaints == []


def test_a_phone_shows_the_list_or_a_graph(visit):
    here = visit(390)
    page = here.page
    assert page.locator("#list").is_visible()
    assert not page.locator("#picture").is_visible()
    page.locator(".row").nth(1).click()
    assert not page.locator("#list").is_visible()
    assert page.locator("#picture").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#list").is_visible()


def test_a_picture_can_be_saved(visit):
    page = visit(graph="#3").page
    with page.expect_download() as download:
        page.locator("#save").click()
    assert download.value.suggested_filename == "graph-3-level-1.svg"
    saved = Path(download.value.path()).read_text("utf-8")
    assert saved.startswith("<svg xmlns=")
    assert "Cl" in saved


REASONS = (
    Reason(EVIL, 4.0, -1.2, (1, 3)),
    Reason("nodes", 1234.5678, 0.5),
    Reason("charge", -0.0004, 0.1),
)


def _with_reasons(shown: Explained, **changes: object) -> Explained:
    source = ReasonSource(EVIL, 0.6, "log-odds")
    few = [replace(trace, reasons=REASONS, reasons_of=source, **changes) for trace in shown.traces]
    return replace(shown, traces=tuple(few))


def test_reasons_without_levels(visit, shown, tmp_path):
    simple = replace(
        _with_reasons(shown, levels=()), fidelity=None, effects=(None,) * len(shown.traces)
    )
    here = visit(390, graph="#3", file=write_explorer(simple, OutputFolder(tmp_path, "explain")))
    page = here.page
    assert page.title() == f"What {EVIL} counts in {EVIL}"
    first, second, third = page.locator("#reasons li").all()
    assert first.inner_text().split("\n") == [EVIL, "4", "−1.2"]
    assert second.inner_text().split("\n") == ["nodes", "1,230", "+0.5"]
    assert third.inner_text().split("\n") == ["charge", "−0.0004", "+0.1"]
    assert page.locator("#picture .mark").count() == 0
    first.focus()
    assert page.locator("#picture .mark").get_attribute("d").count("M") == 2
    page.locator("#picture").focus()
    assert page.locator("#picture .mark").count() == 0
    first.hover()
    assert page.locator("#picture .mark").count() == 1
    page.locator("#picture").focus()
    page.keyboard.press("ArrowRight")
    assert here.text("#node") == f"Atom 0 ({shown.traces[3].node_labels[0]})."
    assert not page.locator("#level").is_visible()
    assert not page.locator("#parts-section").is_visible()
    text = here.text("body")
    assert "kept" not in text
    assert "dropped" not in text
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert here.nameless == []
    assert here.complaints == []


def test_a_net_that_was_outvoted(visit, shown, tmp_path):
    """What is said about parts of the graph is about the net, and says so."""
    net = ShownNet("gin", 0.4, 1, shown.traces[3].probabilities[::-1])
    mixed = _with_reasons(shown, net=net)
    page = visit(graph="#3", file=write_explorer(mixed, OutputFolder(tmp_path, "explain"))).page
    told = page.locator("#parts p").all_inner_texts()
    assert told[0].startswith("Given the whole graph, the prediction by gin alone is “")
    assert len(told) == 2
    page.locator("summary").click()
    assert "gin, which has a weight of 0.4 in the model;" in page.locator(".trust").inner_text()
    assert page.locator("#level").is_visible()
    assert page.locator("#reasons li").count() == 3


def test_a_switch_between_masks(visit, shown, tmp_path):
    """Two masks that keep the two halves of what a level keeps."""

    def halves(level):
        middle = len(level.kept) // 2
        parts = (slice(None, middle), slice(middle, None))
        return Level.of_masks([Level(level.kept[part], level.score[part]) for part in parts])

    one = shown.traces[0]
    trace = replace(one, levels=tuple(map(halves, one.levels)))
    masked = replace(shown, traces=(trace,), effects=shown.effects[:1], total=1)
    folder = OutputFolder(tmp_path / "page", "explain")
    here = visit(file=write_explorer(masked, folder))
    page, first = here.page, trace.levels[0]
    assert here.text("#level-text") == f"Level 1 of 3: {len(first.kept)} of {one.num_nodes} kept"
    sentences = here.text("#parts")
    page.locator("#picture").focus()
    page.keyboard.press("Home")
    kept = page.locator("#picture .node")
    for number, mask in enumerate(first.masks, 1):
        page.locator("#mask").select_option(str(number))
        told = f"Level 1 of 3, mask {number}: {len(mask.kept)} of {one.num_nodes} kept"
        assert here.text("#level-text") == told
        assert kept.count() == len(mask.kept)
        assert f"mask {number}: " in here.text("#node")
        left = first.masks[number - 1].kept
        assert ("left at level 1" in here.text("#node")) == (0 not in left)
        assert here.text("#parts") == sentences, "those of all masks together"
    with page.expect_download() as saved:
        page.locator("#save").click()
    assert saved.value.suggested_filename == "graph-0-level-1-mask-2.svg"
    page.locator("#mask").select_option("all")
    assert kept.count() == len(first.kept)
    assert here.nameless == []
    assert here.complaints == []


def test_one_mask_needs_no_switch(visit):
    assert not visit().page.locator("#mask-field").is_visible()
