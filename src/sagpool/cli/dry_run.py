"""The output of ``sagpool bench --dry-run``."""

from typing import Any, NamedTuple

import typer

from sagpool.bench import ExperimentPlan, Search, Select
from sagpool.bench.replay import StoredCell
from sagpool.bench.selection import OPTIMISTIC
from sagpool.bench.time_estimate import LONG_ENOUGH_SECONDS, TimeEstimate, estimate_time
from sagpool.cli.time_left import duration


class DryRun(NamedTuple):
    """What a command would run."""

    plan: ExperimentPlan
    stored: tuple[StoredCell, ...]  # one for each cell, as are the next
    estimate: TimeEstimate
    device: str  # of this machine; the estimate may be for another one

    @staticmethod
    def of(plan: ExperimentPlan, device: str) -> "DryRun":
        stored = plan.stored()
        return DryRun(plan, stored, estimate_time(plan, device, stored), device)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The cells as JSON, with the seconds that they take on the device."""
        device = self.estimate.device
        return [
            row | {"device": device, "search_seconds": time.search, "seconds": time.total}
            for row, time in zip(self.plan.describe(self.stored), self.estimate.cells, strict=True)
        ]


def print_dry_run(run: DryRun) -> None:
    """The cells, how many of their trainings the store already has, and how long they take."""
    plan, estimate, device = run.plan, run.estimate, run.device
    cells, seeds = (
        f"{count} {noun}{'s' * (count != 1)}"
        for count, noun in ((len(plan.cells), "cell"), (plan.seeds, "seed"))
    )
    typer.echo(f"{plan.experiment.title}: {cells}, {seeds}, search: {plan.search}.")
    if plan.select is Select.TEST:
        typer.echo(OPTIMISTIC)
    for row, time in zip(plan.describe(run.stored), estimate.cells, strict=True):
        takes = "time unknown" if time.total is None else _about(time.total)
        typer.echo(f"{_cell(plan, row)}; {takes}")
    by = (
        "at the speed of earlier runs in this store" if estimate.measured else "by packaged figures"
    )
    typer.echo(f"In all {_about(estimate.seconds)} on one device ({estimate.device}), {by}.")
    if estimate.device != device:
        typer.echo(
            f"The speed of this device ({device}) is not known yet: it is measured by the "
            f"first command that trains these cells for {LONG_ENOUGH_SECONDS} s into this store."
        )


def _cell(plan: ExperimentPlan, row: dict[str, Any]) -> str:
    """How many trainings a cell has, and what is stored of them and of their search."""
    start = f"{row.pop('dataset')} {row.pop('method')}: {row.pop('trainings')} trainings"
    stored = row.pop("stored")
    if plan.search is Search.NONE:
        return f"{start}, {stored} of them stored; {_settings(row)}"
    candidates, search, found, chosen = (
        row.pop(name) for name in ("candidates", "search", "search_stored", "chosen")
    )
    if chosen:
        start += f", {stored} of them stored"
    if plan.select is Select.PER_FOLD:
        source = f"each the best of {candidates} candidates, out of {search}"
    else:
        most = "" if plan.search is Search.GRID or chosen else "at most "
        source = f"after choosing from {candidates} candidates in {most}{search} more"
    choice = "chosen" if chosen else "not chosen yet"
    if row:  # what is left are the chosen settings
        choice += f": {_settings(row)}"
    return f"{start}, {source}, {found} of them stored; {choice}"


def _settings(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())


def _about(seconds: float) -> str:
    return "less than 1 s" if 0 < seconds < 1 else f"about {duration(seconds)}"
