"""Files that cannot be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sagpool.errors import SagpoolError


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the operating system refuses into a `SagpoolError`."""
    try:
        yield
    except OSError as error:
        raise SagpoolError(
            f"{error.filename or folder} cannot be written: {error.strerror}."
        ) from None
