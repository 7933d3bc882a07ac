"""Make the pictures of docs/gallery.md, with the package's own commands and Chromium.

python scripts/gallery.py [--chromium /usr/bin/chromium]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMMANDS = (
    "demo -o demo",
    "train MUTAG -o model --method sagpool-h --quick --folds 3 --set conv=gin --set readout=sum",
    "explain model MUTAG -o kept",
)
FIGURES = {
    "demo/figures/accuracy-MUTAG.png": "accuracy.png",
    "demo/figures/curves-MUTAG-hierarchical.png": "curves.png",
}
# For each page the picture, the height of the window and the colours.
PAGES = {
    "demo/report.html": ("report.png", 900, "light"),
    "demo/model/report.html": ("training.png", 1100, "light"),
    "demo/explained/index.html": ("reasons.png", 900, "light"),
    "kept/index.html": ("explorer.png", 860, "dark"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    chromium = parser.parse_args().chromium
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in COMMANDS:
            arguments = [sys.executable, "-m", "sagpool.cli.main", *command.split()]
            subprocess.run(arguments, cwd=folder, check=True)
        for source, picture in FIGURES.items():
            shrink(Image.open(folder / source), IMAGES / picture)
        with sync_playwright() as tools:
            browser = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for page, (picture, height, scheme) in PAGES.items():
                photograph(browser, folder / page, IMAGES / picture, height, scheme)


def photograph(browser: Browser, page: Path, picture: Path, height: int, scheme: str) -> None:
    size = {"width": 1280, "height": height}
    tab = browser.new_page(viewport=size, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_timeout(500)  # the explorer lays out its first graph
    tab.screenshot(path=picture)
    tab.close()
    shrink(Image.open(picture), picture)


def shrink(image: Image.Image, file: Path) -> None:
    """Save with 128 colours, which is a third of the bytes."""
    image.convert("RGB").quantize(128).save(file, optimize=True)


if __name__ == "__main__":
    main()
