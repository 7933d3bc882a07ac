"""``sagpool predict``: what a model says about other graphs."""

import csv
import gc
import io
import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sagpool.classifier.model import TrainedModel
from sagpool.classifier.predict import (
    Predicted,
    Tally,
    chunks_from,
    chunks_from_smiles,
    predict_chunks,
)
from sagpool.errors import SagpoolError
from sagpool.graphs.cache import replacing
from sagpool.graphs.record_files import CHUNK
from sagpool.graphs.records import Columns
from sagpool.ops.device import find_device

log = logging.getLogger("sagpool")

MOST_TOLD = 5  # node labels that the model does not know, by name


class Format(StrEnum):
    csv = "csv"
    jsonl = "jsonl"


def predict(
    model: Annotated[str, typer.Argument(help="A folder made by `sagpool train`, or a Hub name.")],
    data: Annotated[
        str | None,
        typer.Argument(help="A .jsonl, .csv, .tsv or .sdf file, a TU folder, zip or name."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; it appears when it is whole."),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="By default that of FILE's name, otherwise csv."),
    ] = None,
    smiles: Annotated[
        list[str] | None,
        typer.Option(metavar="SMILES", help="A molecule in place of DATA; may be repeated."),
    ] = None,
    smiles_column: Annotated[
        str | None, typer.Option(help="Of a table, if its name is not a usual one.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Of a table or an SDF file, likewise.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Graphs at a time.")] = CHUNK,
    device: Annotated[str, typer.Option(help="cpu, cuda; auto: cuda if there is one.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="As --format jsonl.")] = False,
) -> None:
    """Write the class of each graph and the probabilities of all classes, in the order of DATA.

    Molecules that cannot be read are listed on stderr and get no row. Files are read and
    predicted piece by piece, whatever their size (TU data sets as a whole).
    """
    if (data is None) == (not smiles):
        raise SagpoolError("Give graphs to predict: either DATA or --smiles.")
    if output and data and output.exists() and Path(data).exists() and output.samefile(data):
        raise SagpoolError(f"{output} is what is to be predicted; name another file.")
    trained = TrainedModel.from_pretrained(model)
    if data is None:
        parts = chunks_from_smiles(smiles or [], trained.vocabulary, size=batch_size)
    else:
        columns = Columns(smiles_column, label_column)
        parts = chunks_from(data, trained.vocabulary, columns, size=batch_size)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if as_json or (format_ is None and output is not None and output.suffix in _JSONL_NAMES):
        format_ = Format.jsonl
    write = _jsonl if format_ is Format.jsonl else _csv
    tally = Tally()
    with _opened(output) as file, _rarer_collections():
        predicted = predict_chunks(trained, parts, tally, device=find_device(device))
        for text in write(_shown(predicted, output), trained.vocabulary.class_names):
            file.write(text.encode())
            file.flush()  # rows are there before a later line turns out to be wrong
    _tell(tally)


_JSONL_NAMES = (".jsonl", ".ndjson")


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        return
    if output.exists() and not output.is_file():
        raise SagpoolError(f"{output} is no file to write to.")
    if not output.parent.is_dir():
        raise SagpoolError(f"There is no folder {output.parent}.")
    with replacing(output) as file:
        yield file


@contextmanager
def _rarer_collections() -> Iterator[None]:
    """Graphs are no garbage while they wait for the rest of their chunk: not to be searched."""
    before = gc.get_threshold()
    gc.freeze()  # nor is what was imported
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _csv(parts: Iterable[Predicted], classes: tuple[str, ...]) -> Iterator[str]:
    buffer = io.StringIO()
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(["id", "class", *(f"p_{name}" for name in classes)])
    for part in parts:
        shares = [[f"{p:.6g}" for p in column] for column in part.probabilities.T.tolist()]
        rows.writerows(zip(part.names, part.classes, *shares, strict=True))
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _jsonl(parts: Iterable[Predicted], classes: tuple[str, ...]) -> Iterator[str]:
    for part in parts:
        rows = zip(part.names, part.classes, part.probabilities.tolist(), strict=True)
        yield "".join(
            json.dumps(
                {
                    "id": name,
                    "class": said,
                    "probabilities": {
                        one: float(f"{p:.6g}") for one, p in zip(classes, shares, strict=True)
                    },
                },
                ensure_ascii=False,
            )
            + "\n"
            for name, said, shares in rows
        )


def _shown(parts: Iterable[Predicted], output: Path | None) -> Iterator[Predicted]:
    """The same, with a bar on the terminal, unless that is where the rows go."""
    console = Console(stderr=True)
    hidden = not console.is_terminal or (output is None and sys.stdout.isatty())
    columns = (
        TextColumn("predicting"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[graphs]:,} graphs"),
    )
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("predicting", total=None, graphs=0)
        graphs = 0
        for part in parts:
            yield part
            graphs += len(part.names)
            total = None if part.share is None else 1.0
            bar.update(task, completed=part.share or 0, total=total, graphs=graphs)


def _tell(tally: Tally) -> None:
    if tally.unseen:
        most = ", ".join(f"{name!r} ({n})" for name, n in tally.unseen.most_common(MOST_TOLD))
        more = ", and others" if len(tally.unseen) > MOST_TOLD else ""
        if tally.unseen.total() == tally.nodes:
            log.warning("The model knows none of the node labels: these rows say nothing.")
        log.warning(
            "%d nodes have a label that the model does not know, and count as having none: %s%s.",
            tally.unseen.total(),
            most,
            more,
        )
    if tally.known:
        typer.echo(
            f"accuracy {tally.hits / tally.known:.1%}: {tally.hits} of the {tally.known} graphs "
            "that came with a class",
            err=True,
        )
