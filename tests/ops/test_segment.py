import pytest
import torch
from torch.autograd import gradcheck

from sagpool.ops import (
    segment_expand,
    segment_max,
    segment_mean,
    segment_mean_max,
    segment_softmax,
    segment_sum,
)

pytestmark = pytest.mark.usefixtures("path")

SIZES = [3, 1, 4, 2]
WITH_EMPTY = [0, 3, 0, 1, 4, 0]
REDUCE = {
    segment_sum: lambda rows: rows.sum(0),
    segment_mean: lambda rows: rows.mean(0),
    segment_max: lambda rows: rows.max(0).values,
    segment_mean_max: lambda rows: torch.cat([rows.mean(0), rows.max(0).values]),
}


def runs(sizes, dtype=torch.int64):
    ptr = torch.tensor([sum(sizes[:i]) for i in range(len(sizes) + 1)], dtype=dtype)
    return ptr, torch.tensor([s for s, size in enumerate(sizes) for _ in range(size)])


def rows(sizes, channels, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(sum(sizes), channels, generator=random, dtype=torch.float64)
    return x.requires_grad_()


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("reduce", REDUCE)
def test_reductions_are_those_of_each_segment(agree, reduce, channels):
    x = rows(SIZES, channels)
    expected = torch.stack([REDUCE[reduce](part) for part in x.split(SIZES)])
    agree(reduce(x, *runs(SIZES)), expected, [x])
    assert gradcheck(lambda x: reduce(x, *runs(SIZES)), x)


@pytest.mark.parametrize("reduce", [segment_sum, segment_mean])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_empty_segment_gives_zero(agree, reduce, channels):
    x = rows(WITH_EMPTY, channels)
    parts = [REDUCE[reduce](p) if len(p) else p.sum(0) for p in x.split(WITH_EMPTY)]
    agree(reduce(x, *runs(WITH_EMPTY)), torch.stack(parts), [x])


def test_the_gradient_of_a_tied_maximum_adds_up_to_one():
    x = torch.tensor([[2.0], [5.0], [5.0], [1.0]], requires_grad=True)
    top = segment_max(x, *runs([3, 1]))
    assert top.tolist() == [[5.0], [1.0]]
    (10 * top).sum().backward()
    assert x.grad[0] == 0
    assert x.grad[1] + x.grad[2] == 10
    assert x.grad[3] == 10


@pytest.mark.parametrize("channels", [1, 3])
def test_expand_repeats_the_values_of_each_segment(agree, channels):
    values = rows([len(WITH_EMPTY)], channels)
    parts = [value.expand(size, -1) for value, size in zip(values, WITH_EMPTY, strict=True)]
    agree(segment_expand(values, *runs(WITH_EMPTY)), torch.cat(parts), [values])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("sizes", [SIZES, WITH_EMPTY])
def test_softmax_over_each_segment(agree, sizes, channels, dtype):
    x = rows(sizes, channels)
    expected = torch.cat([part.softmax(0) for part in x.split(sizes)])
    agree(segment_softmax(x, *runs(sizes, dtype)), expected, [x])
    assert gradcheck(lambda x: segment_softmax(x, *runs(sizes, dtype)), x)


def test_softmax_of_large_numbers():
    x = torch.tensor([[1000.0], [999.0], [-1000.0]])
    expected = torch.tensor([[1.0], [0.0], [0.0]]).softmax(0)
    softmax = segment_softmax(x, *runs([2, 1]))
    torch.testing.assert_close(softmax[:2], expected[:2] / expected[:2].sum())
    assert softmax[2] == 1


@pytest.mark.parametrize("last", [0, 2])
def test_spare_rows_after_the_last_segment_are_ignored(path, agree, last):
    """They exist on devices only, and refer to the last segment, which may be empty."""
    if path == "cpu path":
        return
    sizes, inside = [3, 1, last], 4 + last
    ptr, segment = runs(sizes)
    segment = torch.cat([segment, torch.tensor([2, 2])])
    x = rows([inside + 2], 3)
    x.data[inside:] = x.data[inside - 1]  # as for spare entries, which point to the last row
    parts = x[:inside].split(sizes)
    agree(segment_sum(x, ptr, segment), torch.stack([part.sum(0) for part in parts]), [x])
    attended = segment_sum(segment_softmax(x, ptr, segment) * x, ptr, segment)
    expected = torch.stack([(part.softmax(0) * part).sum(0) for part in parts])
    agree(attended, expected, [x])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_nan_stays_in_its_segment(channels):
    x = rows(SIZES, channels)
    x.data[1] = torch.nan
    ptr, segment = runs(SIZES)
    for reduce in REDUCE:
        reduced = reduce(x, ptr, segment)
        assert reduced.isnan().any(1).tolist() == [True, False, False, False]
        (grad,) = torch.autograd.grad(reduced.square().sum(), x)
        assert not grad[segment > 0].isnan().any()
    softmax = segment_softmax(x, ptr, segment)
    assert torch.equal(softmax.isnan().any(1), segment == 0)
    (grad,) = torch.autograd.grad(softmax.square().sum(), x)
    assert torch.equal(grad.isnan().any(1), segment == 0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("reduce", REDUCE)
def test_rows_may_be_strided(agree, reduce, channels):
    wide = rows(SIZES, 2 * channels)
    x = wide[:, channels:]
    expected = torch.stack([REDUCE[reduce](part) for part in x.split(SIZES)])
    agree(reduce(x, *runs(SIZES)), expected, [wide])
