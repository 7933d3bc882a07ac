"""Trainings on data sets with a split of their own."""

import numpy as np
import pytest

from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train
from sagpool.fleet.schedule import split_of
from sagpool.graphs import colors

SETTINGS = {"hidden": 4, "max_epochs": 2, "split": "fixed"}


@pytest.fixture(scope="module")
def graphs():
    return colors(60, 30, 20)


def test_every_test_has_a_score(graphs):
    (result,) = train(graphs, [Training("nopool-g", **SETTINGS)])
    assert set(result.more_tests) == {"large", "large-c"}
    row = result.row()
    for name, score in result.more_tests.items():
        assert 0 <= score.accuracy <= 1
        assert np.isfinite(score.loss)
        assert row["more_tests"][name] == {"loss": score.loss, "accuracy": score.accuracy}
    assert result.confusion.sum() == 20, "of the first test"
    assert result.more_tests["large"].loss != result.more_tests["large-c"].loss


def test_a_checkpoint_has_all_tests(graphs, tmp_path):
    """A stopped run goes on with the results that it had."""
    file = tmp_path / "checkpoint.npz"
    trainings = [Training("nopool-g", seed=seed, **SETTINGS) for seed in range(2)]

    def stop(result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(graphs, trainings, members=1, checkpoint=file, on_result=stop)
    expected = train(graphs, trainings, members=1)
    found = train(graphs, trainings, members=1, checkpoint=file)
    for one, other in zip(found, expected, strict=True):
        assert {n: vars(s) for n, s in one.more_tests.items()} == {
            n: vars(s) for n, s in other.more_tests.items()
        }


def test_the_split_does_not_depend_on_the_seed(graphs):
    one, other = (split_of(graphs, Training("nopool-g", seed=s, **SETTINGS)) for s in (0, 1))
    assert np.array_equal(one.train, other.train)
    assert len(one.train) == 60


def test_there_is_a_single_fold(graphs):
    assert Training("nopool-g", **SETTINGS).folds == 1
    with pytest.raises(SagpoolError, match="fold 0 alone, not 1"):
        train(graphs, [Training("nopool-g", fold=1, **SETTINGS)])


def test_data_without_parts_have_no_split_of_their_own(mutag):
    with pytest.raises(SagpoolError, match="MUTAG has no split of its own"):
        train(mutag, [Training("nopool-g", **SETTINGS)])
