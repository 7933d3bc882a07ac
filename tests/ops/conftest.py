import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from sagpool.graphs import Graphs, load


class Sparse(NamedTuple):
    """A square matrix in CSR form and as a dense tensor."""

    row_ptr: Tensor
    col: Tensor
    weight: Tensor
    dense: Tensor


@pytest.fixture(scope="session")
def sparse() -> Callable[..., Sparse]:
    """Random matrices with empty rows; duplicate entries add up."""

    def make(rows: int, entries: int, *, spare: int = 0, seed: int = 0) -> Sparse:
        """``spare`` more entries after the last row belong to no row."""
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
def mutag() -> Graphs:
    """With different features for all atoms: rounding would decide between equal ones."""
    graphs = load("MUTAG")
    random = torch.Generator().manual_seed(0)
    features = torch.randn(graphs.num_nodes, 3, generator=random)
    return replace(graphs, node_attr=features).to(os.environ["SAGPOOL_TEST_DEVICE"])


@pytest.fixture
def by_kernels(use_kernels: Callable[[bool], None]) -> Callable[[], None]:
    """Operators use torch, on a GPU too, until this is called; kernels from then on."""
    use_kernels(False)
    return lambda: use_kernels(True)


def values_and_gradients(compute: Callable, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = compute(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    total: Any = 0.0
    for out in results:
        direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
        total = total + (out * direction).sum()
    return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)


@pytest.fixture
def same_by_kernels(by_kernels: Callable[[], None]) -> Callable[..., None]:
    """Compares values and gradients of torch's operators with those of the kernels."""

    def compare(compute: Callable, inputs: Sequence[Tensor], rtol=1e-5, atol=1e-5) -> None:
        expected = values_and_gradients(compute, inputs)
        by_kernels()
        found = values_and_gradients(compute, inputs)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)

    return compare
