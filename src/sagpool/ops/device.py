"""The questions by which operators choose between ways to the same result."""

from types import ModuleType

from torch import Tensor

try:
    from sagpool.ops import kernels
except ImportError:  # no Triton
    kernels = None  # type: ignore[assignment]


def on_cpu(tensor: Tensor) -> bool:
    """Whether sizes may be read off the data: only a device has to be waited for."""
    return tensor.device.type == "cpu"


def kernels_for(tensor: Tensor) -> ModuleType | None:
    """The Triton kernels, where they run: on CUDA, if Triton is installed."""
    return kernels if tensor.is_cuda else None
