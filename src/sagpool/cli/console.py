"""Consoles that print names of data sets, methods and classes unchanged."""

from rich.console import Console


def new_console(*, stderr: bool = False) -> Console:
    """A console without rich's markup: ``[/red]`` or ``:smile:`` may be part of a name."""
    return Console(stderr=stderr, markup=False, emoji=False)


def table_console() -> Console:
    """A console for tables on stdout; columns of piped output do not wrap."""
    console = new_console()
    if not console.is_terminal:
        console.width = 200
    return console
