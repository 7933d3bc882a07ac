"""Options of the protocol: the authors' first released code as a plain loop, and the defaults."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from sagpool.bench.plan import run_key
from sagpool.errors import SagpoolError
from sagpool.fleet import Paused, Training, train
from sagpool.fleet.checkpoint import identity_of, trainings_of
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.order import Members, Orders
from sagpool.fleet.schedule import Slots, group_by_shape, shape_of, split_of
from sagpool.fleet.stopping import RULES
from sagpool.fleet.train import train_until
from sagpool.graphs import pack, split
from sagpool.models import build

RELEASED = {"split": "contiguous", "order": "fixed", "stopping": "loss+norm"}


def released(kit, count, method="sagpool-h", **settings):
    """Small trainings whose best epochs depend on the norm of the weights."""
    usual = {"weight_decay": 0.01, "patience": 3, "max_epochs": 30, "dropout": 0.0}
    return kit.trainings(count, method, **{**usual, **RELEASED, **settings})


def plain_loop(graphs, training):
    """Validation losses and accuracies, the best epoch, and its test loss and accuracy.

    Only the initial weights and the order of the first epoch are those of the fleet.
    """
    fleet = Fleet(graphs, [training], Slots.fill([0], 1), torch.float64)
    (begun,) = fleet.lockstep.stack.state_dicts([True])
    model = build(training.method, shape_of(graphs, training)).double()
    model.load_state_dict(begun)
    parts = split(graphs.y, training.seed, training.fold, kind="contiguous")
    members = Members([parts.train], fleet.settings.order_keys, np.array([0]))
    batches = Orders(graphs, training.batch_size, 1).batches(members).on_host()
    adam = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)

    @torch.no_grad()
    def scores(part):
        logits, y = model(pack(graphs, [part])).logits[0, : len(part)], graphs.y[part]
        return float(cross_entropy(logits, y)), float((logits.argmax(1) == y).double().mean())

    curve, lowest, worse, best, test = [], math.inf, 0, 0, None
    for epoch in range(1, training.max_epochs + 1):
        for ids in batches:
            batch = pack(graphs, ids)
            adam.zero_grad()
            cross_entropy(model(batch).logits[batch.real], batch.y[batch.real]).backward()
            adam.step()
        loss, accuracy = scores(parts.validation)
        squares = sum(float((weight.detach() ** 2).sum()) for weight in model.parameters())
        loss += training.weight_decay * math.sqrt(squares)
        curve.append((loss, accuracy))
        if lowest >= loss:
            lowest, worse, best = loss, 0, epoch
            test = scores(parts.test)
        else:
            worse += 1
        if worse > training.patience:
            break
    return np.array(curve), best, test


def accepted(result):
    """The epochs that were the best so far, counted from 1."""
    losses = result.curve.validation_loss
    return 1 + np.flatnonzero(losses <= np.minimum.accumulate(losses))


def impatient(kit):
    return [replace(one, patience=1 + i % 3) for i, one in enumerate(released(kit, 9))]


@pytest.fixture(scope="module")
def fleet_of_nine(mutag, kit):
    return train(mutag, impatient(kit), members=4, dtype=torch.float64)


@pytest.mark.parametrize("position", range(9))
def test_a_member_trains_as_in_a_plain_loop(position, fleet_of_nine, mutag):
    result = fleet_of_nine[position]
    curve, best, test = plain_loop(mutag, result.training)
    assert (result.epochs, result.best_epoch) == (len(curve), best)
    np.testing.assert_allclose(result.curve.validation_loss, curve[:, 0], rtol=0, atol=1e-9)
    np.testing.assert_array_equal(result.curve.validation_accuracy, curve[:, 1])
    assert (result.test.loss, result.test.accuracy) == pytest.approx(test, abs=1e-9)


def test_these_trainings_wait_for_one_more_epoch_than_their_patience(fleet_of_nine):
    """Some of them stop then, and some find a better epoch just in time."""
    assert len({result.epochs for result in fleet_of_nine}) > 2
    assert any(
        result.training.patience + 1 in np.diff(accepted(result)) for result in fleet_of_nine
    )
    for result in fleet_of_nine:
        if result.epochs < result.training.max_epochs:
            assert result.epochs - result.best_epoch == result.training.patience + 1
        # The score of the best weights is the classification loss alone.
        penalised = result.curve.validation_loss[result.best_epoch - 1]
        assert result.validation.loss < penalised - 0.01


@pytest.mark.parametrize("option", RELEASED)
def test_each_option_by_itself_changes_the_training(option, mutag, kit):
    plain = {"split": "stratified", "order": "shuffled", "stopping": "loss"}
    (usual,) = released(kit, 1, **plain, max_epochs=4)
    other = replace(usual, **{option: RELEASED[option]})
    assert usual.stream("weights", "MUTAG") != other.stream("weights", "MUTAG")
    assert usual.to_dict() | {option: RELEASED[option]} == other.to_dict()
    assert Training.from_dict(other.to_dict()) == other
    expected = "contiguous" if option == "split" else "stratified"
    parts = split(mutag.y, usual.seed, usual.fold, kind=expected)
    assert np.array_equal(split_of(mutag, other).train, parts.train)


@pytest.mark.parametrize("method", ["sagpool-g", "gpool-h"])
def test_the_same_alone_and_beside_trainings_with_other_options(method, mutag, kit):
    """Members that stop by other rules are in fleets of their own."""
    trainings = [
        replace(one, **options)
        for one in released(kit, 3, method, dropout=0.5, max_epochs=8)
        for options in ({}, {"split": "stratified"}, {"order": "shuffled"}, {"stopping": "loss"})
    ]
    groups = [[0, 1, 4, 5, 8, 9], [2, 6, 10], [3, 7, 11]]
    assert group_by_shape(mutag, trainings) == groups
    together = train(mutag, trainings, members=4, dtype=torch.float64)
    for training, result in zip(trainings, together, strict=True):
        kit.close(train(mutag, [training], dtype=torch.float64), [result])


def test_the_order_stays_the_same_in_all_epochs(mutag):
    members = Members([np.arange(50), np.arange(90)], np.array([1, 2], np.uint64), np.array([0, 3]))
    orders = Orders(mutag, 32, 2, "fixed")
    first = [ids.tolist() for ids in orders.batches(members).on_host()]
    for epoch in range(1, 20):
        assert [ids.tolist() for ids in orders.batches(members.after(epoch)).on_host()] == first
    start = members._replace(epochs=np.zeros(2, np.int64))
    assert [ids.tolist() for ids in Orders(mutag, 32, 2).batches(start).on_host()] == first
    shuffled = [graph for ids in first for graph in ids[1]]
    assert shuffled != sorted(shuffled), "a data set is often sorted by class"


@pytest.mark.parametrize("epochs", [2, 5])
def test_several_epochs_before_the_host_looks(epochs, fleet_of_nine, mutag, kit, monkeypatch):
    monkeypatch.setattr("sagpool.fleet.pace.Pace.epochs_at_once", lambda pace, members: epochs)
    kit.close(train(mutag, impatient(kit), dtype=torch.float64), fleet_of_nine)


def test_a_checkpoint_keeps_the_options(mutag, kit, tmp_path):
    trainings = released(kit, 5, dropout=0.5)
    expected = train(mutag, trainings, members=3, keep_weights=True)
    file, seen = tmp_path / "fleet.npz", 0

    def stop(progress):
        nonlocal seen
        seen += 1
        if seen == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(mutag, trainings, members=3, keep_weights=True, checkpoint=file, on_progress=stop)
    again = train(mutag, trainings, members=3, keep_weights=True, checkpoint=file)
    kit.same(again, expected)
    others = [replace(one, stopping="loss") for one in trainings]
    with pytest.raises(SagpoolError, match="belongs to other trainings"):
        train(mutag, others, members=3, keep_weights=True, checkpoint=file)
    identity = identity_of(mutag, trainings, torch.float32, lambda training: True)
    assert trainings_of(identity) == trainings


def test_a_paused_training_goes_on_by_the_same_rule(mutag, kit):
    (training,) = released(kit, 1)
    (whole,) = train(mutag, [training], dtype=torch.float64)
    assert whole.best_epoch > 3
    (paused,) = train_until(mutag, [training], until=3, dtype=torch.float64)
    assert isinstance(paused, Paused)
    assert paused.state.best_loss == whole.curve.validation_loss[:3].min()
    begun = {training: paused.state}
    kit.close(train_until(mutag, [training], begun=begun, dtype=torch.float64), [whole])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (
            {"split": "sorted"},
            "split must be one of stratified, contiguous, fixed, given, not 'sorted'.",
        ),
        ({"order": "random"}, "order must be one of shuffled, fixed, not 'random'."),
        ({"stopping": "auc"}, f"stopping must be one of {', '.join(RULES)}, not 'auc'."),
        ({"stopping": True}, f"stopping must be one of {', '.join(RULES)}, not 'True'."),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(wrong, sentence):
    with pytest.raises(SagpoolError) as raised:
        Training("sagpool-h", **wrong)
    assert str(raised.value) == sentence


def test_the_defaults_are_no_part_of_an_identity(mutag):
    """Pinned: rows, checkpoints and random numbers from before these options stay valid."""
    training = Training("sagpool-h")
    assert list(training.to_dict()) == [
        *("method", "seed", "fold", "lr", "weight_decay", "hidden", "ratio", "dropout"),
        *("batch_size", "patience", "max_epochs", "folds", "validation"),
    ]
    assert training.stream("weights", "MUTAG") == -472667439281835549
    key = run_key(mutag, mutag.fingerprint(), training, "float32")
    assert key == "5cb310e3d35b8058e8174c5dd1d6b2e5"
    keys = {
        run_key(mutag, mutag.fingerprint(), replace(training, **{name: value}), "float32")
        for name, value in RELEASED.items()
    }
    assert len(keys | {key}) == 4
