"""A fleet that is stopped and cut into pieces ends as it would have."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.bench.engines.suspended import cut
from sagpool.fleet import Training, train


class StoppedError(Exception):
    pass


def test_pieces_take_the_course_of_the_whole(mutag, tmp_path):
    one = Training("gpool-h", hidden=4, folds=5, lr=0.01, max_epochs=6)
    trainings = [
        replace(one, fold=fold, max_epochs=2 if fold == 0 else 6) for fold in range(5)
    ]  # the first is done when the others are stopped; two of them wait
    keeps = {trainings[3]}.__contains__
    options = {"dtype": torch.float64, "keep_weights": keeps}
    expected = train(mutag, trainings, members=3, **options)

    def stop(progress):
        if progress.epochs >= 9:
            raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, members=3, on_progress=stop, checkpoint=file, **options)
    pieces = cut(file, mutag, trainings, torch.float64, keeps, 3)

    assert sorted(len(piece.trainings) for piece in pieces) == [1, 1, 2]
    results, epochs = [], []
    for number, piece in enumerate(pieces):
        part = tmp_path / f"{number}.npz"
        part.write_bytes(piece.state)
        told = []
        results += train(
            mutag, piece.trainings, checkpoint=part, on_progress=told.append, **options
        )
        epochs.append(told[-1].epochs)
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


def test_there_are_no_empty_pieces(mutag, tmp_path):
    trainings = [Training("gpool-h", hidden=4, folds=2, fold=fold) for fold in range(2)]

    def stop(progress):
        raise StoppedError

    file = tmp_path / "fleet.npz"
    with pytest.raises(StoppedError):
        train(mutag, trainings, on_progress=stop, checkpoint=file)
    pieces = cut(file, mutag, trainings, torch.float32, lambda t: False, 5)
    assert [len(piece.trainings) for piece in pieces] == [1, 1]
