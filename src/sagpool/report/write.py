"""Writing a report into a folder."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from sagpool.errors import SagpoolError
from sagpool.report.content import Content, read_content
from sagpool.report.page import page
from sagpool.report.pictures import draw_all
from sagpool.report.sections import sections

# How the names of our files begin and end.
KINDS = {
    *("accuracy", "curves", "sensitivity", "costs", "parameters", "kept"),
    *("results", "variants", "pairs", "search", "cells", "data", "commands"),
}
SUFFIXES = {".png", ".svg", ".md", ".csv", ".tex"}


def write_report(store_path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html``, ``figures/`` and ``tables/`` from a run store; the page's path.

    Args:
        store_path: of a run store; somebody may be writing it
        folder: made if it is not there; what an earlier report wrote is overwritten
    """
    return write_content(read_content(Path(store_path)), Path(folder))


def write_content(content: Content, folder: Path) -> Path:
    """Write what was read from a store."""
    if folder.exists() and not folder.is_dir():
        raise SagpoolError(f"{folder} is a file; a report needs a folder.")
    try:
        # Before the drawing, which takes its time.
        for made in (folder / "figures", folder / "tables"):
            made.mkdir(parents=True, exist_ok=True)
        return _write(content, folder)
    except OSError as error:
        raise SagpoolError(
            f"{error.filename or folder} cannot be written: {error.strerror}."
        ) from None


def _write(content: Content, folder: Path) -> Path:
    gallery = draw_all(content)
    made = sections(content, gallery)
    tables = [part.table for section in made for part in section.parts if part.table]
    files: dict[Path, bytes] = {}
    for picture in gallery.pictures:
        path = folder / "figures" / picture.name
        files[Path(f"{path}.png")] = picture.png
        files[Path(f"{path}.svg")] = picture.svg.encode()
    for table in tables:
        path = folder / "tables" / table.name
        forms = {"md": table.to_markdown(), "csv": table.to_csv(), "tex": table.to_tex()}
        files |= {Path(f"{path}.{suffix}"): text.encode() for suffix, text in forms.items()}
    for path, written in files.items():
        path.write_bytes(written)
    _remove_others(folder, files)
    report = folder / "report.html"
    report.write_bytes(page(content, made).encode())
    return report


def _remove_others(folder: Path, written: Collection[Path]) -> None:
    """Remove what an earlier report wrote here and this one did not; other files stay."""
    for path in (*(folder / "figures").iterdir(), *(folder / "tables").iterdir()):
        of_ours = path.stem.split("-")[0] in KINDS and path.suffix in SUFFIXES
        if of_ours and path not in written:
            path.unlink()
