"""Bad input gives one sentence: as an exception in Python, on stderr from the command line."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sagpool import SagpoolError, load


class Bad(NamedTuple):
    path: Path
    sentence: str


def nothing_there(small) -> Bad:
    path = small.folder.with_name("ABSENT")
    return Bad(path, f"There is no file or folder {path}.")


def folder_without_data(small) -> Bad:
    small.file("A").unlink()
    return Bad(
        small.folder,
        f"{small.folder} holds no data set: it has no file named NAME_A.txt.",
    )


def two_data_sets(small) -> Bad:
    (small.folder / "OTHER_A.txt").write_text("1, 2\n")
    return Bad(small.folder, f"{small.folder} holds more than one data set: OTHER, SMALL.")


def missing_file(small) -> Bad:
    small.file("graph_indicator").unlink()
    return Bad(small.folder, f"{small.file('graph_indicator')} is missing.")


def missing_file_in_zip(small) -> Bad:
    small.file("graph_labels").unlink()
    path = small.zip()
    return Bad(path, f"{path}: SMALL/SMALL_graph_labels.txt is missing.")


def empty_file(small) -> Bad:
    small.write("A", [])
    return Bad(small.folder, f"{small.file('A')} is empty.")


def _line(kind: str, line: int, text: str, said: str) -> Callable[..., Bad]:
    def broken(small) -> Bad:
        small.change(kind, line, text)
        return Bad(small.folder, f"{small.file(kind)}, line {line}: {said}")

    return broken


def edge_to_no_node(small) -> Bad:
    small.change("A", 4, "3, 11")
    return Bad(
        small.folder,
        f"{small.file('A')}, line 4: node 11 is not among the nodes 1 to 10 of "
        f"{small.file('graph_indicator')}.",
    )


def edge_to_node_zero(small) -> Bad:
    small.change("A", 2, "0, 3")
    return Bad(
        small.folder,
        f"{small.file('A')}, line 2: node 0 is not among the nodes 1 to 10 of "
        f"{small.file('graph_indicator')}.",
    )


def graph_without_nodes(small) -> Bad:
    small.change("graph_indicator", 4, "1")
    return Bad(small.folder, f"{small.file('graph_indicator')}: graph 2 has no node.")


def more_classes_than_graphs(small) -> Bad:
    small.write("graph_labels", ["1"] * 5)
    return Bad(
        small.folder,
        f"{small.file('graph_labels')} has 5 lines, but "
        f"{small.file('graph_indicator')} has 4 graphs.",
    )


def fewer_classes_than_graphs(small) -> Bad:
    small.write("graph_labels", ["1"] * 3)
    return Bad(
        small.folder,
        f"{small.file('graph_labels')} has 3 lines, but "
        f"{small.file('graph_indicator')} has 4 graphs.",
    )


def _nine_lines(kind: str, as_in: str, expected: int) -> Callable[..., Bad]:
    def broken(small) -> Bad:
        small.write(kind, ["1"] * 9)
        return Bad(
            small.folder,
            f"{small.file(kind)} has 9 lines, but {small.file(as_in)} has {expected}.",
        )

    return broken


def truncated_zip(small) -> Bad:
    path = small.zip()
    path.write_bytes(path.read_bytes()[:-200])
    return Bad(path, f"{path} is not a complete zip file; fetch it again.")


def damaged_zip(small) -> Bad:
    path = small.zip()
    content = bytearray(path.read_bytes())
    content[50] ^= 0xFF  # in the compressed text of the first file
    path.write_bytes(content)
    return Bad(path, f"{path} is not a complete zip file; fetch it again.")


def zip_without_data(small) -> Bad:
    path = small.folder.with_name("notes.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README.txt", "nothing here")
    return Bad(path, f"{path} holds no data set: it has no file named NAME_A.txt.")


def _zip_with(entry: str) -> Callable[..., Bad]:
    def broken(small) -> Bad:
        path = small.zip()
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(entry, "1")
        return Bad(path, f"{path} is refused: its entry '{entry}' points outside the archive.")

    return broken


def zip_bomb(small) -> Bad:
    small.file("node_labels").write_bytes(b"0" * 80_000_000)
    path = small.zip()
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    packed = path.stat().st_size
    return Bad(
        path,
        f"{path} is refused: its {packed:,} bytes would unpack to {unpacked:,} "
        "(SAGPOOL_MAX_RATIO raises this limit).",
    )


BAD_INPUT = {
    "nothing there": nothing_there,
    "folder without data": folder_without_data,
    "two data sets": two_data_sets,
    "missing file": missing_file,
    "missing file in zip": missing_file_in_zip,
    "empty file": empty_file,
    "not a number": _line("A", 3, "2, x", "'x' is not a whole number."),
    "not whole": _line("node_labels", 3, "2.5", "'2.5' is not a whole number."),
    "no text": _line("A", 5, "\x00\x07\x1b", "1 values where 2 were expected."),
    "control characters": _line(
        "graph_labels", 2, "1\v\x1b", r"'1\x0b\x1b' is not a whole number."
    ),
    "too large": _line("graph_labels", 2, "9" * 20, f"'{'9' * 20}' is not a whole number."),
    "ragged line": _line("A", 6, "1, 3, 2", "3 values where 2 were expected."),
    "blank line": _line("graph_indicator", 2, "", "'' is not a whole number."),
    "ragged attributes": _line("node_attributes", 7, "1.0", "1 values where 2 were expected."),
    "attribute not a number": _line("node_attributes", 2, "1.0, ?", "'?' is not a number."),
    "attribute is NaN": _line("node_attributes", 4, "1.0, nan", "nan is not a finite number."),
    "attribute is infinite": _line("node_attributes", 1, "-inf, 2", "-inf is not a finite number."),
    "attribute beyond float32": _line(
        "node_attributes", 10, "1e39, 2", "1e+39 is not a finite number."
    ),
    "edge to no node": edge_to_no_node,
    "edge to node zero": edge_to_node_zero,
    "edge between graphs": _line(
        "A", 9, "6, 9", "the edge joins a node of graph 3 to one of graph 4."
    ),
    "graph zero": _line("graph_indicator", 1, "0", "graph 0; graphs are numbered from 1."),
    "graph without nodes": graph_without_nodes,
    "more classes than graphs": more_classes_than_graphs,
    "fewer classes than graphs": fewer_classes_than_graphs,
    "node labels and nodes": _nine_lines("node_labels", "graph_indicator", 10),
    "node attributes and nodes": _nine_lines("node_attributes", "graph_indicator", 10),
    "edge labels and edges": _nine_lines("edge_labels", "A", 12),
    "edge attributes and edges": _nine_lines("edge_attributes", "A", 12),
    "truncated zip": truncated_zip,
    "damaged zip": damaged_zip,
    "zip without data": zip_without_data,
    "zip that climbs": _zip_with("SMALL/../../evil.txt"),
    "zip that climbs with backslashes": _zip_with("SMALL\\..\\evil.txt"),
    "zip from the root": _zip_with("/etc/evil.txt"),
    "zip from a drive": _zip_with("C:/evil.txt"),
    "zip bomb": zip_bomb,
}


@pytest.fixture(params=BAD_INPUT.values(), ids=[name.replace(" ", "-") for name in BAD_INPUT])
def bad(request: pytest.FixtureRequest, small) -> Bad:
    return request.param(small)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_exception_names_cause_and_location(bad: Bad, cache: Path) -> None:
    with pytest.raises(SagpoolError) as error:
        load(bad.path)
    assert str(error.value) == bad.sentence
    assert files_in(cache) == []


def test_the_command_prints_one_line(bad: Bad, sagpool, cache: Path) -> None:
    outcome = sagpool("data", bad.path)
    assert outcome.code == 2
    assert outcome.err == f"sagpool: {bad.sentence}\n"
    assert len(outcome.err.splitlines()) == 1
    assert outcome.out == ""
    assert files_in(cache) == []


def test_the_exit_code_of_a_process(small) -> None:
    small.change("A", 3, "2, x")
    ended = subprocess.run(
        [sys.executable, "-m", "sagpool.cli.main", "data", str(small.folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr == f"sagpool: {small.file('A')}, line 3: 'x' is not a whole number.\n"


def test_features_that_the_data_lacks(small, sagpool) -> None:
    small.file("node_attributes").unlink()
    outcome = sagpool("data", small.folder, "--features", "attributes")
    assert (outcome.code, outcome.err) == (2, "sagpool: SMALL has no node attributes.\n")
