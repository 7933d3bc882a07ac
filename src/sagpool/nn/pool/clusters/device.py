"""Whether the kernels of clusters are used."""

from functools import partial

import torch
from torch import Tensor

from sagpool.ops import device

kernels_for = partial(device.kernels_for, package="sagpool.nn.pool.clusters.kernels")


def has_kernels(x: Tensor) -> bool:
    """Whether the products of the layer run as kernels, which compute in float32 only."""
    return x.dtype == torch.float32 and kernels_for(x) is not None
