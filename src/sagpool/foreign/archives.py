"""Zips and ``.npz`` files: sizes are checked before anything is unpacked."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO

import numpy as np

from sagpool.errors import SagpoolError
from sagpool.foreign.limits import ANY_RATIO, RATIO, UNPACKED
from sagpool.foreign.values import DecodingError

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# All exceptions of `zipfile` for a file that is not a complete and plain zip.
_BAD_ZIP = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError),
)


class IncompleteZipError(DecodingError):
    """Not a zip, or a truncated one."""


@contextmanager
def zip_errors() -> Iterator[None]:
    """Raise the errors of `zipfile` as a `DecodingError`; errors of the disk pass through."""
    try:
        yield
    except (DecodingError, SagpoolError):
        raise
    except (NotImplementedError, RuntimeError) as error:
        # The format is newer, or there is a password.
        raise DecodingError(str(error).rstrip(".") or "it cannot be unpacked") from None
    except _BAD_ZIP as error:
        raise IncompleteZipError(f"it is not a complete zip file ({error})") from None
    except OSError as error:
        if error.errno is not None and error.strerror != "Invalid argument":
            raise
        # In a damaged zip, offsets can lie before the start of the file.
        raise IncompleteZipError("it is not a complete zip file") from None


def check_entries(entries: list[zipfile.ZipInfo], packed: int) -> None:
    """Refuse files that unpack to far more than usual, or are packed in unusual ways."""
    unpacked = sum(entry.file_size for entry in entries)
    most = max(ANY_RATIO, RATIO.most * packed)
    if unpacked > UNPACKED.most or unpacked > most:
        raised = UNPACKED if unpacked > UNPACKED.most else RATIO
        raise DecodingError(
            f"its {packed:,} bytes would unpack to {unpacked:,} ({raised.variable} raises this "
            "limit)"
        )
    for entry in entries:
        if entry.compress_size > packed or not 0 <= entry.header_offset < packed:
            # `zipfile` would allocate that much memory at once.
            raise IncompleteZipError("it is not a complete zip file")
        if entry.compress_type not in _METHODS:
            raise DecodingError(
                f"its entry {entry.filename[:60]!r} is compressed by method {entry.compress_type}; "
                "only deflate is read"
            )


def read_arrays(file: IO[bytes], only: str | None = None) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file, or only one of them.

    They hold plain numbers, and each has exactly the size in its header.
    """
    packed = file.seek(0, 2)
    file.seek(0)
    with zip_errors(), zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        check_entries(entries, packed)
        arrays = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name in arrays:
                raise DecodingError(f"its entry {entry.filename[:60]!r} is not an array")
            if only is not None and name != only:
                continue
            with archive.open(entry) as content:
                _check_header(content, entry)
            with archive.open(entry) as content:
                arrays[name] = np.lib.format.read_array(content, allow_pickle=False)
                if content.read(1):  # also compares the checksum, at the end of the entry
                    raise DecodingError(f"its array {name[:60]!r} has more numbers than it says")
        return arrays


def _check_header(content: IO[bytes], entry: zipfile.ZipInfo) -> None:
    """Check before allocating an array: a header of 100 bytes can claim any size."""
    what = f"its array {entry.filename[:60]!r}"
    try:
        version = np.lib.format.read_magic(content)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(content)
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise DecodingError(f"{what} has no valid header") from None
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise DecodingError(f"{what} holds {dtype}, not numbers")
    if any(size < 0 for size in shape):
        raise DecodingError(f"{what} has the shape {shape}")
    if prod(shape) * dtype.itemsize != entry.file_size - content.tell():
        raise DecodingError(f"{what} has another size than it says")
