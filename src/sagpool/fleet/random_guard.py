"""Refuses methods that draw random numbers from torch instead of the members' own streams."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sagpool.errors import SagpoolError


class RandomGuard(TorchDispatchMode):
    """Inside this context every operator that uses a torch random generator is an error.

    A generator is shared by all members of a fleet, so what one of them gets from it depends on
    the others.

    Args:
        method: named in the error
    """

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and not _no_dropout(func, args, kwargs):
            raise SagpoolError(
                f"The method '{self.method}' draws random numbers from torch "
                f"({func.overloadpacket}): they would depend on the models that train beside it. "
                "Take them from context.streams, or use sagpool.nn.Dropout."
            )
        return func(*args, **kwargs)


def _no_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether this is an attention without dropout, which has the tag of random operators too."""
    arguments = {argument.name: argument.default_value for argument in func._schema.arguments}
    return (arguments | dict(zip(arguments, args, strict=False)) | kwargs).get("dropout_p") == 0
