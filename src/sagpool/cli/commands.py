"""``sagpool``: the list of commands."""

import typer

import sagpool
from sagpool.cli.bench import bench
from sagpool.cli.data import data
from sagpool.cli.demo import demo
from sagpool.cli.explain import explain
from sagpool.cli.predict import predict
from sagpool.cli.report import report
from sagpool.cli.train import train

app = typer.Typer(
    help="Graph classification with pooling: Self-Attention Graph Pooling and its peers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(data)
app.command()(bench)
app.command()(report)
app.command()(train)
app.command()(predict)
app.command()(explain)
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
