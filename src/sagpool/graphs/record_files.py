"""Files with one graph after the other (JSON Lines, SMILES tables, SDF), whole or in chunks."""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from sagpool.errors import SagpoolError
from sagpool.graphs.edges import NO_REPAIRS, Repairs
from sagpool.graphs.features import RawGraphs, choose_features, log
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.jsonl import read_jsonl
from sagpool.graphs.molecules import only_labelled, read_sdf, read_smiles
from sagpool.graphs.records import Record, all_or_none, pack_records
from sagpool.graphs.vocabulary import Vocabulary

CHUNK = 4096  # graphs, and
CHUNK_NODES = 2**16  # nodes, of which a chunk has no more unless a single graph has


@dataclass(frozen=True)
class Columns:
    """Where molecules and classes stand in a table, if not in a column of a usual name.

    Args:
        smiles: the title of the column with the molecules
        label: that of the classes; of an SDF file the property
    """

    smiles: str | None = None
    label: str | None = None


class Chunk(NamedTuple):
    graphs: Graphs
    names: list[str]  # by which their owner knows the graphs
    targets: list[str | None]  # their classes, where these are given
    share: float | None  # of the source that has been read, where its size is known


def holds_records(path: Path) -> bool:
    """Whether this is a file of graphs one after the other, by its name."""
    return path.suffix.lower() in _READERS and not path.is_dir()


def read_records(path: Path, columns: Columns = Columns()) -> Iterator[Record]:
    """The graphs of a file, one at a time."""
    with _open(path) as file:
        yield from _READERS[path.suffix.lower()](file, path.name, columns)


def load_records(path: Path, columns: Columns = Columns()) -> RawGraphs:
    """All graphs of a file; where some molecules have a class, those without are left out."""
    records = list(read_records(path, columns))
    if path.suffix.lower() in _MOLECULES:
        records = only_labelled(records, path.name)
    all_or_none(records, [record.target is not None for record in records], "class")
    return pack_records(records, path.stem)


def chunks(
    path: Path, vocabulary: Vocabulary, columns: Columns = Columns(), *, size: int = CHUNK
) -> Iterator[Chunk]:
    """The graphs of a file for a model, so many at a time; what was given out is not kept."""
    with _open(path) as file:
        records = _READERS[path.suffix.lower()](file, path.name, columns)
        whole = os.fstat(file.fileno()).st_size
        for chunk in chunks_of(records, path.stem, vocabulary, size=size):
            # Whoever reads lines closes the file after the last; a pipe has no size.
            share = None if not whole else 1.0 if file.closed else file.tell() / whole
            yield chunk._replace(share=share)


def chunks_of(
    records: Iterable[Record], name: str, vocabulary: Vocabulary, *, size: int = CHUNK
) -> Iterator[Chunk]:
    """Chunks of such graphs; before a wrong one ends it, those in front of it are given out."""
    self_loops, empty = 0, True
    for part in _portions(map(vocabulary.check, records), size):
        raw = pack_records(part, name)
        self_loops, empty = self_loops + raw.repairs.self_loops, False
        yield Chunk(
            choose_features(replace(raw, repairs=NO_REPAIRS), vocabulary.features),
            [record.name for record in part],
            [record.target for record in part],
            None,
        )
    if empty:
        raise SagpoolError(f"{name} has no graph.")
    if self_loops:
        log.warning("%s: %s.", name, Repairs(self_loops=self_loops))


def _portions(records: Iterator[Record], size: int) -> Iterator[list[Record]]:
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
    if part:
        yield part


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise SagpoolError(f"There is no file or folder {path}.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SagpoolError(f"{path} cannot be read: {reason}.") from None


def text_lines(file: BinaryIO, name: str, newline: str) -> Iterator[str]:
    """The lines of a UTF-8 file; ``newline`` as in `open`."""
    # The bytes that are no text come through as surrogates, so that their line is known.
    with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline=newline) as text:
        lines = enumerate(text, 1)
        while True:
            try:
                number, line = next(lines, (0, ""))
                if not line.isascii():
                    line.encode()
            except UnicodeEncodeError:
                raise SagpoolError(f"{name}, line {number} is no UTF-8 text.") from None
            except OSError as error:
                raise SagpoolError(f"{name} cannot be read: {error.strerror}.") from None
            if not line:
                return
            yield line


def _jsonl(file: BinaryIO, name: str, columns: Columns) -> Iterator[Record]:
    return read_jsonl(text_lines(file, name, "\n"), name)


def _table(delimiter: str) -> Callable[[BinaryIO, str, Columns], Iterator[Record]]:
    def read(file: BinaryIO, name: str, columns: Columns) -> Iterator[Record]:
        return read_smiles(
            text_lines(file, name, ""),
            name,
            delimiter=delimiter,
            smiles_column=columns.smiles,
            label_column=columns.label,
        )

    return read


def _sdf(file: BinaryIO, name: str, columns: Columns) -> Iterator[Record]:
    return read_sdf(file, name, label_property=columns.label)


_READERS: dict[str, Callable[[BinaryIO, str, Columns], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _table(","),
    ".tsv": _table("\t"),
    ".sdf": _sdf,
}
_MOLECULES = (".csv", ".tsv", ".sdf")
