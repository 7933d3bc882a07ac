import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.nn import GPool, Unpool, unpool


def test_rows_go_back_to_their_places(agree):
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    out = GPool(3).double()(x, torch.tensor([[0, 1], [1, 0]]))
    back = Unpool()(out.x, out.perm, len(x))
    expected = torch.zeros(7, 3, dtype=torch.float64)
    for row, place in zip(out.x.detach(), out.perm, strict=True):
        expected[place] = row
    assert torch.equal(back, expected)
    assert torch.equal(back, unpool(out.x, out.perm, 7))
    agree(back[out.perm], out.x, [x])


def test_rows_of_another_level():
    with pytest.raises(SagpoolError, match="x has 3 rows, but perm has 2"):
        Unpool()(torch.ones(3, 1), torch.tensor([0, 1]), 5)
