"""Graphs to explain, from files, SMILES strings, PyG, networkx or `Graphs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagpool.errors import SagpoolError
from sagpool.explain.trace import Trace
from sagpool.graphs import Graphs, from_networkx, from_pyg, load
from sagpool.graphs.columns import Encoding
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.graphs import Task
from sagpool.graphs.intake import pack_records
from sagpool.graphs.molecules import parse_smiles, record_of, why_unreadable
from sagpool.graphs.record_files import holds_records, read_records
from sagpool.graphs.records import Columns, Record
from sagpool.graphs.targets import renamed, with_targets
from sagpool.graphs.vocabulary import Vocabulary

MOST_DRAWN_ATOMS = 300  # larger molecules are drawn as graphs: RDKit's layout would take minutes

if TYPE_CHECKING:
    from rdkit.Chem import Mol


@dataclass(frozen=True, eq=False)
class ExplainInput:
    """Graphs to explain and, if they were read as records, what else is known about each."""

    graphs: Graphs
    total: int | None  # number of graphs in the source, if known
    titles: tuple[str, ...] | None = None
    molecules: tuple[str | None, ...] = ()  # MOL blocks with 2D coordinates, for molecules
    classes: tuple[int | None, ...] = ()  # indices of the model's classes, if it has any

    def annotate(self, trace: Trace) -> Trace:
        """Add title, molecule and class to the trace of one of these graphs."""
        if self.titles is None:
            return trace
        n = trace.number
        true_class = self.classes[n] if self.classes else trace.true_class
        return replace(
            trace, title=self.titles[n], molecule=self.molecules[n], true_class=true_class
        )


def from_source(
    source: str, vocabulary: Vocabulary, columns: Columns = Columns(), *, limit: int
) -> ExplainInput:
    """The first ``limit`` graphs of anything that `sagpool.load` reads."""
    path = Path(source).expanduser()
    if not holds_records(path):
        graphs = load(source, vocabulary.features)
        return ExplainInput(graphs[:limit], len(graphs))
    columns = replace(columns, expected=vocabulary.target_names)
    # Files are read only this far; one more record tells whether there are more.
    records = list(islice(read_records(path, columns), limit + 1))
    total = len(records) if len(records) <= limit else None
    checked = [vocabulary.check(record) for record in records[:limit]]
    return _from_records(checked, path.stem, vocabulary, total)


def from_smiles(texts: Sequence[str], vocabulary: Vocabulary) -> ExplainInput:
    """Molecules from SMILES strings."""
    records = []
    for text in texts:
        molecule = parse_smiles(text)
        if molecule is None:
            raise SagpoolError(f"{why_unreadable(text)}.")
        records.append(vocabulary.check(record_of(molecule, text, text, None)))
    return _from_records(records, "molecules", vocabulary, len(records))


def from_object(graph: Any, vocabulary: Vocabulary | None) -> ExplainInput:
    """`Graphs`, a networkx graph, a PyG ``Data`` or a SMILES string; no vocabulary for a module."""
    if isinstance(graph, Graphs):
        return ExplainInput(graph, len(graph))
    if vocabulary is None:
        if isinstance(graph, str):
            raise SagpoolError("A SMILES string can only be explained with a TrainedModel.")
        # The class names of a module are unknown, so the class of a single graph has no index.
        return ExplainInput(replace(_pack(graph, "auto"), y=None, class_names=()), 1)
    if isinstance(graph, str):
        return from_smiles([graph], vocabulary)
    graphs = _pack(graph, vocabulary.features, vocabulary.task)
    if len(graphs.target_names) == len(vocabulary.target_names):
        # The numbers of ``y`` have no names; they are in the order of the training graphs.
        graphs = replace(graphs, target_names=vocabulary.target_names)
    return ExplainInput(graphs, 1)


def _pack(graph: Any, features: Features | Encoding, task: Task = "classification") -> Graphs:
    import networkx

    if isinstance(graph, networkx.Graph):
        return from_networkx([graph], features=features, task=task)
    if hasattr(graph, "edge_index"):
        return from_pyg([graph], features=features, task=task)
    raise SagpoolError(
        "A graph to explain is a Graphs, a PyG Data, a networkx graph or a SMILES string, not "
        f"{type(graph).__name__}."
    )


def _from_records(
    records: Sequence[Record], name: str, vocabulary: Vocabulary, total: int | None
) -> ExplainInput:
    # Packing without classes: they may be missing in some records, or unknown to the model.
    raw = pack_records([replace(record, target=None) for record in records], name)
    named = [renamed(record, vocabulary.target_names) for record in records]
    raw = with_targets(raw, named, vocabulary.task, vocabulary.target_names)
    index = {text: number for number, text in enumerate(vocabulary.class_names)}
    return ExplainInput(
        choose_features(raw, vocabulary.features),
        total,
        tuple(record.name for record in records),
        tuple(None if r.molecule is None else _mol_block(r.molecule) for r in records),
        tuple(None if r.target is None else index.get(r.target) for r in records) if index else (),
    )


def _mol_block(molecule: Mol) -> str | None:
    """The molecule as text, with its own coordinates if they are 2D, otherwise computed ones.

    None if it is too large.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    if molecule.GetNumAtoms() > MOST_DRAWN_ATOMS:
        return None
    if not molecule.GetNumConformers() or molecule.GetConformer().Is3D():
        rdDepictor.Compute2DCoords(molecule)
    return str(Chem.MolToMolBlock(molecule))
