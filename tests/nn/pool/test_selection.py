import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import load, pack
from sagpool.nn import GPool, Selection
from sagpool.nn.pool import selection

sizes = st.lists(st.integers(1, 100_000), min_size=1, max_size=8).map(lambda s: np.array([s]))


def counts(sizes, **selection):
    return Selection(**selection).counts(np.asarray(sizes)).tolist()


def test_six_tenths_of_25_are_15():
    assert counts([[25, 5, 10]], ratio=0.6) == [[15, 3, 6]]


@given(sizes=sizes, numerator=st.integers(1, 1000), denominator=st.integers(1, 1000))
@example(sizes=np.array([[25]]), numerator=6, denominator=10)
def test_exactly_the_ceiling_of_the_product(sizes, numerator, denominator):
    ratio = Fraction(min(numerator, denominator), max(numerator, denominator))
    exact = [[math.ceil(ratio * int(n)) for n in sizes[0]]]
    assert counts(sizes, ratio=ratio) == exact
    assert counts(sizes, ratio=float(ratio)) == exact


@given(sizes=sizes, digits=st.integers(1, 10**6))
def test_a_decimal_fraction_is_what_it_is_written_as(sizes, digits):
    ratio = Fraction(digits, 10**6)
    assert counts(sizes, ratio=digits / 10**6) == [[math.ceil(ratio * int(n)) for n in sizes[0]]]


@given(sizes=sizes, k=st.integers(1, 1000))
def test_k_or_all_of_fewer(sizes, k):
    assert counts(sizes, k=k) == [[min(k, n) for n in sizes[0].tolist()]]


def test_an_integer_ratio_is_a_k():
    assert counts([[9, 2, 1]], ratio=1) == [[1, 1, 1]]
    assert counts([[9, 2, 1]], ratio=np.int64(2)) == [[2, 2, 1]]
    assert counts([[9, 2, 1]], ratio=1.0) == counts([[9, 2, 1]], ratio=Fraction(1)) == [[9, 2, 1]]


def test_a_k_for_each_graph_goes_before_the_ratio():
    assert counts([[4, 4, 1], [9, 2, 2]], ratio=0.1, k=np.array([3, 1, 5])) == [
        [3, 1, 1],
        [3, 1, 2],
    ]


@pytest.mark.parametrize("ratio", [0, -0.5, 1.0001, math.nan, Fraction(3, 2)])
def test_wrong_ratios(ratio):
    with pytest.raises(SagpoolError, match="above 0 and at most 1"):
        Selection(ratio)


@pytest.mark.parametrize("k", [0, -1, 2.0, True, np.array([1, 0]), np.array([], int)])
def test_wrong_k(k):
    with pytest.raises(SagpoolError, match="integers of at least 1"):
        Selection(k=k)


def test_k_for_other_graphs():
    with pytest.raises(SagpoolError, match=r"shape \(2,\), which does not fit 3 graphs"):
        counts([[4, 4, 4]], k=np.array([1, 2]))


def test_a_k_for_each_graph_of_a_packed_batch():
    graphs = load("MUTAG")
    batch = pack(graphs, [[0, 1, 2], [3, 4, 5]])
    pooled = GPool(graphs.num_features, k=np.array([1, 2, 3]), members=2)(batch.x, batch.structure)
    assert pooled.structure.layout.sizes[:, :-1].tolist() == [[1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize("ratio", ["1/2", None, [0.5]])
def test_a_ratio_is_a_number(ratio):
    with pytest.raises(SagpoolError, match="ratio must be"):
        Selection(ratio)


def test_k_on_a_device_follows_its_owner():
    device, k = torch.device("cpu"), np.array([[3], [5]])
    selection = Selection(k=k)
    on_device = selection.k_on(device, 2)
    assert on_device.tolist() == [3, 5]
    k[1] = 4
    selection.refresh(device, 2)
    assert selection.k_on(device, 2) is on_device, "a recording reads it there"
    assert on_device.tolist() == [3, 4]
    assert Selection(k=7).k_on(device, 3).tolist() == [7, 7, 7]
    assert Selection(0.5).k_on(device, 3) is None


def test_a_k_that_could_not_be_copied_is_not_there(monkeypatch):
    """A recording cannot copy; the step that is tried after it must not see arbitrary numbers."""

    def refuse(*_):
        raise RuntimeError("capturing")

    wanted = Selection(k=7)
    with monkeypatch.context() as recording:
        recording.setattr(selection, "to_device", refuse)
        with pytest.raises(RuntimeError, match="capturing"):
            wanted.k_on(torch.device("cpu"), 2)
    assert wanted.k_on(torch.device("cpu"), 2).tolist() == [7, 7]
