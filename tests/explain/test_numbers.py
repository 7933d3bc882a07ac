"""Models that predict numbers."""

import json
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from sagpool import Graphs, SagpoolError, load
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import fit_simple
from sagpool.explain import Trace, explain, explain_many, fidelity
from sagpool.explain.effects import Effect, PartNumber
from sagpool.explain.explained import explain_input
from sagpool.explain.fidelity import fidelity_of
from sagpool.explain.inputs import ExplainInput, from_source
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def simple(measured) -> TrainedModel:
    part = SimplePart(fit_simple("counts-linear", measured, np.arange(8), 0))
    return TrainedModel(Vocabulary.of(measured), (part,))


@pytest.fixture(scope="module")
def mixed(measured, simple, new_trained) -> TrainedModel:
    """A net and a simple model; the interval of the second target has no ends."""
    parts = (*new_trained(measured).parts, *simple.parts)
    promise = Conformal(0.9, (1.5, None))
    return TrainedModel(simple.vocabulary, parts, (0.4, 0.6), conformal=promise)


def test_predictions_and_truth(mixed, measured):
    found = mixed.predict_proba(measured)
    for number, trace in enumerate(explain_many(mixed, measured, range(8), target="charge")):
        numbers = trace.numbers
        assert numbers.values == tuple(found.predicted[number])
        low, high = found.interval[number, 0]
        assert numbers.intervals == ((low, high), None)
        assert (numbers.name, trace.target) == ("charge", "charge")
        assert numbers.truth[0] == measured.node_counts[number]
    first, second, *_ = explain_many(mixed, measured, range(8), target="charge")
    assert first.numbers.truth[1] == -3.3  # as it was written, not as float32
    assert first.numbers.error == pytest.approx(abs(first.numbers.value + 3.3))
    assert second.numbers.truth[1] is None
    assert second.numbers.error is None
    with pytest.raises(SagpoolError, match=r"predicts no class; its numbers are in Trace\.numbers"):
        _ = first.prediction


def test_captions(mixed, measured):
    numbers = explain(mixed, measured, 0).numbers
    numbers = replace(
        numbers, values=(-2.0, 0.1234567), intervals=((-3, 1), None), truth=(1.5, None)
    )
    trace = replace(explain(mixed, measured, 0), numbers=numbers)
    assert trace.caption == "kinds 0 · size 1.5 · predicted −2 (−3 to 1)"
    other = replace(trace, numbers=replace(numbers, place=1))
    assert other.caption == "kinds 0 · charge predicted 0.1235"
    assert other.caption in other._repr_html_()


def test_reasons_add_up_to_the_number(simple, measured):
    """In the unit of the target: all columns together give the prediction."""
    model = simple.parts[0].model
    for place, name in enumerate(("size", "charge")):
        traces = explain_many(simple, measured, range(8), target=name)
        whole = model.contributions(measured, np.full(8, place), 8)
        for trace, parts in zip(traces, whole, strict=True):
            amounts = [reason.amount for reason in trace.reasons]
            assert amounts == [one.amount for one in parts.top]
            total = parts.base + sum(amounts) + parts.rest
            assert total == pytest.approx(trace.numbers.value)
        assert traces[0].reasons_of.sentence == (
            f"The reasons are those of counts-linear; an amount is what it added to {name}, "
            "compared with the training graphs on average."
        )


@pytest.mark.parametrize("name", ["size", "charge"])
def test_numbers_of_subgraphs(name, measured, new_trained):
    """Against subgraphs that are built one by one."""
    model = new_trained(measured)
    traces = explain_many(model, measured, [5, 6, 7], target=name)
    place = measured.target_names.index(name)
    expected = []
    for trace in traces:
        chosen = np.isin(np.arange(trace.num_nodes), trace.levels[-1].kept)
        for part in (chosen, ~chosen):
            graph = nx.Graph()
            for node in np.flatnonzero(part).tolist():
                graph.add_node(node, label=trace.node_labels[node])
            graph.add_edges_from(
                (a, b) for a, b in trace.edges.tolist() if graph.has_node(a) and graph.has_node(b)
            )
            value = explain(model, graph).numbers.values[place]
            expected.append(abs(value - trace.numbers.values[place]))
    found = fidelity(model, measured, traces)
    assert found.probability is None
    assert found.difference.target == name
    assert found.difference.only_kept == pytest.approx(np.mean(expected[::2]), rel=1e-4)
    assert found.difference.only_dropped == pytest.approx(np.mean(expected[1::2]), rel=1e-4)


def test_differences_are_those_of_the_net_that_pools(mixed, measured):
    given = ExplainInput(measured, len(measured))
    explained = explain_input(mixed, given, "charge")
    alone = explain_many(mixed.module(), measured, range(8))
    for trace, effect, other in zip(explained.traces, explained.effects, alone, strict=True):
        assert trace.net.outputs == pytest.approx(other.numbers.values)
        assert trace.net_output != trace.numbers.value
        if effect is not None:
            whole = effect.only_kept.value - effect.only_kept.difference
            assert whole == pytest.approx(trace.net_output)


@pytest.mark.parametrize(("kept", "warned"), [(0.5, False), (1.0, True), (1.5, True)])
def test_the_warning(kept, warned, measured, new_trained):
    """The kept nodes have to come closer, on average over graphs and whatever the sign."""
    traces = explain_many(new_trained(measured), measured, [5, 6])
    effects = [
        Effect(PartNumber(3.0, sign * 2 * kept), PartNumber(3.0, sign * -2.0)) for sign in (1, -1)
    ]
    found = fidelity_of(traces, effects)
    assert (found.difference.only_kept, found.difference.only_dropped) == (2 * kept, 2)
    assert (found.warning is not None) == warned
    assert (found.warning in found.sentences) == warned
    assert found.sentences[0].startswith("Given only the kept nodes (")
    assert f"by {2 * kept:g} on average (mean absolute" in found.sentences[0]
    assert found.sentences[0].endswith("given only the dropped nodes by 2.")


def test_traces_of_two_targets_have_no_common_fidelity(measured, new_trained):
    model = new_trained(measured)
    traces = [explain(model, measured, 5, target=name) for name in measured.target_names]
    with pytest.raises(SagpoolError, match="traces of one target"):
        fidelity(model, measured, traces)


def test_json(mixed, measured):
    explained = explain_input(mixed, ExplainInput(measured, len(measured)), "charge")
    told = json.loads(json.dumps(explained.to_json(), allow_nan=False))
    assert told["target"] == "charge"
    assert explained.sentences[0] == "What is explained is charge, one of 2 targets: size, charge."
    values = [graph["targets"]["charge"]["value"] for graph in told["graphs"]]
    assert values == sorted((trace.numbers.value for trace in explained.traces), reverse=True)
    for graph in told["graphs"]:
        low, high = graph["targets"]["size"]["interval"]
        assert low < graph["targets"]["size"]["value"] < high
        assert graph["targets"]["charge"]["interval"] is None
        if graph["only_kept"] is not None:
            assert set(graph["only_kept"]) == {"value", "difference"}
    assert set(told["fidelity"]["difference"]) == {"target", "only_kept", "only_dropped"}


def test_a_round_trip_of_a_trace(mixed, measured):
    trace = explain(mixed, measured, 1, target="charge")
    again = Trace.from_json(json.loads(json.dumps(trace.to_json(), allow_nan=False)))
    assert again.to_json() == trace.to_json()
    assert again.numbers == trace.numbers


def test_true_numbers_of_a_file(tmp_path):
    path = tmp_path / "drugs.csv"
    path.write_text("smiles,logp\nCCO,-0.3\nCCN,\nCCCC,2.9\nCCCO,0.3\n")
    graphs = load(path, "all", columns=Columns(label="logp"), task="regression")
    part = SimplePart(fit_simple("counts-linear", graphs, np.arange(len(graphs)), 0))
    model = TrainedModel(Vocabulary.of(graphs), (part,))
    other = tmp_path / "other.csv"
    other.write_text(path.read_text().replace("logp", "label"))
    # The column has the model's name for the target, or is chosen.
    for source, columns in ((path, Columns()), (other, Columns(label="label"))):
        read = from_source(str(source), model.vocabulary, columns, limit=9)
        traces = explain_input(model, read).traces
        assert [trace.numbers.truth[0] for trace in traces] == [-0.3, None, 2.9, 0.3]
        assert [trace.title for trace in traces] == ["CCO", "CCN", "CCCC", "CCCO"]
        assert all(trace.molecule for trace in traces)
    assert explain(model, "CCO").numbers.truth == (None,)


def test_true_numbers_of_single_graphs(mixed, new_trained):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, "C", "label")
    graph.graph["y"] = [3.0, -1.25]
    assert explain(mixed, graph, target="charge").numbers.truth == (3.0, -1.25)
    del graph.graph["y"]
    assert explain(mixed, graph).numbers.truth == (None, None)
    rings = Graphs.from_networkx([nx.cycle_graph(4), nx.cycle_graph(6)], features="degree")
    numbers = {"targets": torch.tensor([[1.5], [2.5]]), "target_names": ("angle",)}
    rings = replace(rings, **numbers, task="regression")
    data = Data(edge_index=rings[0].edge_index, num_nodes=4, y=torch.tensor([1.5]))
    assert explain(new_trained(rings), data).numbers.truth == (1.5,)


def test_modules(measured, graphs, new_model):
    module = new_model("sagpool-h", measured)
    trace = explain(module, measured, 7, target="charge")
    assert (trace.numbers.place, trace.numbers.intervals) == (1, (None, None))
    assert len(trace.levels) == 3
    with pytest.raises(SagpoolError, match="has no targets, so what the module predicts has no"):
        explain(module, graphs, 7)
    one = replace(measured, targets=measured.targets[:, :1], target_names=("size",))
    with pytest.raises(SagpoolError, match="The model has 2 targets, but kinds has 1"):
        explain(module, one, 7)
