"""Molecules from SMILES tables and SDF files, read by RDKit (extra ``chem``).

Atoms are nodes, labelled with their element; bonds are edges. Implicit hydrogens are omitted, as in
the data sets of the paper.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import SMILES
from sagpool.graphs.records import Columns, Record, text_lines
from sagpool.graphs.skipped import Skipped

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol

SMILES_NAMES = ("smiles", "canonical_smiles", "smi", "mol")
LABEL_NAMES = ("label", "class", "y", "target", "activity")
CHOOSE_LABEL = (
    "Choose one with --label-column (of several targets: A,B), in Python with Columns(label=...)."
)
CHOOSE_SMILES = "Choose one with --smiles-column, in Python with Columns(smiles=...)."


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
        sentence = _no_column(name, header, columns.smiles, standard)
        raise sentence if columns.smiles else SagpoolError(f"{sentence} {CHOOSE_SMILES}")
    labels = _label_columns(name, header, columns)
    own_id, time = (_column(header, title, ()) for title in (columns.id, columns.time))
    for title, column in ((columns.id, own_id), (columns.time, time)):
        if column is None and title:
            raise _no_column(name, header, title, "")
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
            skipped.read += 1
            title = text if own_id is None else cells[own_id].strip() or text
            targets = {title: cells[label].strip() or None for title, label in labels.items()}
            record = record_of(molecule, place, title, targets)
            yield record if time is None else replace(record, time=cells[time].strip())


def _label_columns(name: str, header: list[str], columns: Columns) -> dict[str, int]:
    """The columns of the class or of the targets: requested, expected, or the standard one."""
    if columns.labels or columns.expected:
        found = {title: _column(header, title, ()) for title in columns.labels or columns.expected}
    else:
        standard = _column(header, None, LABEL_NAMES)
        found = {} if standard is None else {header[standard]: standard}
    for title in columns.labels:
        if found[title] is None:
            raise _no_column(name, header, title, "")
    labels = {title: column for title, column in found.items() if column is not None}
    if not labels and columns.need_label:
        names = f"for the label ({', '.join(LABEL_NAMES)})"
        raise SagpoolError(f"{_no_column(name, header, None, names)} {CHOOSE_LABEL}")
    return labels


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
    seen = dict[str, None]()  # properties, in order of appearance
    labelled = identified = timed = False
    with Skipped(name) as skipped:
        for number, (line, block) in enumerate(_blocks(file), 1):
            place = f"{name}, line {line} (molecule {number})"
            molecule = parse_block(block)
            if molecule is None:
                skipped.add(place, "RDKit cannot read it")
                continue
            properties = {key.lower(): key for key in molecule.GetPropNames()}
            seen.update(dict.fromkeys(properties.values()))
            targets = _sdf_targets(molecule, properties, columns)
            labelled = labelled or bool(targets)
            title = molecule.GetProp("_Name").strip() if molecule.HasProp("_Name") else ""
            if columns.id and (key := properties.get(columns.id.lower())):
                title, identified = molecule.GetProp(key).strip() or title, True
            skipped.read += 1
            record = record_of(molecule, place, title or str(number), targets)
            if columns.time and (key := properties.get(columns.time.lower())):
                record, timed = replace(record, time=molecule.GetProp(key).strip()), True
            yield record
    if not skipped.read:
        return
    listed = f"its properties are {', '.join(seen)[:200] or 'none'}"
    if not labelled and columns.label:
        wanted = "' or '".join(columns.labels)
        raise SagpoolError(f"{name}: no molecule has the property '{wanted}'; {listed}.")
    if not labelled and columns.need_label:
        raise SagpoolError(f"{name}: no molecule has a label; {listed}. {CHOOSE_LABEL}")
    for title, found in ((columns.id, identified), (columns.time, timed)):
        if title and not found:
            raise SagpoolError(f"{name}: no molecule has the property '{title}'; {listed}.")


def _sdf_targets(
    molecule: Mol, properties: dict[str, str], columns: Columns
) -> dict[str, str | None]:
    """The label of a molecule, or several; ``properties`` has their names in lower case."""
    wanted = columns.labels or columns.expected
    if not wanted:
        wanted = tuple(name for name in LABEL_NAMES if name in properties)[:1]
    return {
        title: molecule.GetProp(properties[title.lower()]).strip() or None
        for title in wanted
        if title.lower() in properties
    }


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


def parse_smiles(text: str) -> Mol | None:
    """The molecule, or None if RDKit cannot read it or it has no atom."""
    readable = text.isprintable() and len(text) <= SMILES.most
    return _parse(lambda: rdkit().MolFromSmiles(text) if readable else None)


def why_unreadable(text: str) -> str:
    """Why `parse_smiles` gives None."""
    if len(text) > SMILES.most:  # RDKit takes minutes for rings with that many atoms
        return SMILES.sentence(len(text), f"{text[:20]!r}...")
    return f"RDKit cannot read {text[:80]!r}"


def parse_block(text: bytes) -> Mol | None:
    """The molecule of one entry of an SDF file, or None as in `parse_smiles`."""
    return _parse(lambda: next(rdkit().ForwardSDMolSupplier(io.BytesIO(text)), None))


def _parse(read: Callable[[], Mol | None]) -> Mol | None:
    rdkit()
    from rdkit import rdBase

    molecule = None
    # Suppress RDKit's log: we report errors ourselves.
    with rdBase.BlockLogs(), suppress(RuntimeError, UnicodeDecodeError):
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
            yield record_of(molecule, f"{name} {number}", text.strip())


def record_of(
    molecule: Mol, place: str, name: str, targets: dict[str, str | None] | None = None
) -> Record:
    return Record(
        place=place,
        name=name,
        nodes=molecule.GetNumAtoms(),
        edges=[
            end
            for bond in bonds_of(molecule)
            for end in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        ],
        labels=[atom.GetSymbol() for atom in atoms_of(molecule)],
        target=next(iter(targets.values())) if targets and len(targets) == 1 else None,
        targets=targets or None,
        molecule=molecule,
    )


def atoms_of(molecule: Mol) -> list[Atom]:
    """Like ``GetAtoms()``, whose iterator takes three times as long."""
    return [molecule.GetAtomWithIdx(number) for number in range(molecule.GetNumAtoms())]


def bonds_of(molecule: Mol) -> list[Bond]:
    return [molecule.GetBondWithIdx(number) for number in range(molecule.GetNumBonds())]


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
