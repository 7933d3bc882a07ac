import logging
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import sagpool
from sagpool import Graphs, SagpoolError, load
from sagpool.explain.inputs import from_smiles, from_source
from sagpool.graphs.records import Columns


@pytest.fixture(scope="module")
def chemist(molecules, new_trained):
    return new_trained(load(molecules))


def test_the_package_is_callable():
    code = """
import networkx, sagpool
graphs = sagpool.load("MUTAG")
from sagpool.models import Shape, build
model = build("sagpool-h", Shape(graphs.num_features, 2, hidden=4))
trace = sagpool.explain(model, graphs, 3)
assert trace.number == 3 and len(trace.levels) == 3
assert trace.plot.__self__ is trace and sagpool.explain.explain_many
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_collection_or_one_of_its_graphs(graphs, new_trained):
    model = new_trained(graphs)
    one, other = sagpool.explain(model, graphs, 6), sagpool.explain(model, graphs[6])
    assert one.num_nodes == other.num_nodes == 25
    assert one.probabilities == pytest.approx(other.probabilities)
    assert (one.levels[0].kept == other.levels[0].kept).all()
    assert one.class_names == ("no", "yes")
    assert (one.number, other.number) == (6, 0)


@pytest.mark.parametrize("trained", [True, False])
def test_pyg_and_networkx_graphs(trained, new_model, new_trained):
    rings = [nx.cycle_graph(n) for n in range(5, 9)]
    for graph in rings:
        for node in graph:
            graph.nodes[node]["x"] = [float(node), 1.0]
    graphs = Graphs.from_networkx(rings, y=[7, 8, 7, 8])
    data = Data(
        x=torch.tensor([[float(node), 1.0] for node in range(8)]),
        edge_index=torch.tensor(list(rings[3].edges)).T,
        y=torch.tensor([8]),
    )
    model = new_trained(graphs) if trained else new_model("sagpool-h", graphs, torch.float32)
    expected = sagpool.explain(model, graphs, 3)
    for graph in (data, rings[3]):
        found = sagpool.explain(model, graph)
        assert found.probabilities == pytest.approx(expected.probabilities)
        assert (found.levels[-1].kept == expected.levels[-1].kept).all()
    # A trained model finds the class by name; a plain module has no class names.
    assert sagpool.explain(model, data).true_class == (1 if trained else None)
    assert sagpool.explain(model, data).class_names == (("7", "8") if trained else ("0", "1"))


def test_a_smiles_string(chemist):
    trace = sagpool.explain(chemist, "CC(=O)Oc1ccccc1C(=O)O")
    assert trace.node_labels == tuple("CCOOCCCCCCCOO")
    assert trace.title == "CC(=O)Oc1ccccc1C(=O)O"
    assert trace.caption.startswith("CC(=O)Oc1ccccc1C(=O)O · predicted ")
    assert trace.true_class is None
    assert trace.molecule is not None


def test_an_unknown_label_keeps_its_name(chemist):
    trace = sagpool.explain(chemist, "CBr")
    assert trace.node_labels == ("C", "Br")


def test_wrong_input(chemist, new_model):
    with pytest.raises(SagpoolError, match=r"^RDKit cannot read 'C1CC'\.$"):
        sagpool.explain(chemist, "C1CC")
    with pytest.raises(SagpoolError, match=r"only be explained with a TrainedModel\.$"):
        sagpool.explain(new_model("sagpool-h", load("MUTAG")), "CCO")
    with pytest.raises(SagpoolError, match=r"or a SMILES string, not int\.$"):
        sagpool.explain(chemist, 7)


def test_records_of_a_file(chemist, molecules, caplog):
    with caplog.at_level(logging.WARNING):
        read = from_source(str(molecules), chemist.vocabulary, limit=50)
    assert "line 4 is left out" in caplog.text
    assert read.titles[1] == "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"
    # Molecules without a class are explained as well.
    assert read.classes == (1, 0, 0, 1, 0, None)
    assert read.total == len(read.graphs) == 6
    first = from_source(str(molecules), chemist.vocabulary, limit=2)
    assert (len(first.graphs), first.total) == (2, None)


def test_classes_that_the_model_does_not_know(chemist, tmp_path):
    path = tmp_path / "other.tsv"
    path.write_text("structure\tkind\nCCO\tmaybe\nCCC\tyes\n")
    columns = Columns(smiles="structure", label="kind")
    assert from_source(str(path), chemist.vocabulary, columns, limit=9).classes == (None, 1)


def test_2d_coordinates_of_an_sdf_file_are_kept(chemist, tmp_path):
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    molecule = Chem.MolFromSmiles("OCc1ccccc1")
    rdDepictor.Compute2DCoords(molecule)
    for atom in range(8):
        place = molecule.GetConformer().GetAtomPosition(atom)
        molecule.GetConformer().SetAtomPosition(atom, (place.y, place.x, 0))
    molecule.SetProp("_Name", "benzyl alcohol")
    path = tmp_path / "one.sdf"
    path.write_text(f"{Chem.MolToMolBlock(molecule)}\n$$$$\n")
    read = from_source(str(path), chemist.vocabulary, limit=5)
    assert read.titles == ("benzyl alcohol",)
    again = Chem.MolFromMolBlock(read.molecules[0])
    places = [mol.GetConformer().GetPositions() for mol in (again, molecule)]
    assert np.allclose(*places, atol=1e-3)
    # 3D coordinates are replaced.
    solid = Chem.AddHs(molecule)
    from rdkit.Chem import rdDistGeom

    rdDistGeom.EmbedMolecule(solid, randomSeed=0)
    path.write_text(f"{Chem.MolToMolBlock(Chem.RemoveHs(solid))}\n$$$$\n")
    read = from_source(str(path), chemist.vocabulary, limit=5)
    assert not Chem.MolFromMolBlock(read.molecules[0]).GetConformer().GetPositions()[:, 2].any()


def test_a_data_set_by_name(new_trained):
    graphs = load("MUTAG")
    read = from_source("MUTAG", new_trained(graphs).vocabulary, limit=5)
    assert (len(read.graphs), read.total, read.titles) == (5, 188, None)


def test_atoms_have_the_order_of_the_smiles(chemist):
    from rdkit import Chem

    for text in ("[H][H]", "[2H]C(Cl)(Cl)Cl", "OC(=O)c1ccccc1.[Na]", "C[C@@H](F)Cl"):
        read = from_smiles([text], chemist.vocabulary)
        atoms = Chem.MolFromMolBlock(read.molecules[0], removeHs=False).GetAtoms()
        expected = [atom.GetSymbol() for atom in Chem.MolFromSmiles(text).GetAtoms()]
        assert [atom.GetSymbol() for atom in atoms] == expected
