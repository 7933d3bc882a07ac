r"""Write the compact rows, the tables and the main figures of a run store to results/.

python scripts/publish_results.py STORE results/controls --beside results/lee2019 \
    --page docs/reproduction.md

Everything that follows from the rows alone is written by reproduction_page.py; for rows of another
experiment (``--experiment``) by a script of its own, such as poolers_page.py. Unfinished cells are
left out: they only have the trainings that stopped first, a biased sample.
"""

import argparse
import shlex
import shutil
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from published_rows import write_rows
from reproduction_page import EXPERIMENT, write_derived, write_page

from sagpool import SagpoolError
from sagpool.bench.experiment_file import load_experiment
from sagpool.bench.store import Store
from sagpool.bench.stored_cells import settings_text
from sagpool.report.content import read_content
from sagpool.report.write import report_folder, write_content

CLAIMS = "claims"  # prefix of the tables made from the rows
FIGURES = ("accuracy-", "costs-", "parameters")
TIMES = ("costs", "profile")  # prefixes of the files about times


def finished_part(store: Path, copy: Path) -> list[str]:
    """Copy a store without its unfinished cells; returns one line of text for each of these."""
    with Store.reading(store):  # raises if it is not a run store
        shutil.copy(store, copy)
    summaries = read_content(copy).summaries
    unfinished = [
        summary
        for summary in summaries
        if len(summary.runs) < summary.cell.seeds * int(summary.cell.settings["folds"])
    ]
    # A cell may have more seeds than it needs: those of an unfinished cell of the same settings.
    finished = {
        run.key
        for s in summaries
        if s not in unfinished
        for run in s.runs
        if run.seed < s.cell.seeds
    }
    left_out = []
    with sqlite3.connect(copy) as connection:
        for summary in unfinished:
            cell = summary.cell
            keys = [(run.key,) for run in summary.runs if run.key not in finished]
            connection.executemany("DELETE FROM runs WHERE key = ?", keys)
            connection.execute(
                "DELETE FROM cells WHERE dataset = ? AND method = ? AND settings = ?"
                " AND fingerprint = ? AND precision = ? AND numerics = ? AND search = ?",
                (cell.dataset, cell.method, settings_text(cell.settings), cell.fingerprint,
                 cell.precision, cell.numerics, cell.search),
            )  # fmt: skip
            left_out.append(f"{cell.dataset} {cell.method}: {len(summary.runs)} trainings so far")
        connection.execute(
            "DELETE FROM invocations WHERE id NOT IN"
            " (SELECT invocation FROM runs UNION SELECT invocation FROM cells)"
        )
        commands = connection.execute("SELECT command, id FROM invocations").fetchall()
        connection.executemany(
            "UPDATE invocations SET command = ? WHERE id = ?",
            [(without_folders(command), number) for command, number in commands],
        )
    return left_out


def without_folders(command: str) -> str:
    """A command with file names in place of absolute paths, which hold on one machine only."""
    if not command.startswith("sagpool "):
        return command
    words = []
    for word in shlex.split(command):
        option, sign, values = word.rpartition("=")
        names = [Path(one).name if one.startswith("/") else one for one in values.split(",")]
        words.append(f"{option}{sign}{','.join(names)}")
    return shlex.join(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--shared",
        action="store_true",
        help="several cells ran on the device at once, so leave out the tables of times",
    )
    parser.add_argument(
        "--experiment", default=EXPERIMENT, help="whose protocol and methods are the usual ones"
    )
    parser.add_argument("--page", type=Path, help="whose numbers are written anew")
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=[], help="other folders with rows for the page"
    )
    arguments = parser.parse_args()
    folder = arguments.folder
    with TemporaryDirectory() as made:
        store = Path(made, "finished.sqlite")
        try:
            left_out = finished_part(arguments.store, store)
            content = read_content(store, load_experiment(arguments.experiment))
        except SagpoolError as error:
            sys.exit(f"{error}")
        for part in ("tables", "figures"):
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).mkdir(parents=True)
        write_rows(store, folder, content)
        write_content(content, report_folder(store, Path(made)))
        tables = [file for file in Path(made, "tables").glob("*") if file.suffix in (".csv", ".md")]
        figures = [
            file for file in Path(made, "figures").glob("*.png") if file.name.startswith(FIGURES)
        ]
        for file in (*tables, *figures):
            times = arguments.shared and file.name.startswith(TIMES)
            if not times and not file.name.startswith(CLAIMS):
                shutil.copy(file, folder / file.parent.name)
        try:
            if arguments.experiment == EXPERIMENT:
                write_derived(folder)
            if arguments.page:
                write_page([*arguments.beside, folder], arguments.page)
        except (OSError, SagpoolError) as error:
            sys.exit(f"{error}")
    for sentence in left_out:
        print(f"left out: {sentence}")


if __name__ == "__main__":
    main()
