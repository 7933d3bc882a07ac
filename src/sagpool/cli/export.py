"""``sagpool export``: a model for programs without torch."""

import json
from pathlib import Path
from typing import Annotated

import typer

from sagpool.classifier.model import TrainedModel
from sagpool.cli.options import AsJson, IdColumn, LabelColumns, SmilesColumn, columns_of
from sagpool.export import export as export_model
from sagpool.export.write import Format


def export(
    model: Annotated[str, typer.Argument(help="A folder made by `sagpool train`, or a Hub name.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write: .onnx, or .py for NumPy.")
    ],
    to: Annotated[
        Format | None, typer.Option(help="The format; by default from the suffix of the file.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Graphs like the training graphs, to compare on; by default random graphs with "
            "the labels that the model knows.",
        ),
    ] = None,
    smiles_column: SmilesColumn = None,
    label_column: LabelColumns = None,
    id_column: IdColumn = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as a file that runs without torch: ONNX, or Python with NumPy.

    The file takes raw labels, features and edges, for one graph or a batch. It is compared with the
    model on at least 1,000 graphs, and not written if a probability differs by more than 1e-5.
    """
    trained = TrainedModel.from_pretrained(model)
    columns = columns_of(smiles_column, label_column, id_column)
    done = export_model(trained, output, to, check=check, columns=columns, force=force)
    sizes = {str(file): file.stat().st_size for file in done.files}
    if as_json:
        agreement = vars(done.agreement)
        typer.echo(json.dumps({"files": sizes, "agreement": agreement}, ensure_ascii=False))
        return
    for file, size in sizes.items():
        typer.echo(f"{file}: {size / 1000:,.0f} kB")
    found = done.agreement
    outputs = "predicted numbers" if trained.task == "regression" else "probabilities"
    typer.echo(
        f"agrees with the model on {found.graphs:,} graphs: {outputs} differ by at most "
        f"{found.largest:.1e}"
    )
    if found.ties:
        typer.echo(
            f"in {found.ties:,} of these graphs several nodes have the same score up to "
            "rounding, and the exported model may keep another one of them"
        )
