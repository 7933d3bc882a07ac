import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.nn import Dropout, Streams

KEYS = torch.tensor([5, 6, 7])


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_entries_are_dropped_at_the_rate_and_the_others_scaled(p):
    x = torch.rand(3000, 8, dtype=torch.float64) + 1
    x.requires_grad_()
    y = Dropout(p)(x, Streams(KEYS))
    kept = y != 0
    assert abs(kept.double().mean() - (1 - p)) < 4 * (p * (1 - p) / x.numel()) ** 0.5
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept / torch.tensor(1 - p).double())


def test_a_member_draws_the_same_in_any_company():
    x = torch.rand(30, 4)
    together = Dropout()(x, Streams(KEYS))
    for m, part in enumerate(x.split(10)):
        by_itself = Dropout()(part, Streams(KEYS[m : m + 1]))
        assert torch.equal(by_itself, together[10 * m : 10 * (m + 1)])
    # More rows for fillers do not change what the rows before them get.
    longer = Dropout()(torch.cat([x[:10], x[:5]]), Streams(KEYS[:1]))
    assert torch.equal(longer[:10], together[:10])


def test_every_call_drops_others():
    x, streams = torch.rand(30, 4), Streams(KEYS)
    assert not torch.equal(Dropout()(x, streams), Dropout()(x, streams))


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.rand(30, 4)
    assert torch.equal(Dropout(0.5).eval()(x, Streams(KEYS)), x)
    assert torch.equal(Dropout(0.0)(x, Streams(KEYS)), x)


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_wrong_rates(p):
    with pytest.raises(SagpoolError, match="at least 0 and below 1"):
        Dropout(p)


@pytest.mark.parametrize("first", [0, 3, 9])
def test_a_part_of_a_batch_drops_what_the_whole_drops(first):
    """Of the second call too, which has as many channels as it likes."""
    graphs, whole, part = 10, Streams(KEYS), Streams(KEYS, first)
    for channels in (4, 7):
        x = torch.rand(3, graphs, channels)
        expected = Dropout()(x.flatten(0, 1), whole).view_as(x)[:, first:]
        got = Dropout()(x[:, first:].flatten(0, 1), part)
        assert torch.equal(got.view_as(expected), expected)
