"""The exception that the package raises for wrong input; which errors are a lack of memory."""


class SagpoolError(ValueError):
    """Wrong input: one sentence that names the file, line, graph or option."""


class MethodError(SagpoolError):
    """A method from outside of the package raised another error, which is the cause of this one."""


def first_line(error: BaseException) -> str:
    """The class of an error and the first line of its message."""
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__


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
