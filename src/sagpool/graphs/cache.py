"""Cached arrays of TU data sets, so that text is parsed only once.

One ``.npz`` file of plain arrays for each source, read without unpickling. A file gets its name
only when it is complete, so processes that use the same data set at the same time at worst do the
same work twice.
"""

import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.archives import read_arrays
from sagpool.foreign.paths import user_path
from sagpool.foreign.values import DecodingError, decode, parse_json
from sagpool.graphs.edge_cleaning import Repairs
from sagpool.graphs.raw_checks import check_raw
from sagpool.graphs.raw_graphs import Labels, RawGraphs
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import TUFiles

log = logging.getLogger("sagpool")

FORMAT = 2  # version of the cache files; other versions are ignored

_ARRAYS = {
    "node_counts": np.int64,
    "edge_counts": np.int64,
    "degree": np.int32,
    "col": np.int32,
    "y": np.int64,
    "node_labels": np.int32,
    "node_attr": np.float32,
    "edge_labels": np.int32,  # [titles, edges]
    "edge_attr": np.float32,
}


class _Meta(NamedTuple):
    format: int
    stamp: str
    name: str
    class_names: tuple[str, ...]
    node_label_names: tuple[tuple[str, ...], ...]
    edge_label_names: dict[str, tuple[str, ...]]  # by title
    repairs: Repairs


def cache_folder() -> Path:
    """``SAGPOOL_CACHE``, or the user's standard cache folder."""
    if folder := os.environ.get("SAGPOOL_CACHE"):
        return user_path(folder)
    home = os.environ.get("XDG_CACHE_HOME") or user_path("~/.cache")
    return Path(home) / "sagpool"


def read_cached(files: TUFiles, path: Path) -> RawGraphs:
    """Read the data set at ``path`` from the cache, or from text, which is then cached."""
    address = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    try:
        cached = cache_folder() / "packed" / f"{files.name}-{address}.npz"
    except SagpoolError as error:
        log.warning("%s was not cached: %s Set SAGPOOL_CACHE to a folder.", files.name, error)
        return read_tu(files)
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
    codes = [labels.code for labels in raw.edge_labels]
    arrays = {name: getattr(raw, name) for name in _ARRAYS if name != "edge_labels"}
    arrays["edge_labels"] = np.stack(codes) if codes else None
    arrays = {name: array for name, array in arrays.items() if array is not None}
    meta = {
        "format": FORMAT,
        "stamp": stamp,
        "name": raw.name,
        "class_names": raw.class_names,
        "node_label_names": raw.node_label_names,
        "edge_label_names": {labels.title: labels.names for labels in raw.edge_labels},
        "repairs": asdict(raw.repairs),
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    (np.savez_compressed if compressed else np.savez)(file, **arrays)


def load_raw(file: IO[bytes], stamp: str) -> RawGraphs | None:
    """The cached graphs; None if the file has another format or belongs to another source."""
    arrays = read_arrays(file)
    if "meta" not in arrays:
        raise DecodingError("its description is missing")
    described = parse_json(arrays.pop("meta").tobytes())
    if isinstance(described, dict) and described.get("format") != FORMAT:
        return None
    meta = decode(_Meta, described, "the description")
    if meta.stamp != stamp:
        return None
    if unknown := arrays.keys() - _ARRAYS.keys():
        # The name of an array is damaged; without this check the array would seem absent.
        raise DecodingError(f"unknown arrays {sorted(unknown)}")
    present: dict[str, Any] = {}
    for name, array in arrays.items():
        if not np.can_cast(array.dtype, _ARRAYS[name]):
            raise DecodingError(f"{name} holds {array.dtype}")
        present[name] = array.astype(_ARRAYS[name], copy=False)
    for name in ("node_counts", "edge_counts", "degree", "col"):
        if name not in present:
            raise DecodingError(f"{name} is missing")
    codes, edge_labels = present.pop("edge_labels", ()), meta.edge_label_names.items()
    if len(codes) != len(edge_labels):
        raise DecodingError("edge_labels does not fit its names")
    return check_raw(
        RawGraphs(
            name=meta.name,
            class_names=meta.class_names,
            node_label_names=meta.node_label_names,
            edge_labels=tuple(
                Labels(title, code, names)
                for code, (title, names) in zip(codes, edge_labels, strict=True)
            ),
            repairs=meta.repairs,
            **present,
        )
    )


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that replaces ``path`` at the end, unless there was an exception.

    Until then it has no name, if the file system allows that, so nothing is left behind however the
    process ends. Otherwise it is ``.NAME.….part``; if a killed process leaves it, the next writer
    of ``path`` removes it.
    """
    part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        handle, named = _open_unnamed(path.parent), False
        if handle is None:
            _remove_stale(path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            handle, named = os.open(part, flags, 0o666), True
            _lock(handle)
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            if not named:
                _give_name(file, part)
            os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.filename is None and error.errno:
            error.filename = str(path)  # the error of a full disk does not name the file
        raise


def _open_unnamed(folder: Path) -> int | None:
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENOENT, errno.ENOTDIR):
            raise
        return None


def _give_name(file: IO[bytes], part: Path) -> None:
    try:
        # With src_dir_fd, Python follows the link in /proc; without it, it should but does not.
        os.link(f"/proc/self/fd/{file.fileno()}", part, src_dir_fd=file.fileno())
    except OSError:
        file.seek(0)
        with part.open("xb") as copy:
            shutil.copyfileobj(file, copy)


def _lock(handle: int) -> bool:
    """Whether no other process has this file locked; the lock ends with the process."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_stale(path: Path) -> None:
    pattern = re.compile(rf"\.{re.escape(path.name[:200])}\.[0-9a-f]{{8}}\.part")
    for part in path.parent.iterdir():
        if not pattern.fullmatch(part.name):
            continue
        with suppress(OSError):
            handle = os.open(part, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                # A writer locks its file a moment after it has made it.
                old = time.time() - os.fstat(handle).st_mtime > 1
                if old and _lock(handle):
                    part.unlink()
            finally:
                os.close(handle)


def _load_if_fresh(cached: Path, stamp: str) -> RawGraphs | None:
    try:
        with cached.open("rb") as file:
            return load_raw(file, stamp)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (DecodingError, OSError, MemoryError) as error:
        log.warning("%s is damaged (%s); reading the text again.", cached, error)
        return None
