"""Descriptions of the atoms and bonds of a molecule, of its fragments and its scaffold."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sagpool.graphs.molecules import atoms_of, bonds_of
from sagpool.graphs.records import Record

if TYPE_CHECKING:
    from rdkit.Chem import Mol

RADIUS = 2  # bonds around an atom in its Morgan environments
LARGEST_RING = 8  # larger rings count as this size
# What each atom adds to properties of the molecule: their sums over the atoms are log P, the molar
# refractivity, the polar surface and the surface without hydrogens (Wildman and Crippen 1999; Ertl
# et al. 2000; Labute 2000). With these, counts of atoms are better than fingerprints at properties
# such as solubility.
CONTRIBUTIONS = (
    *("log P", "refractivity", "polar surface", "surface"),
    *("partial charge", "electrotopological state"),
)


def described(record: Record) -> Record:
    """The record of a molecule with more labels of its atoms and bonds, and its fragments.

    Usual values (no charge, no isotope, no ring, ...) get no label and no column.
    """
    molecule = record.molecule
    assert molecule is not None, "only molecules are described"
    return replace(
        record,
        features=_contributions(molecule),
        attribute_names=CONTRIBUTIONS,
        more_labels=_atom_labels(molecule),
        edge_labels=_bond_labels(molecule),
        fragments=_generator().GetSparseCountFingerprint(molecule).GetNonzeroElements(),
    )


def with_scaffold(record: Record) -> Record:
    """The record of a molecule with its Bemis-Murcko scaffold as its group.

    Molecules without a ring have no scaffold and are one group, as in MoleculeNet.
    """
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return replace(record, group=MurckoScaffold.MurckoScaffoldSmiles(mol=record.molecule))


def _atom_labels(molecule: Mol) -> dict[str, list[str | None]]:
    atoms = atoms_of(molecule)
    rings = molecule.GetRingInfo()
    sizes = [rings.MinAtomRingSize(number) for number in range(len(atoms))]
    return {
        "charge": [f"{charge:+d}" if (charge := a.GetFormalCharge()) else None for a in atoms],
        "hydrogens": [str(atom.GetTotalNumHs()) for atom in atoms],
        "aromatic": ["atom" if atom.GetIsAromatic() else None for atom in atoms],
        "ring": [str(min(size, LARGEST_RING)) if size else None for size in sizes],
        "hybridisation": [atom.GetHybridization().name for atom in atoms],
        "chirality": [a.GetProp("_CIPCode") if a.HasProp("_CIPCode") else None for a in atoms],
        "radical": [str(count) if (count := a.GetNumRadicalElectrons()) else None for a in atoms],
        "isotope": [str(isotope) if (isotope := a.GetIsotope()) else None for a in atoms],
    }


def _contributions(molecule: Mol) -> np.ndarray:
    """``[atoms * contributions]`` float64, atom after atom; 0 where RDKit has no parameters."""
    from rdkit.Chem import rdMolDescriptors, rdPartialCharges
    from rdkit.Chem.EState import EStateIndices

    log_p, refractivity = _crippen(molecule)
    polar = rdMolDescriptors._CalcTPSAContribs(molecule)
    surface = list(rdMolDescriptors._CalcLabuteASAContribs(molecule)[0])
    rdPartialCharges.ComputeGasteigerCharges(molecule)
    charge = [atom.GetDoubleProp("_GasteigerCharge") for atom in atoms_of(molecule)]
    columns = [log_p, refractivity, polar, surface, charge, EStateIndices(molecule)]
    matrix = np.array(columns, np.float64).T
    return np.nan_to_num(matrix, posinf=0.0, neginf=0.0).ravel()


def _crippen(molecule: Mol) -> np.ndarray:
    """``[2, atoms]`` contributions to log P and refractivity, hydrogens with their neighbour."""
    from rdkit.Chem import AddHs, rdMolDescriptors

    every = AddHs(molecule)
    contributions = np.array(rdMolDescriptors._CalcCrippenContribs(every)).T
    atoms = molecule.GetNumAtoms()
    for bond in every.GetBonds():  # the added hydrogens come last
        low, high = sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        if high >= atoms:
            contributions[:, low] += contributions[:, high]
    return contributions[:, :atoms]


def _bond_labels(molecule: Mol) -> dict[str, list[str | None]]:
    bonds = bonds_of(molecule)
    stereo = [bond.GetStereo().name for bond in bonds]
    return {
        "bond": [bond.GetBondType().name.lower() for bond in bonds],
        "conjugated": ["bond" if bond.GetIsConjugated() else None for bond in bonds],
        "ring bond": ["yes" if bond.IsInRing() else None for bond in bonds],
        "stereo": [None if kind == "STEREONONE" else kind[6:] for kind in stereo],
    }


@cache
def _generator() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS)
