from collections.abc import Callable
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
