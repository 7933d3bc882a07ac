"""How exactly trainings are computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from sagpool.errors import SagpoolError


class Precision(NamedTuple):
    dtype: torch.dtype  # of weights, features and all sums
    # Of float32 factors in products on a GPU, in the words of torch.set_float32_matmul_precision:
    # float32 itself, tf32 or bf16.
    products: str = "highest"


PRECISIONS = {
    "float32": Precision(torch.float32),
    "float64": Precision(torch.float64),
    "tf32": Precision(torch.float32, "high"),
    "bf16": Precision(torch.float32, "medium"),
}


def precision_on(name: str, device: torch.device) -> Precision:
    """The precision of that name, if the device has it."""
    precision = PRECISIONS[name]
    if precision.products != "highest" and device.type != "cuda":
        raise SagpoolError(f"{name} is for GPUs; on {device} take float32 or float64.")
    return precision


@contextmanager
def computing_in(name: str, device: torch.device) -> Iterator[Precision]:
    """Let torch multiply in this precision for a while."""
    precision = precision_on(name, device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision.products)
    try:
        yield precision
    finally:
        torch.set_float32_matmul_precision(before)
