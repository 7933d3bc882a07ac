"""A lock that gives each run store a single writer."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sagpool.errors import SagpoolError


@contextmanager
def writer_lock(store: Path) -> Iterator[None]:
    """Hold the store's lock; it is released however the process ends.

    The lock is a separate file beside the store: SQLite's own locks last only for a transaction,
    and are lost if the process opens and closes the same file a second time.
    """
    if store.is_dir():
        raise SagpoolError(f"{store} is a folder; a run store is a file.")
    path = store.with_name(f"{store.name}-lock")
    descriptor = _acquire(path, store)
    try:
        os.ftruncate(descriptor, 0)  # `_acquire` has checked that it holds nothing else
        os.write(descriptor, str(os.getpid()).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, store: Path) -> int:
    try:
        import fcntl
    except ImportError:  # Windows
        raise SagpoolError("Run stores need file locks, which Windows lacks; use WSL.") from None
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            if path.is_symlink():
                raise SagpoolError(f"{path} is a symbolic link, not a lock; remove it.") from None
            raise SagpoolError(f"{store} cannot be written: {error.strerror}.") from None
        if not _is_lock(descriptor):
            os.close(descriptor)
            raise SagpoolError(f"{path} is not a lock of sagpool; remove it, or rename the store.")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace") or "?"
            os.close(descriptor)
            raise SagpoolError(
                f"{store} is being written by another process (number {holder}); wait for it, or "
                "name another store."
            ) from None
        # The previous holder may have removed the file between the two calls.
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        os.close(descriptor)


def _is_lock(descriptor: int) -> bool:
    """Whether this is a regular file that is empty or holds a process number."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or status.st_size > 20:
        return False
    content = os.pread(descriptor, 20, 0)
    return not content or content.isdigit()
