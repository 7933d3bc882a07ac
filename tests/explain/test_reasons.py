"""Models of which a simple model is a part, or all."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from sagpool import SagpoolError, load
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import fit_simple
from sagpool.explain import Trace, explain, explain_many, fidelity
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import ExplainInput, from_smiles
from sagpool.explain.surroundings import induced
from sagpool.graphs.vocabulary import Vocabulary

ODD = "<script>alert(1)</script>"
SMILES = ["CCO", "CCCO", "CCN", "CCCN", "CC(C)O", "c1ccccc1O", "c1ccccc1N", "CCCCN", "[Na+].CC[O-]"]


@pytest.fixture(scope="module")
def mutag():
    return load("MUTAG")


@pytest.fixture(scope="module")
def simple(mutag) -> TrainedModel:
    part = SimplePart(fit_simple("counts-linear", mutag, np.arange(188), 0))
    return TrainedModel(Vocabulary.of(mutag), (part,))


@pytest.fixture(scope="module")
def mixed(mutag, simple, new_trained) -> TrainedModel:
    """Its prediction differs from that of its net and from the most probable class."""
    net = new_trained(mutag).parts[0]
    parts = (net, *simple.parts)
    return TrainedModel(simple.vocabulary, parts, (0.4, 0.6), 2.0, decision=(1.0, 1.5))


@pytest.fixture(scope="module")
def trace(simple, mutag) -> Trace:
    return explain(simple, mutag, 3)


def test_a_simple_model_has_reasons_and_no_levels(simple, mutag, trace):
    found = simple.predict_proba(mutag[3:4])
    assert trace.levels == ()
    assert trace.net is None
    assert (trace.probabilities == found.probabilities[0]).all()
    amounts = [abs(reason.amount) for reason in trace.reasons]
    assert amounts == sorted(amounts, reverse=True)
    assert trace.reasons_of.sentence == (
        "The reasons are those of counts-linear; an amount is what it added to the log-odds of "
        "the predicted class."
    )
    with pytest.raises(SagpoolError, match="Fidelity needs traces of a model that keeps nodes"):
        fidelity(simple, mutag, [trace])


def test_counts_name_the_nodes_that_they_count(simple, mutag):
    counted = 0
    for trace in explain_many(simple, mutag, range(40)):
        degree = np.bincount(trace.edges.ravel(), minlength=trace.num_nodes)
        for reason in trace.reasons:
            words, _, last = reason.name.rpartition(" ")
            if words.endswith("nodes with label"):
                expected = [node for node, name in enumerate(trace.node_labels) if name == last]
            elif words == "nodes of degree":
                expected = np.flatnonzero(degree == int(last)).tolist()
            else:
                expected = []
            assert list(reason.nodes) == expected
            if words in ("nodes with label", "nodes of degree"):
                assert reason.value == len(expected)
            counted += len(expected)
    assert counted


def test_a_mixture_is_explained_as_a_whole(mixed, mutag):
    graphs = mutag[:60]
    found = mixed.predict_proba(graphs)
    explained = explain_input(mixed, ExplainInput(graphs, 60))
    traces = explained.traces
    assert np.array_equal([trace.probabilities for trace in traces], found.probabilities)
    assert [trace.prediction for trace in traces] == found.predicted.tolist()
    assert (found.probabilities.argmax(1) != found.predicted).any()
    alone = explain_many(mixed.module(), graphs, range(3))
    for one, other in zip(traces, alone, strict=False):
        np.testing.assert_allclose(one.net_outputs, other.probabilities, rtol=1e-6)
        assert [level.kept.tolist() for level in one.levels] == [
            level.kept.tolist() for level in other.levels
        ]
    whole = [trace.net.outputs[trace.prediction] for trace in traces]
    assert explained.fidelity.probability.whole == pytest.approx(np.mean(whole))
    assert explained.sentences[0] == (
        "The pooling shown is that of sagpool-h, which has a weight of 0.4 in the model; "
        "predictions given only the kept or only the dropped nodes are by this net."
    )
    assert "counts-linear, which has a weight of 0.6 in the model;" in explained.sentences[1]
    assert traces[0].net.sentence in traces[0]._repr_html_()
    assert explained.method == "counts-linear + sagpool-h"


def test_a_single_net_needs_no_sentence_about_its_weight(mutag, new_trained):
    trace = explain(new_trained(mutag), mutag, 0)
    assert trace.net.sentence is None
    assert replace(trace.net, members=5).sentence.startswith(
        "The pooling shown is that of one of 5 nets of sagpool-h, which together have a weight of 1"
    )
    assert trace.reasons == ()


def test_tables_and_json(simple, mutag):
    explained = explain_input(simple, ExplainInput(mutag[:4], 4))
    odd = replace(explained.traces[0].reasons[0], name="=1+1")
    first = replace(explained.traces[0], reasons=(odd,))
    explained = replace(explained, traces=(first, *explained.traces[1:]))
    rows = list(csv.DictReader(io.StringIO(explained.reasons())))
    assert len(rows) == sum(len(trace.reasons) for trace in explained.traces)
    assert rows[0]["reason"] == "'=1+1"
    assert [int(node) for node in rows[0]["nodes"].split()] == list(odd.nodes)
    told = json.loads(json.dumps(explained.to_json()))
    assert told["fidelity"] is None
    assert told["reasons_of"]["name"] == "counts-linear"
    listed = {graph["graph"]: graph["reasons"] for graph in told["graphs"]}
    assert listed[0] == [
        {"name": "=1+1", "value": odd.value, "amount": odd.amount, "nodes": list(odd.nodes)}
    ]


def test_a_round_trip_of_a_trace(mixed, mutag):
    record = explain(mixed, mutag, 0).to_json()
    again = Trace.from_json(json.loads(json.dumps(record)))
    assert again.to_json() == record
    assert again.reasons_of is not None


def test_a_part_of_a_graph_keeps_its_reasons(trace):
    nodes = np.arange(1, trace.num_nodes)
    for one, other in zip(induced(trace, nodes).reasons, trace.reasons, strict=True):
        assert [node + 1 for node in one.nodes] == [node for node in other.nodes if node]


def test_drawings_without_levels(trace):
    odd = tuple(replace(reason, name=ODD) for reason in trace.reasons)
    changed = replace(trace, reasons=odd)
    (axis,) = changed.plot().axes
    assert axis.get_title().startswith("input · ")
    html = changed._repr_html_()
    assert "<script" not in html
    assert "keeps no nodes" not in html
    assert "Marked: &lt;script&gt;" in html


def test_fragments_have_smiles_and_atoms(tmp_path):
    path = tmp_path / "drugs.csv"
    rows = [f"{smiles},{'acid' if 'O' in smiles else 'base'}" for smiles in SMILES]
    path.write_text("\n".join(["smiles,label", *rows * 2]))
    graphs = load(path, "all")
    part = SimplePart(fit_simple("morgan-linear", graphs, np.arange(len(graphs)), 0))
    model = TrainedModel(Vocabulary.of(graphs), (part,))
    traces = explain_input(model, from_smiles(SMILES, model.vocabulary)).traces
    reasons = [reason for trace in traces for reason in trace.reasons]
    fragments = [reason for reason in reasons if reason.name.startswith("fragment ")]
    assert fragments
    assert not [reason for reason in reasons if reason.name.startswith("environment ")]
    assert all(bool(reason.nodes) == (reason.value > 0) for reason in fragments)
    alcohol = {reason.name: reason for reason in explain(model, "CCO").reasons}
    assert alcohol["fragment O"].nodes == (2,)
