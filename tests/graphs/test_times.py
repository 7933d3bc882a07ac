"""When graphs were made: numbers and dates of a table."""

import numpy as np
import pytest

from sagpool import SagpoolError, load
from sagpool.graphs.records import Columns
from sagpool.graphs.splits import latest
from sagpool.graphs.times import ranks_of_times


def ranks(*texts: str) -> list[int]:
    return ranks_of_times(texts, [f"line {number}" for number in range(1, len(texts) + 1)]).tolist()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2019", "1998", "2019", "2004.5"], [2, 0, 2, 1]),
        (["1e3", "-5", "999"], [2, 0, 1]),
        (["2024-05-31", "2023-12-01", "2024-05-31"], [1, 0, 1]),
        (["2024-05", "2024-04-30", "2024-05-01"], [1, 0, 1]),
        (["2024-05-31T10:00", "2024-05-31 09:59:59", "2024-05-31"], [2, 1, 0]),
        (["2024-05-31T12:00+02:00", "2024-05-31T10:00"], [0, 0]),
    ],
)
def test_later_ones_have_higher_numbers(texts, expected):
    assert ranks(*texts) == expected


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["31.5.2024"], "line 1: the time '31.5.2024' is neither a number nor a date such as 2024"),
        (["2024-05-31", ""], r"line 2: the time \(an empty cell\) is neither a number nor a date"),
        (
            ["2024", "May"],
            r"line 2: the time 'May' is not a number, but '2024' \(line 1\) is one\.$",
        ),
        (["nan", "2024"], "line 1: the time 'nan' is not a number"),
        (["2024-13"], "line 1: the time '2024-13' is neither"),
    ],
)
def test_what_is_no_time(texts, problem):
    with pytest.raises(SagpoolError, match=f"^{problem}"):
        ranks(*texts)


def test_the_latest_graphs_with_all_of_the_same_time():
    time = np.array([3, 0, 2, 2, 1])
    last, more = [True, False, False, False, False], [True, False, True, True, False]
    assert [latest(time, f).tolist() for f in (0.01, 0.2, 0.35)] == [last, last, last]
    assert [latest(time, f).tolist() for f in (0.45, 0.6)] == [more, more]
    assert latest(time, 1.0).sum() == 4, "one stays before them"
    assert latest(np.array([0, 1, 1, 1]), 0.2).tolist() == [False, True, True, True]
    with pytest.raises(SagpoolError, match=r"^All graphs have the same time\.$"):
        latest(np.zeros(4), 0.2)


def test_the_time_column_of_a_table(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("smiles,label,year\nCCO,a,2003\nCC,b,1999\nbroken,a,\nCO,a,2003\n")
    graphs = load(path, columns=Columns(time="Year"))
    assert graphs.time.tolist() == [1, 0, 1]
    assert graphs[[1, 2]].time.tolist() == [0, 1]
    plain = load(path)
    assert plain.time is None
    assert graphs.fingerprint() != plain.fingerprint()
    with pytest.raises(SagpoolError, match=r"^x.csv has no column named 'day';"):
        load(path, columns=Columns(time="day"))


def test_the_time_property_of_an_sdf_file(tmp_path):
    Chem = pytest.importorskip("rdkit.Chem")
    path = tmp_path / "x.sdf"
    with Chem.SDWriter(str(path)) as writer:
        for smiles, date in (("CCO", "2024-05-31"), ("CC", "2023-01-01")):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("Date", date)
            molecule.SetProp("label", smiles)
            writer.write(molecule)
    assert load(path, columns=Columns(time="date")).time.tolist() == [1, 0]
    with pytest.raises(SagpoolError, match=r"^x.sdf: no molecule has the property 'day'; its prop"):
        load(path, columns=Columns(time="day"))


def test_a_molecule_without_a_time(tmp_path):
    """Refused, unless it is left out anyway, for want of a label."""
    Chem = pytest.importorskip("rdkit.Chem")
    path = tmp_path / "x.sdf"

    def write(*properties: dict[str, str]) -> None:
        with Chem.SDWriter(str(path)) as writer:
            for one in properties:
                molecule = Chem.MolFromSmiles("CCO")
                for name, value in one.items():
                    molecule.SetProp(name, value)
                writer.write(molecule)

    write({"label": "a", "Date": "2024"}, {"label": "b", "Date": "2023"}, {"other": "x"})
    assert load(path, columns=Columns(time="date")).time.tolist() == [1, 0]
    write({"label": "a", "Date": "2024"}, {"label": "b"})
    with pytest.raises(SagpoolError, match=r"\(molecule 2\) has no time, but x.sdf, line 1 "):
        load(path, columns=Columns(time="date"))


@pytest.mark.parametrize("column", ["smiles", "id", "time"])
def test_json_lines_have_no_columns(column, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"nodes": 2, "edges": [[0, 1]], "label": "a"}\n')
    with pytest.raises(SagpoolError, match=r"^x.jsonl is not a table, so it has no column 'n'\.$"):
        load(path, columns=Columns(**{column: "n"}))
