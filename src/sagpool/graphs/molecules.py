"""Molecules from SMILES and SDF files, read by RDKit (extra ``chem``).

Atoms are nodes, labelled with their element; bonds are edges. Hydrogens that are not written out
are left out, as in the data sets of the paper.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from sagpool.errors import SagpoolError
from sagpool.graphs.records import Record

if TYPE_CHECKING:
    from rdkit.Chem import Mol

log = logging.getLogger("sagpool")

SMILES_NAMES = ("smiles", "canonical_smiles", "smi", "mol")
LABEL_NAMES = ("label", "class", "y", "target", "activity")
MOST_TOLD = 20  # molecules that are left out and named one by one


def read_smiles(
    lines: Iterable[str],
    name: str,
    *,
    delimiter: str = ",",
    smiles_column: str | None = None,
    label_column: str | None = None,
) -> Iterator[Record]:
    """The molecules of a table, one at a time.

    Args:
        lines: of the file; the first names the columns
        name: of the file, for messages
        delimiter: between columns
        smiles_column: by default one with a usual name
        label_column: likewise; a table without one has no classes
    """
    rdkit()  # if it is missing, that is to be said first
    rows = _rows(lines, name, delimiter)
    header = [title.strip() for title in next(rows, _Row("", [])).cells]
    if not header:
        raise SagpoolError(f"{name} is empty.")
    smiles = _column(header, smiles_column, SMILES_NAMES)
    if smiles is None:
        raise _no_column(name, header, smiles_column, f"for the SMILES ({', '.join(SMILES_NAMES)})")
    label = _column(header, label_column, LABEL_NAMES)
    if label is None and label_column:
        raise _no_column(name, header, label_column, "")
    with Skipped(name) as skipped:
        for place, cells in rows:
            if len(cells) != len(header):
                raise SagpoolError(
                    f"{place} has {len(cells)} columns, where the first line names {len(header)}."
                )
            text = cells[smiles].strip()
            if (molecule := parse_smiles(text)) is None:
                skipped.add(place, f"RDKit cannot read {text[:80]!r}")
                continue
            target = None if label is None else cells[label].strip() or None
            skipped.read += 1
            yield record_of(molecule, place, text, target)


class _Row(NamedTuple):
    place: str
    cells: list[str]


def _rows(lines: Iterable[str], name: str, delimiter: str) -> Iterator[_Row]:
    """The rows of a table that are not empty."""
    table = csv.reader(lines, delimiter=delimiter, strict=True)
    line = 1  # where the row begins; quoted, it may have several
    try:
        for cells in table:
            if any(cells):
                yield _Row(f"{name}, line {line}", cells)
            line = table.line_num + 1
    except csv.Error as error:
        raise SagpoolError(f"{name}, line {line}: {error}.") from None


def _column(header: list[str], wanted: str | None, usual: tuple[str, ...]) -> int | None:
    lower = [title.lower() for title in header]
    if wanted in header:
        return header.index(wanted)
    for title in [wanted] if wanted else usual:
        if title.lower() in lower:
            return lower.index(title.lower())
    return None


def _no_column(name: str, header: list[str], wanted: str | None, else_: str) -> SagpoolError:
    sought = f"named '{wanted}'" if wanted else else_
    columns = ", ".join(header)
    shown = columns if len(columns) < 200 and columns.isprintable() else f"{columns[:200]!r}..."
    return SagpoolError(f"{name} has no column {sought}; its columns are {shown}.")


def read_sdf(file: BinaryIO, name: str, *, label_property: str | None = None) -> Iterator[Record]:
    """The molecules of an SDF file, one at a time; the class is one of their properties.

    Args:
        file: open
        name: of the file, for messages
        label_property: by default one with a usual name
    """
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
            wanted = [label_property] if label_property else LABEL_NAMES
            keys = [properties[key.lower()] for key in wanted if key.lower() in properties]
            target = molecule.GetProp(keys[0]).strip() or None if keys else None
            labelled = labelled or bool(keys)
            title = molecule.GetProp("_Name").strip() if molecule.HasProp("_Name") else ""
            skipped.read += 1
            yield record_of(molecule, place, title or str(number), target)
    if label_property and skipped.read and not labelled:
        raise SagpoolError(f"{name}: no molecule has the property '{label_property}'.")


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The molecules' texts, up to ``$$$$``, and the lines where they begin."""
    first, block = 1, list[bytes]()
    for number, line in enumerate(file, 1):
        # Titles are in all sorts of encodings; what is no UTF-8 is replaced.
        block.append(line if line.isascii() else line.decode(errors="replace").encode())
        if line.startswith(b"$$$$"):
            yield first, b"".join(block)
            first, block = number + 1, []
    if any(line.strip() for line in block):
        yield first, b"".join(block)


class Skipped:
    """Molecules that were left out: named one by one, in a warning, and counted at the end."""

    def __init__(self, name: str) -> None:
        self.name, self.count, self.read = name, 0, 0

    def add(self, place: str, reason: str) -> None:
        self.count += 1
        if self.count <= MOST_TOLD:
            log.warning("%s is left out: %s.", place, reason)

    def __enter__(self) -> Skipped:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None and self.count and not self.read:
            raise SagpoolError(
                f"{self.name}: no molecule could be read; all {self.count} were left out."
            )
        if error is None and self.count:
            log.warning("%s: %d molecules were left out.", self.name, self.count)


def only_labelled(records: list[Record], name: str) -> list[Record]:
    """Those that have a class, if any has."""
    if all(record.target is None for record in records):
        return records
    kept = []
    with Skipped(name) as skipped:
        for record in records:
            if record.target is None:
                skipped.add(record.place, "it has no class")
            else:
                skipped.read += 1
                kept.append(record)
    return kept


def parse_smiles(text: str) -> Mol | None:
    """The molecule, or None if it is none."""
    Chem = rdkit()
    if not text or not text.isprintable():
        return None
    molecule = None
    with _no_log(), suppress(RuntimeError):
        molecule = Chem.MolFromSmiles(text)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def parse_block(text: bytes) -> Mol | None:
    """The molecule of a part of an SDF file, or None if it is none."""
    Chem = rdkit()
    molecule = None
    with _no_log(), suppress(RuntimeError, UnicodeDecodeError):
        molecule = next(Chem.ForwardSDMolSupplier(io.BytesIO(text)), None)
    return molecule if molecule is not None and molecule.GetNumAtoms() else None


def read_texts(smiles: Iterable[str], name: str) -> Iterator[Record]:
    """Molecules that are given as SMILES, with nothing else."""
    with Skipped(name) as skipped:
        for number, text in enumerate(smiles, 1):
            if (molecule := parse_smiles(text.strip())) is None:
                skipped.add(f"{name} {number}", f"RDKit cannot read {text[:80]!r}")
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


def _no_log() -> AbstractContextManager[object]:
    """What RDKit cannot read is told by us."""
    from rdkit import rdBase

    return rdBase.BlockLogs()


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
