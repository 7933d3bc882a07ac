import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sagpool import SagpoolError
from sagpool.report import write_report

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Checker(HTMLParser):
    """Checks that every element is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.figures = 0

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.figures += tag == "svg"

    def handle_startendtag(self, tag, attrs):
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page: Path) -> Checker:
    checker = Checker()
    checker.feed(page.read_text())
    checker.close()
    assert checker.open == []
    return checker


def test_the_page_is_well_formed_and_ids_are_unique(rich):
    found = checked(rich / "report.html")
    assert len(set(found.ids)) == len(found.ids)


def test_the_page_needs_no_other_file(rich):
    text = (rich / "report.html").read_text()
    assert not re.search(r"https?://", text)
    assert not re.search(r"\ssrc=|@import|<link", text)
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?(.)", text))
    targets = re.findall(r'href="([^"]*)"', text)
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)


def test_every_figure_is_written_in_all_formats(rich):
    figures = rich / "figures"
    png, svg = ({path.stem for path in figures.glob(f"*.{kind}")} for kind in ("png", "svg"))
    assert png == svg
    assert checked(rich / "report.html").figures == len(png)
    for kind in ("accuracy", "curves", "sensitivity", "costs", "parameters", "kept"):
        assert any(name.startswith(kind) for name in png), kind
    for path in figures.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    for path in figures.glob("*.svg"):
        assert "<text" in path.read_text()  # not paths


def test_every_section_is_in_the_table_of_contents(rich):
    text = (rich / "report.html").read_text()
    anchors = re.findall(r'<section id="([^"]*)"', text)
    assert re.findall(r'<li><a href="#([^"]*)"', text) == anchors
    assert anchors == [
        *("results", "accuracy", "pairs", "curves", "search", "sensitivity", "costs"),
        *("parameters", "kept", "cells", "provenance"),
    ]


def test_every_table_is_written_in_all_formats(rich):
    stems = {path.stem for path in (rich / "tables").glob("*.csv")}
    assert stems == {
        *("results", "results-searched", "variants", "pairs", "search"),
        *("cells", "costs", "data", "commands"),
    }
    for suffix in ("md", "tex"):
        assert {path.stem for path in (rich / "tables").glob(f"*.{suffix}")} == stems


def test_the_same_store_gives_the_same_bytes(rich, rich_store, tmp_path):
    write_report(rich_store, tmp_path)
    files = [path.relative_to(rich) for path in sorted(rich.rglob("*")) if path.is_file()]
    assert files == sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    for file in files:
        assert (tmp_path / file).read_bytes() == (rich / file).read_bytes(), file


def test_names_are_escaped(make, made, tmp_path):
    odd = "a<b>&\"c'|../$x$"
    store = make(
        made(odd, "sagpool-h", graphs=1), made(odd, "own<i>-h"), made("a<b>&-c'|../$x$", "gpool-h")
    )
    page = write_report(store, tmp_path / "report")
    checked(page)
    text = page.read_text()
    assert "<b>" not in text
    assert "<i>" not in text
    assert "a&lt;b&gt;&amp;" in text
    folder = tmp_path / "report"
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in folder.rglob("*"))
    assert len(list((folder / "figures").glob("accuracy-*.png"))) == 2
    markdown = (folder / "tables/results.md").read_text()
    assert "a&lt;b&gt;&amp;\"c'\\|../$x$" in markdown
    assert r"a\textless{}b\textgreater{}\&" in (folder / "tables/results.tex").read_text()


def test_files_of_an_earlier_report_are_replaced_and_other_files_stay(make, made, rich, tmp_path):
    folder = shutil.copytree(rich, tmp_path / "report")
    (folder / "figures" / "mine.png").write_bytes(b"mine")
    (folder / "tables" / "results-mine.csv").write_bytes(b"mine")
    with pytest.raises(SagpoolError, match=r"holds figures/mine\.png, which is not known"):
        write_report(make(made()), folder)
    write_report(tmp_path / "runs.sqlite", folder, force=True)
    assert not (folder / "tables" / "search.csv").exists()
    assert (folder / "tables" / "results-mine.csv").exists()
    names = {path.stem for path in (folder / "figures").iterdir()}
    assert names == {"accuracy-MADE", "curves-MADE-hierarchical", "parameters", "mine"}
    checked(folder / "report.html")


def test_without_published_numbers_the_paper_is_not_mentioned(make, made, tmp_path):
    text = write_report(make(made(), made(method="gpool-h")), tmp_path / "report").read_text()
    for title in ("Results", "Every test accuracy", "All cells"):
        assert f"<h2>{title}</h2>" in text
    assert "Ours beside the paper" not in text
    assert "published means" not in text
