import numpy as np
import pytest

from sagpool import SagpoolError
from sagpool.explain.target import Target


def test_the_first_target_is_the_default():
    assert Target.of("multitask", ("a", "b"), None).name == "a"
    chosen = Target.of("multitask", ("a", "b"), "b")
    assert (chosen.name, chosen.place) == ("b", 1)
    assert chosen.sentence == "What is explained is b, one of 2 targets: a, b."


def test_one_target_may_be_named():
    target = Target.of("regression", ("a",), "a")
    assert target == Target.of("regression", ("a",), None)
    assert target.sentence is None


def test_unknown_targets():
    with pytest.raises(SagpoolError, match=r"^There is no target 'c', only a, b\.$"):
        Target.of("multitask", ("a", "b"), "c")
    with pytest.raises(SagpoolError, match=r"'c': the model predicts classes\.$"):
        Target.of("classification", (), "c")
    many = tuple(f"t{number}" for number in range(100))
    with pytest.raises(SagpoolError, match=r" t19, \.\.\.\.$"):
        Target.of("regression", many, "c")


def test_the_outputs_of_a_net():
    raw = np.array([[0.0, np.log(3.0)], [800.0, -800.0]])
    classes = Target.of("classification", (), None).outputs_of_net(raw)
    np.testing.assert_allclose(classes, [[0.25, 0.75], [1, 0]])
    task = Target.of("multitask", ("a", "b"), "b").outputs_of_net(raw)
    np.testing.assert_allclose(task, [[0.25, 0.75], [1, 0]])
    assert (Target.of("regression", ("a", "b"), "b").outputs_of_net(raw) == raw).all()
