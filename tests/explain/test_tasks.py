"""Models of several tasks, of which one is explained as two classes."""

import json

import numpy as np
import pytest

from sagpool import SagpoolError
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import fit_simple
from sagpool.explain import Trace, explain, explain_many, fidelity
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import ExplainInput
from sagpool.graphs.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def mixed(tasks, new_trained) -> TrainedModel:
    """The threshold of the second task is not one half."""
    simple = SimplePart(fit_simple("counts-linear", tasks, np.arange(8), 0))
    parts = (*new_trained(tasks).parts, simple)
    return TrainedModel(Vocabulary.of(tasks), parts, (0.3, 0.7), 1.5, decision=(0.5, 0.6))


@pytest.mark.parametrize("name", ["large", "toxic"])
def test_predictions_are_those_of_the_task(name, mixed, tasks):
    place = tasks.target_names.index(name)
    found = mixed.predict_proba(tasks)
    traces = explain_many(mixed, tasks, range(8), target=name)
    for number, trace in enumerate(traces):
        one = found.probabilities[number, place]
        assert trace.class_names == ("0", "1")
        assert trace.probabilities == pytest.approx([1 - one, one])
        assert trace.prediction == found.predicted[number, place]
        truth = tasks.targets[number, place]
        assert trace.true_class == (None if truth.isnan() else int(truth))
        assert trace.numbers is None
    alone = explain_many(mixed.module(), tasks, range(8), target=name)
    for trace, other in zip(traces, alone, strict=True):
        assert trace.net.outputs == pytest.approx(other.probabilities)


def test_the_first_task_is_the_default(mixed, tasks):
    assert explain(mixed, tasks, 5).to_json() == explain(mixed, tasks, 5, target="large").to_json()
    with pytest.raises(SagpoolError, match=r"^There is no target 'x', only large, toxic\.$"):
        explain(mixed, tasks, 5, target="x")


def test_captions(mixed, tasks):
    known, unknown = (explain(mixed, tasks, number, target="toxic") for number in (5, 6))
    assert known.caption.startswith("kinds 5 · toxic 0 · predicted ")
    assert unknown.caption.startswith("kinds 6 · toxic predicted ")


def test_reasons_speak_for_the_predicted_class(mixed, tasks):
    model = mixed.parts[1].model
    for place, name in enumerate(tasks.target_names):
        traces = explain_many(mixed, tasks, range(8), target=name)
        assert {trace.prediction for trace in traces} == {0, 1}
        for trace, parts in zip(
            traces, model.contributions(tasks, np.full(8, place), 8), strict=True
        ):
            sign = 1 if trace.prediction else -1
            assert [one.amount for one in trace.reasons] == [sign * one.amount for one in parts.top]
    assert traces[0].reasons_of.sentence.endswith(
        "an amount is what it added to the log-odds of the predicted class of toxic."
    )


def test_effects_are_those_of_the_task(mixed, tasks):
    found = {}
    for name in tasks.target_names:
        explained = explain_input(mixed, ExplainInput(tasks, len(tasks)), name)
        found[name] = explained.fidelity.probability
        whole = [
            trace.net.outputs[trace.prediction]
            for trace, effect in zip(explained.traces, explained.effects, strict=True)
            if effect is not None
        ]
        assert found[name].whole == pytest.approx(np.mean(whole))
        assert fidelity(mixed, tasks, explained.traces) == explained.fidelity
        told = explained.to_json()
        assert told["target"] == name
        assert {graph["prediction"] for graph in told["graphs"]} <= {"0", "1"}
        assert None in {graph["class"] for graph in told["graphs"]} or name == "large"
    assert found["large"] != found["toxic"]


def test_a_round_trip_of_a_trace(mixed, tasks):
    trace = explain(mixed, tasks, 5, target="toxic")
    again = Trace.from_json(json.loads(json.dumps(trace.to_json())))
    assert again.to_json() == trace.to_json()
    assert again.target == "toxic"
