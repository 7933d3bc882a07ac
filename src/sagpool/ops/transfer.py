"""Small arrays from the host to the device."""

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device; the host does not wait for it."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        # A copy from pageable memory would wait for all pending work of the device.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
