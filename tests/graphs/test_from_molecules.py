"""Molecules that a program has in memory."""

import pytest

from sagpool import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.from_molecules import from_molecules

Chem = pytest.importorskip("rdkit.Chem")

TEXTS = ["CCO", "c1ccccc1[N+](=O)[O-]", "C[C@H](N)C(=O)O", "[Na+].[Cl-]"]


@pytest.mark.parametrize("features", ["auto", "all"])
def test_as_from_a_file(features, tmp_path):
    path = tmp_path / "X.csv"
    path.write_text("smiles\n" + "\n".join(TEXTS))
    expected = load(path, features)
    molecules = [Chem.MolFromSmiles(text) for text in TEXTS]
    for found in (from_molecules(given, features=features) for given in (TEXTS, molecules)):
        assert found.column_names == expected.column_names
        assert (found.x == expected.x).all()
        assert (found.col == expected.col).all()
        assert (found.fragments is None) == (features == "auto")
    assert not molecules[0].GetAtomWithIdx(0).HasProp("_GasteigerCharge")


def test_columns_of_a_model():
    known = from_molecules(TEXTS, features="all")
    found = from_molecules(["CCO"], features=known.encoding)
    assert found.encoding.groups == known.encoding.groups


@pytest.mark.parametrize(
    ("molecule", "message"),
    [
        ("C1CC", r"^X\[1\]: RDKit cannot read 'C1CC'\.$"),
        ("", r"^X\[1\]: RDKit cannot read ''\.$"),
        (Chem.MolFromSmiles("CCO", sanitize=False), r"^X\[1\]: RDKit cannot describe .*Sanitize"),
        (Chem.Mol(), r"^X\[1\] has no nodes\.$"),
    ],
    ids=["unreadable", "empty", "not sanitised", "no atom"],
)
def test_what_cannot_be_read_is_named(molecule, message):
    with pytest.raises(SagpoolError, match=message):
        from_molecules(["CCO", molecule], features="all", name="X")
