"""The page of a regression, and that of one of several tasks, in Chromium if it is installed."""

from dataclasses import replace
from pathlib import Path

import pytest

from sagpool.explain.effects import Effect, PartNumber
from sagpool.explain.explained import Explained
from sagpool.explain.fidelity import fidelity_of
from sagpool.explain.numbers import PredictedNumbers
from sagpool.explain.target import Target
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer import write_explorer

NAMES = ("logp", "<b>size</b>")
VALUES = (1.25, -3.5, 0.004, 12.5, 2.0, -0.001, 7.0)
TRUTH = (1.0, -2.0, None, 12.0, 6.0, 0.0, 7.25)


@pytest.fixture(scope="module")
def regression(explained: Explained) -> Explained:
    """Seven molecules with two numbers each; of one, the first was not measured."""
    traces, effects = [], []
    rows = zip(explained.traces, explained.effects, VALUES, TRUTH, strict=True)
    for trace, effect, value, truth in rows:
        numbers = PredictedNumbers(
            NAMES, (value, 1e-8), ((value - 1, value + 1), None), (truth, 2e-8), 0
        )
        nothing = {"class_names": (), "true_class": None, "probabilities": trace.probabilities[:0]}
        traces.append(replace(trace, **nothing, net=None, target="logp", numbers=numbers))
        parts = (PartNumber(value - 2.5, -2.5), PartNumber(value + 0.5, 0.5))
        effects.append(None if effect is None else Effect(*parts))
    return replace(
        explained,
        target=Target("regression", NAMES),
        traces=tuple(traces),
        effects=tuple(effects),
        fidelity=fidelity_of(traces, effects),
    )


@pytest.fixture(scope="module")
def file(regression: Explained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_explorer(regression, OutputFolder(tmp_path_factory.mktemp("page"), "explain"))


def test_orders(open_page, file, regression):
    here = open_page(file=file)

    def titles(key, *, reverse: bool) -> list[str]:
        return [t.title for t in sorted(regression.traces, key=key, reverse=reverse)]

    def error(trace, unknown: float) -> float:
        return unknown if trace.numbers.error is None else trace.numbers.error

    assert here.names == titles(lambda t: t.numbers.value, reverse=True)
    expected = {
        "lowest prediction first": titles(lambda t: t.numbers.value, reverse=False),
        "largest error first": titles(lambda t: error(t, -1), reverse=True),
        "smallest error first": titles(lambda t: error(t, 99), reverse=False),
    }
    for order, names in expected.items():
        here.page.locator("#order").select_option(order)
        assert here.names == names
    here.page.locator("#order").select_option("changes most given only the kept nodes")
    whole = [t.title for t, e in zip(regression.traces, regression.effects, strict=True) if not e]
    assert here.names[-len(whole) :] == whole
    assert here.complaints == []


def test_filters(open_page, file):
    here = open_page(file=file)
    page = here.page
    for gone in ("#predicted", "#true", "#verdict", "#most-confidence"):
        assert page.locator(gone).count() == 0
    page.locator("#least-value").fill("0")
    page.locator("#most-value").fill("2")
    assert page.locator("#list .confidence").all_inner_texts() == ["2.00", "1.25", "0.00"]
    page.locator("#least-error").fill("0.25")
    assert page.locator("#list .class").all_inner_texts() == ["error 4.00", "error 0.25"]
    page.locator("#reset").click()
    assert here.text("#count") == "7 graphs"


def test_a_graph(open_page, file):
    here = open_page(390, graph="#3", file=file)
    scope = "7 graphs; logp, one of 2 targets; mean absolute error 1.084 (6 labelled)"
    assert scope in here.page.locator(".scope").text_content()
    told = "logp 12.00, predicted 12.50 (interval 11.50 to 13.50), error 0.50 in the interval"
    assert here.text("#told") == told
    assert here.page.locator("#parts p").all_inner_texts() == [
        "Given the whole graph, the prediction is 12.50.",
        "Given only the 2 atoms that the last level keeps, it is 10.00 (−2.50).",
        "Given only the other 8 atoms, it is 13.00 (+0.50).",
        "The kept atoms alone come no closer to the prediction than the others.",
    ]
    assert here.page.locator("#outputs li").all_inner_texts() == [
        "logp, true 12.00\n12.50 (11.50 to 13.50)",
        "<b>size</b>, true 2.000e−8\n1.000e−8",
    ]
    assert here.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert here.nameless == []
    assert here.complaints == []
    assert here.requests == [file.as_uri()]


def test_truth_outside_of_the_interval_or_unknown(open_page, file):
    outside = open_page(graph="#4", file=file)
    assert outside.text("#told").endswith("error 4.00 outside the interval")
    unknown = open_page(graph="#2", file=file)
    assert unknown.text("#told") == "logp predicted 0.00 (interval −1.00 to 1.00)"


def test_one_number_and_no_truth(open_page, regression, tmp_path):
    trace = regression.traces[0]
    numbers = replace(
        trace.numbers, names=("logp",), values=(-123.456,), intervals=(None,), truth=(None,)
    )
    single = replace(
        regression,
        target=Target("regression", ("logp",)),
        traces=(replace(trace, numbers=numbers),),
        effects=regression.effects[:1],
    )
    here = open_page(file=write_explorer(single, OutputFolder(tmp_path, "explain")))
    assert here.text("#told") == "logp predicted −123.5"
    assert not here.page.locator("#outputs").is_visible()
    assert not here.page.locator("#least-error").is_visible()
    assert "error" not in here.text("#order")
    assert here.complaints == []


def test_a_task_is_named(open_page, explained, tmp_path):
    traces = [replace(t, class_names=("0", "1"), target="toxic") for t in explained.traces]
    target = Target("multitask", ("large", "toxic"), 1)
    made = replace(explained, target=target, traces=tuple(traces))
    here = open_page(graph="#3", file=write_explorer(made, OutputFolder(tmp_path, "explain")))
    assert here.text("#told").startswith("toxic 1, predicted ")
    right = sum(trace.correct for trace in traces)
    scope = f"7 graphs; toxic, one of 2 targets; {right} of 7 right"
    assert here.page.locator(".scope").inner_text() == scope
    assert here.complaints == []
