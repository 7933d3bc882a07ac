"""JSON Lines: one graph on each line.

``{"id": "a", "nodes": [{"label": "C", "features": [0.5]}, ...], "edges": [[0, 1], ...],
"label": 1}``

``nodes`` may also be a list of plain labels, ``["C", "O"]``, or their number; ``id``, ``edges`` and
``label`` may be missing. ``docs/graphs.schema.json`` says it in full.
"""

import json
import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn

from sagpool.errors import SagpoolError
from sagpool.graphs.records import Record

MOST_NODES = 1_000_000  # that a mere number can ask for: a line of 20 bytes must not fill a memory
LARGEST = 3.4e38  # a feature; beyond it float32 has no finite number

_KNOWN = {"id", "nodes", "edges", "label"}
_WHOLE, _TWO = {int}, {2}  # bool is another type


class _NoNumberError(Exception):
    """NaN, Infinity: Python's extension of JSON."""


def _refuse(constant: str) -> NoReturn:
    raise _NoNumberError(constant)


_decoder = json.JSONDecoder(parse_constant=_refuse)


def read_jsonl(lines: Iterable[str], name: str) -> Iterator[Record]:
    """The graphs of a file, one at a time.

    Args:
        lines: of the file
        name: of the file, for messages
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _Line(f"{name}, line {number}").record(line, number)


class _Line:
    """Turns a line into a record, or says what is wrong with it."""

    def __init__(self, place: str) -> None:
        self.place = place

    def record(self, text: str, number: int) -> Record:
        graph = self._parse(text)
        if not isinstance(graph, dict):
            self._fail("a graph is an object with nodes and edges")
        if not graph.keys() <= _KNOWN:
            odd = next(key for key in graph if key not in _KNOWN)
            self._fail(f"a graph has no {_shown(odd)}; it may have id, nodes, edges and label")
        nodes, labels, features = self._nodes(graph.get("nodes"))
        label, name = graph.get("label"), graph.get("id")
        return Record(
            self.place,
            str(number) if name is None else self._text(name, "id"),
            nodes,
            self._edges(graph.get("edges", []), nodes),
            labels,
            features,
            None if label is None else self._text(label, "label"),
        )

    def _parse(self, text: str) -> Any:
        try:
            graph = _decoder.decode(text)
            if "\\u" in text:
                # Half of a pair of escapes is no text: it could be read, but not written again.
                json.dumps(graph, ensure_ascii=False).encode()
        except RecursionError:
            self._fail("it is nested too deeply")
        except json.JSONDecodeError as error:
            self._fail(f"this is no JSON, column {error.colno}: {error.msg}")
        except UnicodeEncodeError:
            self._fail("it has half a character, such as \\ud800")
        except _NoNumberError as error:
            self._fail(f"this is no JSON: {error} is no number")
        except ValueError:  # Python reads whole numbers up to some thousand digits
            self._fail("a number has too many digits")
        return graph

    def _nodes(self, nodes: Any) -> tuple[int, list[str] | None, list[float] | None]:
        if type(nodes) is int:
            if not 1 <= nodes <= MOST_NODES:
                self._fail(f"a number of nodes is from 1 to {MOST_NODES}, not {_shown(nodes)}")
            return nodes, None, None
        if not isinstance(nodes, list):
            self._fail("nodes is a list, or their number")
        if not nodes:
            self._fail("the graph has no node")
        if not isinstance(nodes[0], dict):
            return len(nodes), self._texts(nodes, "a node's label"), None
        keys = nodes[0].keys()
        if not keys <= {"label", "features"}:
            self._fail("a node may have a label and features, and nothing else")
        if not all(isinstance(node, dict) and node.keys() == keys for node in nodes):
            self._fail("its nodes have not all the same parts")
        labels = features = None
        if "label" in keys:
            labels = self._texts([node["label"] for node in nodes], "a node's label")
        if "features" in keys:
            features = self._features([node["features"] for node in nodes])
        return len(nodes), labels, features

    def _features(self, rows: list[Any]) -> list[float]:
        if set(map(type, rows)) != {list} or not all(rows):
            self._fail("a node's features are a list of numbers")
        if len(set(map(len, rows))) > 1:
            self._fail("its nodes have not all the same number of features")
        flat = list(chain.from_iterable(rows))
        if not set(map(type, flat)) <= {int, float} or max(map(abs, flat)) > LARGEST:
            self._fail(f"a node's features are numbers, at most {LARGEST}")
        return flat

    def _edges(self, edges: Any, nodes: int) -> list[int]:
        if type(edges) is not list:
            self._fail("edges is a list of pairs of nodes")
        try:
            flat = list(chain.from_iterable(edges))
            lengths = set(map(len, edges))
        except TypeError:
            lengths = {0}
        if not lengths <= _TWO:
            self._fail("edges is a list of pairs of nodes")
        # This also tells pairs from texts of two letters: those have no numbers in them.
        if not set(map(type, flat)) <= _WHOLE:
            self._fail("the ends of an edge are node numbers")
        if flat and (min(flat) < 0 or max(flat) >= nodes):
            bad = _shown(next(end for end in flat if not 0 <= end < nodes))
            self._fail(f"an edge names node {bad}; the {nodes} nodes are numbered from 0")
        return flat

    def _texts(self, values: list[Any], what: str) -> list[str]:
        if set(map(type, values)) == {str} and all(values):
            return values
        return [self._text(value, what) for value in values]

    def _text(self, value: Any, what: str) -> str:
        """Numbers as their text: 1, 1.0 and "1" are the same class."""
        if type(value) is str and value:
            return value
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) is float and value.is_integer():
            return str(int(value))
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            return str(value)
        self._fail(f"{what} is a text or a number")

    def _fail(self, what: str) -> NoReturn:
        raise SagpoolError(f"{self.place}: {what}.")


def _shown(value: str | int) -> str:
    """So that one line has room for it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
