"""What can be explained: graphs of all kinds, with the names and molecules they came with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagpool.errors import SagpoolError
from sagpool.explain.trace import Trace
from sagpool.graphs import Graphs, from_networkx, from_pyg, load
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.intake import pack_records
from sagpool.graphs.molecules import parse_smiles, record_of
from sagpool.graphs.record_files import holds_records, read_records
from sagpool.graphs.records import Columns, Record
from sagpool.graphs.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rdkit.Chem import Mol


@dataclass(frozen=True, eq=False)
class Given:
    """Graphs, and for those of records what else is known about each of them.

    Args:
        graphs: as they were read
        total: how many there are where these come from, if that is known
        titles: by which their owner knows them
        molecules: MOL blocks with flat coordinates, for those that are molecules
        classes: numbers of the model's classes, for those that have one
    """

    graphs: Graphs
    total: int | None
    titles: tuple[str, ...] | None = None
    molecules: tuple[str | None, ...] = ()
    classes: tuple[int | None, ...] = ()

    def named(self, trace: Trace) -> Trace:
        """The trace of one of these graphs, with what is known about it."""
        if self.titles is None:
            return trace
        number = trace.number
        return replace(
            trace,
            title=self.titles[number],
            molecule=self.molecules[number],
            true_class=self.classes[number],
        )


def from_source(
    source: str, vocabulary: Vocabulary, columns: Columns = Columns(), *, limit: int
) -> Given:
    """The first graphs of anything that `sagpool.load` takes."""
    path = Path(source).expanduser()
    if not holds_records(path):
        graphs = load(source, vocabulary.features)
        return Given(graphs[:limit], len(graphs))
    # Only as much of the file is read as is wanted; one more tells whether there is more.
    records = list(islice(read_records(path, columns), limit + 1))
    total = len(records) if len(records) <= limit else None
    return _of_records([vocabulary.check(r) for r in records[:limit]], path.stem, vocabulary, total)


def from_smiles(texts: Sequence[str], vocabulary: Vocabulary) -> Given:
    """Molecules that were written down."""
    records = []
    for text in texts:
        molecule = parse_smiles(text)
        if molecule is None:
            raise SagpoolError(f"RDKit cannot read {text[:80]!r} as SMILES.")
        records.append(vocabulary.check(record_of(molecule, text, text, None)))
    return _of_records(records, "molecules", vocabulary, len(records))


def from_object(graph: Any, vocabulary: Vocabulary | None) -> Given:
    """`Graphs`, a networkx graph, a PyG ``Data`` or a SMILES string.

    Args:
        graph: one of these
        vocabulary: of the model; None for a model that has none
    """
    if isinstance(graph, Graphs):
        return Given(graph, len(graph))
    if vocabulary is None:
        if isinstance(graph, str):
            raise SagpoolError("A SMILES string can be explained with a TrainedModel alone.")
        # A single graph does not tell which of the model's classes its own is.
        return Given(replace(_packed(graph, "auto"), y=None, class_names=()), 1)
    if isinstance(graph, str):
        return from_smiles([graph], vocabulary)
    return Given(_packed(graph, vocabulary.features), 1)


def _packed(graph: Any, features: Features) -> Graphs:
    import networkx

    if isinstance(graph, networkx.Graph):
        return from_networkx([graph], features=features)
    if hasattr(graph, "edge_index"):
        return from_pyg([graph], features=features)
    raise SagpoolError(
        "A graph to explain is a Graphs, a PyG Data, a networkx graph or a SMILES string, not "
        f"{type(graph).__name__}."
    )


def _of_records(
    records: Sequence[Record], name: str, vocabulary: Vocabulary, total: int | None
) -> Given:
    # Classes are looked up one by one: some may be missing, or not known to the model.
    raw = pack_records([replace(record, target=None) for record in records], name)
    place = {text: number for number, text in enumerate(vocabulary.class_names)}
    return Given(
        choose_features(raw, vocabulary.features),
        total,
        tuple(record.name for record in records),
        tuple(None if r.molecule is None else _flat(r.molecule) for r in records),
        tuple(None if r.target is None else place.get(r.target) for r in records),
    )


def _flat(molecule: Mol) -> str:
    """The molecule as text; coordinates of its own are kept if they lie in a plane."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    if not molecule.GetNumConformers() or molecule.GetConformer().Is3D():
        rdDepictor.Compute2DCoords(molecule)
    return str(Chem.MolToMolBlock(molecule))
