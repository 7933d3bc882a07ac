"""``sagpool``: runs a command and prints its errors."""

import io
import logging
import os
import sys

from sagpool.cli.last_resort import BUG, describe_bug, describe_method_error, describe_plugin_error
from sagpool.errors import MethodError, SagpoolError, is_out_of_memory
from sagpool.termination import TERMINATED, Terminated, sigterm_raises


def main() -> None:
    logging.basicConfig(format="sagpool: %(message)s", level=logging.WARNING)
    _make_printable()
    sys.exit(_flush(_run()))


def _run() -> int | str | None:
    """Run the command; returns its exit code."""
    try:
        # Inside the try block, so that Ctrl-C during the imports prints no traceback.
        from sagpool.cli.commands import app_for

        with sigterm_raises():
            app_for(sys.argv[1:])()
    except SystemExit as ended:  # typer always ends like this, and treats SIGTERM as Ctrl-C
        return TERMINATED if _comes_from(ended, Terminated) else ended.code
    except MethodError as error:
        return _fail(describe_method_error(error))
    except SagpoolError as error:
        return _fail(str(error))
    except OSError as error:
        # An error without a file name is most often about the standard output.
        place = error.filename if error.filename is not None else "The output or a file"
        return _fail(f"{place}: {error.strerror or error}.")
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        # A signal may interrupt a block before its context is entered; leaving it then fails.
        if _comes_from(error, KeyboardInterrupt):
            return TERMINATED if _comes_from(error, Terminated) else 130
        if is_out_of_memory(error):
            return _fail(
                "There is not enough memory for this; try fewer or smaller graphs, or end other "
                "programs that use memory."
            )
        if (sentence := describe_plugin_error(error)) is not None:
            return _fail(sentence)
        return _fail(describe_bug(error), BUG)
    return 0


def _comes_from(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether the error was raised because of, or while handling, an error of this kind."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error is not None


def _fail(sentence: str, code: int = 2) -> int:
    print(f"sagpool: {sentence}", file=sys.stderr)
    return code


def _make_printable() -> None:
    """Never fail on output: it must not end a command after hours of training."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the calling process
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush(code: int | str | None) -> int | str | None:
    """Flush buffered output; returns another exit code if that fails after a success."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stdout = io.StringIO()  # otherwise Python would flush again at exit
        reason = getattr(error, "strerror", None) or error
        # A failed command has printed its error, perhaps for the same reason.
        return code or _fail(f"The output cannot be printed: {reason}. Files are complete.")
    return code


if __name__ == "__main__":
    main()
