"""How often kernels are compiled. No kernel runs here, and no GPU is needed."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from sagpool.fleet.lockstep import Lockstep, Sizes
from sagpool.fleet.order import on_device
from sagpool.fleet.profile import Profile
from sagpool.fleet.recording import RecordingMemory
from sagpool.fleet.stack import AdamState, Stack
from sagpool.fleet.stopping import DeviceStopping
from sagpool.graphs import load
from sagpool.models import Shape, build
from sagpool.ops.compilation import compilations, compile_once
from sagpool.ops.device import triton_kernels

if triton_kernels() is None or os.environ["SAGPOOL_TEST_DEVICE"] == "cuda":
    pytest.skip("needs Triton's interpreter", allow_module_level=True)

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.interpreter import InterpretedFunction

from sagpool.ops.kernels.jit import kernel


class Device:
    """What Triton asks a GPU for."""

    max_shared_mem = 2**17

    def __init__(self):
        self.utils = self

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_device_properties(self, device):
        return {"max_shared_mem": self.max_shared_mem}

    def load_binary(self, *binary):
        return "module", "function", 0, 0, 1024  # registers, spills, threads

    def unload_module(self, module):
        pass

    def launcher_cls(self, source, metadata):
        return self.launch

    def launch(self, x, y, z, stream, function, *arguments):
        assert function == "function"


@pytest.fixture(autouse=True)
def device(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns if it is not set
    monkeypatch.setattr(driver, "_active", Device())


@pytest.fixture
def variants(monkeypatch, use_kernels):
    """Trains an epoch without values; returns which kernels Triton would have to compile."""
    compiled, functions = set(), {}

    def compile_nothing(*, fn, key, **_):
        compiled.add((fn.name, key))
        return True

    def run(self, *arguments, grid, warmup, **options):
        if self.fn not in functions:
            functions[self.fn] = triton.JITFunction(self.fn, **self.kwargs)
        functions[self.fn].run(*arguments, grid=grid, warmup=True, **options)

    monkeypatch.setattr(triton.knobs.runtime, "jit_cache_hook", compile_nothing)
    monkeypatch.setattr(InterpretedFunction, "run", run)
    use_kernels(True)
    mutag = load("MUTAG")

    def train(method, *, labels=3, classes=2, hidden=32, ratio=0.5, members=30):
        compiled.clear()
        label = torch.arange(mutag.num_nodes, dtype=torch.int32) % labels
        names = tuple(map(str, range(labels)))
        graphs = replace(mutag, node_label=label, node_label_names=names).to("meta")
        shape = Shape(labels, classes, hidden, ratio, members=members, k=10, max_nodes=28)
        stack = Stack(build(method, shape).to("meta"))
        keys = torch.zeros(members, 2, dtype=torch.int64, device="meta")
        rates = torch.zeros(members, dtype=torch.float64, device="meta")
        averages = torch.zeros_like(stack.weights), torch.zeros_like(stack.weights)
        adam = AdamState(stack.weights, *averages, torch.zeros_like(keys[:, 0]))
        lockstep = Lockstep(
            graphs,
            stack,
            adam,
            torch.zeros_like(stack.weights),
            DeviceStopping.start(members, torch.device("meta")),
            rates,
            rates,
            keys,
            Sizes(100, 400),
            in_parts=False,
            whole=False,
            memory=RecordingMemory(),
            profile=Profile(torch.device("meta")),
        )
        ids = np.arange(2 * members * 100).reshape(2, members, 100) % len(mutag)
        batches = on_device(graphs, [ids[0], ids[1, :, :70]])  # the last batch is smaller
        lockstep.epoch(batches, [np.arange(23)] * members, lambda: None)
        return frozenset(compiled)

    return train


@pytest.mark.parametrize(
    "method", ["sagpool-h", "sagpool-g", "gpool-h", "set2set-g", "sagpool-h-ratio", "edgepool-h"]
)
def test_shapes_share_kernels(method, variants):
    known = variants(method)
    assert len(known) > 10
    assert variants(method, members=31) <= known
    assert variants(method, members=16) <= known
    assert variants(method, ratio=0.3) <= known
    assert variants(method, labels=4, classes=7) <= known
    # Other kinds of kernels, for many labels and for gradients of weights with as many rows,
    # but the same for any number of them.
    many_labels = variants(method, labels=37)
    assert len(many_labels - known) <= 4
    assert variants(method, labels=89) == many_labels
    # Tiles have another width.
    wide = variants(method, hidden=64)
    assert len(wide - known) <= 10
    assert variants(method, hidden=48) <= wide


def test_diffpool_has_few_kernels_more_for_other_numbers_of_clusters(variants):
    known = variants("diffpool-h")
    assert variants("diffpool-h", members=31, labels=4, classes=7) <= known
    assert len(variants("diffpool-h", ratio=0.25) - known) <= 4
    assert len(variants("diffpool-h", hidden=64) - known) <= 12


def compile_from_four_threads() -> None:
    import triton.language as tl

    driver._active = Device()

    def fill(x, rows, BLOCK: tl.constexpr):
        row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + row, 1.0, mask=row < rows)

    function = kernel(do_not_specialize=["rows"])(fill)
    before, together = len(compilations()), threading.Barrier(4)

    def launch(rows):
        together.wait()
        function[(1,)](torch.zeros(32), rows, BLOCK=32)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(launch, [1, 16, 17, 32]))
    (one,) = compilations()[before:]
    assert one.kernel == "fill"
    assert one.start < one.end
    # Loaded before the first launch: threads that find it in Triton's cache launch it at once.
    unused = function.warmup(torch.zeros(64), 64, BLOCK=64, grid=(1,))
    assert unused.function == "function"


def run_in_own_process(function: str) -> None:
    """The interpreter leaves Triton's language changed."""
    code = f"import runpy; runpy.run_path({__file__!r})[{function!r}]()"
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_kernel_is_compiled_once_for_all_threads():
    run_in_own_process("compile_from_four_threads")


def load_from_two_threads() -> None:
    class SlowDevice(Device):
        loading = 0

        def launcher_cls(self, source, metadata):
            self.loading += 1
            time.sleep(0.2)
            assert self.loading == 1, "two launchers are loaded at once"
            self.loading -= 1
            return self.launch

    driver._active = SlowDevice()

    def first(x):
        pass

    def second(x, y):
        pass

    def launch(function, *arguments):
        kernel()(function)[(1,)](*arguments)

    x = torch.zeros(32)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(launch, first, x), pool.submit(launch, second, x, x)]
    for future in futures:
        future.result()


def test_launchers_are_loaded_one_at_a_time():
    """Otherwise a kernel could get the launcher of another one, and wrong arguments with it."""
    run_in_own_process("load_from_two_threads")


def test_different_kernels_are_compiled_side_by_side():
    together = threading.Barrier(2, timeout=30)
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(compile_once, (key, together), key, together.wait) for key in "ab"]
    assert {future.result() for future in futures} == {0, 1}


def test_a_failed_compilation_is_tried_again():
    key = object()
    with pytest.raises(ZeroDivisionError):
        compile_once(key, "kernel", lambda: 1 // 0)
    assert compile_once(key, "kernel", lambda: 5) == 5
    assert compile_once(key, "kernel", lambda: 1 // 0) == 5
