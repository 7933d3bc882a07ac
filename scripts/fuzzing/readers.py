"""Files of graphs: the TU format, JSON Lines, tables of SMILES, SDF."""

import csv
import io
import json
import math
import re
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.graph_oracle import PlainGraph, compare, plain_graphs, random_graph, undirected
from fuzzing.mutations import ODD_TEXTS, mutate_bytes, mutate_json, mutate_lines, odd_value
from fuzzing.target import WrongError, expect
from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.record_files import load_records
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import open_files

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def tu_texts(random: Random) -> tuple[dict[str, str], list[PlainGraph]]:
    """The files of a valid data set, and its graphs."""
    columns, width = random.choice((0, 0, 1, 1, 2)), random.choice((0, 0, 1, 3))
    graphs = [random_graph(random, columns, width) for _ in range(random.randrange(1, 6))]
    if not any(graph.edges for graph in graphs):
        one = graphs[0]
        labels, features = (rows and [rows[0]] * 2 for rows in (one.labels, one.features))
        graphs.append(PlainGraph(2, {(0, 1)}, labels, features, "1"))
    lines: dict[str, list[str]] = {"A": [], "graph_indicator": [], "graph_labels": []}
    first = 1
    for number, graph in enumerate(graphs, 1):
        for a, b in sorted(graph.edges):
            lines["A"] += [f"{first + a}, {first + b}", f"{first + b}, {first + a}"]
        lines["graph_indicator"] += [str(number)] * graph.nodes
        lines["graph_labels"].append(graph.target)
        if columns:
            rows = [", ".join(row) for row in graph.labels or ()]
            lines.setdefault("node_labels", []).extend(rows)
        if width:
            rows = [", ".join(map(str, row)) for row in graph.features or ()]
            lines.setdefault("node_attributes", []).extend(rows)
        first += graph.nodes
    if random.random() < 0.3:
        lines["edge_labels"] = [str(random.randrange(5)) for _ in lines["A"]]
    return {kind: "".join(f"{line}\n" for line in found) for kind, found in lines.items()}, graphs


def _table(text: str) -> list[list[str]]:
    lines = text.replace("\r\n", "\n").rstrip(" \t\n").split("\n")
    return [[field.strip() for field in line.strip().split(",")] for line in lines]


def _whole(field: str) -> int:
    expect(_NUMBER.fullmatch(field) is not None, f"accepted {field[:40]!r} as a number")
    value = float(field)
    expect(value.is_integer(), f"accepted {field[:40]!r} as a whole number")
    return int(field) if re.fullmatch(r"[+-]?\d+", field) else int(value)


def parse_tu(texts: dict[str, str]) -> list[PlainGraph]:
    """A second parser; raises `WrongError` for content that the first must not accept."""
    owner = [_whole(row[0]) - 1 for row in _table(texts["graph_indicator"])]
    targets = [str(_whole(row[0])) for row in _table(texts["graph_labels"])]
    members: list[list[int]] = [[] for _ in targets]
    for node, graph in enumerate(owner):
        expect(0 <= graph < len(members), "accepted a graph that has no class")
        members[graph].append(node)
    place = {node: place for nodes in members for place, node in enumerate(nodes)}
    pairs: list[list[tuple[int, int]]] = [[] for _ in members]
    for row in _table(texts["A"]):
        expect(len(row) == 2, "accepted an edge that has not two ends")
        a, b = (_whole(field) - 1 for field in row)
        expect(a in place and b in place, "accepted an edge to no node")
        expect(owner[a] == owner[b], "accepted an edge between graphs")
        pairs[owner[a]].append((place[a], place[b]))
    labels = features = None
    if "node_labels" in texts:
        labels = [tuple(str(_whole(f)) for f in row) for row in _table(texts["node_labels"])]
        expect(len(labels) == len(owner), "accepted another number of labels")
    if "node_attributes" in texts:
        features = [[float(f) for f in row] for row in _table(texts["node_attributes"])]
        expect(len(features) == len(owner), "accepted another number of attributes")
    return [
        PlainGraph(
            len(nodes),
            undirected(found),
            None if labels is None else [labels[node] for node in nodes],
            None if features is None else [features[node] for node in nodes],
            target,
        )
        for nodes, found, target in zip(members, pairs, targets, strict=True)
    ]


class TU:
    """Folders of text files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "SET"

    def run(self, random: Random) -> None:
        texts, graphs = tu_texts(random)
        damaged = random.random() < 0.9
        encoded = {}
        if damaged:
            kind = random.choice(list(texts))
            if random.random() < 0.05:
                del texts[kind]
            elif random.random() < 0.75:
                separator = random.choice((",", "\n"))
                changed = mutate_lines(random, texts[kind].splitlines(), separator)
                texts[kind] = random.choice(("\n", "\n", "\r\n")).join(changed)
            else:
                encoded[kind] = mutate_bytes(random, texts[kind].encode())
                texts[kind] = encoded[kind].decode("utf-8", "replace")
        self.folder.mkdir(exist_ok=True)
        for file in self.folder.iterdir():
            file.unlink()
        for kind, text in texts.items():
            (self.folder / f"SET_{kind}.txt").write_bytes(encoded.get(kind, text.encode()))
        raw = _accepted_if_valid(lambda: read_tu(open_files(self.folder)), not damaged)
        compare(plain_graphs(raw), parse_tu(texts) if damaged else graphs)


def _accepted_if_valid(read: Any, valid: bool) -> Any:
    try:
        return read()
    except SagpoolError as error:
        if valid:
            raise WrongError(f"a valid input was refused: {error}") from None
        raise


class Zip:
    """TU data sets in zips of all kinds."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "SET.zip"

    def run(self, random: Random) -> None:
        texts, graphs = tu_texts(random)
        inside = random.choice(("SET/", "", "SET/raw/", "SET/../", "/", "C:\\"))
        method = random.choice((0, 8, 8, 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        with zipfile.ZipFile(self.path, "w", method) as archive:
            for kind, text in texts.items():
                archive.writestr(f"{inside}SET_{kind}.txt", text)
            bomb = random.random() < 0.02
            if bomb:
                archive.writestr("bomb", b"0" * 30_000_000)
        # Without compression, a large file is not a bomb.
        valid = inside in ("SET/", "", "SET/raw/") and method in (0, 8) and not bomb
        if random.random() < 0.8:
            content = self.path.read_bytes()
            # Damages the directory at the end and the headers of the entries.
            if random.random() < 0.4:
                for sign in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"):
                    place = content.rfind(sign) + random.randrange(4, 46)
                    value = random.choice((0, 1, 9, 12, 14, 63, 99, 255))
                    content = content[:place] + bytes([value]) + content[place + 1 :]
            else:
                content = mutate_bytes(random, content)
            self.path.write_bytes(content)
            valid = False
        raw = _accepted_if_valid(lambda: read_tu(open_files(self.path)), valid)
        compare(plain_graphs(raw), _subset(graphs, raw))


def _subset(graphs: list[PlainGraph], raw: Any) -> list[PlainGraph]:
    """The graphs without labels or attributes whose file name was damaged, as if absent."""
    return [
        PlainGraph(
            graph.nodes,
            graph.edges,
            None if raw.node_labels is None else graph.labels,
            None if raw.node_attr is None else graph.features,
            graph.target,
        )
        for graph in graphs
    ]


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        expect(bool(value), "accepted an empty label")
        return value
    if isinstance(value, int):
        return str(value)
    expect(isinstance(value, float) and math.isfinite(value), f"accepted {value!r} as a label")
    return str(int(value)) if value.is_integer() else str(value)


def parse_graph(entry: Any) -> PlainGraph:
    """Parse a line of JSON, by an independent implementation of the rules."""
    expect(isinstance(entry, dict), "accepted a line that is no object")
    expect(set(entry) <= {"id", "nodes", "edges", "label"}, "accepted an unknown key")
    nodes = entry.get("nodes")
    labels = features = None
    if isinstance(nodes, list):
        expect(bool(nodes), "accepted a graph without nodes")
        if isinstance(nodes[0], dict):
            expect(
                all(isinstance(n, dict) and set(n) == set(nodes[0]) for n in nodes), "keys differ"
            )
            expect(set(nodes[0]) <= {"label", "features"}, "accepted an unknown key of a node")
            if "label" in nodes[0]:
                labels = [(_label(node["label"]),) for node in nodes]
            if "features" in nodes[0]:
                features = [node["features"] for node in nodes]
                flat = [value for row in features for value in row]
                plain = all(type(v) in (int, float) and abs(v) <= 3.41e38 for v in flat)
                expect(plain, "accepted features that are no numbers")
        else:
            labels = [(_label(node),) for node in nodes]
        count = len(nodes)
    else:
        expect(type(nodes) is int and nodes > 0, f"accepted {nodes!r} as nodes")
        count = nodes
    pairs = [tuple(edge) for edge in entry.get("edges", [])]
    for pair in pairs:
        expect(
            len(pair) == 2 and all(type(end) is int for end in pair), f"accepted the edge {pair}"
        )
        expect(all(0 <= end < count for end in pair), "accepted an edge to no node")
    target = entry.get("label")
    return PlainGraph(
        count, undirected(pairs), labels, features, None if target is None else _label(target)
    )


def graph_entry(random: Random, graph: PlainGraph, style: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"edges": [list(edge) for edge in sorted(graph.edges)]}
    entry["label"] = random.choice((graph.target, int(graph.target)))
    if random.random() < 0.3:
        entry["id"] = random.choice(ODD_TEXTS[2:]) or "x"
    labels = [row[0] for row in graph.labels or ()]
    if style == 0:
        entry["nodes"] = graph.nodes
    elif style == 1:
        entry["nodes"] = labels
    else:
        entry["nodes"] = [
            {"label": label, "features": row}
            for label, row in zip(labels, graph.features or (), strict=True)
        ]
    return entry


class JsonLines:
    """Files of JSON Lines."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "graphs.jsonl"

    def run(self, random: Random) -> None:
        style = random.randrange(3)
        width = random.randrange(1, 3)
        graphs = [random_graph(random, 1, width) for _ in range(random.randrange(1, 5))]
        entries: list[Any] = [graph_entry(random, graph, style) for graph in graphs]
        way, valid = random.random(), False
        if way < 0.1:
            valid = True
        elif way < 0.7:
            place = random.randrange(len(entries))
            entries[place] = mutate_json(random, entries[place])
        elif way < 0.75:
            entries.insert(random.randrange(len(entries) + 1), odd_value(random))
        elif way < 0.76:
            size = random.choice((10**5, 10**6))
            entries = [{"nodes": size, "label": 0}] * random.choice((1, 3, 400))
        text = "\n".join(json.dumps(e, ensure_ascii=random.random() < 0.5) for e in entries)
        content = text.encode("utf-8", "surrogatepass")
        if way > 0.8:
            content = mutate_bytes(random, content)
        self.path.write_bytes(content)
        raw = _accepted_if_valid(lambda: load_records(self.path), valid)
        lines = content.decode("utf-8-sig").split("\n")
        expected = [parse_graph(json.loads(line)) for line in lines if line.strip()]
        if raw.node_counts.sum() > 10**4:  # too many for slow loops
            found = raw.node_counts.tolist()
            expect(found == [graph.nodes for graph in expected], "another number of nodes")
            return
        compare(plain_graphs(raw), expected)


SMILES = (
    *("C", "CCO", "c1ccccc1", "F/C=C\\F", "[Na+].[Cl-]", "C[C@H](N)C(=O)O", "N#N", "[13CH4]"),
    *("O=C(O)c1ccccc1OC(C)=O", "CC(C)(C)C", "[H][H]", "*C", "C1CC1"),
)


class SmilesTable:
    """Tables of molecules."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, random: Random) -> None:
        from rdkit import Chem, rdBase

        suffix, delimiter = random.choice(((".csv", ","), (".tsv", "\t")))
        rows = [["id", "smiles", "label"]]
        for number in range(random.randrange(1, 6)):
            rows.append([str(number), random.choice(SMILES), random.choice(("0", "1", "active"))])
        lines = [delimiter.join(row) for row in rows]
        valid = random.random() < 0.1
        if not valid:
            lines = mutate_lines(random, lines, delimiter)
            if random.random() < 0.02:
                lines.append(delimiter.join(("9", "C" * random.choice((9_000, 60_000)), "1")))
        content = "\n".join(lines).encode()
        if not valid and random.random() < 0.3:
            content = mutate_bytes(random, content)
        path = self.folder / f"table{suffix}"
        path.write_bytes(content)
        raw = _accepted_if_valid(lambda: load_records(path), valid)
        text = io.StringIO(content.decode("utf-8-sig"), newline="")
        table = [row for row in csv.reader(text, delimiter=delimiter) if any(row)]
        header = [title.strip().lower() for title in table[0]]
        usual = ("smiles", "canonical_smiles", "smi", "mol")
        column = next(header.index(name) for name in usual if name in header)
        usual = ("label", "class", "y", "target", "activity")
        classes = next((header.index(name) for name in usual if name in header), None)
        expected = []
        for row in table[1:]:
            expect(len(row) == len(header), "accepted a row with another number of cells")
            smiles = row[column].strip()
            with rdBase.BlockLogs():
                readable = smiles.isprintable() and len(smiles) <= 10_000
                molecule = Chem.MolFromSmiles(smiles) if readable else None
            if molecule is None or not molecule.GetNumAtoms():
                continue
            bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]
            target = None if classes is None else row[classes].strip() or None
            symbols = [(atom.GetSymbol(),) for atom in molecule.GetAtoms()]
            expected.append(PlainGraph(len(symbols), undirected(bonds), symbols, None, target))
        if any(graph.target is not None for graph in expected):
            expected = [graph for graph in expected if graph.target is not None]
        compare(plain_graphs(raw), expected)


class Sdf:
    """SDF files, parsed by RDKit; one graph for each molecule that it reads."""

    def __init__(self, folder: Path) -> None:
        from rdkit import Chem

        self.path = folder / "molecules.sdf"
        self.blocks = [
            Chem.MolToMolBlock(Chem.MolFromSmiles(smiles)) + f"> <label>\n{n % 2}\n\n$$$$\n"
            for n, smiles in enumerate(SMILES)
        ]

    def run(self, random: Random) -> None:
        from rdkit import Chem, rdBase

        content = "".join(random.sample(self.blocks, random.randrange(1, 4))).encode()
        valid = random.random() < 0.1
        if not valid:
            content = mutate_bytes(random, content)
            if random.random() < 0.4:
                lines = mutate_lines(random, content.decode("utf-8", "replace").split("\n"), " ")
                content = "\n".join(lines).encode()
        self.path.write_bytes(content)
        raw = _accepted_if_valid(lambda: load_records(self.path), valid)
        expected = []
        for block in _sdf_blocks(content):
            with rdBase.BlockLogs():
                try:
                    molecule = next(Chem.ForwardSDMolSupplier(io.BytesIO(block)), None)
                except (RuntimeError, UnicodeDecodeError):
                    molecule = None
            if molecule is not None and molecule.GetNumAtoms():
                expected.append(molecule.GetNumAtoms())
        found = raw.node_counts.tolist()
        expect(len(found) <= len(expected), "more graphs than molecules")
        if raw.y is None:
            expect(found == expected, f"graphs of {found} atoms, not {expected}")


def _sdf_blocks(content: bytes) -> list[bytes]:
    blocks, lines = [], []
    for line in io.BytesIO(content):
        lines.append(line.decode("utf-8", "replace").encode())
        if line.startswith(b"$$$$"):
            blocks.append(b"".join(lines))
            lines = []
    return [*blocks, b"".join(lines)] if b"".join(lines).strip() else blocks


class Cache:
    """Files of the cache: damaged ones are read again from the text, crafted ones are refused."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        from sagpool.graphs.cache import save_raw

        self.numpy, self.path = np, folder / "cached.npz"
        texts, _ = tu_texts(Random(5))
        source = folder / "SET"
        source.mkdir()
        for kind, text in texts.items():
            (source / f"SET_{kind}.txt").write_text(text)
        self.raw = read_tu(open_files(source))
        with self.path.open("wb") as file:
            save_raw(self.raw, file, "stamp")
        self.content = self.path.read_bytes()

    def run(self, random: Random) -> None:
        from fuzzing.arrays import craft
        from sagpool.foreign.values import DecodingError
        from sagpool.graphs.cache import load_raw

        crafted = random.random() < 0.6
        content = craft(random, self.content) if crafted else mutate_bytes(random, self.content)
        try:
            raw = load_raw(io.BytesIO(content), "stamp")
        except DecodingError as error:
            raise SagpoolError(str(error)) from None
        if raw is None:
            raise SagpoolError("another format or source")
        # Someone who can write the cache can change the graphs, but no index may be out of range.
        found = plain_graphs(raw, simple=not crafted)
        if not crafted:
            compare(found, plain_graphs(self.raw))


class Loading:
    """Odd names and paths, given to `sagpool.load`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, random: Random) -> None:
        name = "".join(random.choice(ODD_TEXTS)[:300] for _ in range(random.randrange(1, 4)))
        suffix = random.choice(("", ".zip", ".jsonl", ".csv", ".sdf", "/"))
        start = random.choice(("", "~", f"{self.folder}/", "../", "~nobody-here/"))
        load(f"{start}{name}{suffix}")
        raise WrongError(f"something was loaded by the name {name[:60]!r}")
