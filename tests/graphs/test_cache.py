"""Cached data sets: written once, used only while the source is unchanged, never required."""

import dataclasses
import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sagpool.graphs import load
from sagpool.graphs.cache import _load_if_fresh, cache_folder, load_raw, read_cached, replacing
from sagpool.graphs.raw_graphs import RawGraphs
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import open_files


def assert_same(one: RawGraphs, other: RawGraphs) -> None:
    for field in dataclasses.fields(RawGraphs):
        first, second = getattr(one, field.name), getattr(other, field.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype, field.name
            assert np.array_equal(first, second), field.name
        elif field.name == "edge_labels":
            for labels, others in zip(first, second, strict=True):
                assert (labels.title, labels.names) == (others.title, others.names)
                assert labels.code.dtype == others.code.dtype
                assert np.array_equal(labels.code, others.code)
        else:
            assert first == second, field.name


def read(path: Path) -> RawGraphs:
    return read_cached(open_files(path), path)


def test_the_second_load_reads_the_cache(small, no_text, packed):
    first = read(small.folder)
    assert len(packed()) == 1
    no_text()
    assert_same(read(small.folder), first)
    assert_same(first, read_tu(open_files(small.folder)))


def test_absent_parts_are_absent_in_the_cache(small, no_text):
    for kind in ("node_labels", "node_attributes", "edge_labels"):
        small.file(kind).unlink()
    first = read(small.folder)
    no_text()
    second = read(small.folder)
    assert_same(second, first)
    assert (second.node_labels, second.node_attr, second.edge_labels) == (None, None, ())


@pytest.mark.parametrize("change", ["content", "new file", "file gone"])
def test_a_changed_source_is_read_again(small, change, packed):
    read(small.folder)
    if change == "content":
        small.change("graph_labels", 1, "3")
    elif change == "new file":
        small.write("edge_attributes", ["1"] * 12)
    else:
        small.file("node_labels").unlink()
    assert_same(read(small.folder), read_tu(open_files(small.folder)))
    assert len(packed()) == 1


def test_a_changed_zip_is_read_again(small):
    path = small.zip()
    assert read(path).class_names == ("-1", "1")
    small.change("graph_labels", 1, "3")
    small.zip()
    assert read(path).class_names == ("-1", "1", "3")


def test_data_sets_of_the_same_name_are_cached_separately(small, packed):
    read(small.folder)
    other = small.zip()
    read(other)
    assert len(packed()) == 2


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_all_damage_is_detected(tmp_path_factory, complete_copy, data):
    """A cache file that is cut off or has one byte changed is refused, or still gives the same."""
    content, stamp, raw = complete_copy
    damaged = bytearray(content)
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        damaged[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(damaged)
    found = _load_if_fresh(path, stamp)
    if found is not None:
        assert_same(found, raw)


@pytest.fixture
def complete_copy(small, packed):
    raw = read(small.folder)
    return packed()[0].read_bytes(), open_files(small.folder).stamp(), raw


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_damaged_file_is_written_again(small, packed, content, caplog, no_text):
    first = read(small.folder)
    packed()[0].write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert_same(read(small.folder), first)
    assert "is damaged" in caplog.text
    no_text()
    assert_same(read(small.folder), first)


def test_pickles_are_not_loaded(small, packed):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    first = read(small.folder)
    with np.load(packed()[0]) as arrays:
        hostile = dict(arrays)
    hostile["y"] = np.array([Trap()], object)
    np.savez(packed()[0], **hostile)
    assert_same(read(small.folder), first)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"col": {0: 2, 1: 1}}, "edges are not in order"),
        ({"col": {0: 2}}, "edges are not in order"),
        ({"col": {0: 0}}, "an edge joins a node to itself"),
        ({"col": {6: 2}}, "an edge has only one direction"),
        ({"col": {0: 3}}, "col names no node of its graph"),
        ({"degree": {0: 1, 1: 3}}, "edges are not in order"),
        ({"degree": {0: 1}}, "degree does not fit edge_counts"),
        ({"node_counts": {0: 4, 2: 3}}, "degree does not fit edge_counts"),
        ({"y": {0: 2}}, "y has a code without a name"),
        ({"node_labels": {0: -1}}, "node_labels has a code without a name"),
        ({"node_attr": {0: np.nan}}, "node_attr is not finite"),
        ({"edge_labels": {0: 99}}, "edge_labels has a code without a name"),
    ],
)
def test_arrays_that_do_not_fit_together_are_read_again(
    change, reason, small, packed, caplog, no_text
):
    """The checksums of the file are right."""
    first = read(small.folder)
    with np.load(packed()[0]) as arrays:
        crafted = dict(arrays)
    for name, entries in change.items():
        for place, value in entries.items():
            crafted[name][place] = value
    np.savez(packed()[0], **crafted)
    with caplog.at_level(logging.WARNING):
        assert_same(read(small.folder), first)
    assert f"is damaged ({reason}" in caplog.text
    no_text()
    assert_same(read(small.folder), first)


def test_a_renamed_array_is_not_taken_for_absent(small, packed):
    first = read(small.folder)
    with np.load(packed()[0]) as arrays:
        renamed = {name.replace("y", "z"): array for name, array in arrays.items()}
    np.savez(packed()[0], **renamed)
    assert_same(read(small.folder), first)


def test_a_file_of_another_format_is_not_read(small, packed, monkeypatch):
    read(small.folder)
    monkeypatch.setattr("sagpool.graphs.cache.FORMAT", 99)
    with packed()[0].open("rb") as file:
        assert load_raw(file, open_files(small.folder).stamp()) is None


def test_a_cache_that_cannot_be_written_is_only_a_warning(small, cache, monkeypatch, caplog):
    (cache / "file").write_text("in the way")
    monkeypatch.setenv("SAGPOOL_CACHE", str(cache / "file"))
    with caplog.at_level(logging.WARNING):
        assert len(load(small.folder)) == 4
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("SMALL was not cached: ")


def test_a_failure_while_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "copy"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["copy"]
    assert path.read_text() == "old"


WRITE_AND_WAIT = """
import sys, time
from pathlib import Path
from sagpool.graphs import cache
if sys.argv[2] == "named":
    cache._open_unnamed = lambda folder: None
with cache.replacing(Path(sys.argv[1])) as file:
    file.write(b"half of the new")
    file.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_a_killed_writer_leaves_no_part(tmp_path, kind, monkeypatch):
    path = tmp_path / "copy"
    path.write_text("old")
    strangers = [tmp_path / ".copy.part", tmp_path / ".video.0123abcd.part"]
    for stranger in strangers:
        stranger.write_text("not ours")
    command = [sys.executable, "-c", WRITE_AND_WAIT, str(path), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        parts = {part for part in tmp_path.iterdir() if part not in (path, *strangers)}
        if kind == "named":
            monkeypatch.setattr("sagpool.graphs.cache._open_unnamed", lambda folder: None)
            (part,) = parts
            os.utime(part, (0, 0))
            with replacing(path) as file:  # while the other is still writing
                file.write(b"new")
            assert part.exists()
        process.kill()
    if kind == "named":
        os.utime(part, (0, 0))
        with replacing(path) as file:
            file.write(b"newer")
    assert {file.name for file in tmp_path.iterdir()} == {"copy", *(s.name for s in strangers)}
    assert path.read_text() == ("newer" if kind == "named" else "old")


@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_a_full_disk_names_the_file(tmp_path, kind, monkeypatch):
    if kind == "named":
        monkeypatch.setattr("sagpool.graphs.cache._open_unnamed", lambda folder: None)
    path = tmp_path / "copy"
    with pytest.raises(OSError, match=r"No space left on device: '.*copy'"), replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_a_link_is_replaced_and_its_target_left_alone(tmp_path, kind, monkeypatch):
    if kind == "named":
        monkeypatch.setattr("sagpool.graphs.cache._open_unnamed", lambda folder: None)
    precious, path = tmp_path / "precious", tmp_path / "copy"
    precious.write_text("a thesis")
    path.symlink_to(precious)
    with replacing(path) as file:
        file.write(b"new")
    assert (path.read_text(), precious.read_text()) == ("new", "a thesis")


def test_without_a_home_the_data_set_is_read_but_not_cached(small, monkeypatch, caplog):
    monkeypatch.delenv("SAGPOOL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: (_ for _ in ()).throw(KeyError(number)))
    assert len(load(small.folder)) == 4
    assert "SMALL was not cached" in caplog.text
    assert "Set SAGPOOL_CACHE to a folder." in caplog.text


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("col", lambda a: a + 50),
        ("col", lambda a: a - 50),
        ("col", lambda a: a[:-1]),
        ("degree", lambda a: a[::-1].copy()),
        ("node_counts", lambda a: a * 2**40),
        ("edge_counts", lambda a: -a),
        ("y", lambda a: a + 9),
        ("node_labels", lambda a: a - 9),
        ("node_attr", lambda a: a * np.nan),
        ("edge_labels", lambda a: a[1:]),
        ("edge_labels", lambda a: a[:, 1:]),
        ("y", lambda a: a.astype(np.float64)),
    ],
)
def test_arrays_that_do_not_fit_together_are_damage(small, packed, caplog, name, change):
    first = read(small.folder)
    with np.load(packed()[0]) as arrays:
        content = dict(arrays)
    content[name] = change(content[name])
    np.savez(packed()[0], **content)
    assert_same(read(small.folder), first)
    assert "is damaged" in caplog.text


LOAD_ON_INPUT = """
import sys, sagpool
print("ready", flush=True)
sys.stdin.readline()
print(len(sagpool.load(sys.argv[1])))
"""


def test_two_processes_at_once(small, packed, no_text):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD_ON_INPUT, str(small.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n", "ready\n"]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.communicate() == ("4\n", "")
        assert process.returncode == 0
    assert len(packed()) == 1
    no_text()
    assert len(load(small.folder)) == 4


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("SAGPOOL_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("SAGPOOL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "sagpool"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "sagpool"


def test_replaced_files_have_the_usual_mode(tmp_path):
    (tmp_path / "other").write_text("")
    with replacing(tmp_path / "mine") as file:
        file.write(b"content")
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "other").stat().st_mode
