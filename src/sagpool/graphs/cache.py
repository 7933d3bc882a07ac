"""Cached arrays of TU data sets, so that text is parsed only once.

One ``.npz`` file of plain arrays for each source, read without unpickling. A file gets its name
only when it is complete: processes that read and write the same data set at the same time at worst
do the same work twice.
"""

import hashlib
import json
import logging
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import IO

import numpy as np

from sagpool.graphs.edge_cleaning import Repairs
from sagpool.graphs.features import RawGraphs
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import TUFiles

log = logging.getLogger("sagpool")

FORMAT = 1  # of the cache files; files of another format are ignored

_ARRAYS = {
    "node_counts": np.int64,
    "edge_counts": np.int64,
    "degree": np.int32,
    "col": np.int32,
    "y": np.int64,
    "node_labels": np.int32,
    "node_attr": np.float32,
    "edge_attr": np.float32,
}

# What NumPy and zipfile raise for damaged files.
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


def cache_folder() -> Path:
    """``SAGPOOL_CACHE``, or the user's standard cache folder."""
    if folder := os.environ.get("SAGPOOL_CACHE"):
        return Path(folder).expanduser()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "sagpool"


def read_cached(files: TUFiles, path: Path) -> RawGraphs:
    """Read the data set at ``path`` from the cache, or from text, which is then cached."""
    address = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    cached = cache_folder() / "packed" / f"{files.name}-{address}.npz"
    stamp = files.stamp()
    if (raw := _load_if_fresh(cached, stamp)) is not None:
        return raw
    raw = read_tu(files)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with replacing(cached) as file:
            save_raw(raw, file, stamp)
    except OSError as error:
        log.warning("%s was not cached: %s.", files.name, error)
    return raw


def save_raw(raw: RawGraphs, file: IO[bytes], stamp: str, *, compressed: bool = False) -> None:
    arrays = {name: getattr(raw, name) for name in _ARRAYS if getattr(raw, name) is not None}
    meta = {
        "format": FORMAT,
        "stamp": stamp,
        "name": raw.name,
        "class_names": raw.class_names,
        "node_label_names": raw.node_label_names,
        "repairs": asdict(raw.repairs),
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    (np.savez_compressed if compressed else np.savez)(file, **arrays)


def load_raw(file: IO[bytes], stamp: str) -> RawGraphs | None:
    """The cached graphs, or None if they have another format or are of another source."""
    with np.load(file, allow_pickle=False) as arrays:
        meta = json.loads(arrays["meta"].tobytes())
        if (meta["format"], meta["stamp"]) != (FORMAT, stamp):
            return None
        if unknown := set(arrays.files) - {"meta", *_ARRAYS}:
            # A damaged name; without this check its array would seem absent.
            raise ValueError(f"unknown arrays {sorted(unknown)}")
        present = {
            name: arrays[name].astype(dtype, copy=False)
            for name, dtype in _ARRAYS.items()
            if name in arrays
        }
    return RawGraphs(
        name=meta["name"],
        class_names=tuple(meta["class_names"]),
        node_label_names=tuple(tuple(names) for names in meta["node_label_names"]),
        repairs=Repairs(**{f.name: meta["repairs"][f.name] for f in fields(Repairs)}),
        **present,
    )


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that replaces ``path`` at the end, unless there was an exception."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        os.chmod(temporary, 0o666 & ~_umask())  # the usual mode; mkstemp's files are private
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o022)  # the mask can only be read by setting it
    os.umask(mask)
    return mask


def _load_if_fresh(cached: Path, stamp: str) -> RawGraphs | None:
    try:
        with cached.open("rb") as file:
            return load_raw(file, stamp)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except _DAMAGED as error:
        log.warning("%s is damaged (%s); reading the text again.", cached, error)
        return None
