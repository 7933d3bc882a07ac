import pytest
import torch
from torch.autograd import gradcheck

from sagpool.ops import propagate

ROWS = 7


def features(channels: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(channels)
    x = torch.randn(ROWS, channels, generator=random, dtype=torch.float64)
    return x.requires_grad_()


@pytest.fixture(scope="module")
def spare(path) -> int:
    """Entries after the last row, which exist on devices only."""
    return 4 if path == "device path" else 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_weighted_sums_are_the_dense_product(sparse, spare, agree, channels, seed):
    row_ptr, col, weight, dense = sparse(ROWS, 15, spare=spare, seed=seed)
    x = features(channels)
    y = propagate(x, row_ptr, col, weight, symmetric=False)
    agree(y, dense @ x, [x])


@pytest.mark.parametrize("channels", [1, 3])
def test_without_weights_every_entry_counts_once(sparse, spare, agree, channels):
    row_ptr, col, _, _ = sparse(ROWS, 15, spare=spare)
    counts = torch.zeros(ROWS, ROWS, dtype=torch.float64)
    for i in range(ROWS):
        for j in col[row_ptr[i] : row_ptr[i + 1]]:
            counts[i, j] += 1
    x = features(channels)
    agree(propagate(x, row_ptr, col, symmetric=False), counts @ x, [x])


@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_of_a_symmetric_matrix(path, agree, channels):
    half = torch.rand(ROWS, ROWS, generator=torch.Generator().manual_seed(1)).double()
    dense = (half + half.T) * (half + half.T > 1)
    row, col = dense.nonzero().T
    row_ptr = torch.tensor([int((row < i).sum()) for i in range(ROWS + 1)]).int()
    x = features(channels)
    y = propagate(x, row_ptr, col.int(), dense[row, col], symmetric=True)
    agree(y, dense @ x, [x])


@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_of_rows_and_weights(sparse, spare, channels):
    row_ptr, col, weight, _ = sparse(ROWS, 15, spare=spare)

    def y(x, weight):
        return propagate(x, row_ptr, col, weight, symmetric=False)

    assert gradcheck(y, (features(channels), weight.requires_grad_()))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_nan_reaches_neighbours_only(path, channels, symmetric):
    # Two pairs, 0 - 1 and 2 - 3, with self-loops; row 0 has the NaN.
    row_ptr = torch.tensor([0, 2, 4, 6, 8], dtype=torch.int32)
    col = torch.tensor([0, 1, 0, 1, 2, 3, 2, 3], dtype=torch.int32)
    x = torch.ones(4, channels)
    x[0] = torch.nan
    x.requires_grad_()
    y = propagate(x, row_ptr, col, symmetric=symmetric)
    assert y.isnan().any(1).tolist() == [True, True, False, False]
    y.square().sum().backward()
    assert x.grad.isnan().any(1).tolist() == [True, True, False, False]


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_may_be_strided(sparse, spare, agree, channels):
    row_ptr, col, weight, dense = sparse(ROWS, 15, spare=spare)
    wide = features(2 * channels)
    x = wide[:, channels:]
    agree(propagate(x, row_ptr, col, weight, symmetric=False), dense @ x, [wide])
