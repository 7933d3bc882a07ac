"""The output of ``sagpool bench --dry-run``."""

from typing import Any

import typer

from sagpool.bench import ExperimentPlan, Search, Select
from sagpool.bench.selection import OPTIMISTIC
from sagpool.bench.time_estimate import LONG_ENOUGH_SECONDS, TimeEstimate
from sagpool.cli.time_left import duration


def plan_rows(plan: ExperimentPlan, estimate: TimeEstimate) -> list[dict[str, Any]]:
    """The cells as JSON, with the seconds that they take on the device."""
    return [
        row | {"device": estimate.device, "search_seconds": time.search, "seconds": time.total}
        for row, time in zip(plan.describe(), estimate.cells, strict=True)
    ]


def print_plan(plan: ExperimentPlan, estimate: TimeEstimate, device: str) -> None:
    """The cells, how many of their trainings the store already has, and how long they take.

    Args:
        plan: what would be run
        estimate: its time, perhaps on another device
        device: that of this machine
    """
    cells, seeds = (
        f"{count} {noun}{'s' * (count != 1)}"
        for count, noun in ((len(plan.cells), "cell"), (plan.seeds, "seed"))
    )
    typer.echo(f"{plan.experiment.title}: {cells}, {seeds}, search: {plan.search}.")
    if plan.select is Select.TEST:
        typer.echo(OPTIMISTIC)
    for row, time in zip(plan.describe(), estimate.cells, strict=True):
        start = f"{row.pop('dataset')} {row.pop('method')}: {row.pop('trainings')} trainings"
        takes = "time unknown" if time.total is None else _about(time.total)
        if plan.search is Search.NONE:
            stored = row.pop("stored")
            settings = ", ".join(f"{name} {value}" for name, value in row.items())
            typer.echo(f"{start}, {stored} of them stored; {settings}; {takes}")
        elif plan.select is Select.PER_FOLD:
            typer.echo(
                f"{start}, each the best of {row['candidates']} candidates, out of {row['search']}"
                f"; {takes}"
            )
        else:
            most = "" if plan.search is Search.GRID else "at most "
            typer.echo(
                f"{start}, after choosing from {row['candidates']} candidates in "
                f"{most}{row['search']} more; {takes}"
            )
    by = (
        "at the speed of earlier runs in this store" if estimate.measured else "by packaged figures"
    )
    typer.echo(f"In all {_about(estimate.seconds)} on one device ({estimate.device}), {by}.")
    if estimate.device != device:
        typer.echo(
            f"The speed of this device ({device}) is not known yet: it is measured by the "
            f"first command that trains these cells for {LONG_ENOUGH_SECONDS} s into this store."
        )


def _about(seconds: float) -> str:
    return "less than 1 s" if 0 < seconds < 1 else f"about {duration(seconds)}"
