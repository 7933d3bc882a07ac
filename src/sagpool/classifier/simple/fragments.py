"""The atoms and the SMILES of the Morgan environments of a molecule."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rdkit.Chem import Mol

LARGEST_RADIUS = 3  # the hash of an environment does not depend on the largest radius


class Fragment(NamedTuple):
    """An environment in a molecule."""

    smiles: str
    atoms: tuple[tuple[int, ...], ...]  # atoms of each occurrence, its centre first


def fragments_of(
    molecule: Mol, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, Fragment]:
    """The environments of a molecule, by their column names in simple models.

    Args:
        molecule: a molecule whose atoms are numbered like the nodes of its graph
        wanted: whether an environment is needed; making many SMILES is slow
    """
    from rdkit.Chem import rdFingerprintGenerator

    found = rdFingerprintGenerator.AdditionalOutput()
    found.AllocateBitInfoMap()
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=LARGEST_RADIUS)
    generator.GetSparseCountFingerprint(molecule, additionalOutput=found)
    fragments = {}
    for number, places in found.GetBitInfoMap().items():
        name = environment_name(number)
        if wanted(name):
            occurrences = tuple(_atoms(molecule, centre, radius) for centre, radius in places)
            smiles = _smiles(molecule, occurrences[0], places[0][1])
            fragments[name] = Fragment(smiles, occurrences)
    return fragments


def environment_name(number: int) -> str:
    return f"environment {number}"


def _atoms(molecule: Mol, centre: int, radius: int) -> tuple[int, ...]:
    bonds = _bonds(molecule, centre, radius)
    ends = {
        end
        for bond in map(molecule.GetBondWithIdx, bonds)
        for end in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    }
    return (centre, *sorted(ends - {centre}))


def _bonds(molecule: Mol, centre: int, radius: int) -> list[int]:
    from rdkit.Chem import FindAtomEnvironmentOfRadiusN

    return list(FindAtomEnvironmentOfRadiusN(molecule, radius, centre)) if radius else []


def _smiles(molecule: Mol, atoms: tuple[int, ...], radius: int) -> str:
    from rdkit.Chem import GetMolFrags, MolFragmentToSmiles

    bonds = _bonds(molecule, atoms[0], radius)
    # For a salt, RDKit cannot begin with the centre.
    first = atoms[0] if len(GetMolFrags(molecule)) == 1 else -1
    return MolFragmentToSmiles(
        molecule, atomsToUse=list(atoms), bondsToUse=bonds, rootedAtAtom=first
    )
