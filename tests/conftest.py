"""Every test has a cache folder of its own and sees no data but what it writes or asks for."""

import gc
import math
import os
import runpy
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from io import StringIO
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from torch import Tensor

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, where Ctrl-C is ignored; the tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("sagpool", deadline=None)  # no test asserts a wall-clock time
settings.load_profile("sagpool")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=["cpu", "cuda"],
        help="where the tests of GPU kernels run; on the CPU through Triton's interpreter",
    )


def pytest_configure(config: pytest.Config) -> None:
    # The processes that tests start would compile the package anew each time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Some virtual machines name AMX among their instructions, and cannot execute it: bf16 products
    # would end the process. To be set before torch is imported.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # tests run in other processes, which wait until this one has imported all
    import torch

    usual = "cuda" if torch.cuda.is_available() else "cpu"
    # Before Triton is imported, and for the tests' modules to read when they are.
    os.environ["SAGPOOL_TEST_DEVICE"] = device = config.getoption("--device") or usual
    os.environ["TRITON_INTERPRET"] = "1" if device == "cpu" else "0"


def pytest_collection_finish() -> None:
    """Imported modules and collected tests stay; looking through them takes half a second."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # else Triton would report objects that were never freed


# Four graphs: a triangle, a single node, a path with an isolated node beside it, a pair.
SMALL = {
    "A": [
        *("1, 2", "2, 1", "2, 3", "3, 2", "3, 1", "1, 3"),
        *("5, 6", "6, 5", "6, 7", "7, 6"),
        *("9, 10", "10, 9"),
    ],
    "graph_indicator": ["1", "1", "1", "2", "3", "3", "3", "3", "4", "4"],
    "graph_labels": ["-1", "1", "1", "-1"],
    # The labels 1, 3 and 4 occur nowhere.
    "node_labels": ["0", "2", "5", "5", "0", "0", "2", "2", "0", "5"],
    "node_attributes": [f"{i}.5, {-i}e-1" for i in range(10)],
    "edge_labels": ["7", "7", "7", "7", "9", "9", "7", "7", "9", "9", "7", "7"],
}


@dataclass(frozen=True)
class TUFolder:
    """A data set on disk whose files a test may rewrite."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.name}_{kind}.txt"

    def write(self, kind: str, lines: list[str]) -> None:
        self.file(kind).write_text("".join(f"{line}\n" for line in lines))

    def change(self, kind: str, line: int, text: str) -> None:
        """Put another text in place of one line; lines are counted from 1, as in messages."""
        lines = self.file(kind).read_text().splitlines()
        lines[line - 1] = text
        self.write(kind, lines)

    def zip(self) -> Path:
        """The same files packed as on the official site, beside the folder."""
        packed = self.folder.with_suffix(".zip")
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(self.folder.iterdir()):
                archive.write(file, f"{self.name}/{file.name}")
        return packed


@pytest.fixture
def usual_signals():
    """The handlers of a new process; Ray brings its own."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {one: signal.signal(one, handler) for one, handler in usual.items()}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture
def small(tmp_path: Path) -> TUFolder:
    """Four small graphs with classes, node labels, node attributes and edge labels."""
    data = TUFolder(tmp_path / "data" / "SMALL")
    data.folder.mkdir(parents=True)
    for kind, lines in SMALL.items():
        data.write(kind, lines)
    return data


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter() -> None:
    """Triton's interpreter without work that has no effect and takes most of its time.

    It computes whether integers overflow, but reports it only in debug mode. It patches
    triton.language for every launch and every call of a function; once is enough, as no kernel is
    compiled in this process.
    """
    if os.environ["SAGPOOL_TEST_DEVICE"] != "cpu" or find_spec("triton") is None:
        return
    from triton import language
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)

    def patch_attr(obj, name, member, builder, scope) -> None:
        def call(*args: object, _semantic=None, **options: object) -> object:
            return function(*args, **options, _semantic=interpreter.interpreter_semantic)

        function = getattr(member, "__wrapped__", member)  # without a check for _semantic
        scope.set_attr(obj, name, call)

    interpreter._patch_attr = patch_attr
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": language, "core": language.core}))
    interpreter._patch_lang = lambda function: interpreter._LangPatchScope()
    interpreter.InterpretedFunction.__call__ = lambda self, *args, **options: self.rewrite()(
        *args, **options
    )
    _build_types_once(interpreter)
    _check_types_quickly(interpreter)


def _build_types_once(interpreter: ModuleType) -> None:
    """Types of blocks and their shapes, which the interpreter builds anew for every operation."""
    from triton.language import core

    find_dtype, new_type = interpreter._get_np_dtype, core.block_type.__init__
    dtypes: dict[str, object] = {}
    types: dict[tuple, dict] = {}
    shapes: dict[tuple, tuple] = {(): (core.tuple([]), core.constexpr(1))}
    with_elements: dict[tuple[str, str], object] = {}

    def np_dtype(dtype) -> object:
        name = dtype.scalar.name
        if name not in dtypes:
            dtypes[name] = find_dtype(dtype)
        return dtypes[name]

    def block_type(self, element_ty, shape) -> None:
        known = types.get((element_ty.name, *shape))
        if known is None:
            new_type(self, element_ty, shape)
            sizes = tuple(self.shape)
            if sizes not in shapes:
                constants = core.tuple([core.constexpr(size) for size in sizes])
                shapes[sizes] = constants, core.constexpr(math.prod(sizes))
            self.shape_and_numel = shapes[sizes]
            types[element_ty.name, *sizes] = vars(self)
        else:
            vars(self).update(known)

    def with_element_ty(self, scalar_ty) -> object:
        key = scalar_ty.name, self.name
        if key not in with_elements:
            with_elements[key] = core.block_type(scalar_ty, self.shape)
        return with_elements[key]

    def tensor(self, handle, type) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = type.shape_and_numel

    interpreter._get_np_dtype = np_dtype
    core.dtype.shape_and_numel = shapes[()]
    core.block_type.__init__ = block_type
    core.block_type.with_element_ty = with_element_ty
    core.tensor.__init__ = tensor


def _check_types_quickly(interpreter: ModuleType) -> None:
    """Operands of one type and shape, as most are, need neither a cast nor a broadcast.

    Nor do numbers on the right of a block: NumPy broadcasts them.
    """
    from triton.language import core

    semantic = type(interpreter.interpreter_semantic)
    check, broadcast = semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value
    cast, equal, unwrap = semantic.cast, core.dtype.__eq__, core._unwrap_if_constexpr
    tensor, constexpr, no_shape = core.tensor, core.constexpr, core.int32.shape_and_numel[0]
    integers, floats = {"int32", "int64"}, {"fp32", "fp64"}
    usual = {"int1", *integers, *floats}
    constants: dict[tuple, object] = {}

    def binary_op_type_checking_impl(self, lhs, rhs, *options: bool, **more: bool) -> tuple:
        if type(lhs) is tensor and lhs.dtype.name in usual:
            name, kind = lhs.dtype.name, type(rhs)
            if kind is tensor:
                if lhs.dtype is rhs.dtype and (lhs.shape is rhs.shape or rhs.shape is no_shape):
                    return lhs, rhs
            elif (kind is int and name in integers and abs(rhs) < 2**31) or (
                kind is float and name in floats and rhs
            ):
                if (rhs, name) not in constants:
                    constants[rhs, name] = self.scalar_constant(rhs, lhs.dtype)
                return lhs, constants[rhs, name]
        return check(self, lhs, rhs, *options, **more)

    def broadcast_impl_value(self, lhs, rhs) -> tuple:
        return (lhs, rhs) if lhs.shape is rhs.shape else broadcast(self, lhs, rhs)

    def unwrap_if_constexpr(one: object) -> object:
        if type(one) is tensor:
            return one
        return one.value if type(one) is constexpr else unwrap(one)

    def cast_if_needed(self, one, dst_ty, rounding: str | None = None) -> object:
        return one if one.dtype is dst_ty else cast(self, one, dst_ty, rounding)

    semantic.binary_op_type_checking_impl = binary_op_type_checking_impl
    semantic.broadcast_impl_value = broadcast_impl_value
    semantic.cast = cast_if_needed
    core._unwrap_if_constexpr = unwrap_if_constexpr
    core.dtype.__eq__ = lambda self, other: self is other or equal(self, other)
    interpreter.TensorHandle.__post_init__ = lambda self: None


@pytest.fixture(scope="session")
def new_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Empty folders; mktemp would look through those of all earlier tests for each one."""
    parent = tmp_path_factory.mktemp("caches")
    return (parent / str(number) for number in count())


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, new_cache: Iterator[Path]) -> Path:
    """The test's own cache folder; nothing is found along SAGPOOL_DATA or on the web."""
    folder = next(new_cache)
    folder.mkdir()
    monkeypatch.setenv("SAGPOOL_CACHE", str(folder))
    monkeypatch.delenv("SAGPOOL_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("sagpool.graphs.named_datasets.official_site", lambda: "http://127.0.0.1:1")
    return folder


# Tests on real data ask for the fixture `real_data` and are parametrised by the `name` of the
# set. Those whose set does not lie in a folder of SAGPOOL_DATA are left out.
_REAL_FOLDERS = [
    Path(folder).resolve()
    for folder in os.environ.get("SAGPOOL_DATA", "").split(os.pathsep)
    if folder
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    absent = [item for item in items if "real_data" in item.fixturenames and not _is_there(item)]
    config.hook.pytest_deselected(items=absent)
    items[:] = [item for item in items if item not in absent]


def _is_there(item: pytest.Item) -> bool:
    name = item.callspec.params["name"]
    return any((f / name).is_dir() or (f / f"{name}.zip").is_file() for f in _REAL_FOLDERS)


@pytest.fixture
def real_data(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SAGPOOL_DATA that the tests were started with."""
    monkeypatch.setenv("SAGPOOL_DATA", os.pathsep.join(map(str, _REAL_FOLDERS)))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def run_script() -> Callable[..., Outcome]:
    """``run_script("a.py", "-b")`` is ``python scripts/a.py -b`` in this process."""
    folder = Path(__file__).parents[1] / "scripts"

    def run(script: str, *options: object) -> Outcome:
        code, out, err = 0, StringIO(), StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            patch.setattr(sys, "argv", [script, *map(str, options)])
            patch.syspath_prepend(folder)
            try:
                runpy.run_path(str(folder / script), run_name="__main__")
            except SystemExit as ended:
                if isinstance(ended.code, str):
                    err.write(ended.code)
                code = 1 if isinstance(ended.code, str) else int(ended.code or 0)
        return Outcome(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(params=["cpu path", "device path"], scope="module")
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways through the operators: that of a device runs on the CPU too, if told to."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "device path":
            for name, module in list(sys.modules.items()):
                if name.startswith("sagpool.") and hasattr(module, "on_cpu"):
                    patch.setattr(module, "on_cpu", lambda tensor: False)
        yield request.param


@pytest.fixture(scope="session")
def agree() -> Callable[..., None]:
    """Compares two tensors, and the gradients that they send to what both were made of."""

    import torch

    def check(actual: "Tensor", expected: "Tensor", inputs: Sequence["Tensor"]) -> None:
        torch.testing.assert_close(actual, expected)
        direction = torch.randn(actual.shape, generator=torch.Generator().manual_seed(7)).to(actual)
        ours, theirs = (
            torch.autograd.grad(
                (result * direction).sum(),
                inputs,
                retain_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
            for result in (actual, expected)
        )
        torch.testing.assert_close(ours, theirs)

    return check


@pytest.fixture
def use_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Call it to have operators take the kernels' way from then on, or torch's, on any device."""
    from sagpool.ops import device

    return partial(monkeypatch.setattr, device, "_forced")


@pytest.fixture(scope="session")
def against_double() -> Callable[..., None]:
    """Compares values and gradients in single precision with others in double precision."""

    import torch

    def values_and_gradients(compute: Callable, inputs: Sequence["Tensor"]) -> tuple["Tensor", ...]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        results = compute(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        total = torch.zeros((), device=leaves[0].device)
        for out in results:
            direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
            total = total + (out * direction).sum()
        return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)

    def compare(
        found: Callable, expected: Callable, inputs: Sequence["Tensor"], close: float = 3e-6
    ) -> None:
        """``close`` is relative to the largest number of a result."""
        exact = values_and_gradients(expected, [x.double() for x in inputs])
        for one, other in zip(values_and_gradients(found, inputs), exact, strict=True):
            scale = float(other.abs().max()) + 1e-30
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=close * scale)

    return compare
