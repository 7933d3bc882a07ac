import json

import pytest

from sagpool.explain import Trace, explain, explain_many


@pytest.mark.parametrize("method", ["sagpool-h", "random-h", "set2set-g"])
def test_json_round_trip(method, graphs, new_model):
    for trace in explain_many(new_model(method, graphs), graphs, range(len(graphs))):
        record = trace.to_json()
        again = Trace.from_json(json.loads(json.dumps(record)))
        assert again.to_json() == record
        assert again.edges.shape == trace.edges.shape
        assert again.edges.dtype == trace.edges.dtype
        for one, other in zip(again.levels, trace.levels, strict=True):
            assert one.kept.dtype == other.kept.dtype
            assert (one.kept == other.kept).all()
            assert (one.score is None) == (other.score is None)
            assert one.score is None or (one.score == other.score).all()
        assert (again.probabilities == trace.probabilities).all()
        assert again.caption == trace.caption


def test_json_with_a_ground_truth(planted, new_model):
    trace = explain(new_model("sagpool-g", planted), planted, 1)
    again = Trace.from_json(json.loads(json.dumps(trace.to_json())))
    assert len(again.ground_truth) == 5
    assert (again.ground_truth == trace.ground_truth).all()
    assert again.ground_truth.dtype == trace.ground_truth.dtype


def test_the_caption():
    record = {
        "name": "MUTAG", "number": 17, "num_nodes": 1, "edges": [], "node_labels": ["C"],
        "class_names": ["no", "yes"], "true_class": 1, "probabilities": [0.93, 0.07],
        "ground_truth": None, "levels": [],
    }  # fmt: skip
    trace = Trace.from_json(record)
    assert trace.caption == "MUTAG 17 · class yes · predicted no (93 %)"
    assert (trace.prediction, trace.confidence, trace.correct) == (0, 0.93, False)
    unknown = Trace.from_json({**record, "true_class": None})
    assert unknown.caption == "MUTAG 17 · predicted no (93 %)"
    odd = Trace.from_json({**record, "unlike": True})
    assert odd.caption == f"{trace.caption} · unlike the training data"
    assert Trace.from_json(odd.to_json()).unlike
