"""Unexpected errors: one line for the user; the traceback in a file, or of a plugin, above it."""

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from sagpool.errors import MethodError, first_line

BUG = 70  # exit code for an error in the program itself, as in sysexits.h


def describe_plugin_error(error: BaseException) -> str | None:
    """Print the traceback of an error in the code of a plugin; returns one line about it."""
    cause = error.__cause__ if isinstance(error, MethodError) and error.__cause__ else error
    plugins = sys.modules.get("sagpool.models.plugins")
    at, plugin = cause.__traceback__, None
    while plugins is not None and at is not None:
        plugin = plugins.plugin_with(at.tb_frame.f_code.co_filename)
        if plugin is not None:
            break
        at = at.tb_next
    if plugin is None:
        return None
    print("".join(traceback.format_exception(type(cause), cause, at)), file=sys.stderr)
    if isinstance(error, MethodError):
        return f"{str(error).removesuffix('.')}; its traceback is above."
    return f"The plugin {plugin} failed ({first_line(error)}); its traceback is above."


def describe_bug(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file; returns one line about it."""
    log = _write_log(error)
    where = f"the traceback is in {log}" if log else "its traceback could not be written"
    return f"This is a bug in sagpool ({first_line(error)}); {where}. Please report it."


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
