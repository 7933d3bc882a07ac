import csv
import io
import logging
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem, rdBase

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.intake import pack_records
from sagpool.graphs.molecules import LABEL_NAMES, SMILES_NAMES, parse_smiles, rdkit
from sagpool.graphs.record_files import read_records
from sagpool.graphs.records import Columns
from sagpool.graphs.skipped import MAX_LISTED

TABLE = 'smiles,label\nCCO,1\nc1ccccc1,0\n"C[N+](=O)[O-]",1\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("molecules")


def records(path: Path, content: str | bytes, columns: Columns = Columns()):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_records(path, columns))


def test_a_table(folder):
    ethanol, benzene, _ = records(folder / "x.csv", TABLE)
    assert (ethanol.name, ethanol.place, ethanol.target) == ("CCO", "x.csv, line 2", "1")
    assert (ethanol.labels, ethanol.edges) == (["C", "C", "O"], [0, 1, 1, 2])
    assert (benzene.nodes, len(benzene.edges)) == (6, 12)
    assert ethanol.molecule.GetNumAtoms() == 3
    graphs = load(folder / "x.csv")
    assert (graphs.class_names, graphs.node_label_names) == (("0", "1"), ("C", "N", "O"))
    assert graphs.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("x.tsv", "SMILES\tClass\nCCO\ta,b\n", Columns()),
        ("x.csv", "n,Molecule,Toxic\n1,CCO,\"a,b\"\n", Columns("molecule", "toxic")),
        ("x.csv", "label,Label,smiles\nz,\"a,b\",CCO\n", Columns(label="Label")),
        ("x.csv", "\ufeffsmiles,label\r\nCCO,\"a,b\"\r\n", Columns()),
        ("x.csv", "smiles,label\rCCO,\"a,b\"\r", Columns()),
        ("x.csv", "\n smiles , label \n\n CCO ,\"a,b\"\n,\n", Columns()),
    ],
)  # fmt: skip
def test_tables_of_all_kinds(folder, name, content, columns):
    (record,) = records(folder / name, content, columns)
    assert (record.name, record.target, record.labels) == ("CCO", "a,b", ["C", "C", "O"])


@pytest.mark.parametrize("title", SMILES_NAMES)
def test_standard_names_of_columns(folder, title):
    for label in LABEL_NAMES:
        (record,) = records(folder / "x.csv", f"{label},{title.upper()}\n7,C\n")
        assert (record.name, record.target) == ("C", "7")


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("", Columns(), "x.csv is empty."),
        ("\n\n", Columns(), "x.csv is empty."),
        (
            "a,b\nCCO,1\n",
            Columns(),
            "x.csv has no column for the SMILES (smiles, canonical_smiles, smi, mol); its columns "
            "are a, b. Choose one with --smiles-column, in Python with Columns(smiles=...).",
        ),
        ("a,b\n", Columns("m"), "x.csv has no column named 'm'; its columns are a, b."),
        ("smiles\n", Columns(label="m"), "x.csv has no column named 'm'; its columns are smiles."),
        (
            "smiles,label\nCCO,1\nCC\n",
            Columns(),
            "x.csv, line 3 has 1 columns, but the first line has 2.",
        ),
        (
            'smiles,label\n"C\nC",1\nCC,1,1\n',
            Columns(),
            "x.csv, line 4 has 3 columns, but the first line has 2.",
        ),
        ('smiles\nC\n"C"C\n', Columns(), "x.csv, line 3: ',' expected after '\"'."),
        ('smiles\nC\n"C\nC\n', Columns(), "x.csv, line 3: unexpected end of data."),
        (
            'smiles\nC\n"' + "C" * 200_000 + '"\n',
            Columns(),
            "x.csv, line 3: field larger than field limit (131072).",
        ),
        (b"smiles\nC\n\xffC\n", Columns(), "x.csv, line 3 is not UTF-8 text."),
        ("smiles\nxx\nC(\n", Columns(), "x.csv: no molecule could be read; all 2 were left out."),
    ],
)  # fmt: skip
def test_invalid_tables_are_refused(folder, content, columns, message):
    with pytest.raises(SagpoolError) as error:
        records(folder / "x.csv", content, columns)
    assert str(error.value) == message


def test_a_table_without_molecules(folder):
    (folder / "x.csv").write_text("smiles\n")
    with pytest.raises(SagpoolError, match=r"^x has no graph\.$"):
        load(folder / "x.csv")


def test_molecules_that_cannot_be_read_are_listed_and_left_out(folder, caplog, capfd):
    found = records(folder / "x.csv", 'smiles\nCCO\nC(C\n\0\n""\nc1cccc1\nCC\n\n')
    assert [record.name for record in found] == ["CCO", "CC"]
    assert caplog.messages == [
        "x.csv, line 3 is left out: RDKit cannot read 'C(C'.",
        "x.csv, line 4 is left out: RDKit cannot read '\\x00'.",
        "x.csv, line 6 is left out: RDKit cannot read 'c1cccc1'.",
        "x.csv: 3 molecules were left out.",
    ]
    assert capfd.readouterr().err == ""  # RDKit's own log is off


def test_a_long_list_is_cut(folder, caplog):
    records(folder / "x.csv", "smiles\nC\n" + "x\n" * 100)
    assert len(caplog.messages) == MAX_LISTED + 1
    assert caplog.messages[-1] == "x.csv: 100 molecules were left out."


def test_molecules_without_a_class_are_left_out_if_others_have_one(folder, caplog):
    (folder / "x.csv").write_text("smiles,label\nC,1\nCC,\nO,0\n")
    assert load(folder / "x.csv").y.tolist() == [1, 0]
    assert caplog.messages[0] == "x.csv, line 3 is left out: it has no class."
    (folder / "x.csv").write_text("smiles,label\nC,\nCC,\n")
    assert load(folder / "x.csv").y is None


def sdf(*molecules: tuple[str, str, dict[str, str]]) -> str:
    text = ""
    for title, smiles, properties in molecules:
        block = Chem.MolToMolBlock(Chem.MolFromSmiles(smiles))
        text += title + block[block.index("\n") :]
        text += "".join(f">  <{name}>\n{value}\n\n" for name, value in properties.items())
        text += "$$$$\n"
    return text


SDF = sdf(("ethanol", "CCO", {"Activity": "high"}), ("", "C", {"activity": "low"}))


def test_an_sdf_file(folder, caplog):
    first, second = records(folder / "x.sdf", SDF)
    assert (first.name, first.labels, first.target) == ("ethanol", ["C", "C", "O"], "high")
    assert (second.name, second.nodes, second.target) == ("2", 1, "low")
    broken = sdf(("a", "CC", {})).replace("V2000", "V9000") + SDF
    assert [record.name for record in records(folder / "x.sdf", broken)] == ["ethanol", "3"]
    assert caplog.messages[0] == "x.sdf, line 1 (molecule 1) is left out: RDKit cannot read it."
    # Without the last $$$$ line, which many editors omit, and in another encoding.
    latin = SDF.replace("ethanol", "éthanol").removesuffix("$$$$\n").encode("latin-1")
    assert [record.name for record in records(folder / "x.sdf", latin)] == ["\ufffdthanol", "2"]


def test_classes_of_an_sdf_file(folder, caplog):
    text = sdf(("a", "C", {"Tox": "1"}), ("b", "CC", {}), ("c", "O", {"Tox": "0"}))
    found = records(folder / "x.sdf", text, Columns(label="tox"))
    assert [record.target for record in found] == ["1", None, "0"]
    graphs = load(folder / "x.sdf", columns=Columns(label="tox"))
    assert graphs.y.tolist() == [1, 0]
    assert "x.sdf, line 11 (molecule 2) is left out: it has no class." in caplog.messages
    assert load(folder / "x.sdf").y is None
    with pytest.raises(SagpoolError, match=r"no molecule has the property 'z'; its .* Tox\.$"):
        load(folder / "x.sdf", columns=Columns(label="z"))
    with pytest.raises(SagpoolError, match="no molecule could be read; all 1 were left"):
        records(folder / "x.sdf", "nonsense\n")
    (folder / "x.sdf").write_text("")
    with pytest.raises(SagpoolError, match="x has no graph"):
        load(folder / "x.sdf")


def test_without_rdkit(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    rdkit.cache_clear()
    for name, content in (("x.csv", TABLE), ("x.sdf", SDF)):
        with pytest.raises(SagpoolError) as error:
            records(folder / name, content)
        assert str(error.value) == (
            "Molecules need RDKit, which is not installed: pip install 'sagpool[chem]'."
        )


@pytest.fixture(autouse=True)
def quiet(caplog):
    with caplog.at_level(logging.WARNING):
        yield


def naive_molecules(data: bytes) -> list[tuple[str, list[str], set[frozenset[int]]]]:
    """The molecules of a table, read by a simple parser."""
    rows = [
        row for row in csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")) if any(row)
    ]
    header = [title.strip().lower() for title in rows[0]]
    column = next(header.index(title) for title in SMILES_NAMES if title in header)
    found = []
    with rdBase.BlockLogs():
        for row in rows[1:]:
            text = row[column].strip()
            molecule = Chem.MolFromSmiles(text) if text.isprintable() else None
            if molecule is None or not molecule.GetNumAtoms():
                continue
            bonds = {
                frozenset((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in molecule.GetBonds()
            }
            found.append((text, [atom.GetSymbol() for atom in molecule.GetAtoms()], bonds))
    return found


SMILES = st.one_of(
    st.sampled_from(["CCO", "c1ccccc1", "C[N+](=O)[O-]", "[Na+].[Cl-]", "C1CC1", "[2H]O", "*C"]),
    st.text("CNOSFclBrn()[]=#+-12%@/\\.:*H ", min_size=1, max_size=12),
    st.text(max_size=5),
)
DAMAGE = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"'",
    b"(",
    b"]" * 50,
    b"\t",
    b"%",
]


@settings(max_examples=700)
@given(data=st.data(), cells=st.lists(st.tuples(SMILES, st.sampled_from("01x ")), max_size=4))
def test_a_damaged_table_is_refused_or_read_correctly(folder, data, cells):
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("smiles", "label"), *cells])
    content = table.getvalue().encode(errors="replace")
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 0, 1, 3, 1000]))
        content = content[:start] + data.draw(st.sampled_from(DAMAGE)) + content[start + length :]
    try:
        found = records(folder / "x.csv", content)
    except SagpoolError as error:
        (message,) = str(error).splitlines()
        assert message.startswith(("x.csv",))
        return
    assert [
        (r.name, r.labels, {frozenset(r.edges[i : i + 2]) for i in range(0, len(r.edges), 2)})
        for r in found
    ] == naive_molecules(content)


@settings(max_examples=700)
@given(SMILES | st.text("C(", min_size=500, max_size=2000))
def test_any_text_gives_a_molecule_or_none(text):
    molecule = parse_smiles(text)
    assert molecule is None or molecule.GetNumAtoms() > 0


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_sdf_file_is_refused_or_gives_molecules(folder, data):
    content = SDF.encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        length = data.draw(st.sampled_from([0, 1, 3, 30, 1000]))
        damage = data.draw(st.sampled_from([*DAMAGE, b"", b"$$$$\n", b"999", b"-1", b"V3000"]))
        content = content[:start] + damage + content[start + length :]
    try:
        found = records(folder / "x.sdf", content)
    except SagpoolError as error:
        message = str(error)
        assert re.fullmatch(r"x\.sdf: no molecule could be read; all \d were left out\.", message)
        return
    for record in found:
        assert len(record.labels) == record.nodes
        assert all(0 <= end < record.nodes for end in record.edges)


def test_molecules_are_not_kept_with_their_graphs(tmp_path, monkeypatch):
    """They take many times the memory."""
    kept = []

    def pack(records, name):
        kept.extend(record.molecule for record in records)
        return pack_records(records, name)

    monkeypatch.setattr("sagpool.graphs.record_files.pack_records", pack)
    path = tmp_path / "table.csv"
    path.write_text("smiles,label\nCCO,1\nC,0\n")
    assert load(path).node_counts.tolist() == [3, 1]
    assert kept == [None, None]
