"""Molecules from SMILES tables and SDF files, read by RDKit (extra ``chem``).

Atoms are nodes, labelled with their element; bonds are edges. Implicit hydrogens are omitted, as in
the data sets of the paper.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import SMILES
from sagpool.graphs.records import Columns, Record, text_lines

if TYPE_CHECKING:
    from rdkit.Chem import Mol

log = logging.getLogger("sagpool")

SMILES_NAMES = ("smiles", "canonical_smiles", "smi", "mol")
LABEL_NAMES = ("label", "class", "y", "target", "activity")
MAX_LISTED = 20  # skipped molecules that are logged one by one


def read_smiles(
    file: BinaryIO, name: str, columns: Columns = Columns(), *, delimiter: str = ","
) -> Iterator[Record]:
    """The molecules of a table, one at a time; a reader of `record_files.FORMATS`."""
    rdkit()  # report a missing RDKit first
    rows = _rows(text_lines(file, name, ""), name, delimiter)
    header = [title.strip() for title in next(rows, ("", []))[1]]
    if not header:
        raise SagpoolError(f"{name} is empty.")
    smiles = _column(header, columns.smiles, SMILES_NAMES)
    if smiles is None:
        standard = f"for the SMILES ({', '.join(SMILES_NAMES)})"
        raise _no_column(name, header, columns.smiles, standard)
    label = _column(header, columns.label, LABEL_NAMES)
    if label is None and columns.label:
        raise _no_column(name, header, columns.label, "")
    with Skipped(name) as skipped:
        for place, cells in rows:
            if len(cells) != len(header):
                raise SagpoolError(
                    f"{place} has {len(cells)} columns, but the first line has {len(header)}."
                )
            text = cells[smiles].strip()
            if (molecule := parse_smiles(text)) is None:
                skipped.add(place, why_unreadable(text))
                continue
            target = None if label is None else cells[label].strip() or None
            skipped.read += 1
            yield record_of(molecule, place, text, target)


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """The place and the cells of each non-empty row."""
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1  # where the row begins; quoted cells can span several lines
    try:
        for cells in table:
            if any(cells):
                yield f"{name}, line {line}", cells
            line = table.line_num + 1
    except csv.Error as error:
        raise SagpoolError(f"{name}, line {line}: {error}.") from None


def _column(header: list[str], wanted: str | None, standard: tuple[str, ...]) -> int | None:
    lower = [title.lower() for title in header]
    if wanted in header:
        return header.index(wanted)
    for title in [wanted] if wanted else standard:
        if title.lower() in lower:
            return lower.index(title.lower())
    return None


def _no_column(name: str, header: list[str], wanted: str | None, standard: str) -> SagpoolError:
    sought = f"named '{wanted}'" if wanted else standard
    columns = ", ".join(header)
    shown = columns if len(columns) < 200 and columns.isprintable() else f"{columns[:200]!r}..."
    return SagpoolError(f"{name} has no column {sought}; its columns are {shown}.")


def read_sdf(file: BinaryIO, name: str, columns: Columns = Columns()) -> Iterator[Record]:
    """The molecules of an SDF file, one at a time; a reader of `record_files.FORMATS`."""
    rdkit()
    labelled = False
    with Skipped(name) as skipped:
        for number, (line, block) in enumerate(_blocks(file), 1):
            place = f"{name}, line {line} (molecule {number})"
            molecule = parse_block(block)
            if molecule is None:
                skipped.add(place, "RDKit cannot read it")
                continue
            properties = {key.lower(): key for key in molecule.GetPropNames()}
            wanted = [columns.label] if columns.label else LABEL_NAMES
            keys = [properties[key.lower()] for key in wanted if key.lower() in properties]
            target = molecule.GetProp(keys[0]).strip() or None if keys else None
            labelled = labelled or bool(keys)
            title = molecule.GetProp("_Name").strip() if molecule.HasProp("_Name") else ""
            skipped.read += 1
            yield record_of(molecule, place, title or str(number), target)
    if columns.label and skipped.read and not labelled:
        raise SagpoolError(f"{name}: no molecule has the property '{columns.label}'.")


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The line where each molecule begins, and its text up to ``$$$$``."""
    first, block = 1, list[bytes]()
    for number, line in enumerate(file, 1):
        # Titles come in many encodings; bytes that are not UTF-8 are replaced.
        block.append(line if line.isascii() else line.decode(errors="replace").encode())
        if line.startswith(b"$$$$"):
            yield first, b"".join(block)
            first, block = number + 1, []
    if any(line.strip() for line in block):
        yield first, b"".join(block)


class Skipped:
    """Counts skipped molecules: logs the first ones, and the total at the end."""

    def __init__(self, name: str) -> None:
        self.name, self.count, self.read = name, 0, 0

    def add(self, place: str, reason: str) -> None:
        self.count += 1
        if self.count <= MAX_LISTED:
            log.warning("%s is left out: %s.", place, reason)

    def __enter__(self) -> Skipped:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None or not self.count:
            return
        if not self.read:
            raise SagpoolError(
                f"{self.name}: no molecule could be read; all {self.count} were left out."
            )
        log.warning("%s: %d molecules were left out.", self.name, self.count)


def only_labelled(records: list[Record], name: str) -> list[Record]:
    """The records that have a class; all records if none has."""
    if all(record.target is None for record in records):
        return records
    labelled = []
    with Skipped(name) as skipped:
        for record in records:
            if record.target is None:
                skipped.add(record.place, "it has no class")
            else:
                skipped.read += 1
                labelled.append(record)
    return labelled


def parse_smiles(text: str) -> Mol | None:
    """The molecule, or None if RDKit cannot read it or it has no atom."""
    readable = text.isprintable() and len(text) <= SMILES.most
    return _parse(lambda: rdkit().MolFromSmiles(text) if readable else None)


def why_unreadable(text: str) -> str:
    """Why `parse_smiles` gives None."""
    if len(text) > SMILES.most:  # rings of so many atoms take RDKit minutes
        return SMILES.sentence(len(text), f"{text[:20]!r}...")
    return f"RDKit cannot read {text[:80]!r}"


def parse_block(text: bytes) -> Mol | None:
    """The molecule of one entry of an SDF file, or None as in `parse_smiles`."""
    return _parse(lambda: next(rdkit().ForwardSDMolSupplier(io.BytesIO(text)), None))


def _parse(read: Callable[[], Mol | None]) -> Mol | None:
    rdkit()
    from rdkit import rdBase

    molecule = None
    with rdBase.BlockLogs(), suppress(RuntimeError, UnicodeDecodeError):  # we log ourselves
        molecule = read()
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def read_texts(smiles: Iterable[str], name: str) -> Iterator[Record]:
    """Molecules given as SMILES strings."""
    with Skipped(name) as skipped:
        for number, text in enumerate(smiles, 1):
            if (molecule := parse_smiles(text.strip())) is None:
                skipped.add(f"{name} {number}", why_unreadable(text.strip()))
                continue
            skipped.read += 1
            yield record_of(molecule, f"{name} {number}", text.strip(), None)


def record_of(molecule: Mol, place: str, name: str, target: str | None) -> Record:
    return Record(
        place=place,
        name=name,
        nodes=molecule.GetNumAtoms(),
        edges=[
            end
            for bond in molecule.GetBonds()
            for end in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        ],
        labels=[atom.GetSymbol() for atom in molecule.GetAtoms()],
        target=target,
        molecule=molecule,
    )


@cache
def rdkit() -> ModuleType:
    """RDKit's `Chem`."""
    try:
        from rdkit import Chem
    except ImportError:
        raise SagpoolError(
            "Molecules need RDKit, which is not installed: pip install 'sagpool[chem]'."
        ) from None
    return Chem
