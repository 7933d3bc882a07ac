"""Atoms, bonds, fragments and scaffolds of small molecules."""

import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Descriptors, rdFingerprintGenerator

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.atoms import CONTRIBUTIONS
from sagpool.graphs.record_files import chunks
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary

SMILES = [
    "C[N+](C)(C)C",
    "c1ccccc1O",
    "C[C@H](N)C(=O)O",
    "F/C=C/F",
    "[2H]C",
    "C1CC1c1ccccc1",
    "[Na+]",
]


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    path = tmp_path_factory.mktemp("molecules") / "x.csv"
    path.write_text("smiles,label\n" + "".join(f"{s},{i % 2}\n" for i, s in enumerate(SMILES)))
    return path


def test_columns_of_atoms_and_bonds(molecules):
    graphs = load(molecules, "all", scaffolds=True)
    has = [
        {name for name, value in zip(graphs.column_names, x, strict=True) if value}
        for x in graphs.x.tolist()
    ]
    contributions = {f"attribute {name}" for name in CONTRIBUTIONS}
    ammonium, phenol = has[1] - contributions, has[graphs.node_ptr[1]] - contributions
    assert ammonium == {
        "charge +1", "hydrogens 0", "hybridisation SP3", "bond single", "degree 4",
        "neighbour C (single)", "label N",
    }  # fmt: skip
    assert phenol == {
        "hydrogens 1", "aromatic atom", "ring 6", "hybridisation SP2", "bond aromatic",
        "conjugated bond", "ring bond yes", "degree 2", "neighbour C (aromatic)", "label C",
    }  # fmt: skip
    assert {"chirality S", "stereo E", "isotope 2", "ring 3"} <= set(graphs.column_names)
    assert graphs.continuous == len(CONTRIBUTIONS)
    # Acyclic molecules are one group; phenol and cyclopropylbenzene have scaffolds of their own.
    assert len(set(graphs.group.tolist())) == 3
    assert graphs.group[0] == graphs.group[2] != graphs.group[1]


def test_contributions_add_up_to_properties_of_the_molecule(molecules):
    graphs = load(molecules, "all")
    for graph, smiles in zip(graphs, SMILES, strict=True):
        sums = dict(zip(CONTRIBUTIONS, graph.node_attr.sum(0).tolist(), strict=False))
        molecule = Chem.MolFromSmiles(smiles)
        assert sums["log P"] == pytest.approx(Descriptors.MolLogP(molecule), abs=1e-4)
        assert sums["refractivity"] == pytest.approx(Descriptors.MolMR(molecule), abs=1e-3)
        assert sums["polar surface"] == pytest.approx(Descriptors.TPSA(molecule), abs=1e-3)


def test_fragments_are_rdkits_counts(molecules):
    graphs = load(molecules, "all")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2)
    for row, smiles in enumerate(SMILES):
        counts = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(smiles))
        one = graphs.fragments[[row]]
        found = dict(zip(one.indices.tolist(), one.data.tolist(), strict=True))
        assert found == counts.GetNonzeroElements()
    assert graphs[2:4].fragments.shape == (2, 2**32)
    assert load(molecules).fragments is None
    assert graphs.fingerprint() != load(molecules, "all", scaffolds=True).fingerprint()


def test_chunks_have_the_columns_of_the_model(molecules, tmp_path):
    graphs = load(molecules, "all")
    vocabulary = Vocabulary.of(graphs)
    parts = [vocabulary.fit(chunk.graphs).graphs for chunk in chunks(molecules, vocabulary, size=2)]
    assert torch.equal(torch.cat([part.x for part in parts]), graphs.x)
    assert sum(part.fragments.nnz for part in parts) == graphs.fragments.nnz
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCC\n[13CH3]C\nC[Si]\n")
    (chunk,) = chunks(new, vocabulary, Columns())
    unseen = vocabulary.fit(chunk.graphs).unseen
    assert (unseen["Si"], unseen["unknown isotope"]) == (1, 1)
    assert vocabulary.unseen_nodes(chunk.graphs).tolist() == [0, 1, 1]
    new = tmp_path / "new.jsonl"
    new.write_text('{"nodes": ["C", "C"], "edges": [[0, 1]]}')
    with pytest.raises(SagpoolError, match=r"new\.jsonl, line 1 has 0 attributes per node; the"):
        list(chunks(new, vocabulary))


def test_only_molecules_have_scaffolds(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"nodes": 1, "label": 1}')
    with pytest.raises(SagpoolError, match=r"^x.jsonl has no molecules, so it has no scaffolds\.$"):
        load(path, scaffolds=True)
