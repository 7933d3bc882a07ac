"""MUTAG, small trainings on it, and comparisons of the results of two runs."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import sagpool
from sagpool.fleet import Result, Training


def some_trainings(count: int, method: str = "sagpool-h", **settings) -> list[Training]:
    """Small ones that differ in everything that members may differ in, and in their last epoch.

    In methods whose k depends on the training graphs, the first two have different k.
    """
    defaults = {"hidden": 8, "batch_size": 80, "patience": 2}
    return [
        Training(
            method,
            **{
                "seed": 1 + i // 3,
                "fold": i % 3,
                "lr": (0.01, 0.003, 0.05)[i % 3],
                "weight_decay": (1e-4, 1e-2)[i % 2],
                "max_epochs": (4, 6, 3, 5)[i % 4],
                **defaults,
                **settings,
            },
        )
        for i in range(count)
    ]


def assert_same(actual: list[Result], expected: list[Result]) -> None:
    """Bit for bit, apart from the time."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        one, other = replace(one, seconds=0.0), replace(other, seconds=0.0)
        assert repr(one.row()) == repr(other.row())  # NaN is not equal to itself, but its repr is
        for name in vars(one.curve):
            assert getattr(one.curve, name).tobytes() == getattr(other.curve, name).tobytes()
        assert (one.weights is None) == (other.weights is None)
        if one.weights is not None and other.weights is not None:
            assert one.weights.keys() == other.weights.keys()
            assert all(torch.equal(one.weights[key], other.weights[key]) for key in one.weights)


def assert_close(actual: list[Result], expected: list[Result], tolerance: float = 1e-9) -> None:
    """Up to rounding, apart from the time."""
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        row, expected_row = one.row(), other.row()
        for rows in (row, expected_row):
            del rows["seconds"]
        for name, value in expected_row.items():
            if name.endswith("_loss"):
                assert row.pop(name) == pytest.approx(value, abs=tolerance), name
            else:
                assert row.pop(name) == value, name
        assert not row
        assert_close_curves(one, other, tolerance)


def assert_close_curves(one: Result, other: Result, tolerance: float) -> None:
    for name in vars(one.curve):
        curves = getattr(one.curve, name), getattr(other.curve, name)
        np.testing.assert_allclose(*curves, rtol=0, atol=tolerance, err_msg=name)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """With graphs this small, threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def mutag() -> sagpool.Graphs:
    return sagpool.load("MUTAG")


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """Functions for all test files, which cannot import each other in importlib mode."""
    return SimpleNamespace(
        trainings=some_trainings,
        same=assert_same,
        close=assert_close,
        close_curves=assert_close_curves,
    )
