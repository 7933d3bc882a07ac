"""Unexpected errors: one line for the user, the traceback in a file."""

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

BUG = 70  # exit code for an error in the program itself, as in sysexits.h


def describe_bug(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file; returns one line about it."""
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    what = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    log = _write_log(error)
    where = f"the traceback is in {log}" if log else "its traceback could not be written"
    return f"This is a bug in sagpool ({what}); {where}. Please report it."


def _write_log(error: BaseException) -> Path | None:
    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    command = f"arguments: {sys.argv[1:]!r}\n\n"
    text = command + "".join(traceback.format_exception(error))
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return path
        except OSError:
            continue
    return None


def _folders() -> list[Path]:
    try:
        from sagpool.graphs.cache import cache_folder

        return [cache_folder() / "logs", Path(tempfile.gettempdir())]
    except Exception:  # the bug may be there, too
        return [Path(tempfile.gettempdir())]
