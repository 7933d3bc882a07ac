"""Folders for the results of a command, in which no file of the user is overwritten or deleted.

A hidden manifest in the folder lists the files that sagpool wrote, with their checksums. It is a
journal: a line is appended before each file is written, so that after a kill at any moment every
file of ours is listed. Several commands may share a folder; each replaces only its own files.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from sagpool.errors import SagpoolError
from sagpool.graphs.cache import replacing

MANIFEST = ".sagpool-manifest.jsonl"
FORCE = "name another folder, or add --force, which overwrites files of the same names"


@dataclass
class Entry:
    """A file that a command wrote."""

    command: str
    # Checksums of all contents that it may have if the command was killed; None for any content.
    checksums: set[str | None] = field(default_factory=set)


class OutputFolder:
    """A folder that a command may write into.

    A folder with files other than those of earlier commands is refused. Hidden files do not count:
    of ours, only the manifest is hidden.

    Args:
        path: the folder; it need not exist
        command: name of the command; files of its earlier calls are replaced
        force: whether to accept other files, and to overwrite files of the same names
        beside: a file, such as a run store, that may be in the folder, with other files whose names
            begin with its name
    """

    def __init__(
        self, path: Path, command: str, *, force: bool = False, beside: Path | None = None
    ) -> None:
        self.path, self.command, self.force = path, command, force
        self.written: dict[str, str] = {}  # checksums, by name
        if path.exists() and not path.is_dir():
            raise SagpoolError(f"{path} is a file, not a folder.")
        self.known = self._read_manifest()
        if not force:
            with _naming(path):
                expected = beside.name if beside and _same(path, beside.parent) else "/"
                for name in _files_in(path):
                    if not name.startswith(expected):
                        self._check(name)

    def create(self) -> None:
        """Create the folder; otherwise the first `write` does."""
        with _naming(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def reserve(self, name: str) -> Path:
        """A file whose content changes, such as a checkpoint; `finish` removes it."""
        self._note(name, None)
        return self.path / name

    def write(self, name: str, data: bytes) -> Path:
        """Write a file; ``name`` is relative to the folder, with slashes."""
        target = self.path / name
        if not self.force and os.path.lexists(target):
            self._check(name, overwrite=True)  # again, because the file may be new
        checksum = hashlib.sha256(data).hexdigest()
        self._note(name, checksum)
        with _naming(target):
            target.parent.mkdir(exist_ok=True)
            with replacing(target) as file:
                file.write(data)
        self.written[name] = checksum
        return target

    def finish(self) -> None:
        """Remove the files of an earlier call that were not written again."""
        # Includes the files of commands that were called meanwhile.
        self.known = self._read_manifest()
        for name, entry in self.known.items():
            if entry.command == self.command and name not in self.written and self._is_ours(name):
                with _naming(self.path / name):
                    (self.path / name).unlink(missing_ok=True)
        others = [
            _line(name, entry.command, checksum)
            for name, entry in self.known.items()
            if entry.command != self.command and name not in self.written
            for checksum in sorted(entry.checksums, key=str)
        ]
        ours = [_line(name, self.command, checksum) for name, checksum in self.written.items()]
        manifest = self.path / MANIFEST
        with _naming(manifest), replacing(manifest) as file:
            file.write(b"".join([*others, *ours]))

    def abandon(self) -> None:
        """After an error: remove the folder if it holds only the manifest."""
        with suppress(OSError):
            if [path.name for path in self.path.iterdir()] == [MANIFEST]:
                (self.path / MANIFEST).unlink()
                self.path.rmdir()

    def _check(self, name: str, *, overwrite: bool = False) -> None:
        """Raise an error if a file of the folder is not ours; other commands own theirs."""
        entry = self.known.get(name)
        if entry is None or (overwrite and entry.command != self.command):
            raise SagpoolError(
                f"{self.path} holds {name}, which is not known to be from an earlier `sagpool "
                f"{self.command}`; {FORCE}."
            )
        if entry.command == self.command and not self._is_ours(name):
            raise SagpoolError(
                f"{self.path / name} was changed after sagpool had written it; {FORCE}."
            )

    def _is_ours(self, name: str) -> bool:
        """Whether a file that this command wrote is unchanged, or gone."""
        path, checksums = self.path / name, self.known[name].checksums
        if any(one.is_symlink() for one in (path, *path.parents[: name.count("/")])):
            return False
        try:
            if None in checksums and path.is_file():
                return True
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() in checksums
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _note(self, name: str, checksum: str | None) -> None:
        """Append a line to the manifest."""
        self.create()
        manifest = self.path / MANIFEST
        with _naming(manifest), manifest.open("ab") as file:
            file.write(_line(name, self.command, checksum))
        _add(self.known, name, self.command, checksum)

    def _read_manifest(self) -> dict[str, Entry]:
        manifest = self.path / MANIFEST
        with _naming(manifest, "read"):
            if manifest.is_symlink():
                raise SagpoolError(f"{manifest} is a link; remove it, or name another folder.")
            try:
                lines = manifest.read_bytes().split(b"\n")
            except (FileNotFoundError, NotADirectoryError):
                return {}
        known: dict[str, Entry] = {}
        for line in lines:
            # A file whose line is torn or damaged does not count as ours.
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                entry = json.loads(line)
                _add(known, *(entry[key] for key in ("file", "command", "sha256")))
        return known


def _same(folder: Path, other: Path) -> bool:
    return folder.exists() and other.exists() and folder.samefile(other)


def _add(known: dict[str, Entry], name: Any, command: Any, checksum: Any) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or not isinstance(command, str):
        raise ValueError("not a file of the folder")
    if name not in known or known[name].command != command:
        known[name] = Entry(command)
    known[name].checksums.add(checksum)


def _line(name: str, command: str, checksum: str | None) -> bytes:
    # The line break comes first, so that the line is not joined to a torn one.
    return b"\n" + json.dumps({"file": name, "command": command, "sha256": checksum}).encode()


def _files_in(folder: Path) -> Iterator[str]:
    """Names of all files, and of links to folders, that are not hidden."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for root, folders, files in os.walk(folder, onerror=refuse):
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files + links):
            if not name.startswith("."):
                yield (Path(root) / name).relative_to(folder).as_posix()


@contextmanager
def _naming(path: Path, what: str = "written") -> Iterator[None]:
    """Turn errors of the operating system into a sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise SagpoolError(
            f"{error.filename or path} cannot be {what}: {error.strerror}."
        ) from None
