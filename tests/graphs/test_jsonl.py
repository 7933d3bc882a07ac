import json
from io import BytesIO
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import NODES
from sagpool.graphs import load
from sagpool.graphs.jsonl import read_jsonl

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "graphs.schema.json").read_text())


def read(*lines: str):
    return list(read_jsonl(BytesIO("\n".join(lines).encode()), "x.jsonl"))


def test_a_graph_with_everything():
    (record,) = read(
        '{"id": "a", "nodes": [{"label": "C", "features": [0.5, 1]}, '
        '{"label": 8, "features": [-2, 1e3]}], "edges": [[0, 1], [1, 1]], "label": 1.0}'
    )
    assert (record.place, record.name, record.nodes) == ("x.jsonl, line 1", "a", 2)
    assert (record.labels, record.features) == (["C", "8"], [0.5, 1, -2, 1000])
    assert (record.edges, record.target, record.width) == ([0, 1, 1, 1], "1", 2)


def test_plain_labels_number_of_nodes_and_optional_keys():
    assert read('{"nodes": ["C", 8, 1.5, true]}')[0].labels == ["C", "8", "1.5", "true"]
    (record,) = read('{"nodes": 3, "label": null, "id": null}')
    assert (record.nodes, record.edges, record.labels, record.features) == (3, [], None, None)
    assert (record.name, record.target) == ("1", None)
    assert read('{"nodes": [{}, {}]}')[0].nodes == 2
    assert read(f'{{"nodes": {NODES.default}}}')[0].nodes == NODES.default


def test_empty_lines_are_numbered_but_skipped():
    records = read("", '{"nodes": 1}', "  \r", '{"nodes": 2}')
    assert [(record.name, record.nodes) for record in records] == [("2", 1), ("4", 2)]


DEEP = "[" * 100_000 + "]" * 100_000
WRONG = {
    "[": "not valid JSON, column 2: Expecting value",
    '{"nodes": 1': "not valid JSON, column 12: Expecting ',' delimiter",
    '{"nodes": 1} {"nodes": 1}': "not valid JSON, column 14: Extra data",
    '{"nodes": ["a\0"]}': "not valid JSON, column 14: Invalid control character at",
    DEEP: "nested too deeply",
    '{"nodes": [{"features": [NaN]}]}': "not valid JSON: NaN is not a number",
    '{"nodes": 1, "label": -Infinity}': "not valid JSON: -Infinity is not a number",
    '{"nodes": 1' + "0" * 5000 + "}": "a number has too many digits",
    '{"nodes": ["\\ud800"]}': "a text has half of a surrogate pair, such as \\ud800",
    "[1, 2]": "a graph must be an object with nodes and edges",
    "{}": "nodes must be a list or a number",
    '{"nodes": 1, "weight": 2}': "unknown key 'weight'; allowed are id, nodes, edges, "
    "edge_labels, edge_features, label, labels",
    '{"nodes": 0}': "the number of nodes must be at least 1, not 0",
    '{"nodes": -1}': "the number of nodes must be at least 1, not -1",
    '{"nodes": true}': "nodes must be a list or a number",
    '{"nodes": 2.0}': "nodes must be a list or a number",
    '{"nodes": [""]}': "a node's label must be a text or a number",
    '{"nodes": [null]}': "a node's label must be a text or a number",
    '{"nodes": ["a", {"label": "a"}]}': "a node's label must be a text or a number",
    '{"nodes": [1e999]}': "a node's label must be a text or a number",
    '{"nodes": [{"label": []}]}': "a node's label must be a text or a number",
    '{"nodes": [{"x": 1}]}': "a node can have a label and features only",
    '{"nodes": [{"label": 1}, {}]}': "not all nodes have the same keys",
    '{"nodes": [{"label": 1}, "a"]}': "not all nodes have the same keys",
    '{"nodes": [{"features": []}]}': "a node's features must be a list of numbers",
    '{"nodes": [{"features": 1}]}': "a node's features must be a list of numbers",
    '{"nodes": [{"features": [true]}]}': "a node's features must be numbers of at most 3.4e+38",
    '{"nodes": [{"features": [1e39]}]}': "a node's features must be numbers of at most 3.4e+38",
    '{"nodes": [{"features": [-1e999]}]}': "a node's features must be numbers of at most 3.4e+38",
    '{"nodes": [{"features": [1]}, {"features": [1, 2]}]}': (
        "not all nodes have the same number of features"
    ),
    '{"nodes": 2, "edges": 1}': "edges must be a list of pairs of nodes",
    '{"nodes": 2, "edges": null}': "edges must be a list of pairs of nodes",
    '{"nodes": 2, "edges": ""}': "edges must be a list of pairs of nodes",
    '{"nodes": 2, "edges": [1]}': "edges must be a list of pairs of nodes",
    '{"nodes": 4, "edges": [[0], [1, 2, 3]]}': "edges must be a list of pairs of nodes",
    '{"nodes": 2, "edges": ["01"]}': "the ends of an edge must be node numbers",
    '{"nodes": 2, "edges": [[0, true]]}': "the ends of an edge must be node numbers",
    '{"nodes": 2, "edges": [[0, 1.0]]}': "the ends of an edge must be node numbers",
    '{"nodes": 2, "edges": [[0, 2]]}': "an edge names node 2; the 2 nodes are numbered from 0",
    '{"nodes": 2, "edges": [[-1, 0]]}': "an edge names node -1; the 2 nodes are numbered from 0",
    '{"nodes": 1, "label": ""}': "label must be a text or a number",
    '{"nodes": 1, "label": []}': "label must be a text or a number",
    '{"nodes": 1, "id": {}}': "id must be a text or a number",
}


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:40].encode())
def test_the_error_names_the_line_and_the_problem(line):
    with pytest.raises(SagpoolError) as error:
        read('{"nodes": 1}', line)
    assert str(error.value) == f"x.jsonl, line 2: {WRONG[line]}."


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(SagpoolError, match=r"^x\.jsonl, line 1 has no nodes\.$"):
        read('{"nodes": []}')


def test_error_messages_are_short():
    for line in (
        '{"nodes": 1, "' + "x" * 9999 + '": 1}',
        '{"nodes": 2, "edges": [[0, 1' + "0" * 4000 + "]]}",
    ):
        with pytest.raises(SagpoolError) as error:
            read(line)
        assert len(str(error.value)) < 200


# Valid labels and ids, as Python values.
TEXT = st.one_of(
    st.text(min_size=1).filter(lambda t: t.isascii() or t.encode(errors="ignore").decode() == t),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
FEATURES = st.floats(-3e38, 3e38) | st.integers(-(2**100), 2**100)


@st.composite
def files(draw) -> list[dict[str, Any]]:
    """The graphs of a valid file."""
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
    """The graphs of a file, read by a simple parser that does little checking."""
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
    """`load` agrees with the naive reader."""
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
def test_valid_files_are_read_correctly(path, graphs, ascii_, bom, end):
    lines = [json.dumps(graph, ensure_ascii=ascii_) + end for graph in graphs]
    path.write_bytes(bom + "".join(lines).encode())
    check_same(path, naive(path.read_bytes()))


DAMAGE = [
    *(b"", b"\0", b"\n", b"\r", b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b"0", b"9" * 30),
    *(b"NaN", b"null", b"true", b"1e999", b"1e39", b"-1", b"1.0", b'"x"', b"{}", b"[]", b"[[0]]"),
    *(b"\xff", b"\xc3", b"\xef\xbb\xbf", "é".encode(), b"\\ud800", b"\\u0000", b"[" * 2000),
    *(b'"nodes":', b'"label": "z",', b'"edges": [],', b'{"nodes": 1}\n', b"\xe2\x80\xa8"),
]


def check_refused_or_same(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        load(path)
    except SagpoolError as error:
        (message,) = str(error).splitlines()
        assert message.startswith(("graphs.jsonl, line ", "graphs has no "))
        return
    check_same(path, naive(data))


@settings(max_examples=300)
@given(data=st.data(), graphs=files())
def test_a_damaged_file_is_refused_or_read_correctly(path, data, graphs):
    text = "".join(json.dumps(graph) + "\n" for graph in graphs).encode()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.sampled_from([0, 0, 1, 1, 2, 5, 1000]))
        text = text[:start] + data.draw(st.sampled_from(DAMAGE)) + text[start + length :]
    check_refused_or_same(path, text)


@settings(max_examples=500)
@given(
    st.binary(max_size=60)
    | st.text(alphabet='{}[]",:0123456789.-+eE\\ \nnodeslabl').map(str.encode)
)
def test_any_bytes_are_refused_or_read_correctly(path, data):
    check_refused_or_same(path, data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.integers(-2, 4)
    | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["", "a", "nodes"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["nodes", "label", "features", "edges", "z"]), inner),
    max_leaves=5,
)  # fmt: skip


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values inside this one, including itself."""
    inside = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value) if isinstance(value, list) else inside
    return [prefix, *(path for key, one in inside for path in paths(one, (*prefix, key)))]


def put(value: Any, keys: tuple[Any, ...], other: Any) -> Any:
    """A copy with another value at this path."""
    if not keys:
        return other
    copy = value.copy()
    copy[keys[0]] = put(copy[keys[0]], keys[1:], other)
    return copy


@settings(max_examples=300)
@given(data=st.data(), graphs=files(), other=JSON)
def test_schema_and_reader_agree_on_wrong_types(path, data, graphs, other):
    graph = put(graphs[0], data.draw(st.sampled_from(paths(graphs[0]))), other)
    path.write_text(json.dumps(graph))
    try:
        load(path)
    except SagpoolError as error:
        message = str(error)
        assert not valid(graph, SCHEMA) or any(beyond in message for beyond in BEYOND_SCHEMA)
    else:
        assert valid(graph, SCHEMA)
        check_same(path, naive(path.read_bytes()))


BEYOND_SCHEMA = ("an edge names node", "not all nodes have the same")


TYPES = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool,
    "null": type(None), "number": (int, float),
}  # fmt: skip


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """The parts of JSON Schema that our schema uses; any other keyword is an error."""
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
    keywords = [w for w in schema if w not in ("$schema", "$defs", "title", "description")]
    # The type first: the other keywords apply to values of that type.
    return all(rules[w](schema[w]) for w in sorted(keywords, key=lambda w: w != "type"))


def test_the_schema_alone():
    assert SCHEMA["properties"]["nodes"]["anyOf"][0]["maximum"] == NODES.default
    assert valid({"nodes": 1}, SCHEMA)
    assert not valid({"nodes": 1, "weight": 1}, SCHEMA)
    assert not valid({"edges": []}, SCHEMA)
