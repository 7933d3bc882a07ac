"""Early stopping, decided from losses, without training."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.fleet.stopping import LOSS, RULES, EarlyStopping

# Few different values, so that equal losses, which are no improvement, are common.
losses = st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5, math.nan, math.inf, -math.inf])
mostly_finite = st.one_of(st.sampled_from([0.1, 0.2, 0.3]), st.floats(0, 1), losses)


def run(validation, train=None, patience=3, max_epochs=1000, rule=LOSS):
    """The epochs of one member until it is finished: (improved, diverged) of each."""
    stopping = EarlyStopping.start(np.array([patience]), np.array([max_epochs]))
    so_far = []
    for epoch, loss in enumerate(validation):
        train_loss = 0.5 if train is None else train[epoch]
        verdict = stopping.update(np.array([train_loss]), np.array([loss]), rule=rule)
        so_far.append((bool(verdict.improved[0]), bool(verdict.diverged[0])))
        if verdict.finished[0]:
            return so_far, stopping
    raise AssertionError("it never stopped")


def test_stops_after_patience_epochs_without_a_lower_loss():
    so_far, stopping = run([0.9, 0.8, 0.85, 0.7, 0.71, 0.72, 0.73, 0.1], patience=3)
    assert [improved for improved, _ in so_far] == [True, True, False, True, False, False, False]
    assert stopping.best_epoch[0] == 4
    assert stopping.best_loss[0] == 0.7
    assert stopping.epoch[0] == 7


def test_an_equal_loss_is_no_improvement():
    so_far, stopping = run([0.5, 0.5, 0.5, 0.4], patience=2)
    assert so_far == [(True, False), (False, False), (False, False)]
    assert stopping.best_epoch[0] == 1


def test_the_rule_of_the_released_code():
    """An equal loss is an improvement, and the training stops after more than the patience."""
    losses = [0.5, 0.5, 0.6, 0.7, 0.5, 0.6, 0.6, 0.6, 0.4]
    so_far, stopping = run(losses, patience=2, rule=RULES["loss+norm"])
    improved = [True, True, False, False, True, False, False, False]
    assert [one for one, _ in so_far] == improved
    assert (stopping.best_epoch[0], stopping.epoch[0]) == (5, 8)


def test_stops_at_max_epochs_even_while_it_improves():
    so_far, stopping = run([0.5, 0.4, 0.3, 0.2], max_epochs=3)
    assert len(so_far) == 3
    assert stopping.best_epoch[0] == 3


def test_stops_at_a_loss_that_is_not_finite():
    for wrong in (math.nan, math.inf, -math.inf):
        so_far, stopping = run([0.5, wrong])
        assert so_far == [(True, False), (False, True)]
        assert (stopping.best_epoch[0], stopping.best_loss[0]) == (1, 0.5)
        so_far, stopping = run([0.5, 0.1], train=[0.5, wrong])
        assert so_far == [(True, False), (False, True)]
        assert (stopping.best_epoch[0], stopping.best_loss[0]) == (1, 0.5)


def test_a_member_that_never_had_a_finite_loss_has_no_best_epoch():
    _, stopping = run([math.nan])
    assert stopping.best_epoch[0] == 0
    assert stopping.epoch[0] == 1


@settings(max_examples=200, derandomize=True)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(1, 9), st.lists(mostly_finite, min_size=9, max_size=9)
        ),
        min_size=1,
        max_size=5,
    )
)
def test_each_member_is_judged_by_the_definition_alone(members):
    patience, most, validation = (np.array(values) for values in zip(*members, strict=True))
    stopping = EarlyStopping.start(patience, most)
    verdicts = [stopping.update(np.zeros(len(members)), validation[:, epoch]) for epoch in range(9)]
    for member, (own_patience, own_most, own_losses) in enumerate(members):
        finite = [math.isfinite(loss) for loss in own_losses]
        best_epoch = 0
        for epoch in range(1, 10):
            lower = all(
                own_losses[epoch - 1] < loss
                for loss, counts in zip(own_losses[: epoch - 1], finite, strict=False)
                if counts
            )
            if finite[epoch - 1] and lower:
                best_epoch = epoch
            verdict = verdicts[epoch - 1]
            assert verdict.improved[member] == (best_epoch == epoch)
            assert verdict.diverged[member] != finite[epoch - 1]
            assert verdict.finished[member] == (
                not finite[epoch - 1] or epoch - best_epoch >= own_patience or epoch >= own_most
            )
