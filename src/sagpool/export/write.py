"""`export`: a trained model as files for programs without torch, checked before writing."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from sagpool.classifier.model import TrainedModel
from sagpool.errors import SagpoolError
from sagpool.export.check import Agreement, Run, compare
from sagpool.export.numpy_file import npz_bytes, program_text
from sagpool.export.onnx_file import onnx_bytes
from sagpool.export.plan import Plan, plan_of
from sagpool.export.samples import drawn_records, samples
from sagpool.graphs.cache import replacing
from sagpool.graphs.records import Columns
from sagpool.graphs.source_records import source_records

Format = Literal["onnx", "numpy"]
SUFFIXES: dict[Format, str] = {"onnx": ".onnx", "numpy": ".py"}
LEAST_GRAPHS = 1000  # number of graphs for the comparison


@dataclass(frozen=True)
class Exported:
    """The files that were written, and how well they agree with the model."""

    files: tuple[Path, ...]
    agreement: Agreement


def export(
    model: TrainedModel,
    path: str | Path,
    to: Format | None = None,
    *,
    check: str | None = None,
    columns: Columns = Columns(),
    graphs: int = LEAST_GRAPHS,
    force: bool = False,
) -> Exported:
    """Write a model as an ONNX file, or as a Python file and a ``.npz`` file.

    Before anything is written, the exported model predicts graphs and is compared with ours.

    Args:
        model: the model
        path: the ``.onnx`` or ``.py`` file
        to: the format; by default by the suffix of the file
        check: graphs like the training graphs, anything that `sagpool.load` reads; by default
            random graphs with the labels that the model knows
        columns: columns of a table of molecules to check with, if they have no standard names
        graphs: least number of graphs to compare
        force: whether to overwrite files
    """
    path = Path(path)
    to = _format(path, to)
    plan = plan_of(model)
    content = onnx_content(path, plan) if to == "onnx" else numpy_content(path, plan)
    for file in content.files:
        if file.exists() and not force:
            raise SagpoolError(f"{file} exists; name another file, or add --force to replace it.")
        if not file.parent.is_dir():
            raise SagpoolError(f"There is no folder {file.parent}.")
    if check is None:
        records = islice(drawn_records(plan, model.vocabulary), graphs)
    else:
        records = source_records(check, columns)  # type: ignore[assignment]
    compared = samples(records, plan, model.vocabulary, graphs)
    agreement = compare(model, plan, content.run, compared)
    with ExitStack() as both:  # both files or neither, if the disk is full
        for file, data in content.files.items():
            both.enter_context(replacing(file)).write(data)
    return Exported(tuple(content.files), agreement)


@dataclass(frozen=True, eq=False)
class Content:
    """The files to write, and a function that runs them."""

    files: dict[Path, bytes]
    run: Run


def onnx_content(path: Path, plan: Plan) -> Content:
    """An ONNX file, run by onnxruntime."""
    try:
        import onnxruntime
    except ImportError:
        raise _no_package() from None
    data = onnx_bytes(plan)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def run(inputs: dict[str, Any]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(None, inputs), strict=True))

    return Content({path: data}, run)


def numpy_content(path: Path, plan: Plan) -> Content:
    """A Python file with its arrays, run exactly as written."""
    data, program = npz_bytes(plan), program_text()
    module = ModuleType(path.stem)
    exec(compile(program, str(path), "exec"), vars(module))
    return Content({path.with_suffix(".npz"): data, path: program.encode()}, _runner(module, data))


def _runner(module: Any, data: bytes) -> Run:
    model = module.Model(io.BytesIO(data))
    forward: Callable[..., dict[str, np.ndarray]] = module.forward
    return lambda inputs: forward(model._ops, model.plan, inputs)


def _format(path: Path, to: Format | None) -> Format:
    found = next((name for name, suffix in SUFFIXES.items() if path.suffix == suffix), None)
    if found is None or (to is not None and to != found):
        wanted = SUFFIXES[to] if to else " or ".join(SUFFIXES.values())
        raise SagpoolError(f"The name of the file must end in {wanted}, not '{path.name}'.")
    if found == "numpy" and not path.stem.isidentifier():
        raise SagpoolError(
            f"'{path.stem}' cannot be imported; name the file with letters, digits and underscores."
        )
    return found


def _no_package() -> SagpoolError:
    return SagpoolError("ONNX needs the extra `export`: pip install 'sagpool[export]'.")
