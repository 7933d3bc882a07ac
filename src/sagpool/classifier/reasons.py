"""The reasons of a trained model: the counts that its simple model with the largest weight used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sagpool.classifier.simple.fragments import Fragment, fragments_of
from sagpool.explain.parts import Reason, Reasons, ReasonSource
from sagpool.explain.target import Target
from sagpool.graphs import Graphs

if TYPE_CHECKING:
    from sagpool.classifier.parts import SimplePart

MOST_REASONS = 8  # most reasons per graph


def reasons_of(
    part: SimplePart,
    weight: float,
    graphs: Graphs,
    target: Target,
    predicted: np.ndarray,
    molecules: Sequence[str | None],
) -> Reasons:
    """The counts that moved the prediction for each graph most.

    Args:
        part: the simple model to explain
        weight: weight of the part in the model
        graphs: graphs with the features of the training graphs
        target: the output to explain
        predicted: ``[graphs]`` the predicted class, or the prediction for the target
        molecules: MOL block of each graph whose nodes are its atoms, or None
    """
    model = part.model
    source = ReasonSource(model.name, weight, model.scale, target.name)
    outputs = np.full(len(graphs), target.place) if target.names else predicted
    signs = np.ones(len(graphs))
    if target.task == "multitask":
        signs[predicted == 0] = -1  # a reason for 1 is a reason against 0
    contributions = model.contributions(graphs.to("cpu"), outputs, MOST_REASONS)
    found = [
        tuple(Reason(one.name, one.value, sign * one.amount, one.nodes) for one in explained.top)
        for explained, sign in zip(contributions, signs.tolist(), strict=True)
    ]
    return Reasons(source, _with_fragments(found, molecules))


def _with_fragments(
    found: list[tuple[Reason, ...]], molecules: Sequence[str | None]
) -> tuple[tuple[Reason, ...], ...]:
    """Name environments by the SMILES of a fragment, with its atoms as nodes.

    An environment that a molecule lacks gets its name from another molecule.
    """
    unnamed = {reason.name for reasons in found for reason in reasons}
    smiles: dict[str, str] = {}
    atoms: list[dict[str, Fragment]] = []
    for reasons, block in zip(found, molecules, strict=True):
        own = {reason.name for reason in reasons}
        fragments = {} if block is None else _fragments(block, own | (unnamed - smiles.keys()))
        smiles |= {name: fragment.smiles for name, fragment in fragments.items()}
        atoms.append({name: fragments[name] for name in own & fragments.keys()})
    return tuple(
        tuple(
            replace(
                reason,
                name=f"fragment {smiles[reason.name]}" if reason.name in smiles else reason.name,
                nodes=_nodes(own[reason.name]) if reason.name in own else reason.nodes,
            )
            for reason in reasons
        )
        for reasons, own in zip(found, atoms, strict=True)
    )


def _fragments(block: str, names: set[str]) -> dict[str, Fragment]:
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromMolBlock(block, removeHs=False)
    return {} if molecule is None else fragments_of(molecule, names.__contains__)


def _nodes(fragment: Fragment) -> tuple[int, ...]:
    return tuple(sorted({atom for atoms in fragment.atoms for atom in atoms}))
