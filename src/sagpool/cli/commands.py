"""``sagpool``: the list of commands; only the called command is imported."""

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

import sagpool

# By module of this folder, the first line of its command's help.
COMMANDS = {
    "data": "Show the statistics of data sets: size, classes, features (the paper's Table 1).",
    "bench": "Run an experiment, or the missing part of it, and store the results.",
    "report": "Make tables, figures and an HTML page from a run store.",
    "merge": "Merge several run stores into a new one.",
    "train": "Choose a model for your graphs, estimate its accuracy, and train it on all graphs.",
    "predict": "Write a prediction for each graph, with its uncertainty, in the order of DATA.",
    "export": "Write a model as a file that runs without torch: ONNX, or Python with NumPy.",
    "explain": "Show which nodes of your graphs a model keeps or counts, and how it decides.",
    "demo": "Compare the paper's six methods on MUTAG, then train, predict and explain.",
}


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """The command line; only the command in these arguments is imported, the others are listed."""
    app = typer.Typer(
        help=sagpool.__doc__,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        if name == called:
            app.command(name)(_with_plugins(getattr(import_module(f"sagpool.cli.{name}"), name)))
        else:
            app.command(name, help=summary)(lambda: None)
    app.callback()(_options)
    return app


def _with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option ``--plugin`` to the command."""
    from sagpool.models import load_plugin

    def run(*, plugin: list[str] | None, **options: Any) -> None:
        for source in plugin or ():
            load_plugin(source)
        command(**options)

    option = Annotated[
        list[str] | None,
        typer.Option(help="A Python file or module with your own methods. May be repeated."),
    ]
    known = inspect.signature(command, eval_str=True)
    added = inspect.Parameter(
        "plugin", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option
    )
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in known.parameters.values()
    ]
    run.__signature__ = known.replace(parameters=[*parameters, added])  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in (*parameters, added)}
    run.__doc__ = command.__doc__
    return run


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sagpool {sagpool.__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options that come before the command."""
