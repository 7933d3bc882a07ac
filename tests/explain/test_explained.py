import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from sagpool import SagpoolError, load
from sagpool.explain import Reason
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import ExplainInput, from_smiles, from_source
from sagpool.explain.parts import ReasonSource


@pytest.fixture(scope="module")
def drugs(molecules, new_trained):
    model = new_trained(load(molecules))
    return explain_input(model, from_source(str(molecules), model.vocabulary, limit=50))


def test_scores_have_the_nodes_of_the_input(drugs):
    rows = list(csv.DictReader(io.StringIO(drugs.scores())))
    assert list(rows[0]) == ["graph", "id", "level", "node", "label", "score", "kept"]
    assert len(rows) == sum(3 * trace.num_nodes for trace in drugs.traces)
    for trace in drugs.traces:
        for number, level in enumerate(trace.levels, 1):
            here = [r for r in rows if (r["graph"], r["level"]) == (f"{trace.number}", f"{number}")]
            assert [int(row["node"]) for row in here] == list(range(trace.num_nodes))
            assert tuple(row["label"] for row in here) == trace.node_labels
            assert {row["id"] for row in here} == {trace.title}
            kept = [row for row in here if row["kept"] == "1"]
            assert [int(row["node"]) for row in kept] == level.kept.tolist()
            assert [float(row["score"]) for row in kept] == pytest.approx(level.score, rel=1e-5)
            assert {row["score"] for row in here if row["kept"] == "0"} <= {""}


def test_reasons_say_which_graphs_are_unlike_the_training_data(drugs):
    reason, source = Reason("nodes", 4.0, 0.5), ReasonSource("counts-linear", 1.0, "log-odds")
    traces = [
        replace(trace, reasons=(reason,), reasons_of=source, unlike=trace.number == 1)
        for trace in drugs.traces
    ]
    rows = csv.DictReader(io.StringIO(replace(drugs, traces=tuple(traces)).reasons()))
    marks = {row["graph"]: row["unlike_training_data"] for row in rows}
    assert marks == {str(trace.number): "yes" if trace.unlike else "" for trace in traces}


def test_the_most_confident_prediction_comes_first(drugs):
    output = drugs.to_json()
    confidence = sorted((trace.confidence for trace in drugs.traces), reverse=True)
    assert [graph["probability"] for graph in output["graphs"]] == confidence
    assert {graph["class"] for graph in output["graphs"]} == {"yes", "no", None}
    first = output["graphs"][0]
    trace = drugs.traces[first["graph"]]
    assert first["prediction"] == trace.class_names[trace.prediction]
    assert first["kept"] == [level.kept.tolist() for level in trace.levels]
    assert output["fidelity"]["graphs"] + output["fidelity"]["left_out"] == 6


def test_labels_that_the_model_does_not_know_are_counted(drugs, molecules, new_trained):
    model = new_trained(load(molecules))
    found = explain_input(model, from_smiles(["BrCBr", "CCI"], model.vocabulary))
    assert found.unseen == {"Br": 2, "I": 1}
    assert found.traces[0].node_labels == ("Br", "C", "Br")
    assert not drugs.unseen


@pytest.mark.parametrize("method", ["set2set-g", "diffpool-h", "nopool-g", "sortpool-g-conv1d"])
def test_methods_that_keep_no_nodes(method, graphs, new_trained):
    model = new_trained(graphs, method)
    with pytest.raises(
        SagpoolError, match=f"^{method} keeps no nodes, so there is nothing to draw"
    ):
        explain_input(model, ExplainInput(graphs, len(graphs)))


@pytest.mark.parametrize("method", ["sagpool-g", "gpool-h", "random-h", "sortpool-g"])
def test_methods_that_keep_nodes(method, graphs, new_trained):
    found = explain_input(new_trained(graphs, method), ExplainInput(graphs, len(graphs)))
    assert len(found.traces) == len(graphs)
    assert np.isfinite(found.fidelity.probability.only_dropped)
    assert found.scores()
