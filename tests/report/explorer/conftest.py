"""Pages of explanations in a browser."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

NAMELESS = """() => [...document.querySelectorAll("button, input, select, [tabindex], [role]")]
  .filter((element) => element.checkVisibility() && !element.closest("#rows"))
  .filter((element) => !(element.ariaLabel || element.labels?.length || element.textContent.trim()))
  .map((element) => element.outerHTML.slice(0, 100))"""


@dataclass
class Visit:
    page: Page
    complaints: list[str]
    requests: list[str]

    @property
    def names(self) -> list[str]:
        return self.page.locator("#list .name").all_inner_texts()

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    @property
    def nameless(self) -> list[str]:
        """What a screen reader could not name."""
        return self.page.evaluate(NAMELESS)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Visit]]:
    pages = []

    def start(width: int = 1280, scheme: str = "light", graph: str = "", *, file: Path) -> Visit:
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        pages.append(page)
        made = Visit(page, [], [])
        page.on("console", lambda message: made.complaints.append(message.text))
        page.on("pageerror", lambda error: made.complaints.append(str(error)))
        page.on("dialog", lambda dialog: made.complaints.append(dialog.message))
        page.on("request", lambda request: made.requests.append(request.url))
        page.goto(file.as_uri() + graph)
        page.wait_for_selector("body[data-ready]")
        return made

    yield start
    for page in pages:
        page.close()
