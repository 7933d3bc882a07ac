"""Choosing rows of graphs that a batch vector tells apart."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.ops import rows_above, top_rows

pytestmark = pytest.mark.usefixtures("path")


def best(score, rows, count):
    return sorted(rows, key=lambda row: (-score[row], row))[:count]


@given(
    nodes=st.lists(
        st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 2.0]), st.sampled_from([0, 1, 2, 50])),
        min_size=1,
        max_size=20,
    ),
    ratio=st.sampled_from([Fraction(1, 2), Fraction(3, 5), Fraction(1), Fraction(1, 10**9)]),
    k=st.sampled_from([None, 1, 3, 100]),
    ordered=st.booleans(),
)
def test_top_rows(nodes, ratio, k, ordered):
    nodes = sorted(nodes, key=lambda node: node[1]) if ordered else nodes
    score, graph = zip(*nodes, strict=True)
    for batch in (graph, [0] * len(graph)):
        expected = []
        for one in set(batch):
            rows = [row for row, of in enumerate(batch) if of == one]
            expected += best(score, rows, k or math.ceil(ratio * len(rows)))
        given = torch.tensor(batch) if batch is graph else None
        mask = top_rows(torch.tensor(score), given, ratio, k)
        assert mask.nonzero().view(-1).tolist() == sorted(expected)


def test_a_k_for_each_graph():
    score = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    for order in (torch.arange(5), torch.tensor([3, 1, 4, 0, 2])):
        batch = torch.tensor([0, 0, 0, 2, 2])[order]
        mask = top_rows(score[order], batch, Fraction(1), torch.tensor([2, 9, 1]))
        assert sorted(score[order][mask].tolist()) == [2, 3, 5]


@pytest.mark.parametrize("batch", [torch.tensor([4, 0, 4, 0, 0]), None])
def test_rows_above_a_score_and_the_highest(batch):
    score = torch.tensor([0.2, 0.1, 0.2, 0.5, 0.3])
    highest = batch is not None  # of graph 4, two rows
    assert rows_above(score, batch, 0.25).tolist() == [highest, False, highest, True, True]
    nan = torch.full((5,), torch.nan)
    assert int(rows_above(nan, batch, 0.25).sum()) == (1 if batch is None else 2)
