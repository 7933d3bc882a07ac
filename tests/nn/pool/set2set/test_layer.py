import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.nn import Set2Set

pytestmark = pytest.mark.usefixtures("path")


def reference(pool, m, X):
    """One graph, with torch's LSTM cell."""
    channels = X.shape[1]
    weights = {
        "weight_ih": pool.from_input.weight[m].T,
        "weight_hh": pool.from_state.weight[m].T,
        "bias_ih": pool.from_input.bias[m, 0],
        "bias_hh": pool.from_state.bias[m, 0],
    }
    cell = torch.nn.LSTMCell(2 * channels, channels, dtype=X.dtype)
    query, state = X.new_zeros(1, 2 * channels), (X.new_zeros(1, channels),) * 2
    for _ in range(pool.steps):
        state = torch.func.functional_call(cell, weights, (query, state))
        attention = (X @ state[0][0]).softmax(0)
        query = torch.cat([state[0], (attention @ X)[None]], dim=1)
    return query[0]


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_equation(fleet, agree, steps):
    pool = Set2Set(3, steps=steps, members=3).double()
    x = fleet.features(3)
    expected = torch.stack([reference(pool, m, X) for m, _, X in fleet.each(x)])
    out = pool(x, fleet.adjacency).x
    assert out.shape == (fleet.adjacency.layout.sizes.size, 6)
    agree(out[fleet.places], expected, [x, *pool.parameters()])


def test_ten_steps_as_in_the_paper():
    assert Set2Set(3).steps == 10


def test_wrong_arguments():
    with pytest.raises(SagpoolError, match="at least 1 processing step, not 0"):
        Set2Set(3, steps=0)
