"""The files of one TU data set, in a folder or in a zip, which is read without unpacking it."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sagpool.errors import SagpoolError
from sagpool.foreign.archives import IncompleteZipError, check_entries, zip_errors
from sagpool.foreign.values import DecodingError

ADJACENCY = "_A.txt"


@dataclass(frozen=True)
class TUFiles:
    """``NAME_A.txt``, ``NAME_graph_labels.txt``, ... of one data set."""

    name: str  # NAME
    path: Path  # the folder that contains the files, or the zip
    inside: str | None = None  # folder inside the zip, with its slash; None if path is a folder

    def has(self, kind: str) -> bool:
        """Whether there is a ``NAME_kind.txt``."""
        if self.inside is None:
            return (self.path / self._file(kind)).is_file()
        with _opened(self.path) as archive:
            return self._file(kind) in archive.namelist()

    def read(self, kind: str) -> bytes:
        """The content of ``NAME_kind.txt``."""
        try:
            if self.inside is None:
                return (self.path / self._file(kind)).read_bytes()
            with _opened(self.path) as archive:
                if self._file(kind) not in archive.namelist():
                    raise SagpoolError(f"{self.label(kind)} is missing.")
                return archive.read(self._file(kind))
        except FileNotFoundError:
            raise SagpoolError(f"{self.label(kind)} is missing.") from None
        except OSError as error:
            raise SagpoolError(f"{self.label(kind)} cannot be read: {error.strerror}.") from None

    def label(self, kind: str) -> str:
        """The name of ``NAME_kind.txt`` in error messages."""
        file = self._file(kind)
        return str(self.path / file) if self.inside is None else f"{self.path}: {file}"

    def stamp(self) -> str:
        """A text that changes when the files change."""
        zipped = self.inside is not None
        files = [self.path] if zipped else sorted(self.path.glob(f"{self.name}_*.txt"))
        return "; ".join(_stamp(file) for file in files)

    def _file(self, kind: str) -> str:
        return f"{self.inside or ''}{self.name}_{kind}.txt"


def open_files(path: Path) -> TUFiles:
    """The data set in a zip, in a folder, or in the folder's ``raw`` folder."""
    if path.is_dir():
        for folder in (path, path / "raw"):
            if found := sorted(file.name for file in folder.glob("*" + ADJACENCY)):
                names = [name.removesuffix(ADJACENCY) for name in found]
                return TUFiles(_only_name(names, folder), folder)
        raise _no_data(path)
    if path.is_file():
        return _open_zip(path)
    raise SagpoolError(f"There is no file or folder {path}.")


def holds_data(path: Path) -> bool:
    """Whether this looks like a TU data set, without reading it."""
    try:
        if path.suffix == ".zip":
            return path.is_file()
        return any(any(folder.glob("*" + ADJACENCY)) for folder in (path, path / "raw"))
    except PermissionError:
        return False


def _open_zip(path: Path) -> TUFiles:
    with _opened(path) as archive:
        entries = archive.infolist()
        _refuse_paths(path, entries)
        check_entries(entries, path.stat().st_size)
    # macOS adds a metadata file for each file.
    names = [e.filename for e in entries if not e.filename.startswith("__MACOSX/")]
    if not (found := sorted(name for name in names if name.endswith(ADJACENCY))):
        raise _no_data(path)
    folder, slash, file = _only_name(found, path).rpartition("/")
    return TUFiles(file.removesuffix(ADJACENCY), path, folder + slash)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zip_errors(), zipfile.ZipFile(path) as archive:
            yield archive
    except IncompleteZipError:
        raise SagpoolError(f"{path} is not a complete zip file; fetch it again.") from None
    except DecodingError as error:
        raise SagpoolError(f"{path} is refused: {error}.") from None


def _only_name(names: list[str], where: Path) -> str:
    if len(names) > 1:
        raise SagpoolError(f"{where} holds more than one data set: {', '.join(names)}.")
    return names[0]


def _refuse_paths(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    for entry in entries:
        inside = PurePosixPath(entry.filename.replace("\\", "/"))
        if inside.is_absolute() or ".." in inside.parts or ":" in entry.filename:
            raise SagpoolError(
                f"{path} is refused: its entry '{entry.filename}' points outside the archive."
            )


def _no_data(path: Path) -> SagpoolError:
    return SagpoolError(f"{path} holds no data set: it has no file named NAME{ADJACENCY}.")


def _stamp(file: Path) -> str:
    s = file.stat()
    # ctime detects a replaced file whose mtime was preserved.
    return f"{file.name} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}"
