import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sagpool.ops import top_of_each

pytestmark = pytest.mark.usefixtures("path")

# Few values, so that ties are frequent; 0.0 equals -0.0, and the smallest differences count.
values = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0 + 2**-23, math.inf, -math.inf, 2**-149, -(2**-149)]),
    st.floats(width=32, allow_nan=False),
)
graphs = st.lists(
    st.lists(values, min_size=1, max_size=8).flatmap(
        lambda scores: st.tuples(st.just(scores), st.integers(1, len(scores)))
    ),
    min_size=1,
    max_size=5,
)


def tops(scores: list[list[float]], counts: list[int], dtype: torch.dtype) -> list[list[int]]:
    """The marked nodes of each graph."""
    sizes = torch.tensor([len(part) for part in scores])
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    graph = torch.repeat_interleave(torch.arange(len(scores)), sizes)
    flat = torch.tensor([value for part in scores for value in part], dtype=dtype)
    marked = top_of_each(flat, graph, ptr, torch.tensor(counts))
    assert marked.dtype == torch.bool
    return [part.nonzero().view(-1).tolist() for part in marked.split(sizes.tolist())]


@given(graphs=graphs, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_the_highest_are_marked_and_ties_go_to_the_lower_row(graphs, dtype):
    expected = [
        sorted(sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:count])
        for scores, count in graphs
    ]
    assert tops([scores for scores, _ in graphs], [c for _, c in graphs], dtype) == expected


def test_positive_and_negative_zero_tie():
    assert tops([[-0.0, 0.0, -0.0], [0.0, -0.0]], [1, 1], torch.float32) == [[0], [0]]


def test_rounding_in_double_precision_does_not_decide():
    """The scores of nodes with the same neighbourhood differ by rounding only."""
    third = 1 / 3
    assert tops([[third, third + 1e-16, third - 1e-16, 0.3]], [2], torch.float64) == [[0, 1]]


@given(graphs=graphs, broken=st.integers(0, 4), where=st.integers(0, 7), sign=st.booleans())
def test_a_nan_does_not_change_how_many_are_kept(graphs, broken, where, sign):
    scores, counts = [list(part) for part, _ in graphs], [count for _, count in graphs]
    before = tops(scores, counts, torch.float32)
    broken %= len(scores)
    scores[broken][where % len(scores[broken])] = math.nan if sign else -math.nan
    after = tops(scores, counts, torch.float32)
    assert len(after[broken]) == counts[broken]
    assert [part for g, part in enumerate(after) if g != broken] == [
        part for g, part in enumerate(before) if g != broken
    ]


def test_all_of_a_graph_may_be_nan():
    nan = math.nan
    assert tops([[1.0, 2.0], [nan, nan, nan], [2.0, 1.0]], [1, 2, 1], torch.float32) == [
        [1],
        [0, 1],
        [0],
    ]
