"""The files of one TU data set, in a folder or in a zip that is read without unpacking it."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from sagpool.errors import SagpoolError

ADJACENCY = "_A.txt"

# A zip whose content is larger than this, or far larger than any real data set compresses to,
# is refused before anything of it is read.
MAX_UNPACKED = 8 * 2**30
MAX_RATIO = 100
SMALL = 64 * 2**20


class TUFiles(Protocol):
    """``NAME_A.txt``, ``NAME_graph_labels.txt``, ... wherever they lie."""

    @property
    def name(self) -> str: ...

    def has(self, kind: str) -> bool:
        """Whether there is a ``NAME_kind.txt``."""

    def read(self, kind: str) -> bytes:
        """The content of ``NAME_kind.txt``."""

    def label(self, kind: str) -> str:
        """How an error message calls ``NAME_kind.txt``."""

    def stamp(self) -> str:
        """Changes when the files change."""


def open_files(path: Path) -> TUFiles:
    """The data set in a zip, in a folder, or in the folder's ``raw`` folder."""
    if path.is_dir():
        return _Folder.open(path)
    if path.is_file():
        return _Zip.open(path)
    raise SagpoolError(f"There is no file or folder {path}.")


def holds_data(path: Path) -> bool:
    """Whether this looks like a TU data set, without reading it."""
    try:
        if path.suffix == ".zip":
            return path.is_file()
        return any(any(folder.glob("*" + ADJACENCY)) for folder in (path, path / "raw"))
    except PermissionError:
        return False


@dataclass(frozen=True)
class _Folder:
    name: str
    folder: Path

    @classmethod
    def open(cls, path: Path) -> "_Folder":
        for folder in (path, path / "raw"):
            names = sorted(f.name.removesuffix(ADJACENCY) for f in folder.glob("*" + ADJACENCY))
            if names:
                return cls(_the_one(names, str(folder)), folder)
        raise SagpoolError(f"{path} holds no data set: it has no file named NAME{ADJACENCY}.")

    def _file(self, kind: str) -> Path:
        return self.folder / f"{self.name}_{kind}.txt"

    def has(self, kind: str) -> bool:
        return self._file(kind).is_file()

    def read(self, kind: str) -> bytes:
        try:
            return self._file(kind).read_bytes()
        except FileNotFoundError:
            raise SagpoolError(f"{self.label(kind)} is missing.") from None
        except OSError as error:
            raise SagpoolError(f"{self.label(kind)} cannot be read: {error.strerror}.") from None

    def label(self, kind: str) -> str:
        return str(self._file(kind))

    def stamp(self) -> str:
        files = sorted(self.folder.glob(f"{self.name}_*.txt"))
        return "; ".join(_stamp(file) for file in files)


@dataclass(frozen=True)
class _Zip:
    name: str
    path: Path
    folder: str  # inside the zip, with its slash

    @classmethod
    def open(cls, path: Path) -> "_Zip":
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (zipfile.BadZipFile, EOFError):
            raise _damaged(path) from None
        except OSError as error:
            raise SagpoolError(f"{path} cannot be read: {error.strerror}.") from None
        _refuse_hostile(path, entries)
        # macOS adds a shadow of each file.
        names = [e.filename for e in entries if not e.filename.startswith("__MACOSX/")]
        found = sorted(name for name in names if name.endswith(ADJACENCY))
        if not found:
            raise SagpoolError(f"{path} holds no data set: it has no file named NAME{ADJACENCY}.")
        adjacency = _the_one(found, str(path))
        folder, slash, file = adjacency.rpartition("/")
        return cls(file.removesuffix(ADJACENCY), path, folder + slash)

    def _entry(self, kind: str) -> str:
        return f"{self.folder}{self.name}_{kind}.txt"

    def has(self, kind: str) -> bool:
        with zipfile.ZipFile(self.path) as archive:
            return self._entry(kind) in archive.namelist()

    def read(self, kind: str) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(self._entry(kind))
        except KeyError:
            raise SagpoolError(f"{self.label(kind)} is missing.") from None
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise _damaged(self.path) from None
        except (NotImplementedError, RuntimeError) as error:
            # An unknown compression method, or a password.
            raise SagpoolError(f"{self.path} cannot be unpacked: {error}.") from None

    def label(self, kind: str) -> str:
        return f"{self.path}: {self._entry(kind)}"

    def stamp(self) -> str:
        return _stamp(self.path)


def _the_one(names: list[str], where: str) -> str:
    if len(names) > 1:
        raise SagpoolError(f"{where} holds more than one data set: {', '.join(names)}.")
    return names[0]


def _refuse_hostile(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    for entry in entries:
        inside = PurePosixPath(entry.filename.replace("\\", "/"))
        if inside.is_absolute() or ".." in inside.parts or ":" in entry.filename:
            raise SagpoolError(
                f"{path} is refused: its entry '{entry.filename}' points outside the archive."
            )
    unpacked = sum(entry.file_size for entry in entries)
    packed = path.stat().st_size
    if unpacked > MAX_UNPACKED or (unpacked > SMALL and unpacked > MAX_RATIO * packed):
        raise SagpoolError(f"{path} is refused: its {packed:,} bytes would unpack to {unpacked:,}.")


def _damaged(path: Path) -> SagpoolError:
    return SagpoolError(f"{path} is not a complete zip file; fetch it again.")


def _stamp(file: Path) -> str:
    s = file.stat()
    # ctime too: a file put in place with its old mtime kept still counts as new.
    return f"{file.name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}"
