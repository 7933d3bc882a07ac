"""Writing a report into a folder."""

import os
import re
from pathlib import Path

from matplotlib import rc_context

from sagpool.bench.experiment import Experiment
from sagpool.errors import SagpoolError
from sagpool.report.content import Content, read_content
from sagpool.report.files import writing
from sagpool.report.page import page
from sagpool.report.picture import STYLE, render_all
from sagpool.report.sections import SECTIONS

SUFFIXES = {"figures": ("png", "svg"), "tables": ("md", "csv", "tex")}


def write_report(
    store_path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    experiment: Experiment | None = None,
) -> Path:
    """Write ``report.html``, ``figures/`` and ``tables/`` from a run store.

    Args:
        store_path: of a run store; another process may be writing to it
        folder: created if missing; the files of an earlier report are replaced
        experiment: whose claims are judged; by default one of the package that the store names

    Returns:
        the path of the page
    """
    return write_content(read_content(Path(store_path), experiment), Path(folder))


def write_content(content: Content, folder: Path) -> Path:
    """Write the report of a store that has been read."""
    if folder.exists() and not folder.is_dir():
        raise SagpoolError(f"{folder} is a file; a report needs a folder.")
    with writing(folder):
        for part in SUFFIXES:  # before the drawing, which takes seconds
            (folder / part).mkdir(parents=True, exist_ok=True)
        return _write(content, folder)


def _write(content: Content, folder: Path) -> Path:
    with rc_context(STYLE):
        sections = [made for section in SECTIONS if (made := section(content)).parts]
        parts = [part for section in sections for part in section.parts]
        pictures = render_all(drawing for part in parts for drawing in part.drawings)
    files: dict[Path, bytes] = {}
    for picture in pictures.values():
        files[folder / "figures" / f"{picture.name}.png"] = picture.png
        files[folder / "figures" / f"{picture.name}.svg"] = picture.svg.encode()
    for table in (part.table for part in parts if part.table):
        files[folder / "tables" / f"{table.name}.md"] = table.to_markdown().encode()
        files[folder / "tables" / f"{table.name}.csv"] = table.to_csv().encode()
        files[folder / "tables" / f"{table.name}.tex"] = table.to_tex().encode()
    report = folder / "report.html"
    for stale in _files_of(report) - files.keys():
        stale.unlink(missing_ok=True)
    for path, data in {**files, report: page(content, sections, pictures).encode()}.items():
        path.write_bytes(data)
    return report


def _files_of(report: Path) -> set[Path]:
    """The figures and tables of an earlier report, which its page names."""
    if not report.is_file():
        return set()
    named = re.findall(
        r' data-file="(figures|tables)/([\w.-]+)"', report.read_text(errors="ignore")
    )
    return {
        report.parent / part / f"{name}.{suffix}"
        for part, name in named
        for suffix in SUFFIXES[part]
    }
