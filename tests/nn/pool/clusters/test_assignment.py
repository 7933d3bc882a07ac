import torch
from torch.autograd import gradcheck

from sagpool.nn.pool.clusters.assignment import soft_assignment


def logits(rows=6, clusters=4):
    random = torch.Generator().manual_seed(rows)
    return torch.randn(rows, clusters, generator=random, dtype=torch.float64).requires_grad_()


def test_probabilities_and_entropy(agree):
    z = logits()
    found, s = soft_assignment(z), z.softmax(1)
    agree(found.assignment, s, [z])
    agree(found.entropy, -(s * s.log()).sum(1), [z])


def test_gradients():
    assert gradcheck(soft_assignment, [logits()])


def test_a_one_hot_row_has_zero_entropy_and_a_finite_gradient():
    z = torch.tensor([[1e4, 0, -1e4]], requires_grad=True)
    s, entropy = soft_assignment(z)
    assert s.tolist() == [[1, 0, 0]]
    assert entropy.item() == 0
    assert torch.autograd.grad(entropy.sum() + s[0, 0], z)[0].tolist() == [[0, 0, 0]]


def test_a_nan_stays_in_its_row():
    z = logits()
    z.data[2] = torch.nan
    s, entropy = soft_assignment(z)
    grad = torch.autograd.grad(entropy.sum() + s.square().sum(), z)[0]
    for values in (s, entropy[:, None], grad):
        assert values.isnan().any(1).tolist() == [row == 2 for row in range(6)]
