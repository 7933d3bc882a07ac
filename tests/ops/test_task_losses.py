import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from sagpool.ops import binary_losses, cross_entropy_sums, squared_losses

NAN = torch.nan
TARGETS = torch.tensor([[[0.0, 1.0, NAN], [NAN, NAN, NAN], [1.0, 1.0, 0.0]]] * 2)


def test_targets_that_are_not_measured_do_not_count():
    torch.manual_seed(0)
    outputs = (3 * torch.randn(2, 3, 3, dtype=torch.float64)).requires_grad_()
    spread = torch.rand(2, 1, 3, dtype=torch.float64) + 0.5
    losses = binary_losses(outputs, TARGETS), squared_losses(outputs, TARGETS, spread)
    for member in range(2):
        for graph in range(3):
            known = ~TARGETS[member, graph].isnan()
            own, wanted = outputs[member, graph][known], TARGETS[member, graph][known].double()
            if not known.any():
                expected = [torch.zeros(()).double()] * 2
            else:
                errors = (own - wanted) / spread[member, 0][known]
                expected = [
                    binary_cross_entropy_with_logits(own, wanted),
                    errors.square().mean(),
                ]
            torch.testing.assert_close([loss[member, graph] for loss in losses], expected)
    (grad,) = torch.autograd.grad(sum(losses).sum(), outputs)
    assert grad.isfinite().all()
    assert not grad[:, 1].any()


def test_the_weight_of_a_class_multiplies_the_loss_of_its_graphs():
    logits, y = torch.randn(2, 4, 3, dtype=torch.float64), torch.tensor([[0, 1, 2, 0]] * 2)
    real = torch.tensor([[True, True, True, False]] * 2)
    weight = torch.tensor([[1.0, 2.0, 0.5], [1.0, 1.0, 1.0]], dtype=torch.float64)
    found = cross_entropy_sums(logits, y, real, class_weight=weight)
    each = -logits.log_softmax(2).gather(2, y[..., None]).squeeze(2)[:, :3]
    torch.testing.assert_close(found, (each * weight[:, [0, 1, 2]]).sum(1))
    torch.testing.assert_close(found[1], cross_entropy_sums(logits, y, real)[1])
