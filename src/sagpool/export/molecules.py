"""A molecule as inputs of an exported model; needs RDKit."""

from __future__ import annotations

from typing import Any

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.export.runtime.inputs import EDGE_LABELS, NODE_LABELS, flat_fragments
from sagpool.graphs.atoms import described
from sagpool.graphs.molecules import parse_smiles, record_of, why_unreadable


def molecule_inputs(smiles: str) -> dict[str, Any]:
    """All inputs, by name, that a model of molecules may need."""
    molecule = parse_smiles(smiles.strip())
    if molecule is None:
        raise SagpoolError(f"The molecule cannot be read: {why_unreadable(smiles.strip())}.")
    record = described(record_of(molecule, "the molecule", "molecule"))
    edges = [[record.edges[i], record.edges[i + 1]] for i in range(0, len(record.edges), 2)]
    inputs: dict[str, Any] = {
        "labels": list(record.labels or ()),
        "features": np.asarray(record.features, np.float32).reshape(record.nodes, -1),
        "edges": edges,
        "sizes": [record.nodes],
    }
    titled = {f"{NODE_LABELS}{title}": texts for title, texts in record.more_labels.items()}
    titled |= {f"{EDGE_LABELS}{title}": texts for title, texts in record.edge_labels.items()}
    inputs |= {name: ["" if text is None else text for text in t] for name, t in titled.items()}
    return inputs | flat_fragments([record.fragments or {}], 1)
