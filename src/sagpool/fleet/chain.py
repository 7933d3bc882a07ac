"""`Chain`: recorded passes that follow each other, launched with one command."""

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_void_p
from functools import cache
from typing import Any

import torch


class Chain:
    """Several CUDA graphs in a row as one graph, which torch cannot make.

    A repeated pass is recorded only once.

    Args:
        links: CUDA graphs recorded with ``keep_graph``
    """

    def __init__(self, links: Sequence[torch.cuda.CUDAGraph]) -> None:
        self.links = links  # keeps their memory alive
        self._graph = c_void_p()
        whole, before = c_void_p(), c_void_p()
        _call("cuGraphCreate", byref(whole), 0)
        try:
            for place, link in enumerate(links):
                node, recorded = c_void_p(), c_void_p(link.raw_cuda_graph())
                _call(
                    "cuGraphAddChildGraphNode",
                    *(byref(node), whole, byref(before), ctypes.c_size_t(min(place, 1)), recorded),
                )
                before = node
            _call("cuGraphInstantiateWithFlags", byref(self._graph), whole, ctypes.c_ulonglong(0))
        finally:
            _call("cuGraphDestroy", whole)
        weakref.finalize(self, _driver().cuGraphExecDestroy, self._graph).atexit = False

    def replay(self) -> None:
        """Run all links in the current stream."""
        stream = c_void_p(torch.cuda.current_stream().cuda_stream)
        _call("cuGraphLaunch", self._graph, stream)


OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


def _call(name: str, *arguments: Any) -> None:
    function: Callable[..., int] = getattr(_driver(), name)
    code = function(*arguments)
    if code == OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"CUDA out of memory in {name}.")
    if code:
        raise RuntimeError(f"{name} failed with CUDA error {code}.")


@cache
def _driver() -> ctypes.CDLL:
    """The CUDA driver library, which torch has loaded."""
    return ctypes.CDLL("libcuda.so.1")
