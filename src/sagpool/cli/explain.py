"""``sagpool explain``: pictures of the nodes that a model keeps."""

import json
import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from sagpool.classifier.model import TrainedModel, describe_unseen
from sagpool.cli.options import DATA_HELP, AsJson, LabelColumn, SmilesColumn
from sagpool.errors import SagpoolError
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import from_smiles, from_source
from sagpool.graphs.records import Columns
from sagpool.report.gallery import write_gallery

log = logging.getLogger("sagpool")


def explain(
    model: Annotated[str, typer.Argument(help="A folder made by `sagpool train`, or a Hub name.")],
    data: Annotated[str | None, typer.Argument(help=DATA_HELP)] = None,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for pictures, scores and the page.")
    ],
    smiles: Annotated[
        list[str] | None, typer.Option(help="A molecule instead of DATA; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Explain this many graphs at most.")] = 50,
    smiles_column: SmilesColumn = None,
    label_column: LabelColumn = None,
    as_json: AsJson = False,
) -> None:
    """Draw which nodes of your graphs a model keeps, and check if it decides by them."""
    if (data is None) == (not smiles):
        raise SagpoolError("Give graphs to explain: either DATA or --smiles.")
    if output.exists() and not output.is_dir():
        raise SagpoolError(f"{output} is a file; pictures need a folder.")
    trained = TrainedModel.from_pretrained(model)
    if smiles:
        given = from_smiles(smiles, trained.vocabulary)
    else:
        columns = Columns(smiles_column, label_column)
        given = from_source(str(data), trained.vocabulary, columns, limit=limit)
    explained = explain_input(trained, given)
    if explained.unseen:
        log.warning("%s.", describe_unseen(explained.unseen))
    console = Console(stderr=True)
    pictures = list(
        track(
            write_gallery(explained, output),
            "drawing",
            len(explained.traces),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
    )
    if as_json:
        print(json.dumps(explained.to_json(), indent=2))
        return
    typer.echo("\n".join(explained.fidelity.sentences))
    count = "1 picture" if len(pictures) == 1 else f"{len(pictures)} pictures"
    typer.echo(
        f"{count}, scores.csv and a page are in {output}.\n"
        f"Open {output / 'index.html'} in a browser."
    )
