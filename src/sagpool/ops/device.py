"""The questions by which operators choose between ways to the same result."""

from functools import cache
from types import ModuleType

from torch import Tensor


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
