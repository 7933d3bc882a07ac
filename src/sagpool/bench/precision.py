"""The numerical precision of trainings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch

from sagpool.errors import SagpoolError


class Precision(NamedTuple):
    dtype: torch.dtype  # type of weights, features and all sums
    # Precision of float32 matrix products on a GPU, as in torch.set_float32_matmul_precision:
    # "highest" is float32, "high" tf32, "medium" bf16.
    matmul: str = "highest"


PRECISIONS = {
    "float32": Precision(torch.float32),
    "float64": Precision(torch.float64),
    "tf32": Precision(torch.float32, "high"),
    "bf16": Precision(torch.float32, "medium"),
}


def precision_on(name: str, device: torch.device) -> Precision:
    """The precision of that name; an error if the device does not support it."""
    precision = PRECISIONS[name]
    if precision.matmul != "highest" and device.type != "cuda":
        raise SagpoolError(f"{name} needs a GPU; on {device} use float32 or float64.")
    return precision


@contextmanager
def computing_in(name: str, device: torch.device) -> Iterator[Precision]:
    """Set torch's matmul precision for the duration of the block."""
    precision = precision_on(name, device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision.matmul)
    try:
        yield precision
    finally:
        torch.set_float32_matmul_precision(before)
