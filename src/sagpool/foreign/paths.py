"""Paths as users write them."""

from pathlib import Path

from sagpool.errors import SagpoolError


def user_path(text: str | Path) -> Path:
    """A path with ``~`` expanded, if it can be one."""
    if "\0" in str(text):
        raise SagpoolError(f"{str(text)[:60]!r} is no path: it has a null character.")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SagpoolError(f"{text} cannot be found: the home folder is unknown.") from None
