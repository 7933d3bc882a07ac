"""The terminal, on which names of data sets, methods and classes are printed as they are."""

from rich.console import Console


def new_console(*, stderr: bool = False) -> Console:
    """Without rich's markup: ``[/red]`` or ``:smile:`` may be part of a name."""
    return Console(stderr=stderr, markup=False, emoji=False)


def table_console() -> Console:
    """For tables on stdout; columns of piped output do not wrap."""
    console = new_console()
    if not console.is_terminal:
        console.width = 200
    return console
