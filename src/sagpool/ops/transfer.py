"""Small arrays from the host to the device."""

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device, for which the host does not wait."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        # From pageable memory the copy would wait for all that the device has still to do.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
