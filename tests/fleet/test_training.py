"""`Training`: checks, defaults and random streams."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sagpool.errors import SagpoolError
from sagpool.fleet import Training


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"hidden": 1}, "hidden must be at least 2, not 1."),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0."),
        ({"patience": 0}, "patience must be at least 1, not 0."),
        ({"max_epochs": 0}, "max_epochs must be at least 1, not 0."),
        ({"folds": 1}, "folds must be at least 2, not 1."),
        ({"lr": 0.0}, "lr must be above 0 and weight_decay at least 0: 0.0, 0.0001."),
        ({"lr": float("nan")}, "lr must be a finite number, not nan."),
        ({"weight_decay": -1.0}, "lr must be above 0 and weight_decay at least 0: 0.0005, -1.0."),
        ({"validation": 0.0}, "validation must be in (0, 1), not 0.0."),
        ({"validation": 1.0}, "validation must be in (0, 1), not 1.0."),
        ({"hidden": 2.5}, "hidden must be int, not 2.5."),
        ({"seed": "one"}, "seed must be int, not 'one'."),
        ({"lr": None}, "lr must be float, not None."),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(wrong, sentence):
    with pytest.raises(SagpoolError) as raised:
        Training("sagpool-h", **wrong)
    assert str(raised.value) == sentence


def test_the_defaults_are_the_authors():
    training = Training("sagpool-h")
    assert (training.lr, training.weight_decay, training.hidden) == (5e-4, 1e-4, 128)
    assert (training.ratio, training.batch_size, training.patience) == (0.5, 128, 50)
    assert (training.max_epochs, training.folds, training.validation) == (100_000, 10, 0.1)


def test_streams_differ_by_setting_data_set_and_purpose():
    base = Training("sagpool-h")
    others = [
        replace(base, **own)
        for own in (
            {"method": "gpool-h"}, {"seed": 1}, {"fold": 1}, {"lr": 0.1}, {"weight_decay": 0.1},
            {"hidden": 64}, {"ratio": 0.25}, {"dropout": 0.1}, {"batch_size": 64},
            {"patience": 9}, {"max_epochs": 9}, {"folds": 5}, {"validation": 0.2},
        )
    ]  # fmt: skip
    streams = [training.stream("weights", "MUTAG") for training in (base, *others)]
    streams += [base.stream("order", "MUTAG"), base.stream("weights", "PROTEINS")]
    assert len(set(streams)) == len(streams)
    assert all(-(2**63) <= stream < 2**63 for stream in streams)
    assert base.stream("weights", "MUTAG") == Training("sagpool-h").stream("weights", "MUTAG")


def test_equal_trainings_have_equal_streams_whatever_their_types():
    plain = Training("sagpool-h", seed=3, lr=1.0, ratio=0.25, hidden=16)
    other = Training(
        np.str_("sagpool-h"), seed=np.int64(3), lr=1, ratio=Fraction(1, 4), hidden=np.int32(16)
    )
    assert plain == other
    assert plain.stream("weights", "MUTAG") == other.stream("weights", "MUTAG")
    assert repr(plain) == repr(other)


def test_a_repeated_training_is_the_same_as_a_new_one():
    """Also the order of its settings, on which its key and random numbers depend."""
    own = Training("kmis-h", lr=1, hidden=16, method_settings={"hops": 2})
    repeated, new = own.repeated(3, 4), replace(own, seed=3, fold=4)
    assert repeated == new
    assert hash(repeated) == hash(new)
    assert list(repeated.to_dict().items()) == list(new.to_dict().items())
    assert repeated.stream("weights", "MUTAG") == new.stream("weights", "MUTAG")
    assert (own.seed, own.fold) == (0, 0)
