"""A fleet that is stopped and split gives the results of an undisturbed one."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench.engines.suspended import split_checkpoint
from sagpool.fleet import Training, train
from sagpool.fleet.train import train_until

pytestmark = pytest.mark.usefixtures("one_thread")


class StoppedError(Exception):
    pass


def test_parts_give_the_results_of_the_whole_fleet(mutag, tmp_path):
    one = Training("gpool-h", hidden=4, folds=5, lr=0.01, max_epochs=6)
    trainings = [
        replace(one, fold=fold, max_epochs=2 if fold == 0 else 6) for fold in range(5)
    ]  # the first is done when the fleet is stopped; two others have not started
    keeps = {trainings[3]}.__contains__
    options = {"dtype": torch.float64, "keep_weights": keeps, "keep_predictions": True}
    expected = train(mutag, trainings, members=3, **options)

    def stop(progress):
        if progress.epochs >= 9:
            raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, members=3, on_progress=stop, checkpoint=file, **options)
    stopped = split_checkpoint(file, mutag, trainings, torch.float64, keeps, None, 3)
    parts = stopped.parts
    assert [outcome.training for outcome in stopped.outcomes] == trainings[:1]
    assert stopped.epochs == 9

    assert sorted(len(part.trainings) for part in parts) == [1, 1, 2]
    results, epochs = [], []
    for part in parts:
        part = pickle.loads(pickle.dumps(part))  # as Ray sends it
        reports = []
        results += train_until(
            mutag, part.trainings, begun=part.states, on_progress=reports.append, **options
        )
        epochs.append(reports[-1].epochs)
    assert sum(epochs) == 2 + 4 * 6 - 9, "no epoch is trained twice"
    by_training = {result.training: result for result in results}
    assert by_training.keys() == set(trainings[1:])
    for result in expected[1:]:
        ours = by_training[result.training]
        np.testing.assert_allclose(
            ours.curve.validation_loss, result.curve.validation_loss, rtol=1e-9
        )
        assert ours.best_epoch == result.best_epoch
        assert (ours.weights is None) == (result.weights is None) == (not keeps(result.training))


def test_no_part_is_empty(mutag, tmp_path):
    trainings = [Training("gpool-h", hidden=4, folds=2, fold=fold) for fold in range(2)]

    def stop(progress):
        raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, on_progress=stop, checkpoint=file, keep_predictions=True)
    stopped = split_checkpoint(file, mutag, trainings, torch.float32, lambda t: False, None, 5)
    assert [len(part.trainings) for part in stopped.parts] == [1, 1]


def test_every_tensor_of_a_part_is_sent_once(mutag, tmp_path):
    trainings = [Training("gpool-h", hidden=32, folds=2, fold=fold) for fold in range(2)]

    def stop(progress):
        raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, members=2, on_progress=stop, checkpoint=file, keep_predictions=True)
    stopped = split_checkpoint(file, mutag, trainings, torch.float32, lambda t: False, None, 2)
    for part in stopped.parts:
        (state,) = part.states.values()
        tensors = [value for value in vars(state).values() if isinstance(value, torch.Tensor)]
        assert len(tensors) == 4
        assert len(pickle.dumps(part)) < 1.5 * sum(tensor.nbytes for tensor in tensors)
