"""The output of ``sagpool bench --dry-run``."""

import typer

from sagpool.bench import ExperimentPlan, Search


def print_plan(plan: ExperimentPlan) -> None:
    """The cells, and how many of their trainings the store already has."""
    cells, seeds = (
        f"{count} {noun}{'s' * (count != 1)}"
        for count, noun in ((len(plan.cells), "cell"), (plan.seeds, "seed"))
    )
    typer.echo(f"{plan.experiment.title}: {cells}, {seeds}, search: {plan.search}.")
    for row in plan.describe():
        start = f"{row.pop('dataset')} {row.pop('method')}: {row.pop('trainings')} trainings"
        if plan.search is Search.NONE:
            stored = row.pop("stored")
            settings = ", ".join(f"{name} {value}" for name, value in row.items())
            typer.echo(f"{start}, {stored} of them stored; {settings}")
        else:
            typer.echo(
                f"{start}, after choosing from {row['candidates']} candidates in "
                f"{row['search']} more"
            )
