"""``sagpool explain``: a page with the nodes that a model keeps, and its counts."""

import json
import logging
from pathlib import Path
from typing import Annotated

import typer

from sagpool.classifier.model import TrainedModel, describe_unseen
from sagpool.cli.options import (
    DATA_HELP,
    AsJson,
    Force,
    IdColumn,
    LabelColumns,
    SmilesColumn,
    columns_of,
)
from sagpool.errors import SagpoolError
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import from_smiles, from_source
from sagpool.explain.surroundings import MOST_DRAWN_NODES
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer import write_explorer
from sagpool.report.explorer.data import on_page

log = logging.getLogger("sagpool")


def explain(
    model: Annotated[str, typer.Argument(help="A folder made by `sagpool train`, or a Hub name.")],
    data: Annotated[str | None, typer.Argument(help=DATA_HELP)] = None,
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the page and its tables.")
    ],
    smiles: Annotated[
        list[str] | None, typer.Option(help="A molecule instead of DATA; may be repeated.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=10**6, help="Explain at most this many graphs.")
    ] = 10_000,
    target: Annotated[
        str | None,
        typer.Option(help="Which one of several targets to explain; by default the first."),
    ] = None,
    smiles_column: SmilesColumn = None,
    label_column: LabelColumns = None,
    id_column: IdColumn = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show which nodes of your graphs a model keeps or counts, and how it decides."""
    if (data is None) == (not smiles):
        raise SagpoolError("Give graphs to explain: either DATA or --smiles.")
    folder = OutputFolder(output, "explain", force=force)
    trained = TrainedModel.from_pretrained(model)
    if smiles:
        given = from_smiles(smiles, trained.vocabulary)
    else:
        columns = columns_of(smiles_column, label_column, id_column)
        given = from_source(str(data), trained.vocabulary, columns, limit=limit)
    explained = explain_input(trained, given, target)
    if explained.unseen:
        log.warning("There are %s.", describe_unseen(explained.unseen))
    if explained.unlike_warning:
        log.warning("%s", explained.unlike_warning)
    large = sum(trace.num_nodes > MOST_DRAWN_NODES for trace in explained.traces)
    if large:
        log.warning(
            "%d of the graphs have more than %d nodes; their pictures show %d, around %s.",
            *(large, MOST_DRAWN_NODES, MOST_DRAWN_NODES),
            "the one with the highest score that the last level keeps"
            if explained.has_levels
            else "one that the strongest reason counts",
        )
    shown = on_page(explained)
    if shown < len(explained.traces):
        log.warning("The page shows the first %d graphs; the others are too large for it.", shown)
    page = write_explorer(explained, folder)
    if as_json:
        print(json.dumps(explained.to_json(), indent=2))
        return
    typer.echo("\n".join(explained.sentences))
    tables = ["scores.csv"] * explained.has_levels + ["reasons.csv"] * explained.has_reasons
    typer.echo(f"{' and '.join([', '.join(tables), 'a page'])} are in {output}.")
    typer.echo(f"Open {page} in a browser.")
