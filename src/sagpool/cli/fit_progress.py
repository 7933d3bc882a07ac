"""Progress of a fit: a bar on a terminal, otherwise an occasional line."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar

from sagpool.classifier import FitProgress

SECONDS = 15.0  # time between two lines


@contextmanager
def fit_progress(console: Console) -> Iterator[Callable[[FitProgress], None]]:
    """Yields a function that shows the progress it is called with."""
    columns = (
        TextColumn("training"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[status]}", markup=False),
    )
    last = [time.monotonic()]
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=1.0, status="")

        def show(progress: FitProgress) -> None:
            status = progress_text(progress)
            bar.update(task, completed=progress.fraction, status=status)
            if not console.is_terminal and time.monotonic() - last[0] >= SECONDS:
                last[0] = time.monotonic()
                line = f"training: {progress.fraction:.0%}, {status}"
                console.print(line, highlight=False, markup=False, soft_wrap=True)

        try:
            yield show
        except KeyboardInterrupt:
            bar.stop()
            console.print("Stopped. Run the same command again to continue.", highlight=False)
            raise


def progress_text(progress: FitProgress) -> str:
    """The current activity, and the remaining time."""
    left = progress.seconds_left
    if left is None:
        return progress.stage
    time_left = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
    return f"{progress.stage}, about {time_left} left"
