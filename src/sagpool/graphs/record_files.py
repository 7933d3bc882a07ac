"""Files that hold one graph after the other: the table of formats, reading whole or in chunks."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import CLASSES
from sagpool.graphs.atoms import described, with_scaffold
from sagpool.graphs.edge_cleaning import NO_REPAIRS, Repairs
from sagpool.graphs.features import choose_features, log
from sagpool.graphs.graphs import Graphs, Task
from sagpool.graphs.intake import pack_records
from sagpool.graphs.jsonl import read_jsonl
from sagpool.graphs.molecules import read_sdf, read_smiles
from sagpool.graphs.raw_graphs import RawGraphs
from sagpool.graphs.records import Columns, Record
from sagpool.graphs.targets import only_labelled, refuse_several, renamed, with_targets
from sagpool.graphs.vocabulary import Vocabulary

CHUNK = 4096  # most graphs in a chunk
CHUNK_NODES = 2**16  # most nodes in a chunk, unless a single graph has more


class Format(NamedTuple):
    # Yields the graphs of an open file one by one; the text is the file's name, for messages.
    read: Callable[[BinaryIO, str, Columns], Iterator[Record]]


FORMATS: dict[str, Format] = {
    ".jsonl": Format(read_jsonl),
    ".ndjson": Format(read_jsonl),
    ".csv": Format(read_smiles),
    ".tsv": Format(partial(read_smiles, delimiter="\t")),
    ".sdf": Format(read_sdf),
}


class Chunk(NamedTuple):
    graphs: Graphs
    names: list[str]  # ids of the graphs in their source
    targets: list[str | None]  # classes of the graphs, if given
    fraction: float | None  # fraction of the source that has been read, if its size is known


def holds_records(path: Path) -> bool:
    """Whether this file's name has the suffix of one of the formats."""
    return path.suffix.lower() in FORMATS and not path.is_dir()


def read_records(path: Path, columns: Columns = Columns()) -> Iterator[Record]:
    """The graphs of a file, one at a time."""
    with _open(path) as file:
        yield from _format(path).read(file, path.name, columns)


def load_records(
    path: Path,
    columns: Columns = Columns(),
    *,
    task: Task = "classification",
    everything: bool = False,
    scaffolds: bool = False,
) -> RawGraphs:
    """All graphs of a file that have a class or a target; all graphs if none has.

    Args:
        path: the file
        columns: titles of the columns of a table
        task: what the labels are
        everything: whether atoms and bonds of molecules are described for ``features="all"``
        scaffolds: whether the groups are the scaffolds of the molecules
    """
    records = [_compact(record, everything, scaffolds) for record in read_records(path, columns)]
    if scaffolds and any(record.group is None for record in records):
        raise SagpoolError(f"{path.name} has no molecules, so it has no scaffolds.")
    if task == "classification":
        refuse_several(records, path.name)
    records = only_labelled(records, path.name, columns, task)
    raw = pack_records(records, path.stem)
    CLASSES.check(len(raw.class_names), path.name)
    return with_targets(raw, records, task, columns.labels)


def _compact(record: Record, everything: bool, scaffolds: bool) -> Record:
    """The record without its molecule, which takes many times the memory of its graph."""
    if record.molecule is None:
        return record
    if scaffolds:
        record = with_scaffold(record)
    return replace(described(record) if everything else record, molecule=None)


def chunks(
    path: Path, vocabulary: Vocabulary, columns: Columns = Columns(), *, size: int = CHUNK
) -> Iterator[Chunk]:
    """The graphs of a file for a model, at most ``size`` at a time, without holding the rest."""
    columns = replace(columns, expected=vocabulary.target_names)
    with _open(path) as file:
        records = _format(path).read(file, path.name, columns)
        total = os.fstat(file.fileno()).st_size
        for chunk in chunks_of(records, path.stem, vocabulary, size=size):
            # `text_lines` closes the file after the last line; a pipe has no size.
            fraction = None if not total else 1.0 if file.closed else file.tell() / total
            yield chunk._replace(fraction=fraction)


def chunks_of(
    records: Iterable[Record], name: str, vocabulary: Vocabulary, *, size: int = CHUNK
) -> Iterator[Chunk]:
    """Chunks of these graphs. An invalid graph raises after the graphs before it were yielded."""
    self_loops = 0
    for part in _record_chunks(map(vocabulary.check, records), size):
        raw = pack_records(part, name)
        self_loops += raw.repairs.self_loops
        named = [renamed(record, vocabulary.target_names) for record in part]
        raw = with_targets(raw, named, vocabulary.task, vocabulary.target_names)
        yield Chunk(
            choose_features(replace(raw, repairs=NO_REPAIRS), vocabulary.features),
            [record.name for record in part],
            [record.target for record in part],
            None,
        )
    if self_loops:
        log.warning("%s: %s.", name, Repairs(self_loops=self_loops))


def _record_chunks(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
    part: list[Record] = []
    nodes = 0
    try:
        for record in records:
            if part and (len(part) == size or nodes + record.nodes > CHUNK_NODES):
                yield part
                part, nodes = [], 0
            part.append(record)
            nodes += record.nodes
    except SagpoolError:
        if part:
            yield part
        raise
    yield part  # empty only if there are no records at all, which `pack_records` refuses


def _format(path: Path) -> Format:
    return FORMATS[path.suffix.lower()]


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise SagpoolError(f"There is no file or folder {path}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SagpoolError(f"{path} cannot be read: {reason}.") from None
