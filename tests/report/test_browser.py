"""The page in Chromium, if it is installed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from sagpool.bench.experiment_file import load_experiment
from sagpool.report import write_report

SIZES = {"wide": (1280, 800), "phone": (390, 844)}
FIGURES = """() => [...document.querySelectorAll("svg.figure")].map((figure) => {
  const box = figure.getBoundingClientRect();
  const texts = [...figure.querySelectorAll("text")].filter((text) => text.textContent.trim());
  return {
    name: figure.getAttribute("aria-label"), left: box.left, right: box.right,
    width: box.width, height: box.height, texts: texts.length,
    smallest: Math.min(...texts.map((text) =>
      parseFloat(getComputedStyle(text).fontSize) * box.width / figure.viewBox.baseVal.width)),
    shown: figure.checkVisibility(),
  };
})"""


@dataclass
class Visit:
    page: Page
    width: int
    complaints: list[str]
    requests: list[str]


@pytest.fixture
def long_names(make, made, tmp_path) -> Path:
    """A report with long names of data sets and methods."""
    name, method = "a_data_set_" * 7, f"{'a_method_' * 7}-h"
    store = make(
        made(name, "sagpool-h", graphs=1), made(name, method, settings={"lr": 0.1}, graphs=1),
        made(name, method),
    )  # fmt: skip
    return write_report(store, tmp_path / "report")


@pytest.fixture(scope="module")
def claims_page(make_at, made, tmp_path_factory) -> Path:
    """A report on claims of the paper."""
    folder = tmp_path_factory.mktemp("claims")
    methods = ("set2set-g", "sortpool-g", "sagpool-g", "diffpool-h", "gpool-h", "sagpool-h")
    store = make_at(folder / "runs.sqlite", [made("PROTEINS", method) for method in methods])
    return write_report(store, folder / "report", load_experiment("lee2019"))


@pytest.fixture(scope="module", params=["wide light", "wide dark", "phone light", "phone dark"])
def visit(request: pytest.FixtureRequest, browser: Browser, rich) -> Iterator[Visit]:
    size, scheme = request.param.split()
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((rich / "report.html").as_uri())
    yield Visit(page, width, complaints, requests)
    page.close()


def test_no_errors_and_no_requests_for_other_files(visit, rich):
    assert visit.complaints == []
    assert visit.requests == [(rich / "report.html").as_uri()]


def test_figures_fit_and_are_large_enough(visit):
    figures = visit.page.evaluate(FIGURES)
    assert len(figures) > 10
    for figure in figures:
        assert figure["shown"], figure
        assert figure["width"] >= 300, figure
        assert figure["height"] >= 80, figure
        assert figure["left"] >= 0, figure
        assert figure["right"] <= visit.width, figure


def test_text_in_figures_is_large_enough(visit):
    for figure in visit.page.evaluate(FIGURES):
        assert figure["texts"] > 0, figure
        assert figure["smallest"] >= 7.8, figure


OUTSIDE = """() => [...document.querySelectorAll("svg.figure")].flatMap((figure) => {
          const box = figure.getBoundingClientRect();
          return [...figure.querySelectorAll("text")].filter((text) => {
            const own = text.getBoundingClientRect();
            return own.left < box.left - 1 || own.right > box.right + 1 ||
              own.top < box.top - 1 || own.bottom > box.bottom + 1;
          }).map((text) => `${figure.getAttribute("aria-label")}: ${text.textContent}`);
        })"""


def test_text_stays_inside_its_figure(visit):
    assert visit.page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("size", SIZES)
def test_long_names_fit(browser, long_names, size):
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(long_names.as_uri())
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_the_page_does_not_scroll_sideways(visit):
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= visit.width
    visit.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= visit.width


@pytest.mark.parametrize("width", [390, 600, 860, 861, 1099, 1100, 1280])
def test_claims_are_read_without_scrolling_sideways(browser, claims_page, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(claims_page.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    tested, not_tested = page.locator(".prose").all()
    for table in (tested, not_tested):
        assert table.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0
        # On narrow screens the heads are repeated in front of the cells.
        assert table.locator("thead").is_visible() == (width > 860)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_the_table_of_contents_is_shown_on_wide_screens_only(visit):
    assert visit.page.locator("nav").is_visible() == (visit.width > 1000)


def test_the_button_changes_the_theme(visit):
    def ground() -> str:
        return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    before, label = ground(), visit.page.locator("#theme").inner_text()
    assert (before == "rgb(255, 255, 255)") == (label == "Dark")
    visit.page.locator("#theme").click()
    assert ground() != before
    visit.page.locator("#theme").click()
    assert ground() == before


RESULTS = "[data-file='tables/results']"


@pytest.fixture
def report(browser: Browser, rich: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((rich / "report.html").as_uri())
    yield page
    page.close()


def test_tables_are_sorted_by_a_click_and_printed_as_they_were(report):
    table = report.locator("[data-file='tables/cells'] table")
    head = table.locator("thead th", has_text="mean")
    column = head.evaluate("(head) => head.cellIndex") + 1

    def means() -> list[float]:
        texts = table.locator(f"tbody td:nth-child({column})").all_inner_texts()
        return [float(text) for text in texts]

    before = means()
    head.locator("button").click()
    assert means() == sorted(before, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    report.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert means() == before
    report.evaluate("dispatchEvent(new Event('afterprint'))")
    report.keyboard.press("Enter")  # the button has the focus
    assert means() == sorted(before)
    report.keyboard.press("Enter")
    assert means() == before
    assert head.get_attribute("aria-sort") is None


def test_groups_of_a_sorted_table_stay_together(report):
    table = report.locator(f"{RESULTS} table")
    groups = table.locator("tr.group").all_inner_texts()
    words = [sorted(body.inner_text().split()) for body in table.locator("tbody").all()]
    table.locator("thead button").nth(1).click()
    assert table.locator("tbody tr:first-child").all_inner_texts() == groups
    assert [sorted(body.inner_text().split()) for body in table.locator("tbody").all()] == words


def test_the_runs_behind_a_cell(report):
    cell = report.locator(f"{RESULTS} button.runs", has_text="±").first
    panel = report.locator("#runs")
    assert not panel.is_visible()
    cell.hover()
    assert "10, of 2 seeds, 5 folds" in panel.inner_text()
    assert "± per seed" in panel.inner_text()
    assert panel.locator("path").count() == 0
    report.mouse.move(0, 0)
    assert not panel.is_visible()
    cell.focus()
    assert panel.is_visible()
    report.keyboard.press("Enter")
    assert panel.locator("path.validation").is_visible()
    assert panel.get_attribute("aria-label").startswith("Runs of SortPool_g")
    report.keyboard.press("Escape")
    assert not panel.is_visible()
    assert cell.evaluate("(button) => button === document.activeElement")
    report.emulate_media(media="print")
    assert not panel.is_visible()
