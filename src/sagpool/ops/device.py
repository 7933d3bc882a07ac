"""The questions by which operators choose between ways to the same result."""

from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from sagpool.errors import SagpoolError


def on_cpu(tensor: Tensor) -> bool:
    """Whether sizes may be read off the data: only a device has to be waited for."""
    return tensor.device.type == "cpu"


def kernels_for(tensor: Tensor) -> ModuleType | None:
    """The Triton kernels, where they run: on CUDA, if Triton is installed."""
    return triton_kernels() if tensor.is_cuda else None


@cache
def triton_kernels() -> ModuleType | None:
    # Not at the top: Triton takes a second to import, and is of no use without a GPU.
    try:
        from sagpool.ops import kernels
    except ImportError:
        return None
    return kernels


def find_device(name: torch.device | str) -> torch.device:
    """The device of that name, if torch can use it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SagpoolError(f"There is no kind of device named '{name}'.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SagpoolError("There is no CUDA device here that torch can use; try device='cpu'.")
    return device
