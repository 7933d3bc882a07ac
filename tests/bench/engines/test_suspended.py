"""A fleet that is stopped and split gives the results of an undisturbed one."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench.engines.suspended import split_checkpoint
from sagpool.fleet import Training, train


class StoppedError(Exception):
    pass


def test_parts_give_the_results_of_the_whole_fleet(mutag, tmp_path):
    one = Training("gpool-h", hidden=4, folds=5, lr=0.01, max_epochs=6)
    trainings = [
        replace(one, fold=fold, max_epochs=2 if fold == 0 else 6) for fold in range(5)
    ]  # the first is done when the fleet is stopped; two others have not started
    keeps = {trainings[3]}.__contains__
    options = {"dtype": torch.float64, "keep_weights": keeps}
    expected = train(mutag, trainings, members=3, **options)

    def stop(progress):
        if progress.epochs >= 9:
            raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, members=3, on_progress=stop, checkpoint=file, **options)
    parts = split_checkpoint(file, mutag, trainings, torch.float64, keeps, 3)

    assert sorted(len(part.trainings) for part in parts) == [1, 1, 2]
    results, epochs = [], []
    for number, part in enumerate(parts):
        checkpoint = tmp_path / f"{number}.npz"
        checkpoint.write_bytes(part.state)
        reports = []
        results += train(
            mutag, part.trainings, checkpoint=checkpoint, on_progress=reports.append, **options
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
        train(mutag, trainings, on_progress=stop, checkpoint=file)
    parts = split_checkpoint(file, mutag, trainings, torch.float32, lambda t: False, 5)
    assert [len(part.trainings) for part in parts] == [1, 1]
