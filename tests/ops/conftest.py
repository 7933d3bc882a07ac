from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import torch
from torch import Tensor


class Sparse(NamedTuple):
    """A square matrix twice: in CSR, and dense."""

    row_ptr: Tensor
    col: Tensor
    weight: Tensor
    dense: Tensor


@pytest.fixture(scope="session")
def sparse() -> Callable[..., Sparse]:
    """Random matrices with empty rows; an entry may stand there twice, and then counts twice."""

    def make(rows: int, entries: int, *, spare: int = 0, seed: int = 0) -> Sparse:
        """``spare`` entries more stand behind the last row, and belong to none."""
        random = torch.Generator().manual_seed(seed)
        row = torch.randint(0, rows, (entries,), generator=random).sort().values
        col = torch.randint(0, rows, (entries + spare,), generator=random, dtype=torch.int32)
        weight = torch.randn(entries + spare, generator=random, dtype=torch.float64)
        row_ptr = torch.tensor([0, *(int((row <= i).sum()) for i in range(rows))])
        dense = torch.zeros(rows, rows, dtype=torch.float64)
        for i, j, w in zip(row, col, weight, strict=False):
            dense[i, j] += w
        return Sparse(row_ptr.int(), col, weight, dense)

    return make


@pytest.fixture(scope="session")
def against_double() -> Callable[..., None]:
    """Compares values and gradients in single precision with others in double precision."""

    def values_and_gradients(compute: Callable, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        results = compute(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        total = torch.zeros((), device=leaves[0].device)
        for out in results:
            direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
            total = total + (out * direction).sum()
        return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)

    def compare(
        found: Callable, expected: Callable, inputs: Sequence[Tensor], close: float = 3e-6
    ) -> None:
        """``close`` is relative to the largest number of a result."""
        exact = values_and_gradients(expected, [x.double() for x in inputs])
        for one, other in zip(values_and_gradients(found, inputs), exact, strict=True):
            scale = float(other.abs().max()) + 1e-30
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=close * scale)

    return compare
