"""Every test has a cache folder of its own and sees no data but what it writes or asks for."""

import os
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, where Ctrl-C is ignored; the tests press it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("sagpool", deadline=None)  # no test asserts a wall-clock time
settings.load_profile("sagpool")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=["cpu", "cuda"],
        default="cuda" if torch.cuda.is_available() else "cpu",
        help="where the tests of GPU kernels run; on the CPU through Triton's interpreter",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Before Triton is imported, and for the tests' modules to read when they are.
    os.environ["SAGPOOL_TEST_DEVICE"] = device = config.getoption("--device")
    os.environ["TRITON_INTERPRET"] = "1" if device == "cpu" else "0"


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
def small(tmp_path: Path) -> TUFolder:
    """Four small graphs with classes, node labels, node attributes and edge labels."""
    data = TUFolder(tmp_path / "data" / "SMALL")
    data.folder.mkdir(parents=True)
    for kind, lines in SMALL.items():
        data.write(kind, lines)
    return data


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test's own cache folder; nothing is found along SAGPOOL_DATA or on the web."""
    folder = tmp_path_factory.mktemp("cache")
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

    def check(actual: torch.Tensor, expected: torch.Tensor, inputs: Sequence[torch.Tensor]) -> None:
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

    def values_and_gradients(
        compute: Callable, inputs: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        results = compute(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        total = torch.zeros((), device=leaves[0].device)
        for out in results:
            direction = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out)
            total = total + (out * direction).sum()
        return *(out.detach() for out in results), *torch.autograd.grad(total, leaves)

    def compare(
        found: Callable, expected: Callable, inputs: Sequence[torch.Tensor], close: float = 3e-6
    ) -> None:
        """``close`` is relative to the largest number of a result."""
        exact = values_and_gradients(expected, [x.double() for x in inputs])
        for one, other in zip(values_and_gradients(found, inputs), exact, strict=True):
            scale = float(other.abs().max()) + 1e-30
            torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=close * scale)

    return compare
