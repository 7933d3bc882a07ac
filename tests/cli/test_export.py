"""``sagpool export``."""

import json

from sagpool import TrainedModel, load
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build


def test_export_and_refuse_to_overwrite(sagpool, tmp_path):
    graphs = load("MUTAG")
    shape = Shape(7, 2, hidden=4, k=5)
    weights = dict(build("mlp-g", shape).state_dict())
    model = TrainedModel.of_net("mlp-g", shape, Vocabulary.of(graphs), weights)
    model.save_pretrained(tmp_path / "model")
    arguments = ["export", tmp_path / "model", "-o", tmp_path / "out.py", "--check", "MUTAG"]
    done = sagpool(*arguments, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["files"]) == 2
    assert found["agreement"]["graphs"] == 1000
    assert found["agreement"]["largest"] <= 1e-5
    again = sagpool(*arguments)
    assert again.code == 2
    assert "exists" in again.err
    assert "agrees with the model on 1,000 graphs" in sagpool(*arguments, "--force").out
