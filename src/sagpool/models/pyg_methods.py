"""`register_pyg`: methods with pooling layers of PyG."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps

import numpy as np
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.models.architectures import LAYERS
from sagpool.models.methods import global_, hierarchical
from sagpool.models.registry import Display, Shape, Value, register
from sagpool.models.source_version import source_version
from sagpool.nn.pool.pyg_module import PyGModule

Make = Callable[[Shape], nn.Module]


def register_pyg(
    name: str,
    make: Make,
    *,
    settings: Mapping[str, Value] | None = None,
    version: str | None = None,
    display: Display = Display(),
) -> None:
    """Register a method with a pooling layer, or an aggregation, of PyG.

    ``register_pyg("pyg-asap-h", lambda s: ASAPooling(s.hidden, s.ratio))``

    It is trained, searched and reported like every other method, but is slower: each member has a
    call of its own, and steps are not recorded. See `PyGModule` for the possible layers. Layers
    that draw random numbers, such as dropout, are refused.

    Args:
        name: ends in ``-h`` for the hierarchical architecture, in ``-g`` for the global one; a
            suffix may follow: ``pyg-topk-h-sigmoid``. The last ``-h`` or ``-g`` counts
        make: makes the layer of one model. Its rows have ``hidden`` channels, in the global
            architecture three times as many; only the global architecture has a k
        settings: own settings of the method with their defaults; `Shape.settings` has their values
        version: version of the method, see `register`; by default of its source files and of PyG
        display: name and colour of the method in reports
    """
    found = re.fullmatch(r".+-([gh])(?:-.+)?", name)
    if found is None:
        raise SagpoolError(
            f"The name '{name}' must end in -h (hierarchical architecture) or -g (global)."
        )
    if version is None:
        import torch_geometric

        version = f"{source_version(name, make)}-pyg{torch_geometric.__version__}"
    build = _hierarchical if found[1] == "h" else _global
    add = register(name, settings=settings, version=version, display=display)
    add(wraps(make)(partial(build, make)))


def _hierarchical(make: Make, shape: Shape) -> nn.Module:
    one = replace(shape, members=1, k=None)

    def pool(block: int) -> PyGModule:
        return PyGModule(lambda: make(one), shape.hidden, members=shape.members)

    return hierarchical(shape, pool)


def _global(make: Make, shape: Shape) -> nn.Module:
    k = None if shape.k is None else int(np.max(shape.k))
    if np.any(shape.k != k):
        raise SagpoolError("A layer of PyG needs one k for all members of a fleet.")
    one = replace(shape, members=1, k=k)
    width = LAYERS * shape.hidden
    return global_(shape, PyGModule(lambda: make(one), width, one_k=True, members=shape.members))
