"""The exceptions of the package, words for other errors, and which are a lack of memory."""

import sys
import traceback
from pathlib import Path
from types import FrameType


class SagpoolError(ValueError):
    """Wrong input: one sentence that names the file, line, graph or option."""


class MethodError(SagpoolError):
    """A method from outside of the package raised another error, which is the cause of this one."""


def first_line(error: BaseException) -> str:
    """The class of an error and the first line of its message."""
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__


def place(error: BaseException) -> str:
    """Where an error arose, such as ``layers.py, line 12``.

    A mistake in a layer often ends in torch, or in this package; the line that led there says more.
    """
    lines = [*traceback.walk_tb(error.__traceback__)]
    others = [line for line in lines if not _is_internal(line[0])]
    frame, number = (others or lines)[-1]
    return f"{Path(frame.f_code.co_filename).name}, line {number}"


def _is_internal(frame: FrameType) -> bool:
    top = str(frame.f_globals.get("__name__")).split(".")[0]
    return top in ("sagpool", "torch") or top in sys.stdlib_module_names


_NO_MEMORY = (
    *("can't allocate memory", "not enough memory", "unable to allocate", "out of memory"),
    "_status_alloc_failed",  # of cuBLAS and other CUDA libraries
)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether Python, NumPy or torch ran out of memory."""
    # By name, since torch takes a second to import. It has this class for GPUs alone.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in _NO_MEMORY
    )
