"""The versions that decide the result of a training."""

import platform

import numpy as np
import torch

import sagpool
from sagpool.fleet.training import NUMERICS


def versions() -> dict[str, str]:
    """By name: the package, its numerics, Python, torch, NumPy and, where there is one, CUDA."""
    found = {
        "sagpool": sagpool.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numerics": str(NUMERICS),
    }
    return found | ({"cuda": torch.version.cuda} if torch.version.cuda else {})
