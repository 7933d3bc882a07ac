"""Guards against random numbers from torch: seeded when layers are built, refused later."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sagpool.errors import SagpoolError


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch hides the mode from its compiler, whose import takes seconds."""
        return False


class RandomGuard(_Mode):
    """Inside this context every operator that uses a torch random generator is an error.

    All members of a fleet share the generator, so the numbers of one member would depend on the
    others.

    Args:
        method: name of the method, for the error
    """

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and not _has_no_dropout(
            func, args, kwargs
        ):
            raise SagpoolError(
                f"The method '{self.method}' draws random numbers from torch "
                f"({func.overloadpacket}): they would depend on the models that train beside it. "
                "Take them from context.streams, or use sagpool.nn.Dropout."
            )
        return func(*args, **kwargs)


def _has_no_dropout(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether this is an attention without dropout, which has the tag of random operators too."""
    arguments = {argument.name: argument.default_value for argument in func._schema.arguments}
    return (arguments | dict(zip(arguments, args, strict=False)) | kwargs).get("dropout_p") == 0


class SeededDraws(_Mode):
    """Inside this context operators draw from a generator of its own, with this seed.

    They draw the same numbers as from torch's generator after ``torch.manual_seed``. But torch's
    generator is shared by all threads, and several threads build models at the same time.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            names = [argument.name for argument in func._schema.arguments]
            # Such as torch.rand, which has an overload with a generator.
            if "generator" not in names:
                func = getattr(func.overloadpacket, "generator", func)
                names = [argument.name for argument in func._schema.arguments]
            if "generator" in names and kwargs.get("generator") is None:
                kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


class SkippedDraws(_Mode):
    """Inside this context weights are not drawn, to save time: they will be replaced anyway.

    Numbers from a generator of the layer's own are drawn: they may be a constant.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        drawn = torch.Tag.nondeterministic_seeded in func.tags and func._schema.is_mutable
        if drawn and kwargs.get("generator") is None:
            return args[0]
        return func(*args, **kwargs)
