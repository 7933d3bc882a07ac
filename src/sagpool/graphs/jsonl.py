"""JSON Lines: one graph on each line.

``{"id": "a", "nodes": [{"label": "C", "features": [0.5]}, ...], "edges": [[0, 1], ...],
"label": 1}``

``nodes`` may also be a list of plain labels, ``["C", "O"]``, or the number of nodes; ``id``,
``edges`` and ``label`` are optional. Edges can have labels, ``"edge_labels": ["single", ...]``,
and features, ``"edge_features": [[0.5], ...]``, one entry for each edge. A graph can have several
targets in place of a label: ``"labels": {"solubility": 1.5, "toxicity": null}``.
``docs/graphs.schema.json`` is the full description.
"""

import json
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO, NoReturn

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import NODES
from sagpool.foreign.values import shorten
from sagpool.graphs.raw_graphs import EDGE_LABEL
from sagpool.graphs.records import Columns, Record, text_lines

MAX_FEATURE = 3.4e38  # float32 is infinite beyond

_KNOWN = ("id", "nodes", "edges", "edge_labels", "edge_features", "label", "labels")
_INTEGER, _PAIR = {int}, {2}  # type(True) is not int


class _NotANumberError(Exception):
    """NaN or Infinity, which Python's JSON parser accepts."""


def _refuse(constant: str) -> NoReturn:
    raise _NotANumberError(constant)


_decoder = json.JSONDecoder(parse_constant=_refuse)


def read_jsonl(file: BinaryIO, name: str, columns: Columns = Columns()) -> Iterator[Record]:
    """The graphs of a file, one at a time; a reader of `record_files.FORMATS`."""
    if named := columns.smiles or columns.id or columns.time:
        raise SagpoolError(f"{name} is not a table, so it has no column {named!r}.")
    for number, line in enumerate(text_lines(file, name, "\n"), 1):
        if line.strip():
            yield _Line(f"{name}, line {number}").record(line, number)


class _Line:
    """Turns a line into a record, or raises an error that names the line."""

    def __init__(self, place: str) -> None:
        self.place = place

    def record(self, text: str, number: int) -> Record:
        graph = self._parse(text)
        if not isinstance(graph, dict):
            self._fail("a graph must be an object with nodes and edges")
        if not graph.keys() <= set(_KNOWN):
            unknown = next(key for key in graph if key not in _KNOWN)
            self._fail(f"unknown key {shorten(unknown)}; allowed are {', '.join(_KNOWN)}")
        nodes, labels, features = self._nodes(graph.get("nodes"))
        label, name = graph.get("label"), graph.get("id")
        edges = self._edges(graph.get("edges", []))
        edge_labels, edge_features = graph.get("edge_labels"), graph.get("edge_features")
        return Record(
            self.place,
            str(number) if name is None else self._text(name, "id"),
            nodes,
            edges,
            labels,
            features,
            None if label is None else self._text(label, "label"),
            edge_features=None if edge_features is None else self._edge_features(edge_features),
            targets=self._targets(graph.get("labels"), label),
            edge_labels={} if edge_labels is None else self._edge_labels(edge_labels),
        )

    def _parse(self, text: str) -> Any:
        try:
            graph = _decoder.decode(text)
            if "\\u" in text:
                # A lone surrogate can be decoded, but not encoded again.
                json.dumps(graph, ensure_ascii=False).encode()
        except RecursionError:
            self._fail("nested too deeply")
        except json.JSONDecodeError as error:
            self._fail(f"not valid JSON, column {error.colno}: {error.msg}")
        except UnicodeEncodeError:
            self._fail("a text has half of a surrogate pair, such as \\ud800")
        except _NotANumberError as error:
            self._fail(f"not valid JSON: {error} is not a number")
        except ValueError:  # Python limits the digits of an integer
            self._fail("a number has too many digits")
        return graph

    def _nodes(self, nodes: Any) -> tuple[int, list[str] | None, list[float] | None]:
        if type(nodes) is int:
            if nodes < 1:
                self._fail(f"the number of nodes must be at least 1, not {shorten(nodes)}")
            NODES.check(nodes, self.place)
            return nodes, None, None
        if not isinstance(nodes, list):
            self._fail("nodes must be a list or a number")
        if not nodes or not isinstance(nodes[0], dict):
            return len(nodes), self._texts(nodes, "a node's label"), None
        keys = nodes[0].keys()
        if not keys <= {"label", "features"}:
            self._fail("a node can have a label and features only")
        if not all(isinstance(node, dict) and node.keys() == keys for node in nodes):
            self._fail("not all nodes have the same keys")
        labels = features = None
        if "label" in keys:
            labels = self._texts([node["label"] for node in nodes], "a node's label")
        if "features" in keys:
            features = self._features([node["features"] for node in nodes], "node")
        return len(nodes), labels, features

    def _features(self, rows: list[Any], owner: str) -> list[float]:
        if set(map(type, rows)) != {list} or not all(rows):
            self._fail(f"{_with_article(owner)}'s features must be a list of numbers")
        if len(set(map(len, rows))) > 1:
            self._fail(f"not all {owner}s have the same number of features")
        flat = list(chain.from_iterable(rows))
        if not set(map(type, flat)) <= {int, float} or max(map(abs, flat)) > MAX_FEATURE:
            self._fail(
                f"{_with_article(owner)}'s features must be numbers of at most {MAX_FEATURE}"
            )
        return flat

    def _edge_features(self, rows: Any) -> list[float] | None:
        if type(rows) is not list:
            self._fail("edge_features must be a list with the features of each edge")
        return self._features(rows, "edge") if rows else None

    def _edge_labels(self, labels: Any) -> dict[str, list[str | None]]:
        if type(labels) is not list:
            self._fail("edge_labels must be a list with a label for each edge")
        return {EDGE_LABEL: [*self._texts(labels, "an edge's label")]}

    def _targets(self, labels: Any, label: Any) -> dict[str, float | None] | None:
        if labels is None:
            return None
        if label is not None:
            self._fail("a graph has either a label or labels")
        if type(labels) is not dict or not labels or not all(labels):
            self._fail("labels must be an object with a number or null for each name")
        for name, value in labels.items():
            if type(value) not in (int, float, type(None)) or abs(value or 0) > MAX_FEATURE:
                self._fail(f"the label {shorten(name)} must be a number or null")
        return labels

    def _edges(self, edges: Any) -> list[int]:
        if type(edges) is not list:
            self._fail("edges must be a list of pairs of nodes")
        try:
            flat = list(chain.from_iterable(edges))
            lengths = set(map(len, edges))
        except TypeError:
            lengths = {0}
        if not lengths <= _PAIR:
            self._fail("edges must be a list of pairs of nodes")
        # This also refuses strings of two characters, which have the length of a pair.
        if not set(map(type, flat)) <= _INTEGER:
            self._fail("the ends of an edge must be node numbers")
        return flat

    def _texts(self, values: list[Any], what: str) -> list[str]:
        if set(map(type, values)) == {str} and all(values):
            return values
        return [self._text(value, what) for value in values]

    def _text(self, value: Any, what: str) -> str:
        """A number becomes text: 1, 1.0 and "1" are the same class."""
        if type(value) is str and value:
            return value
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) is float and value.is_integer():
            return str(int(value))
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            return str(value)
        self._fail(f"{what} must be a text or a number")

    def _fail(self, what: str) -> NoReturn:
        raise SagpoolError(f"{self.place}: {what}.")


def _with_article(owner: str) -> str:
    return f"an {owner}" if owner == "edge" else f"a {owner}"
