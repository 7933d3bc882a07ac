"""`kernel`, which is `triton.jit` for kernels that several threads launch."""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import triton
from triton.runtime.driver import driver

from sagpool.ops.compilation import compile_once

_loading = Lock()


def kernel(**options: Any) -> Callable:
    """A decorator; options as for `triton.jit`.

    Triton compiles a kernel again for integers that are 1 or divisible by 16, unless they are
    named in ``do_not_specialize``. Name all integers but those that make vector loads possible:
    numbers of columns and strides.
    """
    return partial(triton.jit if triton.knobs.runtime.interpret else _Kernel, **options)


def _compile(src: Any, target: Any, options: dict[str, Any], **more: Any) -> Any:
    def compile_and_load() -> Any:
        compiled = triton.compile(src, target=target, options=options, **more)
        # Triton would load it at the first launch, when other threads can see it already, half
        # loaded. One at a time: up to version 3.6 launchers are extension modules of the same name,
        # and Python, asked for one again, may give it the object of the one loaded last.
        with _loading:
            _ = compiled.run
        return compiled

    key = driver.active.get_current_device(), src.hash(), str(sorted(options.items()))
    return compile_once(key, src.name, compile_and_load)


class _Kernel(triton.JITFunction):
    @property
    def compile(self) -> Callable:
        """Called by Triton for a kernel that is not in its cache."""
        return _compile

    @compile.setter
    def compile(self, compiler: Callable) -> None:
        """Triton sets its own compiler at the first launch; ignored."""
