import torch

from sagpool.nn import SAGPool


def test_its_parameters_are_those_of_the_score_and_no_other():
    parameters = dict(SAGPool(5).named_parameters())
    assert {name: tuple(p.shape) for name, p in parameters.items()} == {
        "attention.gnns.0.0.linear.weight": (1, 5, 1),
        "attention.gnns.0.0.linear.bias": (1, 1, 1),
    }
    assert not list(SAGPool(5).buffers())


def test_variants_have_the_parameters_of_their_convolutions():
    def count(**options):
        return sum(p.numel() for p in SAGPool(5, **options).parameters())

    single = 5 + 1
    assert count(augmentation=True) == single
    assert count(parallel=4) == 4 * single
    assert count(serial=3) == 2 * (5 * 5 + 5) + single
    assert count(conv="cheb") == count(conv="sage") == 5 + 5 + 1
    assert count(conv="gat") == 6 * 5 + 6 + 6 + 1


def test_reset_parameters_draws_anew():
    pool = SAGPool(50, serial=2)
    before = [p.clone() for p in pool.parameters()]
    pool.reset_parameters()
    weights = [p for p in before if p.any()]
    assert len(weights) == 2
    after = [p for p in pool.parameters() if p.any()]
    assert all(not torch.equal(a, b) for a, b in zip(weights, after, strict=True))


def test_training_never_turns_the_top_into_the_bottom(packed):
    """Adam with weight decay drives every parameter that has no use through zero."""
    graph = packed(["ladder"])
    A = graph.matrices[0]
    X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    edge_index = A.nonzero().T
    loops = A + torch.eye(12)
    root = torch.diag(loops.sum(1) ** -0.5)
    normalised = root @ loops @ root
    torch.manual_seed(0)
    pool = SAGPool(4).double()
    goal = 0.3 * torch.randn(4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    optimizer = torch.optim.Adam(pool.parameters(), lr=5e-3, weight_decay=1e-4)
    theta, bias = pool.attention.gnns[0][0].linear.parameters()
    kept_sets = set()
    for _ in range(3000):
        raw = (normalised @ X @ theta[0] + bias[0]).detach().view(-1)
        out = pool(X, edge_index)
        dropped = torch.ones(12, dtype=torch.bool)
        dropped[out.perm] = False
        assert len(out.perm) == 6
        assert raw[out.perm].min() > raw[dropped].max() - 1e-6
        torch.testing.assert_close(out.score.detach(), raw[out.perm].tanh())
        kept_sets.add(tuple(out.perm.tolist()))
        optimizer.zero_grad()
        (out.x.mean(0) - goal).square().sum().backward()
        optimizer.step()
    assert len(kept_sets) > 1  # it did learn to choose others
