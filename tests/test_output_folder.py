import json
import os
from contextlib import suppress

import pytest

from sagpool import SagpoolError
from sagpool.output_folder import MANIFEST, OutputFolder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def fill(folder, files, command="report", **options):
    output = OutputFolder(folder, command, **options)
    for name, content in files.items():
        output.write(name, content.encode())
    output.finish()


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    }


def test_files_of_an_earlier_call_are_replaced_or_removed(folder):
    fill(folder, {"page": "one", "figures/a": "a", "figures/b": "b"})
    fill(folder, {"page": "two", "figures/b": "b"})
    assert content(folder) == {"page": "two", "figures/b": "b"}


def test_an_empty_folder_and_hidden_files_are_accepted(folder):
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("mine")
    (folder / ".DS_Store").write_text("mine")
    (folder / "empty").mkdir()
    fill(folder, {"page": "one"})
    assert content(folder) == {".git/config": "mine", ".DS_Store": "mine", "page": "one"}


@pytest.mark.parametrize("name", ["notes.txt", "figures/mine", "data/table.csv", "page"])
def test_other_files_are_refused_and_stay(folder, name):
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(SagpoolError, match=f"holds {name}, which is not known .* --force"):
        OutputFolder(folder, "report")
    assert content(folder) == {name: "mine"}
    fill(folder, {"page": "ours", "figures/a": "a"}, force=True)
    assert content(folder) == {name: "mine", "page": "ours", "figures/a": "a"} | (
        {"page": "ours"} if name == "page" else {}
    )
    fill(folder, {"page": "again"}, force=True)
    assert content(folder) == {"page": "again"} | ({name: "mine"} if name != "page" else {})


def test_a_file_that_the_user_has_changed_is_noticed(folder):
    fill(folder, {"page": "one", "old": "old"})
    (folder / "page").write_text("mine")
    (folder / "old").write_text("mine, too")
    with pytest.raises(SagpoolError, match=r"was changed after sagpool had written it; .* --force"):
        OutputFolder(folder, "report")
    fill(folder, {"page": "two"}, force=True)
    assert content(folder) == {"page": "two", "old": "mine, too"}


def test_a_file_that_comes_later_is_not_overwritten(folder):
    output = OutputFolder(folder, "report")
    output.create()
    (folder / "page").write_text("mine")
    with pytest.raises(SagpoolError, match="holds page, which"):
        output.write("page", b"ours")
    assert content(folder) == {"page": "mine"}


def test_commands_share_a_folder(folder):
    fill(folder, {"page": "one", "figures/a": "a"})
    fill(folder, {"index": "one", "figures/b": "b"}, "explain")
    (folder / "figures/b").unlink()
    fill(folder, {"page": "two"})
    fill(folder, {"index": "two"}, "explain")
    assert content(folder) == {"page": "two", "index": "two"}
    with pytest.raises(SagpoolError, match=r"holds page, which is not known .* `sagpool explain`"):
        fill(folder, {"page": "mine"}, "explain")
    assert content(folder) == {"page": "two", "index": "two"}


def test_two_commands_at_a_time(folder):
    one, other = OutputFolder(folder, "demo"), OutputFolder(folder, "report")
    one.write("picture", b"p")
    other.write("page", b"one")
    other.finish()
    one.finish()
    fill(folder, {"page": "two"})
    assert content(folder) == {"picture": "p", "page": "two"}


@pytest.mark.parametrize("again", [{"page": "two", "b": "b"}, {"page": "three"}])
@pytest.mark.parametrize("step", range(8))
def test_a_kill_at_any_moment(folder, monkeypatch, step, again):
    """Each file then has its old or its new content, and all of them are known to be ours."""
    fill(folder, {"page": "one", "a": "a"})
    calls = iter(range(100))

    class KilledError(BaseException):
        pass

    def killed(function):
        def call(*arguments, **options):
            if next(calls) == step:
                raise KilledError
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch, suppress(KilledError):
        for name in ("replace", "fdopen", "unlink"):
            patch.setattr(os, name, killed(getattr(os, name)))
        fill(folder, {"page": "two", "b": "b"})
    assert (next(calls) > step) == (step < 7)
    fill(folder, again)
    assert content(folder) == again


def test_a_torn_last_line(folder):
    fill(folder, {"page": "one"})
    with (folder / MANIFEST).open("ab") as file:
        file.write(b'\n{"file": "pa')
    fill(folder, {"page": "two"})
    assert content(folder) == {"page": "two"}


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "3",
        '{"file": "a"}',
        json.dumps({"file": "../mine", "command": "report", "sha256": None}),
        json.dumps({"file": "/mine", "command": "report", "sha256": None}),
        json.dumps({"file": 3, "command": "report", "sha256": None}),
        json.dumps({"file": "a", "command": "report", "sha256": []}),
        "[" * 100_000,
    ],
)
def test_a_damaged_manifest(folder, line):
    folder.mkdir()
    (folder.parent / "mine").write_text("mine")
    (folder / MANIFEST).write_text(line + "\n")
    (folder / "a").write_text("mine")
    with pytest.raises(SagpoolError, match=r"holds a, which is not|a was changed"):
        OutputFolder(folder, "report")
    fill(folder, {"page": "one"}, force=True)
    assert content(folder.parent) == {"mine": "mine", "out/a": "mine", "out/page": "one"}


def test_links_are_not_followed(folder, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "a").write_text("a")
    (tmp_path / "target").write_text("one")
    fill(folder, {"page": "one", "figures/a": "a"})
    (folder / "page").unlink()
    (folder / "page").symlink_to(tmp_path / "target")
    with pytest.raises(SagpoolError, match="page was changed"):
        OutputFolder(folder, "report")
    fill(folder, {"page": "two", "figures/a": "a"}, force=True)
    assert (tmp_path / "target").read_text() == "one"
    (folder / "figures" / "a").unlink()
    (folder / "figures").rmdir()
    (folder / "figures").symlink_to(tmp_path / "precious")
    with pytest.raises(SagpoolError, match="holds figures, which"):
        OutputFolder(folder, "report")
    fill(folder, {"page": "three"}, force=True)
    assert (tmp_path / "precious" / "a").read_text() == "a"


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    fill(folder, {"page": "one"})
    fill(folder, {"page": "two"})
    assert content(tmp_path / "elsewhere") == {"page": "two"}


def test_a_manifest_that_is_a_link(folder, tmp_path):
    folder.mkdir()
    (tmp_path / "mine").write_text("")
    (folder / MANIFEST).symlink_to(tmp_path / "mine")
    with pytest.raises(SagpoolError, match="is a link"):
        OutputFolder(folder, "report")


def test_the_store_may_be_in_the_folder(folder):
    folder.mkdir()
    (folder / "runs.sqlite").write_text("rows")
    (folder / "runs.sqlite-checkpoints").mkdir()
    (folder / "runs.sqlite-checkpoints" / "a.npz").write_text("a")
    with pytest.raises(SagpoolError, match=r"holds runs\.sqlite"):
        OutputFolder(folder, "report", beside=folder.parent / "runs.sqlite")
    OutputFolder(folder, "report", beside=folder / "runs.sqlite")
    (folder / "other").write_text("mine")
    with pytest.raises(SagpoolError, match="holds other"):
        OutputFolder(folder, "report", beside=folder / "runs.sqlite")


def test_reserved_files_are_removed_whatever_their_content(folder):
    output = OutputFolder(folder, "train")
    output.reserve("checkpoint").write_text("one")
    again = OutputFolder(folder, "train")
    again.reserve("checkpoint").write_text("two")
    again.write("model", b"weights")
    again.finish()
    assert content(folder) == {"model": "weights"}


def test_what_cannot_be_written_is_named(folder):
    output = OutputFolder(folder, "report")
    (folder / "page").mkdir(parents=True)
    with pytest.raises(SagpoolError, match="cannot be written: Is a directory"):
        OutputFolder(folder, "report", force=True).write("page", b"")
    (folder / "figures").write_text("mine")
    with pytest.raises(SagpoolError, match=r"figures.* cannot be written: "):
        output.write("figures/a", b"")
