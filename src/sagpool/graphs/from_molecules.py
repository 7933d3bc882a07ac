"""Graphs from SMILES strings and RDKit molecules that a program has in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sagpool.errors import SagpoolError
from sagpool.graphs.atoms import described
from sagpool.graphs.columns import Encoding
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.intake import pack_records
from sagpool.graphs.molecules import parse_smiles, rdkit, record_of, why_unreadable
from sagpool.graphs.records import Record

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def from_molecules(
    molecules: Sequence[str | Mol],
    *,
    features: Features | Encoding = "auto",
    name: str = "molecules",
    degree_cap: int = 64,
) -> Graphs:
    """Pack molecules, without classes. An unreadable molecule is an error: none is left out.

    Args:
        molecules: SMILES strings or RDKit molecules; an RDKit molecule is used with the hydrogens
            that it has
        features: as in `sagpool.load`
        name: name of the collection; errors mention it with the number of the molecule, from 0
        degree_cap: as in `sagpool.load`
    """
    everything = features == "all" or isinstance(features, Encoding)
    records = [_record(one, f"{name}[{i}]", i, everything) for i, one in enumerate(molecules)]
    return choose_features(pack_records(records, name), features, degree_cap)


def _record(molecule: str | Mol, place: str, number: int, everything: bool) -> Record:
    if isinstance(molecule, str):
        text = title = molecule.strip()
        if (parsed := parse_smiles(text)) is None:
            raise SagpoolError(f"{place}: {why_unreadable(text)}.")
    else:
        parsed = rdkit().Mol(molecule)  # a copy, because partial charges are stored in it
        title = parsed.GetProp("_Name").strip() if parsed.HasProp("_Name") else ""
    try:
        record = record_of(parsed, place, title or str(number + 1))
        return replace(described(record) if everything else record, molecule=None)
    except RuntimeError:  # a precondition of RDKit
        raise SagpoolError(
            f"{place}: RDKit cannot describe this molecule; apply Chem.SanitizeMol to it first."
        ) from None
