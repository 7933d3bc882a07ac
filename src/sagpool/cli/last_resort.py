"""Unexpected errors: one line for the user; the traceback in a file, or above it if in a plugin."""

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
    plugin = _print_from_plugin(error)
    if plugin is None:
        return None
    return f"The plugin {plugin} failed ({first_line(error)}); its traceback is above."


def describe_method_error(error: MethodError) -> str:
    """Print the traceback as that of a plugin, or write it to a file; returns one line about it."""
    plugin = _print_from_plugin(error.__cause__ or error)
    where = _write_log(error) if plugin is None else "its traceback is above"
    return f"{str(error).removesuffix('.')}; {where}."


def describe_bug(error: BaseException) -> str:
    """Write the traceback of an unexpected error to a file; returns one line about it."""
    return f"This is a bug in sagpool ({first_line(error)}); {_write_log(error)}. Please report it."


def _print_from_plugin(error: BaseException) -> str | None:
    """Print the traceback from the first line in the code of a plugin; returns that plugin."""
    plugins = sys.modules.get("sagpool.models.plugins")
    at = error.__traceback__
    while plugins is not None and at is not None:
        plugin = plugins.plugin_with(at.tb_frame.f_code.co_filename)
        if plugin is not None:
            print("".join(traceback.format_exception(type(error), error, at)), file=sys.stderr)
            return plugin
        at = at.tb_next
    return None


def _write_log(error: BaseException) -> str:
    """Write the traceback to a file; returns in words where it is."""
    name = f"error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    command = f"arguments: {sys.argv[1:]!r}\n\n"
    text = command + "".join(traceback.format_exception(error))
    for folder in _folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / name
            with path.open("x", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return f"the traceback is in {path}"
        except OSError:
            continue
    return "its traceback could not be written"


def _folders() -> list[Path]:
    try:
        from sagpool.graphs.cache import cache_folder

        return [cache_folder() / "logs", Path(tempfile.gettempdir())]
    except Exception:  # the bug may be there, too
        return [Path(tempfile.gettempdir())]
