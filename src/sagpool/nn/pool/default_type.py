"""The default type of one thread, for layers of PyG: they make numbers without a type."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

# Functions whose result has the default type, whatever their arguments.
_OF_DEFAULT_TYPE = {torch.empty, torch.eye, torch.linspace, torch.ones, torch.rand, torch.zeros}


class _DefaultType(TorchFunctionMode):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func in _OF_DEFAULT_TYPE and given.get("dtype") is None:
            given = {**given, "dtype": self.dtype}
        return func(*args, **given)


def default_type(dtype: torch.dtype) -> AbstractContextManager[object]:
    """`torch.set_default_dtype`, which is for all threads, within a block of one thread."""
    return nullcontext() if dtype == torch.get_default_dtype() else _DefaultType(dtype)
