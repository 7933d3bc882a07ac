"""One writer for each store."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sagpool.errors import SagpoolError


@contextmanager
def only_writer(store: Path) -> Iterator[None]:
    """Hold the store's lock; a process that ends in any way lets go of it.

    The lock is a file of its own beside the store: SQLite's own locks are only held for the length
    of a transaction, and would be lost if somebody else opened and closed the same file.
    """
    if store.is_dir():
        raise SagpoolError(f"{store} is a folder; a run store is a file.")
    path = store.with_name(f"{store.name}-lock")
    descriptor = _take(path, store)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take(path: Path, store: Path) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise SagpoolError(f"{store} cannot be written: {error.strerror}.") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace")
            os.close(descriptor)
            raise SagpoolError(
                f"{store} is being written by another process (number {holder or '?'}); wait for "
                "it, or "
                "name another store."
            ) from None
        # The one before us may have removed the file between our two calls.
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        os.close(descriptor)
