import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.jsonl import MOST_NODES, read_jsonl

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "graphs.schema.json").read_text())


def read(line: str):
    (record,) = read_jsonl([line], "x.jsonl")
    return record


def test_a_graph_with_everything():
    record = read(
        '{"id": "a", "nodes": [{"label": "C", "features": [0.5, 1]}, '
        '{"label": 8, "features": [-2, 1e3]}], "edges": [[0, 1], [1, 1]], "label": 1.0}'
    )
    assert (record.place, record.name, record.nodes) == ("x.jsonl, line 1", "a", 2)
    assert (record.labels, record.features) == (["C", "8"], [0.5, 1, -2, 1000])
    assert (record.edges, record.target, record.width) == ([0, 1, 1, 1], "1", 2)


def test_plain_labels_a_mere_number_and_what_may_be_missing():
    assert read('{"nodes": ["C", 8, 1.5, true]}').labels == ["C", "8", "1.5", "true"]
    record = read('{"nodes": 3, "label": null, "id": null}')
    assert (record.nodes, record.edges, record.labels, record.features) == (3, [], None, None)
    assert (record.name, record.target) == ("1", None)
    assert read('{"nodes": [{}, {}]}').nodes == 2
    assert read(f'{{"nodes": {MOST_NODES}}}').nodes == MOST_NODES


def test_empty_lines_count_but_are_no_graphs():
    lines = ["\n", '{"nodes": 1}\n', "  \r\n", '{"nodes": 2}']
    assert [(r.name, r.nodes) for r in read_jsonl(lines, "x")] == [("2", 1), ("4", 2)]


DEEP = "[" * 100_000 + "]" * 100_000
WRONG = {
    "[": "this is no JSON, column 2: Expecting value",
    '{"nodes": 1': "this is no JSON, column 12: Expecting ',' delimiter",
    '{"nodes": 1} {"nodes": 1}': "this is no JSON, column 14: Extra data",
    '{"nodes": ["a\0"]}': "this is no JSON, column 14: Invalid control character at",
    DEEP: "it is nested too deeply",
    '{"nodes": [{"features": [NaN]}]}': "this is no JSON: NaN is no number",
    '{"nodes": 1, "label": -Infinity}': "this is no JSON: -Infinity is no number",
    '{"nodes": 1' + "0" * 5000 + "}": "a number has too many digits",
    '{"nodes": ["\\ud800"]}': "it has half a character, such as \\ud800",
    "[1, 2]": "a graph is an object with nodes and edges",
    "{}": "nodes is a list, or their number",
    '{"nodes": 1, "weight": 2}': "a graph has no 'weight'; it may have id, nodes, edges and label",
    '{"nodes": 0}': "a number of nodes is from 1 to 1000000, not 0",
    '{"nodes": -1}': "a number of nodes is from 1 to 1000000, not -1",
    '{"nodes": 2000000000}': "a number of nodes is from 1 to 1000000, not 2000000000",
    '{"nodes": true}': "nodes is a list, or their number",
    '{"nodes": 2.0}': "nodes is a list, or their number",
    '{"nodes": []}': "the graph has no node",
    '{"nodes": [""]}': "a node's label is a text or a number",
    '{"nodes": [null]}': "a node's label is a text or a number",
    '{"nodes": ["a", {"label": "a"}]}': "a node's label is a text or a number",
    '{"nodes": [1e999]}': "a node's label is a text or a number",
    '{"nodes": [{"label": []}]}': "a node's label is a text or a number",
    '{"nodes": [{"x": 1}]}': "a node may have a label and features, and nothing else",
    '{"nodes": [{"label": 1}, {}]}': "its nodes have not all the same parts",
    '{"nodes": [{"label": 1}, "a"]}': "its nodes have not all the same parts",
    '{"nodes": [{"features": []}]}': "a node's features are a list of numbers",
    '{"nodes": [{"features": 1}]}': "a node's features are a list of numbers",
    '{"nodes": [{"features": [true]}]}': "a node's features are numbers, at most 3.4e+38",
    '{"nodes": [{"features": [1e39]}]}': "a node's features are numbers, at most 3.4e+38",
    '{"nodes": [{"features": [-1e999]}]}': "a node's features are numbers, at most 3.4e+38",
    '{"nodes": [{"features": [1]}, {"features": [1, 2]}]}': (
        "its nodes have not all the same number of features"
    ),
    '{"nodes": 2, "edges": 1}': "edges is a list of pairs of nodes",
    '{"nodes": 2, "edges": null}': "edges is a list of pairs of nodes",
    '{"nodes": 2, "edges": ""}': "edges is a list of pairs of nodes",
    '{"nodes": 2, "edges": [1]}': "edges is a list of pairs of nodes",
    '{"nodes": 4, "edges": [[0], [1, 2, 3]]}': "edges is a list of pairs of nodes",
    '{"nodes": 2, "edges": ["01"]}': "the ends of an edge are node numbers",
    '{"nodes": 2, "edges": [[0, true]]}': "the ends of an edge are node numbers",
    '{"nodes": 2, "edges": [[0, 1.0]]}': "the ends of an edge are node numbers",
    '{"nodes": 2, "edges": [[0, 2]]}': "an edge names node 2; the 2 nodes are numbered from 0",
    '{"nodes": 2, "edges": [[-1, 0]]}': "an edge names node -1; the 2 nodes are numbered from 0",
    '{"nodes": 1, "label": ""}': "label is a text or a number",
    '{"nodes": 1, "label": []}': "label is a text or a number",
    '{"nodes": 1, "id": {}}': "id is a text or a number",
}


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:40].encode())
def test_a_wrong_line_is_named_with_what_is_wrong(line):
    with pytest.raises(SagpoolError) as error:
        list(read_jsonl(['{"nodes": 1}', line], "x.jsonl"))
    assert str(error.value) == f"x.jsonl, line 2: {WRONG[line]}."


def test_the_sentence_stays_short():
    for line in (
        '{"nodes": 1, "' + "x" * 9999 + '": 1}',
        '{"nodes": 2, "edges": [[0, 1' + "0" * 4000 + "]]}",
    ):
        with pytest.raises(SagpoolError) as error:
            read(line)
        assert len(str(error.value)) < 200


# What an owner may write, as Python values.
TEXT = st.one_of(
    st.text(min_size=1).filter(lambda t: t.isascii() or t.encode(errors="ignore").decode() == t),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
FEATURES = st.floats(-3e38, 3e38) | st.integers(-(2**100), 2**100)


@st.composite
def files(draw) -> list[dict[str, Any]]:
    """The graphs of a file that can be read."""
    labelled, classes, width = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2))
    plain = labelled and not width and draw(st.booleans())
    graphs = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, 5))
        ends = st.integers(0, count - 1)
        nodes: Any = []
        for _ in range(count):
            node: dict[str, Any] = {"label": draw(TEXT)} if labelled else {}
            if width:
                node["features"] = draw(st.lists(FEATURES, min_size=width, max_size=width))
            nodes.append(node["label"] if plain else node)
        if not labelled and not width and draw(st.booleans()):
            nodes = count
        edges = draw(st.lists(st.tuples(ends, ends).map(list), max_size=6))
        graph = {"nodes": nodes, "edges": edges}
        if classes:
            graph["label"] = draw(TEXT)
        graphs.append(graph)
    return graphs


def naive(data: bytes) -> list[nx.Graph]:
    """The graphs of a file, read by somebody who expects no evil; some error if there is any."""
    graphs = []
    for line in data.decode("utf-8-sig").split("\n"):
        if not line.strip():
            continue
        entry = json.loads(line)
        nodes = entry["nodes"]
        nodes = [{} for _ in range(nodes)] if isinstance(nodes, int) else nodes
        graph = nx.Graph(label=text(entry.get("label")))
        for number, node in enumerate(nodes):
            parts = node if isinstance(node, dict) else {"label": node}
            assert set(parts) <= {"label", "features"}
            graph.add_node(number, label=text(parts.get("label")), x=parts.get("features"))
        for a, b in entry.get("edges", []):
            assert graph.has_node(a)
            assert graph.has_node(b)
            graph.add_edge(a, b)
        graph.remove_edges_from(list(nx.selfloop_edges(graph)))
        graphs.append(graph)
    return graphs


def text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return None if value is None else str(value)


def check_same(path: Path, graphs: list[nx.Graph]) -> None:
    """What `load` makes of the file is what the naive reader sees."""
    found = load(path)
    both = load(path, "both") if found.node_label is not None and has_x(graphs) else found
    assert len(found) == len(graphs)
    for number, graph in enumerate(graphs):
        one = both[number]
        assert one.num_nodes == graph.number_of_nodes()
        pairs = {frozenset(pair) for pair in one.edge_index.T.tolist()}
        assert pairs == {frozenset(pair) for pair in graph.edges}
        assert one.num_edges == 2 * graph.number_of_edges()
        labels = [label for _, label in graph.nodes(data="label")]
        if labels[0] is not None:
            assert [one.node_label_names[i] for i in one.node_label.tolist()] == labels
        if has_x(graphs):
            rows = np.array([row for _, row in graph.nodes(data="x")], np.float64)
            assert np.array_equal(one.node_attr.numpy(), rows.astype(np.float32))
        label = graph.graph["label"]
        assert (found.y is None) == (label is None)
        if label is not None:
            assert found.class_names[int(one.y)] == label


def has_x(graphs: list[nx.Graph]) -> bool:
    return graphs[0].nodes[0]["x"] is not None


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("jsonl") / "graphs.jsonl"


@settings(max_examples=300)
@given(
    graphs=files(),
    ascii_=st.booleans(),
    bom=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    end=st.sampled_from(["\n", "\r\n", "\n\n"]),
)
def test_what_is_right_is_read_as_it_is_meant(path, graphs, ascii_, bom, end):
    lines = [json.dumps(graph, ensure_ascii=ascii_) + end for graph in graphs]
    path.write_bytes(bom + "".join(lines).encode())
    check_same(path, naive(path.read_bytes()))


EVIL = [
    *(b"", b"\0", b"\n", b"\r", b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b"0", b"9" * 30),
    *(b"NaN", b"null", b"true", b"1e999", b"1e39", b"-1", b"1.0", b'"x"', b"{}", b"[]", b"[[0]]"),
    *(b"\xff", b"\xc3", b"\xef\xbb\xbf", "é".encode(), b"\\ud800", b"\\u0000", b"[" * 2000),
    *(b'"nodes":', b'"label": "z",', b'"edges": [],', b'{"nodes": 1}\n', b"\xe2\x80\xa8"),
]


def outcome_is_right(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        load(path)
    except SagpoolError as error:
        (sentence,) = str(error).splitlines()
        assert sentence.startswith(("graphs.jsonl, line ", "graphs has no "))
        return
    check_same(path, naive(data))


@settings(max_examples=1000)
@given(data=st.data(), graphs=files())
def test_a_damaged_file_ends_in_a_sentence_or_is_read_as_it_stands(path, data, graphs):
    text = "".join(json.dumps(graph) + "\n" for graph in graphs).encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 0, 1, 1, 2, 5, 1000]))
        text = text[:start] + data.draw(st.sampled_from(EVIL)) + text[start + length :]
    outcome_is_right(path, text)


@settings(max_examples=500)
@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]",:0123456789.-+eE\\ \nnodeslabl').map(str.encode)
)
def test_any_bytes_end_in_a_sentence_or_are_read_as_they_stand(path, data):
    outcome_is_right(path, data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.integers(-2, 4)
    | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["", "a", "nodes"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["nodes", "label", "features", "edges", "z"]), inner),
    max_leaves=5,
)  # fmt: skip


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values inside of this one, itself included."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [way, *(place for key, one in inside for place in places(one, (*way, key)))]


def put(value: Any, way: tuple[Any, ...], other: Any) -> Any:
    if not way:
        return other
    copy = value.copy()
    copy[way[0]] = put(copy[way[0]], way[1:], other)
    return copy


@settings(max_examples=1000)
@given(data=st.data(), graphs=files(), other=JSON)
def test_schema_and_reader_agree_on_wrong_types_at_every_place(path, data, graphs, other):
    graph = put(graphs[0], data.draw(st.sampled_from(places(graphs[0]))), other)
    path.write_text(json.dumps(graph))
    try:
        load(path)
    except SagpoolError as error:
        told = str(error)
        assert not valid(graph, SCHEMA) or any(beyond in told for beyond in BEYOND_SCHEMA)
    else:
        assert valid(graph, SCHEMA)
        check_same(path, naive(path.read_bytes()))


BEYOND_SCHEMA = ("an edge names node", "not all the same parts", "not all the same number of")


TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
    "null": type(None), "number": (int, float),
}  # fmt: skip


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """Those parts of JSON Schema that ours is made of; any other word is an error."""
    rules = {
        "$ref": lambda name: valid(value, SCHEMA["$defs"][name.removeprefix("#/$defs/")]),
        "anyOf": lambda some: any(valid(value, one) for one in some),
        "type": lambda kind: (
            isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        ),
        "required": lambda keys: all(key in value for key in keys),
        "properties": lambda known: all(
            valid(value[key], inner) for key, inner in known.items() if key in value
        ),
        "additionalProperties": lambda _: set(value) <= set(schema["properties"]),
        "items": lambda inner: all(valid(one, inner) for one in value),
        "minItems": lambda least: len(value) >= least,
        "maxItems": lambda most: len(value) <= most,
        "minLength": lambda least: len(value) >= least,
        "minimum": lambda least: value >= least,
        "maximum": lambda most: value <= most,
    }
    words = [w for w in schema if w not in ("$schema", "$defs", "title", "description")]
    # The type first: the other words are about values of that type.
    return all(rules[w](schema[w]) for w in sorted(words, key=lambda w: w != "type"))


def test_the_schema_alone():
    assert SCHEMA["properties"]["nodes"]["anyOf"][0]["maximum"] == MOST_NODES
    assert valid({"nodes": 1}, SCHEMA)
    assert not valid({"nodes": 1, "weight": 1}, SCHEMA)
    assert not valid({"edges": []}, SCHEMA)
