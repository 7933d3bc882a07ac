"""Calls of `train`: order of results, progress, wrong input."""

from dataclasses import replace

import pytest
import torch

import sagpool.fleet
from sagpool.errors import SagpoolError
from sagpool.fleet import Training, train


def test_the_public_names():
    names = ["NUMERICS", "Curve", "MemoryShortageError", "Outcome", "Paused", "Progress"]
    names += ["Result", "Score", "Training", "train"]
    assert sagpool.fleet.__all__ == names
    assert all(hasattr(sagpool.fleet, name) for name in names)


def test_trainings_of_different_shapes_in_one_call(mutag, kit):
    trainings = [
        kit.trainings(1, method, hidden=hidden, ratio=ratio, seed=seed)[0]
        for seed in (1, 2)
        for ratio in (0.5, 0.25)
        for hidden in (8, 16)
        for method in ("sagpool-h", "gpool-h")
    ]
    reported: list = []
    results = train(mutag, trainings, dtype=torch.float64, on_result=reported.append)
    assert [result.training for result in results] == trainings
    assert sorted(map(id, reported)) == sorted(map(id, results))
    assert [result.training for result in reported] != trainings, "each shape has its own fleet"
    for position in (0, 5, 11):
        kit.close(train(mutag, [trainings[position]], dtype=torch.float64), [results[position]])


def test_a_result_is_reported_as_soon_as_its_training_is_done(mutag, kit):
    log: list = []
    results = train(
        mutag, kit.trainings(7), members=3, on_result=log.append, on_progress=log.append
    )
    done = 0
    for thing in log:
        if isinstance(thing, sagpool.fleet.Result):
            done += 1
        else:
            assert thing.done == done
    assert log.index(results[0]) < len(log) // 2


@pytest.mark.parametrize("members", [1, 3, 7])
def test_progress(members, mutag, kit):
    log: list = []
    results = train(mutag, kit.trainings(7), members=members, on_progress=log.append)
    assert all(progress.total == 7 for progress in log)
    assert log[-1].done == 7
    assert log[-1].running == 0
    assert log[-1].epochs == sum(result.epochs for result in results)
    before = 0
    running = members
    for progress in log:
        assert progress.epochs == before + running
        before, running = progress.epochs, progress.running
        assert progress.running + progress.done <= 7
        assert progress.running == min(members, 7 - progress.done)
        assert progress.epochs_per_second > 0
        assert (progress.eta_seconds is None) == (progress.done == 0)
    assert log[-1].eta_seconds == 0


def test_progress_of_a_continued_run_counts_earlier_results(mutag, kit, tmp_path):
    trainings, file = kit.trainings(5), tmp_path / "fleet.npz"

    def stop(progress):
        if progress.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(mutag, trainings, members=2, checkpoint=file, on_progress=stop)
    log: list = []
    train(mutag, trainings, members=2, checkpoint=file, on_progress=log.append)
    assert log[0].done >= 2
    assert log[-1].done == log[-1].total == 5


def test_an_epoch_that_ran_out_of_memory_does_not_count(mutag, kit, monkeypatch):
    adam_step = sagpool.fleet.lockstep.adam_step

    def limited(state, *arguments):
        if len(state.weights) > 2:
            raise torch.OutOfMemoryError
        adam_step(state, *arguments)

    monkeypatch.setattr("sagpool.fleet.lockstep.adam_step", limited)
    log: list = []
    results = train(mutag, kit.trainings(4), members=4, on_progress=log.append)
    assert log[0].epochs == 0
    assert log[-1].epochs == sum(result.epochs for result in results)


def test_more_slots_than_trainings(mutag, kit):
    trainings = kit.trainings(3)
    kit.same(train(mutag, trainings, members=99), train(mutag, trainings, members=3))


def test_the_same_training_twice(mutag, kit):
    (training,) = kit.trainings(1)
    one, other = train(mutag, [training, training])
    kit.same([one], [other])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"trainings": []}, r"^There is nothing to train\.$"),
        ({"members": 0}, r"^A fleet needs at least 1 member, not 0\.$"),
        ({"dtype": torch.float16}, r"^Weights are float32 or float64, not torch.float16\.$"),
        ({"trainings": [Training("sagpol-h")]}, r"^Unknown method 'sagpol-h'; choose from sagp"),
        (
            {"trainings": [Training("sagpool-h", folds=99)]},
            r"^Class 0 has 63 graphs, too few for 99 folds\.$",
        ),
        ({"trainings": [Training("sagpool-h", fold=10)]}, r"^Fold 10 is not one of the folds 0 "),
        ({"trainings": [Training("sagpool-h", ratio=0)]}, r"^The ratio must be above 0 and at "),
        ({"trainings": [Training("sagpool-h", dropout=1)]}, r"^The dropout rate must be at leas"),
    ],
)
def test_wrong_input_is_refused_with_a_sentence(wrong, sentence, mutag, kit):
    arguments = {"trainings": kit.trainings(1), **wrong}
    with pytest.raises(SagpoolError, match=sentence):
        train(mutag, arguments.pop("trainings"), **arguments)


def test_graphs_without_classes_are_refused(mutag, kit):
    sentence = r"^MUTAG has fewer than two classes\.$"
    with pytest.raises(SagpoolError, match=sentence):
        train(replace(mutag, y=None), kit.trainings(1))
    with pytest.raises(SagpoolError, match=sentence):
        train(replace(mutag, class_names=("all",)), kit.trainings(1))


@pytest.mark.parametrize(
    ("device", "sentence"), [("banana", "no kind of device"), ("cuda", "no CUDA device")]
)
def test_an_unknown_or_missing_device_is_refused(device, sentence, mutag, kit, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SagpoolError, match=sentence):
        train(mutag, kit.trainings(1), device=device)


def test_trainings_must_be_a_list(mutag, kit):
    for wrong in (kit.trainings(1)[0], ["sagpool-h"]):
        with pytest.raises(SagpoolError, match="list of Training"):
            train(mutag, wrong)


def test_an_unusable_checkpoint_file_is_reported_before_training(mutag, kit, tmp_path):
    (tmp_path / "file").touch()
    epochs: list = []
    unusable = tmp_path / "file" / "run.npz"
    with pytest.raises(SagpoolError, match="cannot be read"):
        train(mutag, kit.trainings(1), checkpoint=unusable, on_progress=epochs.append)
    assert not epochs
    with pytest.raises(SagpoolError, match="cannot be read"):
        train(mutag, kit.trainings(1), checkpoint=str(tmp_path))


def test_a_checkpoint_is_not_continued_on_other_data(mutag, kit, tmp_path):
    trainings, file = kit.trainings(1), tmp_path / "run.npz"
    train(mutag, trainings, checkpoint=file)
    other = replace(mutag, y=mutag.y.flip(0))
    with pytest.raises(SagpoolError, match="other trainings"):
        train(other, trainings, checkpoint=file)


def test_a_failing_refill_loses_no_result(mutag, kit, tmp_path, monkeypatch):
    trainings, file = kit.trainings(3), tmp_path / "run.npz"
    expected = train(mutag, trainings, members=1)

    def fail(fleet):
        if fleet.finished.any():
            raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(sagpool.fleet.fleet.Fleet, "refill", fail)
        with pytest.raises(ZeroDivisionError):
            train(mutag, trainings, members=1, checkpoint=file)
    reported: list = []
    results = train(mutag, trainings, members=1, checkpoint=file, on_result=reported.append)
    kit.same(results, expected)
    assert len(reported) == 2, "the first was trained twice"
