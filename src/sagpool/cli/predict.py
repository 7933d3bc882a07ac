"""``sagpool predict``: classes and probabilities of graphs."""

import gc
import logging
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sagpool.classifier.model import TrainedModel, describe_unseen
from sagpool.classifier.predict import PredictedChunk, Tally, chunks_from, predict_chunks
from sagpool.classifier.score_names import NAMES, score_text
from sagpool.cli.console import new_console
from sagpool.cli.options import (
    DATA_HELP,
    Device,
    IdColumn,
    LabelColumns,
    SmilesColumn,
    columns_of,
    device_name,
)
from sagpool.cli.prediction_rows import csv_rows, json_lines
from sagpool.errors import SagpoolError
from sagpool.graphs.cache import replacing
from sagpool.graphs.record_files import CHUNK
from sagpool.ops.device import find_device

log = logging.getLogger("sagpool")

JSONL_SUFFIXES = (".jsonl", ".ndjson")


class Format(StrEnum):
    csv = "csv"
    jsonl = "jsonl"


def predict(
    model: Annotated[str, typer.Argument(help="A folder made by `sagpool train`, or a Hub name.")],
    data: Annotated[str | None, typer.Argument(help=DATA_HELP)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The file to write; it is created once it is complete."
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="By default from the suffix of the output, or else csv."),
    ] = None,
    smiles: Annotated[
        list[str] | None,
        typer.Option(metavar="SMILES", help="A molecule instead of DATA; may be repeated."),
    ] = None,
    smiles_column: SmilesColumn = None,
    label_column: LabelColumns = None,
    id_column: IdColumn = None,
    batch_size: Annotated[
        int, typer.Option(min=1, max=2**31 - 1, help="Graphs at a time.")
    ] = CHUNK,
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format jsonl.")] = False,
) -> None:
    """Write a prediction for each graph, with its uncertainty, in the order of DATA.

    Molecules that cannot be read are listed on stderr and get no row. Files of any size are read
    and predicted in chunks; only TU data sets are loaded as a whole.
    """
    if (data is None) == (not smiles):
        raise SagpoolError("Give graphs to predict: either DATA or --smiles.")
    if output and data and output.exists() and Path(data).exists() and output.samefile(data):
        raise SagpoolError(f"{output} is the input; choose another output file.")
    trained = TrainedModel.from_pretrained(model)
    columns = columns_of(smiles_column, label_column, id_column)
    chunks = chunks_from(data or smiles or [], trained.vocabulary, columns, size=batch_size)
    if as_json or (format_ is None and output is not None and output.suffix in JSONL_SUFFIXES):
        format_ = Format.jsonl
    write = json_lines if format_ is Format.jsonl else csv_rows
    tally = Tally()
    with _open(output) as file, _less_garbage_collection():
        predicted = predict_chunks(trained, chunks, tally, device=find_device(device_name(device)))
        for text in write(trained, _with_progress(predicted, output)):
            file.write(text.encode())
            # So that rows are written before a later line of the input raises an error.
            file.flush()
    _report(tally, trained)


@contextmanager
def _open(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        if sys.__stdout__ is None:
            raise SagpoolError("The standard output is closed; name a file with -o.")
        yield sys.stdout.buffer
        return
    if output.exists() and not output.is_file():
        raise SagpoolError(f"{output} is not a regular file.")
    if not output.parent.is_dir():
        raise SagpoolError(f"There is no folder {output.parent}.")
    with replacing(output) as file:
        yield file


@contextmanager
def _less_garbage_collection() -> Iterator[None]:
    """Buffered records are live; frequent garbage collection is wasted."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.freeze()  # imported modules are live, too
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:  # do not unfreeze objects that the caller froze
            gc.unfreeze()


def _with_progress(
    chunks: Iterable[PredictedChunk], output: Path | None
) -> Iterator[PredictedChunk]:
    """The same chunks, with a progress bar unless the predictions are printed on the terminal."""
    console = new_console(stderr=True)
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
        for chunk in chunks:
            yield chunk
            graphs += len(chunk.names)
            total = None if chunk.fraction_read is None else 1.0
            bar.update(task, completed=chunk.fraction_read or 0, total=total, graphs=graphs)


def _report(tally: Tally, model: TrainedModel) -> None:
    if tally.unseen:
        if tally.without_label == tally.nodes:
            log.warning("The model knows none of the node labels: the predictions mean nothing.")
        log.warning("There are %s; these labels are ignored.", describe_unseen(tally.unseen))
    if tally.unlike:
        log.warning(
            "%d of %d graphs are unlike the training data: do not rely on their predictions.",
            *(tally.unlike, tally.graphs),
        )
    if tally.labelled:
        what = "class" if model.task == "classification" else "target"
        typer.echo(f"{tally.labelled} graphs came with a {what}:", err=True)
        for name, value in tally.scores(model.task).items():
            if not math.isnan(value):
                typer.echo(f"  {NAMES[name]:38s} {score_text(name, value)}", err=True)
