"""torch's sparse CSR matrices, without the warning that they are in beta."""

import warnings

import torch
from torch import Tensor


def csr_matrix(row_ptr: Tensor, col: Tensor, values: Tensor, columns: int) -> Tensor:
    """A sparse matrix of ``len(row_ptr) - 1`` rows; the indices are not checked."""
    size = (len(row_ptr) - 1, columns)
    return torch.sparse_csr_tensor(row_ptr, col, values, size, check_invariants=False)


# torch warns once per process, at the first such matrix.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    csr_matrix(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), 1)
