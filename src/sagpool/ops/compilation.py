"""Kernels are compiled once for all threads; how long that took."""

from collections.abc import Callable, Hashable
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple


class Compilation(NamedTuple):
    """Start and end in seconds of ``time.perf_counter``."""

    kernel: str
    start: float
    end: float


_locks: dict[Hashable, Lock] = {}
_compiled: dict[Hashable, Any] = {}
_compilations: list[Compilation] = []


def compilations() -> list[Compilation]:
    """Those of this process so far, with kernels that were loaded from Triton's cache on disk.

    Other kernels compile at the same time in other threads, so intervals may overlap.
    """
    return list(_compilations)


def compile_once(key: Hashable, kernel: str, compiler: Callable[[], Any]) -> Any:
    """What ``compiler`` returned at the first call with this key; other threads wait for it."""
    with _locks.setdefault(key, Lock()):
        if key not in _compiled:
            start = perf_counter()
            _compiled[key] = compiler()
            _compilations.append(Compilation(kernel, start, perf_counter()))
        return _compiled[key]
