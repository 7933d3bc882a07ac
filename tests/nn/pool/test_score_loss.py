"""The loss of supervised scores against the equation in float64."""

import torch

from sagpool.graphs import Adjacency
from sagpool.nn.pool.score_loss import score_losses
from sagpool.testing import random_graphs

SIZES = [6, 1, 9, 4]
NOTHING_KNOWN = 3  # number of the graph whose targets are zero


def batch():
    graphs = random_graphs(3, SIZES)
    layout = Adjacency.from_edge_index(graphs.edge_index, graphs.batch).layout
    generator = torch.Generator().manual_seed(0)
    score = 3 * torch.randn(sum(SIZES), generator=generator, dtype=torch.float64)
    target = torch.rand(sum(SIZES), generator=generator, dtype=torch.float64)
    target[::3] = 0
    target[1::4] = 7
    target[graphs.batch == NOTHING_KNOWN] = 0
    return layout, score.requires_grad_(), target


def by_the_equation(score, target):
    """``1/N Σ t log(t / α)``, one graph after the other; 0 log 0 is 0."""
    losses = []
    for alone, wanted in zip(score.split(SIZES), target.split(SIZES), strict=True):
        alpha = alone.exp() / alone.exp().sum()
        t = wanted / wanted.sum() if wanted.any() else wanted
        terms = [one * (one / a).log() for one, a in zip(t, alpha, strict=True) if one > 0]
        losses.append(sum(terms, torch.zeros((), dtype=score.dtype)) / len(alone))
    return torch.stack(losses)


def test_it_is_the_divergence_of_targets_and_softmax():
    layout, score, target = batch()
    found, expected = score_losses(score, target, layout), by_the_equation(score, target)
    torch.testing.assert_close(found, expected)
    assert found[1] == 0, "a single node has all the attention"
    assert found[NOTHING_KNOWN] == 0
    weight = torch.arange(1.0, 5, dtype=torch.float64)
    grads = [torch.autograd.grad((one * weight).sum(), score)[0] for one in (found, expected)]
    torch.testing.assert_close(*grads)


def test_scores_far_apart_have_a_finite_loss_and_gradient():
    layout, score, target = batch()
    wide = (1e4 * score.detach()).float().requires_grad_()
    losses = score_losses(wide, target.float(), layout)
    (grad,) = torch.autograd.grad(losses.sum(), wide)
    assert losses.isfinite().all()
    assert grad.isfinite().all()


def test_targets_need_no_scale():
    layout, score, target = batch()
    one, other = (score_losses(score, factor * target, layout) for factor in (1, 50))
    torch.testing.assert_close(one, other)
