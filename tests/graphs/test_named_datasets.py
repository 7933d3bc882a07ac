"""Named data sets: in SAGPOOL_DATA, in the cache folder, from a local server."""

import contextlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.named_datasets import find_dataset, list_datasets


@contextlib.contextmanager
def serving(body: bytes, *, status: int | None = 200, length: int | None = None) -> Iterator[str]:
    """The address of a server that gives the same answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if status is not None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body) if length is None else length))
                self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch):
    """Replaces the address of the official site."""
    return lambda url: monkeypatch.setattr(
        "sagpool.graphs.named_datasets.official_site", lambda: url
    )


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_download_is_cached(small, site, cache):
    archive = small.zip().read_bytes()
    with serving(archive) as url:
        site(url)
        assert len(load("SMALL")) == 4
    place = cache / "downloads" / "SMALL.zip"
    assert files_in(cache / "downloads") == ["SMALL.zip", "SMALL.zip.sha256"]
    assert place.read_bytes() == archive
    assert list_datasets() == [place]
    assert find_dataset("SMALL") == place  # the server has stopped


def test_a_download_that_has_changed_since_is_refused(small, site, cache):
    with serving(small.zip().read_bytes()) as url:
        site(url)
        load("SMALL")
    place = cache / "downloads" / "SMALL.zip"
    small.change("graph_labels", 1, "7")  # a zip that is complete, but another one
    place.write_bytes(small.zip().read_bytes())
    with pytest.raises(SagpoolError, match=r"SMALL\.zip has changed since it was downloaded"):
        load("SMALL")


def test_a_download_with_a_damaged_file_is_refused(small, site, cache):
    content = bytearray(small.zip().read_bytes())
    content[content.index(b"SMALL_A.txt") + 20] ^= 255  # in the compressed text
    with serving(bytes(content)) as url:
        site(url)
        with pytest.raises(SagpoolError, match="is not a complete zip file; try again"):
            load("SMALL")
    assert files_in(cache / "downloads") == []


@pytest.mark.parametrize(
    ("part", "status", "length", "message"),
    [
        (slice(None), 404, None, "the server answered 404 Not Found"),
        (slice(0, 300), 200, 10_000, "is not a complete zip file; try again"),
        (slice(0, 300), 200, None, "is not a complete zip file; try again"),
        (slice(0, 0), 200, None, "is not a complete zip file; try again"),
    ],
    ids=["not-found", "cut-off", "not-a-zip", "empty"],
)
def test_a_failed_download_leaves_nothing(
    small, site, cache, capsys, part, status, length, message
):
    with serving(small.zip().read_bytes()[part], status=status, length=length) as url:
        site(url)
        with pytest.raises(SagpoolError, match=message):
            load("SMALL")
    assert files_in(cache) == []
    assert capsys.readouterr().err == ""  # the progress bar is for terminals only


def test_a_server_that_does_not_speak_http(site, cache):
    with serving(b"hello", status=None) as url:
        site(url)
        with pytest.raises(SagpoolError, match=r"No data set 'SMALL': .*hello"):
            load("SMALL")
    assert files_in(cache) == []


def test_the_error_for_an_unknown_name_lists_where_it_looked(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("SAGPOOL_DATA", os.pathsep.join([str(tmp_path), "/no/such/folder"]))
    with pytest.raises(SagpoolError) as error:
        load("NOPE")
    message = str(error.value)
    assert message.startswith(
        f"No data set 'NOPE': it is not built in, not in SAGPOOL_DATA "
        f"({tmp_path}, /no/such/folder (no such folder)), not in {cache / 'downloads'}, "
        f"and cannot be downloaded from http://127.0.0.1:1/NOPE.zip ("
    )
    assert message.endswith("Set SAGPOOL_DATA to the folder that contains NOPE/ or NOPE.zip.")
    monkeypatch.delenv("SAGPOOL_DATA")
    with pytest.raises(SagpoolError, match=r"not in SAGPOOL_DATA \(not set\)"):
        load("NOPE")
    assert files_in(cache) == []


@pytest.mark.parametrize("name", ["../SMALL", "a/b", ".hidden", "", "a b", "x?y", "C:x"])
def test_a_name_cannot_be_a_path(name):
    with pytest.raises(SagpoolError, match="is neither an existing path nor the name"):
        find_dataset(name)


def test_folders_are_searched_in_order(small, monkeypatch, tmp_path):
    first = tmp_path / "first"
    first.mkdir()
    folders = [str(first), "", str(small.folder.parent)]
    monkeypatch.setenv("SAGPOOL_DATA", os.pathsep.join(folders))
    assert find_dataset("SMALL") == small.folder
    small.zip().rename(first / "SMALL.zip")
    assert find_dataset("SMALL") == first / "SMALL.zip"
    assert list_datasets() == [first / "SMALL.zip", small.folder]


def test_a_folder_is_preferred_to_a_zip(small, monkeypatch):
    small.zip()
    monkeypatch.setenv("SAGPOOL_DATA", str(small.folder.parent))
    assert find_dataset("SMALL") == small.folder


@pytest.mark.parametrize("written", ["small", "Small"])
def test_case_does_not_matter(small, monkeypatch, written):
    monkeypatch.setenv("SAGPOOL_DATA", str(small.folder.parent))
    assert find_dataset(written).resolve() == small.folder.resolve()


@pytest.mark.parametrize("written", ["D&D", "d&d", "DD"])
def test_dd_has_two_names(small, monkeypatch, written):
    small.zip().rename(small.folder.parent / "DD.zip")
    monkeypatch.setenv("SAGPOOL_DATA", str(small.folder.parent))
    assert find_dataset(written) == small.folder.parent / "DD.zip"


def test_a_raw_folder_is_found(small, monkeypatch):
    outer = small.folder.with_name("OUTER")
    outer.mkdir()
    small.folder.rename(outer / "raw")
    monkeypatch.setenv("SAGPOOL_DATA", str(outer.parent))
    assert len(load("OUTER")) == 4
