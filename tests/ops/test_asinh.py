import torch

from sagpool.ops.asinh import asinh


def test_asinh_and_its_gradient_are_those_of_torch():
    x = torch.tensor([0.0, 1e-9, -0.3, 2.0, -5e3, 1e17], dtype=torch.float64, requires_grad=True)
    found, expected = asinh(x), x.asinh()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    of_found, of_expected = (torch.autograd.grad(y.sum(), x)[0] for y in (found, expected))
    torch.testing.assert_close(of_found, of_expected, rtol=1e-12, atol=0)
    assert torch.autograd.gradgradcheck(asinh, (x[:4],))


def test_asinh_of_huge_numbers_is_finite_in_float32():
    found = asinh(torch.tensor([3e38, -3e38]))
    assert found.isfinite().all()
    assert found[0] == -found[1]
