"""``sagpool``: the list of commands, and how their errors are shown."""

import logging
import sys

import typer

import sagpool
from sagpool.cli.bench import bench
from sagpool.cli.data import data
from sagpool.cli.demo import demo
from sagpool.cli.report import report
from sagpool.errors import SagpoolError

app = typer.Typer(
    help="Graph classification with pooling: Self-Attention Graph Pooling and its peers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(data)
app.command()(bench)
app.command()(report)
app.command()(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sagpool {sagpool.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options that stand before the command."""


def main() -> None:
    logging.basicConfig(format="sagpool: %(message)s", level=logging.WARNING)
    try:
        app()
    except (SagpoolError, OSError) as error:
        print(f"sagpool: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
