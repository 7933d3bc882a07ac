"""The figures of scripts/attention_quality.py on graphs whose right nodes are known."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool.fleet import Training, train
from sagpool.graphs import colors
from sagpool.graphs.counting import GREEN

SCRIPT = Path(__file__).parents[1] / "scripts" / "attention_quality.py"
SETTINGS = {"conv": "mlp", "score": "mlp", "start": 0.0}


@pytest.fixture(scope="module")
def result():
    """A training after one epoch, whose weights are replaced: the score is green minus one half."""
    training = Training(
        "sagpool-g-ratio", hidden=4, max_epochs=1, split="fixed",
        method_settings=tuple(SETTINGS.items()),
    )  # fmt: skip
    graphs = colors(30, 10, 20)
    (found,) = train(graphs, [training], keep_weights=True)
    weights = {name: torch.zeros_like(weight) for name, weight in found.weights.items()}
    weights["convs.0.linear.weight"][0, GREEN, 0] = 1
    score = next(name for name in weights if "attention" in name and name.endswith("weight"))
    weights[score][0, 0, 0] = 20
    weights[score.replace("weight", "bias")][:] = -10
    return graphs, training, replace(found, weights=weights)


def test_a_score_that_is_right_is_found_to_be(result):
    rows = list(runpy.run_path(str(SCRIPT))["measure"](*result))
    assert [row["test"] for row in rows] == ["test", "large", "large-c"]
    for row in rows:
        assert row["auc"] == 1
        assert row["kept"] == pytest.approx(row["true"])
        assert row["difference"] == 0
        assert row["saturated"] == 1
        assert row["saturated_start"] < 1
        assert 0 <= row["auc_start"] <= 1
    assert np.isfinite([row["accuracy"] for row in rows]).all()
