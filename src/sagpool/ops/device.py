"""Where operators run: on the host, on a device, by kernels."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError


def on_cpu(tensor: Tensor) -> bool:
    """Whether reading values is free; on a GPU it would wait for the device."""
    return tensor.is_cpu and not tracing()


def tracing() -> bool:
    """Whether torch.compile, torch.export or a transform of torch.func follows the operations.

    Then tensors have no values to read, and only torch's own operations are understood.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def kernels_for(tensor: Tensor, package: str = "sagpool.ops.kernels") -> ModuleType | None:
    """The Triton kernels of a package, where they run: on CUDA, if Triton is installed."""
    wanted = tensor.is_cuda if _forced is None else _forced
    if not wanted or tracing() or is_batched(tensor):
        return None
    return triton_kernels(package)


def is_batched(tensor: Tensor) -> bool:
    """Whether this is one of many gradients that `torch.autograd.grad` computes at once."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


@cache
def triton_kernels(package: str = "sagpool.ops.kernels") -> ModuleType | None:
    # Not at the top: Triton takes a second to import, and is of no use without a GPU.
    try:
        return import_module(package)
    except ImportError:
        return None


_forced: bool | None = None


@contextmanager
def kernels_forced(on: bool) -> Iterator[None]:
    """Use kernels on every device (through Triton's interpreter on a CPU), or on none."""
    global _forced
    before, _forced = _forced, on
    try:
        yield
    finally:
        _forced = before


def find_device(name: torch.device | str) -> torch.device:
    """The device of that name, if torch can use it."""
    # Read when CUDA starts: otherwise the streams of several fleets share a queue, and wait.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        raise SagpoolError(f"There is no kind of device named '{str(name)[:60]}'.") from None
    if device.type not in ("cpu", "cuda"):
        raise SagpoolError(f"A model runs on cpu or cuda, not on '{str(name)[:60]}'.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SagpoolError("There is no CUDA device here that torch can use; try device='cpu'.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SagpoolError(f"There is no {device}: {torch.cuda.device_count()} are here.")
    return device


# CUDA copies this much from pageable memory without waiting for the stream.
_AT_ONCE_BYTES = 64 * 1024


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device; the host does not wait for it."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        # Each replay would read memory of the host that is long gone.
        raise RuntimeError("A recorded step cannot copy numbers from the host.")
    if device.type == "cuda" and array.nbytes > _AT_ONCE_BYTES:
        return _copied_in_pieces(tensor, device)
    return tensor.to(device, non_blocking=True)


def _copied_in_pieces(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy on the device, in pieces so small that the host need not wait for pending work.

    Pinned memory would need no pieces. But while several fleets recorded their steps, torch 2.11
    once failed to pin memory ("invalid argument").
    """
    out = torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
    count = _AT_ONCE_BYTES // tensor.element_size()
    pieces = zip(out.view(-1).split(count), tensor.reshape(-1).split(count), strict=True)
    for there, here in pieces:
        there.copy_(here, non_blocking=True)
    return out


def to_host(tensor: Tensor) -> Tensor:
    """A copy on the host, or the tensor itself if it is there.

    First waits for the pending work of this stream: while a copy to ordinary memory has to wait,
    CUDA may hold up the calls of other threads.
    """
    if tensor.is_cuda:
        wait_for_stream(torch.cuda.current_stream(tensor.device))
    return tensor.cpu()


def wait_for_stream(stream: torch.cuda.Stream) -> None:
    """Wait until the device has done all work of a stream.

    The thread sleeps. CUDA's usual way of waiting keeps a processor busy, and with many fleets
    there would be none left for the threads that launch work.
    """
    done = torch.cuda.Event(blocking=True)
    done.record(stream)
    done.synchronize()
