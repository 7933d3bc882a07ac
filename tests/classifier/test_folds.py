"""Folds for any task, and sentences about data from which nothing can be learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.classifier.folds import fold_of_each, folds_for

MUTAG = load("MUTAG")


def values(targets, task="regression"):
    return replace(
        MUTAG[: len(targets)],
        y=None,
        class_names=(),
        task=task,
        targets=torch.tensor(targets)[:, None].float(),
        target_names=("t",),
    )


def test_classes_are_spread_even_if_they_are_rare():
    y = torch.zeros(188, dtype=torch.int64)
    y[:3] = 1
    fold = fold_of_each(replace(MUTAG, y=y), 10, 0)
    assert len(set(fold[:3])) == 3
    assert np.bincount(fold).max() - np.bincount(fold).min() <= 1
    assert folds_for(replace(MUTAG, y=y), None) == 10
    assert folds_for(MUTAG[:12], None) == 6


def test_groups_stay_together():
    group = torch.arange(188) // 5
    grouped = replace(MUTAG, group=group)
    fold = fold_of_each(grouped, 4, 0)
    assert all(len(set(fold[group.numpy() == g])) == 1 for g in range(38))
    assert np.bincount(fold).min() > 40
    assert folds_for(replace(MUTAG, group=torch.arange(188) % 3), 10) == 3


def test_values_are_spread():
    fold = fold_of_each(values(torch.arange(100.0).tolist()), 5, 0)
    means = [np.arange(100)[fold == one].mean() for one in range(5)]
    assert max(means) - min(means) < 8


@pytest.mark.parametrize(
    ("graphs", "sentence"),
    [
        (MUTAG[:5], "MUTAG has 5 graphs; at least 6 are needed."),
        (replace(MUTAG, y=None), "MUTAG has no classes; a classifier needs at least two."),
        (
            replace(MUTAG, y=torch.zeros(188, dtype=torch.int64)),
            "All graphs of MUTAG have the class 'non-mutagenic'; a classifier needs at least two.",
        ),
        (
            replace(MUTAG[:10], y=torch.tensor([0] * 9 + [1])),
            "MUTAG has a class with a single graph, 'mutagenic'; each class needs at least 2.",
        ),
        (
            replace(MUTAG[:10], y=torch.tensor([0] * 9 + [1]), class_names=("-1.5", "2")),
            "MUTAG has a class with a single graph, '2'; each class needs at least 2. To predict "
            "numbers, choose the task regression (--task regression).",
        ),
        (
            replace(MUTAG, group=torch.zeros(188, dtype=torch.int64)),
            "All graphs of MUTAG are in one group; 2 are needed.",
        ),
        (
            replace(values([1.0] * 10), targets=None),
            "MUTAG has no targets for its task, regression.",
        ),
        (values([1.0] * 10), "'t' is 1 for all graphs of MUTAG."),
        (
            values([1.0, 0.0] + [np.nan] * 10, "multitask"),
            "'t' was measured for 2 graphs of MUTAG; at least 6 are needed.",
        ),
    ],
)
def test_data_from_which_nothing_can_be_learnt(graphs, sentence):
    with pytest.raises(SagpoolError) as raised:
        folds_for(graphs, None)
    assert str(raised.value) == sentence
