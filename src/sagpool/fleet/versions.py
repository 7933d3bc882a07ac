"""The versions that decide the result of a training."""

import platform
from collections.abc import Iterable

import numpy as np
import torch

import sagpool
from sagpool.fleet.training import NUMERICS
from sagpool.models import method_version


def versions(methods: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the package, its numerics, Python, torch, NumPy, CUDA, and plugin methods."""
    found = {
        "sagpool": sagpool.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numerics": str(NUMERICS),
    }
    found |= {"cuda": torch.version.cuda} if torch.version.cuda else {}
    return found | {
        f"method {name}": method_version(name) for name in methods if method_version(name)
    }
