"""Small input, large memory: refused by a sentence that says how to raise the limit."""

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest

from sagpool import SagpoolError, load
from sagpool.foreign import limits
from sagpool.foreign.archives import read_arrays
from sagpool.foreign.values import DecodingError
from sagpool.foreign.yaml_text import parse_yaml


def test_a_limit_can_be_raised_and_lowered(monkeypatch):
    limits.NODES.check(1_000_000, "x")
    with pytest.raises(SagpoolError) as raised:
        limits.NODES.check(1_000_001, "x.jsonl, line 7")
    assert str(raised.value) == (
        "x.jsonl, line 7 has 1,000,001 nodes in a graph that gives only their number; at most "
        "1,000,000 are read (SAGPOOL_MAX_NODES raises this limit)."
    )
    monkeypatch.setenv("SAGPOOL_MAX_NODES", "2000000")
    limits.NODES.check(1_000_001, "x")
    with pytest.raises(SagpoolError, match=r"has over 10\^18 nodes"):
        limits.NODES.check(10**4000, "x")
    for wrong in ("many", "-1", "9" * 30, "٣"):
        monkeypatch.setenv("SAGPOOL_MAX_NODES", wrong)
        with pytest.raises(SagpoolError, match="SAGPOOL_MAX_NODES must be a whole number"):
            limits.NODES.check(1, "x")


def test_all_limits_have_their_own_variable():
    declared = [value for value in vars(limits).values() if isinstance(value, limits.Limit)]
    assert len({limit.variable for limit in declared}) == len(declared) > 10
    assert all(limit.variable.startswith("SAGPOOL_MAX_") for limit in declared)


def lines(tmp_path, *entries):
    path = tmp_path / "graphs.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_many_graphs_that_give_only_the_number_of_their_nodes(tmp_path):
    path = lines(tmp_path, *[{"nodes": 1_000_000, "label": 0}] * 400)  # 11 KB, 8 GB
    with pytest.raises(SagpoolError, match=r"^graphs has 400,000,000 nodes without label, feat"):
        load(path)
    with pytest.raises(SagpoolError, match=r"line 1 has 1,000,000,000 nodes in a graph"):
        load(lines(tmp_path, {"nodes": 10**9}))


def test_nodes_without_edges_take_few_bytes(tmp_path):
    path = lines(tmp_path, *[{"nodes": 250_000, "label": 0}] * 4)
    tracemalloc.start()
    try:
        graphs = load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert graphs.num_nodes == 1_000_000
    assert graphs.node_label_names == ("0",)
    assert peak < 30 * graphs.num_nodes  # it was over 60


def test_nodes_with_labels_and_edges_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setenv("SAGPOOL_MAX_BARE_NODES", "2")
    assert len(load(lines(tmp_path, {"nodes": ["C"] * 9}, {"nodes": ["O"]}))) == 2
    assert len(load(lines(tmp_path, {"nodes": 4, "edges": [[0, 1], [2, 3]]}))) == 1
    with pytest.raises(SagpoolError, match="has 3 nodes without"):
        load(lines(tmp_path, {"nodes": 5, "edges": [[0, 1]]}))


def test_one_hot_edge_labels(small, monkeypatch, caplog):
    small.write("edge_labels", [str(n) for n in range(12)])
    assert load(small.folder).edge_attr.shape == (12, 12)
    monkeypatch.setenv("SAGPOOL_MAX_DENSE", "143")
    small.write("edge_labels", [str(n + 1) for n in range(12)])  # not from the cache
    assert load(small.folder).edge_attr is None
    assert "has 144 one-hot numbers; at most 143 are read" in caplog.text
    assert "edge labels are left out" in caplog.text


def test_several_columns_of_node_labels(small, monkeypatch):
    small.write("node_labels", [f"{n}, {-n}" for n in range(10)])
    assert load(small.folder, "labels").num_features == 20
    monkeypatch.setenv("SAGPOOL_MAX_DENSE", "199")
    with pytest.raises(SagpoolError, match=r"\(several columns of labels\) has 200 one-hot numb"):
        load(small.folder, "labels")


@pytest.mark.parametrize(("variable", "what"), [("LABELS", "node labels"), ("CLASSES", "classes")])
def test_labels_and_classes(small, tmp_path, monkeypatch, variable, what):
    path = lines(tmp_path, *({"nodes": [n], "label": n} for n in range(4)))
    monkeypatch.setenv(f"SAGPOOL_MAX_{variable}", "4")
    assert load(path).num_classes == 4
    monkeypatch.setenv(f"SAGPOOL_MAX_{variable}", "3")
    with pytest.raises(SagpoolError, match=f"has 4 (different )?{what}; at most 3"):
        load(path)
    monkeypatch.setenv(f"SAGPOOL_MAX_{variable}", "1")
    with pytest.raises(SagpoolError, match=f"{what}; at most 1"):
        load(small.folder)


def test_a_long_line(tmp_path, monkeypatch):
    path = lines(tmp_path, {"nodes": ["C"]}, {"nodes": ["C"] * 100})
    length = len(path.read_text().splitlines()[1])
    monkeypatch.setenv("SAGPOOL_MAX_LINE", str(length))
    assert len(load(path, "degree")) == 2
    monkeypatch.setenv("SAGPOOL_MAX_LINE", str(length - 1))
    with pytest.raises(SagpoolError, match=rf"line 2 has {length} characters in a line; at most"):
        load(path, "degree")


def test_a_header_that_asks_for_a_huge_array():
    file = io.BytesIO()
    np.savez(file, a=np.zeros(3))
    content = file.getvalue().replace(b"'shape': (3,), }          ", b"'shape': (10000000000,), }")
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new:
        data = old.open("a.npy")
        data._expected_crc = None  # of the array as it was
        new.writestr("a.npy", data.read())
    with pytest.raises(DecodingError, match="has another size than it says"):
        read_arrays(file)


@pytest.mark.parametrize(
    "arrays", [{"a": np.array(["x"])}, {"a": np.array([1j])}, {"a": np.array([None])}]
)
def test_arrays_that_are_no_numbers(arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    with pytest.raises(DecodingError, match="not numbers"):
        read_arrays(file)


def test_arrays_are_read_as_written():
    file = io.BytesIO()
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.float32(2.5), "c": np.zeros(0, bool)}
    np.savez(file, **arrays)
    found = read_arrays(file)
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    assert read_arrays(file, only="b").keys() == {"b"}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{one}: &{one} [{', '.join([f'*{other}'] * 9)}]\n"
    for other, one in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB, r"entries, with its aliases written out; at most 100,000 are read"),
        ("a: &a {x: *a}", "line 1 is not valid YAML: the alias 'a' is inside of what it stands"),
        ("a: *b", "line 1 is not valid YAML: the alias 'b' is inside of what it stands for, or u"),
        ("[" * 100, "has 51 levels of nesting; at most 50"),
        ("a: " * 5, "is not valid YAML"),
        ("a: !!python/object:os.system x", "the tag .*os.system' is not known"),
        ("a: !!timestamp x", "line 1 is not valid YAML: the tag '.*timestamp' is not known"),
        ("a: !!set {b}", "the tag .* is not known"),
        ("a: !!int x", "line 1 is not valid YAML: 'x' is not a valid int"),
        ("a: !!bool x", "'x' is not a valid bool"),
        ("a: !!float ''", "'' is not a valid float"),
        ("a: 1\na: 2", "line 2 is not valid YAML: the key 'a' is given twice"),
        ("a: \x00", "is not valid YAML"),
        ("x" * (2**20 + 1), "has 1,048,577 bytes; at most 1,048,576"),
        (f"a: {'1' * 5000}", "is not a valid int"),
    ],
)
def test_yaml_that_is_refused(text, sentence):
    with pytest.raises(SagpoolError, match=f"^The file.*{sentence}"):
        parse_yaml(text, "The file")


def test_plain_yaml():
    text = "day: 2019-05-14\nbase: &base {a: 1}\nmore: {<<: *base, b: [1.5, yes, ~, text]}"
    assert parse_yaml(text, "x") == {
        "day": "2019-05-14",
        "base": {"a": 1},
        "more": {"a": 1, "b": [1.5, True, None, "text"]},
    }
