"""``sagpool explain``: which nodes a model keeps, in pictures."""

import json
import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from sagpool.errors import SagpoolError
from sagpool.graphs.records import Columns

log = logging.getLogger("sagpool")


def explain(
    model: Annotated[str, typer.Argument(help="A folder that `sagpool train` has written.")],
    data: Annotated[
        str | None,
        typer.Argument(help="A .jsonl, .csv, .tsv or .sdf file, a TU folder, zip or name."),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for pictures, scores and the page.")
    ],
    smiles: Annotated[
        list[str] | None, typer.Option(help="A molecule, in place of DATA; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many graphs, from the first on.")] = 50,
    smiles_column: Annotated[
        str | None, typer.Option(help="Of a table, if its name is not a usual one.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Of a table or an SDF file, likewise.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Draw which nodes of your graphs a model keeps, and check whether it decides by them."""
    # Matplotlib and what trains take a second to import, for which no other command should wait.
    from sagpool.classifier.model import TrainedModel
    from sagpool.explain.explained import explain_given
    from sagpool.explain.inputs import from_smiles, from_source
    from sagpool.report.gallery import write_gallery

    if (data is None) == (not smiles):
        raise SagpoolError("Give either a file of graphs or molecules with --smiles.")
    if output.exists() and not output.is_dir():
        raise SagpoolError(f"{output} is a file; pictures need a folder.")
    trained = TrainedModel.from_pretrained(model)
    if smiles:
        given = from_smiles(smiles, trained.vocabulary)
    else:
        columns = Columns(smiles_column, label_column)
        given = from_source(str(data), trained.vocabulary, columns, limit=limit)
    explained = explain_given(trained, given)
    if explained.unseen:
        counts = ", ".join(f"{name} ({count})" for name, count in explained.unseen.most_common())
        log.warning("Node labels that the model has not seen, with their nodes: %s.", counts)
    console = Console(stderr=True)
    drawn = track(
        write_gallery(explained, output), "drawing", len(explained.traces), console=console,
        transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    pictures = list(drawn)
    if as_json:
        print(json.dumps(explained.to_json(), indent=2))
        return
    typer.echo("\n".join(explained.fidelity.sentences))
    count = "1 picture" if len(pictures) == 1 else f"{len(pictures)} pictures"
    typer.echo(
        f"{count}, scores.csv and a page are in {output}.\n"
        f"Open {output / 'index.html'} in a browser."
    )
