"""The page of `sagpool explain` with 10,000 molecules: time to open and to filter, and its size.

python benchmarks/explorer.py [--graphs 10000] [--keep FOLDER] [--json]

The molecules are those of SAGPOOL_MOLECULES/tox21.csv, repeated if they are too few, or made-up
ones without that file. The model is trained only briefly. Chromium runs without a window; "open" is
the time from the address to a usable page, "filter" the time from an input to the next frame, for
the slowest of several filters. Both are medians over visits.
"""

import argparse
import csv
import itertools
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from measure import versions
from sagpool import load
from sagpool.classifier import trained_model
from sagpool.explain.explained import explain_input
from sagpool.explain.inputs import from_source
from sagpool.fleet import Training, train
from sagpool.output_folder import OutputFolder
from sagpool.report.explorer import write_explorer

OPEN, FILTER, SIZE = 3.0, 0.1, 30e6  # limits: seconds, seconds, bytes
TRAINED_ON = 1000  # molecules
# Sets a field, and waits until the list has been painted.
SET = """([id, value]) => new Promise((done) => {
  const field = document.getElementById(id), start = performance.now();
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done((performance.now() - start) / 1000)));
})"""
WISHES = [
    ("search", "c1"), ("search", ""), ("verdict", "wrong"), ("verdict", ""), ("predicted", "0"),
    ("predicted", ""), ("least-confidence", "60"), ("most-size", "20"), ("order", "by name"),
    ("order", "most nodes first"), ("order", "changes most given only the kept nodes"),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--visits", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="write the page into this folder")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "molecules.csv"
        write_molecules(table, options.graphs)
        start = time.perf_counter()
        page = write_page(table, options.keep or Path(folder) / "page", options.graphs)
        written = time.perf_counter() - start
        size = page.stat().st_size
        opened, filtered = visit(page, options.visits)
    seconds = {"open": opened, "filter": filtered, "write": written}
    ratios = {"open": OPEN / opened, "filter": FILTER / filtered, "size": SIZE / size}
    if options.json:
        about = {"seconds": seconds, "bytes": size, "graphs": options.graphs}
        print(json.dumps({"ratios": ratios, **about, "versions": versions("sagpool", "torch")}))
        return
    print(f"{options.graphs:,} molecules: explained and written in {written:.0f} s")
    print(f"opens in {opened:.2f} s of {OPEN:g}, filters in {1000 * filtered:.0f} ms of 100")
    print(f"{size / 1e6:.1f} MB of {SIZE / 1e6:.0f}")


def write_molecules(path: Path, count: int) -> None:
    folder = os.environ.get("SAGPOOL_MOLECULES")
    source = Path(folder) / "tox21.csv" if folder else None
    rows = list(toxic(source) if source and source.is_file() else made_up(2000))
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["smiles", "label"])
        table.writerows(itertools.islice(itertools.cycle(rows), count))


def toxic(path: Path) -> Iterator[tuple[str, str]]:
    """Active are molecules with at least one positive assay."""
    with path.open(newline="") as file:
        for smiles, *assays in itertools.islice(csv.reader(file), 1, None):
            yield smiles, "active" if "1" in assays else "inactive"


def made_up(count: int) -> Iterator[tuple[str, str]]:
    """Benzene rings on a chain; those with a nitro group are active."""
    draw = random.Random(0)
    for _ in range(count):
        parts = draw.choices(("c1ccccc1", "CC", "C(=O)N", "O", "CC(C)"), k=draw.randint(3, 7))
        active = draw.random() < 0.5
        yield "".join(parts) + ("[N+](=O)[O-]" if active else "C"), "active" if active else "other"


def write_page(table: Path, folder: Path, count: int) -> Path:
    graphs = load(table)
    training = Training("sagpool-h", hidden=16, lr=5e-3, max_epochs=15)
    result = next(iter(train(graphs[:TRAINED_ON], [training], keep_weights=True)))
    model = trained_model(graphs[:TRAINED_ON], result)
    explained = explain_input(model, from_source(str(table), model.vocabulary, limit=count))
    return write_explorer(explained, OutputFolder(folder, "explain"))


def visit(page: Path, visits: int) -> tuple[float, float]:
    """Median seconds to open it, and of the slowest filter."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((path for name in names if (path := shutil.which(name))), None)
    if chromium is None:
        sys.exit("There is no Chromium to open the page with.")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    opened, filtered = list[float](), list[list[float]]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for _ in range(visits):
            tab = browser.new_page(viewport={"width": 1280, "height": 800})
            start = time.perf_counter()
            tab.goto(page.absolute().as_uri())
            tab.wait_for_selector("body[data-ready]")
            opened.append(time.perf_counter() - start)
            filtered.append([tab.evaluate(SET, list(wish)) for wish in WISHES])
            tab.close()
        browser.close()
    return statistics.median(opened), max(map(statistics.median, zip(*filtered, strict=True)))


if __name__ == "__main__":
    main()
