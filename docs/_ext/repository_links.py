"""Redirects links to files of the repository to the pages of the site that include them.

Pages are written for the repository: they link to ``../CONTRIBUTING.md``, which is the page
``project/contributing`` of the site. All other files outside of docs are offered as downloads.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent

# The page that includes each file.
PAGES = {
    ROOT / "README.md": "index.md",
    ROOT / "CHANGELOG.md": "project/changelog.md",
    ROOT / "CONTRIBUTING.md": "project/contributing.md",
    ROOT / "SECURITY.md": "project/security.md",
    ROOT / "results/lee2019/notes.md": "project/notes.md",
    ROOT / "results/searched/notes.md": "project/notes-searched.md",
    ROOT / "results/table4/notes.md": "project/notes-table4.md",
    ROOT / "src/sagpool/fleet/README.md": "internals/fleets.md",
    ROOT / "src/sagpool/nn/pool/clusters/README.md": "internals/clusters.md",
}


def site_links(text: str, folder: Path) -> str:
    """Markdown from a file in ``folder``, with links that work on any page of the site."""

    def link(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        file = (folder / path).resolve()
        if file in PAGES:
            return f"](/{PAGES[file]}{anchor})"
        if file.is_file() and file.is_relative_to(DOCS):
            return f"](/{file.relative_to(DOCS)}{anchor})"
        if file.is_file() and file.is_relative_to(ROOT):
            return f"](/../{file.relative_to(ROOT)}{anchor})"
        return match[0]

    return re.sub(r"\]\(([^)#:\s\\\"]+)(#[^)\s]*)?\)", link, text)


def on_page(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = site_links(source[0], (DOCS / name).parent)


def on_include(app: Sphinx, path: Path, name: str, source: list[str]) -> None:
    source[0] = site_links(source[0], (DOCS / path).resolve().parent)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", on_page)
    app.connect("include-read", on_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
