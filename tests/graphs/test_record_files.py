import json

import numpy as np
import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs import record_files as module
from sagpool.graphs.record_files import FORMATS, Format, chunks, holds_records, read_records
from sagpool.graphs.records import Columns, Record, text_lines
from sagpool.graphs.vocabulary import Vocabulary

LABELS = Vocabulary("labels", ("C", "O"), 0, ("0", "1"))
NUMBERS = Vocabulary("attributes", (), 1, ("0", "1"))
BOTH = Vocabulary("attributes+labels", ("C", "O"), 1, ("0", "1"))
DEGREE = Vocabulary("degree", ("0", "1"), 0, ("0", "1"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.jsonl"


def write(path, *graphs) -> None:
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))


def test_chunks_hold_all_graphs_in_order(path):
    random = np.random.default_rng(0)
    sizes = random.integers(1, 6, 25).tolist()
    write(path, *({"nodes": ["C", "O", "C", "N", "S"][:n], "edges": [[0, n - 1]]} for n in sizes))
    found = list(chunks(path, LABELS, size=10))
    assert [len(chunk.graphs) for chunk in found] == [10, 10, 5]
    assert [name for chunk in found for name in chunk.names] == [str(n + 1) for n in range(25)]
    whole = load(path)
    for start, chunk in zip((0, 10, 20), found, strict=True):
        part = whole[start : start + 10]
        assert torch.equal(chunk.graphs.edge_index, part.edge_index)
        names = [whole.node_label_names[i] for i in part.node_label.tolist()]
        assert [chunk.graphs.node_label_names[i] for i in chunk.graphs.node_label] == names
    assert 0 < found[0].fraction <= found[1].fraction <= found[2].fraction == 1


def test_a_chunk_has_a_limited_number_of_nodes(path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK_NODES", 10)
    write(path, *({"nodes": n} for n in (4, 6, 1, 30, 2)))
    sizes = [chunk.graphs.node_counts.tolist() for chunk in chunks(path, DEGREE)]
    assert sizes == [[4, 6], [1], [30], [2]]


def test_a_file_is_read_only_as_far_as_needed(path):
    write(path, *({"nodes": ["C"]} for _ in range(10_000)), {"nodes": "wrong"})
    assert len(next(chunks(path, LABELS, size=10)).names) == 10


def test_graphs_before_an_invalid_line_are_yielded(path):
    write(path, *({"nodes": ["C"], "id": n} for n in range(5)), {"nodes": 0})
    parts = chunks(path, LABELS, size=3)
    assert next(parts).names == ["0", "1", "2"]
    assert next(parts).names == ["3", "4"]
    with pytest.raises(SagpoolError, match=r"^x\.jsonl, line 6: the number of nodes must be at"):
        next(parts)


@pytest.mark.parametrize(
    ("vocabulary", "graph", "message"),
    [
        (LABELS, {"nodes": 2}, "has no node labels; the model was trained with them."),
        (
            BOTH,
            {"nodes": ["C"]},
            "has 0 attributes per node; the model was trained with 1.",
        ),
        (
            NUMBERS,
            {"nodes": [{"features": [1, 2]}]},
            "has 2 attributes per node; the model was trained with 1.",
        ),
    ],
)
def test_a_graph_without_the_features_of_the_model(path, vocabulary, graph, message):
    good = {"nodes": [{"label": "C", "features": [1]}]}
    write(path, good, graph)
    parts = chunks(path, vocabulary)
    assert len(next(parts).names) == 1
    with pytest.raises(SagpoolError) as error:
        next(parts)
    assert str(error.value) == f"x.jsonl, line 2 {message}"


def test_features_that_the_model_does_not_use_are_ignored(path):
    write(path, {"nodes": [{"label": "C", "features": [1]}]}, {"nodes": [{"features": [2]}]})
    (chunk,) = chunks(path, NUMBERS)
    assert chunk.graphs.x.tolist() == [[1], [2]]
    write(path, {"nodes": [{"label": "C", "features": [1]}]}, {"nodes": 1}, {"nodes": ["O"]})
    (chunk,) = chunks(path, DEGREE)
    assert chunk.graphs.feature_kind == "degree"


def test_some_graphs_may_have_a_class(path, caplog):
    write(path, {"nodes": ["C"], "label": 1}, {"nodes": ["C"]})
    (chunk,) = chunks(path, LABELS)
    assert chunk.targets == ["1", None]
    # For training, the others are left out.
    assert len(load(path)) == 1
    assert "x.jsonl, line 2 is left out: it has no class." in caplog.messages
    assert "x.jsonl: 1 graphs were left out." in caplog.messages


def test_self_loops_are_reported_once(path, caplog):
    write(path, *({"nodes": ["C"], "edges": [[0, 0]]} for _ in range(10)))
    assert len(list(chunks(path, LABELS, size=2))) == 5
    assert caplog.messages == ["x: 10 self-loops were dropped."]


def test_a_file_without_graphs(path):
    path.write_text("\n")
    with pytest.raises(SagpoolError, match=r"^x has no graph\.$"):
        list(chunks(path, LABELS))


def test_suffixes(tmp_path):
    for name in ("x.jsonl", "x.NDJSON", "x.csv", "x.tsv", "x.sdf"):
        assert holds_records(tmp_path / name)
    assert not holds_records(tmp_path / "x.zip")
    (tmp_path / "folder.csv").mkdir()
    assert not holds_records(tmp_path / "folder.csv")


def read_edge_lists(file, name, columns):
    """A graph on each line, with its class in front: ``ring 0-1 1-2 2-0``."""
    for number, line in enumerate(text_lines(file, name, "\n"), 1):
        target, *pairs = line.split()
        ends = [int(end) for pair in pairs for end in pair.split("-")]
        nodes = max(ends, default=0) + 1
        yield Record(f"{name}, line {number}", str(number), nodes, ends, target=target)


def test_a_new_format_is_a_reader_and_a_line_in_the_table(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, ".edges", Format(read_edge_lists))
    path = tmp_path / "shapes.edges"
    path.write_text("ring 0-1 1-2 2-0\npath 0-1 1-2\n")
    graphs = load(path)
    assert (graphs.name, graphs.class_names, graphs.y.tolist()) == (
        "shapes",
        ("path", "ring"),
        [1, 0],
    )
    assert graphs.edge_counts.tolist() == [6, 4]
    (chunk,) = chunks(path, DEGREE)
    assert (chunk.names, chunk.targets) == (["1", "2"], ["ring", "path"])


def test_files_that_cannot_be_opened(tmp_path, path):
    with pytest.raises(SagpoolError) as error:
        list(read_records(path, Columns()))
    assert str(error.value) == f"There is no file or folder {path}."
    path.mkdir()
    with pytest.raises(SagpoolError, match=r"x\.jsonl cannot be read: Is a directory\."):
        list(read_records(path))


def test_the_error_names_the_line_that_is_not_utf8(path):
    path.write_bytes(b'{"nodes": ["\xc3\xa9"]}\n' * 1000 + b'{"nodes": ["\xe9"]}\n')
    with pytest.raises(SagpoolError, match=r"^x\.jsonl, line 1001 is not UTF-8 text\.$"):
        load(path)
