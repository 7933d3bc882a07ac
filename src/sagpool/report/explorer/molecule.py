"""Molecules as a browser draws them: coordinates, symbols of atoms and kinds of bonds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sagpool.graphs.molecules import rdkit

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond

WEDGE, HASHED, AROMATIC = 4, 5, 6  # bonds other than single, double and triple (1 to 3)


class Symbol(NamedTuple):
    """The text at an atom."""

    text: str  # element, preceded by the isotope if given
    hydrogens: int  # number of hydrogens that are not atoms of the graph
    charge: int


class Structure(NamedTuple):
    """A molecule; its atoms are the nodes of a graph."""

    positions: np.ndarray  # [atoms, 2]; a bond has length 1, y points downwards
    symbols: list[Symbol]
    bonds: np.ndarray  # [bonds, 3]: two atoms, and the order or kind; a wedge starts at the first


def structure(block: str) -> Structure | None:
    """From a MOL block with 2D coordinates; None if RDKit cannot read it back."""
    chem = rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Draw import rdMolDraw2D

    with rdBase.BlockLogs():
        molecule = chem.MolFromMolBlock(block, removeHs=False)
    if molecule is None:
        return None
    # Adding no atoms keeps the atom numbers equal to the node numbers.
    molecule = rdMolDraw2D.PrepareMolForDrawing(molecule, addChiralHs=False, forceCoords=False)
    points = molecule.GetConformer().GetPositions()[:, :2] * [1, -1]
    bonds = np.array(
        [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), _kind(b)) for b in molecule.GetBonds()], np.int64
    ).reshape(-1, 3)
    lengths = np.linalg.norm(points[bonds[:, 0]] - points[bonds[:, 1]], axis=1)
    # A file may have all atoms in one place; then any length will do.
    unit = float(np.median(lengths)) if len(bonds) else 1.0
    return Structure(points / (unit or 1.0), [_symbol(a) for a in molecule.GetAtoms()], bonds)


def _symbol(atom: Atom) -> Symbol:
    isotope = str(atom.GetIsotope() or "")
    return Symbol(isotope + atom.GetSymbol(), atom.GetTotalNumHs(), atom.GetFormalCharge())


def _kind(bond: Bond) -> int:
    named = {"BEGINWEDGE": WEDGE, "BEGINDASH": HASHED}
    orders = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "AROMATIC": AROMATIC}
    # Other kinds, such as dative bonds, are drawn as single bonds.
    return named.get(bond.GetBondDir().name) or orders.get(bond.GetBondType().name, 1)
