"""Writes a report into a folder."""

import os
from pathlib import Path

from matplotlib import rc_context

from sagpool.bench.experiment import Experiment
from sagpool.output_folder import OutputFolder
from sagpool.report import names
from sagpool.report.content import Content, read_content
from sagpool.report.page import page
from sagpool.report.picture import STYLE, render_all
from sagpool.report.runs import runs_behind
from sagpool.report.sections import OF_REGRESSIONS, SECTIONS


def write_report(
    store_path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    experiment: Experiment | None = None,
    *,
    force: bool = False,
) -> Path:
    """Write ``report.html``, ``figures/`` and ``tables/`` from a run store.

    Args:
        store_path: a run store; another process may be writing to it
        folder: created if missing; the files of an earlier report are replaced. A folder with other
            files (except the store) is refused
        experiment: the experiment whose claims are judged; by default the packaged one that the
            store names
        force: whether to accept other files in the folder, and overwrite files of the same names

    Returns:
        the path of the page
    """
    output = report_folder(Path(store_path), Path(folder), force=force)
    return write_content(read_content(Path(store_path), experiment), output)


def report_folder(store: Path, folder: Path, *, force: bool = False) -> OutputFolder:
    """The folder for the report of a store; the store may lie in it."""
    return OutputFolder(folder, "report", force=force, beside=store)


def write_content(content: Content, folder: OutputFolder) -> Path:
    """Write the report of a store that has been read; returns the path of the page."""
    folder.create()  # fail early: drawing takes seconds
    with names.displayed(content.display, content.first):
        return _write(content, folder)


def _write(content: Content, folder: OutputFolder) -> Path:
    with rc_context(STYLE):
        wanted = SECTIONS if content.shown else OF_REGRESSIONS
        sections = [made for section in wanted if (made := section(content)).parts]
        parts = [part for section in sections for part in section.parts]
        pictures = render_all(drawing for part in parts for drawing in part.drawings)
    for picture in pictures.values():
        folder.write(f"figures/{picture.name}.png", picture.png)
        folder.write(f"figures/{picture.name}.svg", picture.svg.encode())
    for table in (part.table for part in parts if part.table):
        folder.write(f"tables/{table.name}.md", table.to_markdown().encode())
        folder.write(f"tables/{table.name}.csv", table.to_csv().encode())
        folder.write(f"tables/{table.name}.tex", table.to_tex().encode())
    html = page(content, sections, pictures, runs_behind(content))
    report = folder.write("report.html", html.encode())
    folder.finish()
    return report
