"""Whole experiments, from the plan to the last row in the run store.

The ratios, all larger for better:

grid_proteins: seconds of the PROTEINS grid of sagpool-h (1,920 trainings) when the shapes of models
    trained one after the other, over its seconds now, with kernels compiled before.
grid_nci1: seconds of the NCI1 grid with earlier code, whose shapes train one after the other, over
    its seconds now; without --before, this code runs one experiment for each shape.
utilisation: models · steps/s of the PROTEINS grid over the steady rate of fleets of its shapes.
race_cost: models · epochs of a full grid over those of `--search race`; the lowest of all cells.
    The regret is how much lower the validation accuracy of the race's choice is than that of the
    grid's. In the grid itself, the grid's choice is the luckiest: the choice of a repeated grid,
    with other rounding, has a regret there as well. So both are also trained with further seeds.
grid_mutag_cpu: seconds of a small grid on MUTAG with earlier code over those now, on two cores.

All but the last need a GPU; PROTEINS and NCI1 are found in SAGPOOL_DATA.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch

from finished_grid import find_grid, read_grid
from measure import versions
from sagpool import load
from sagpool.bench import run_experiment
from sagpool.bench.plan import training_of
from sagpool.bench.records import DeviceTime
from sagpool.bench.run import CellState
from sagpool.bench.store import Store
from sagpool.bench.stored_cells import settings_text
from sagpool.fleet.schedule import split_of
from steady_rate import steady_rate

# One H200, sagpool bench --dataset PROTEINS --method sagpool-h --search grid, before fleets of
# several shapes trained side by side: 1,654 of the 1,920 trainings were done after 281 s.
BEFORE_PROTEINS = 281 * 1920 / 1654
# Hidden size and ratio; any first few of them are a representative choice.
SHAPES = (
    *((64, 1 / 2), (16, 1 / 4), (128, 1 / 4), (32, 1 / 2)),
    *((128, 1 / 2), (32, 1 / 4), (64, 1 / 4), (16, 1 / 2)),
)
COMMAND = "from sagpool.cli.main import main; main()"
RACES = tuple(":".join(cell) for cell in product(("PROTEINS", "NCI1"), ("sagpool-h", "gpool-h")))


class Ran(NamedTuple):
    """The result of one experiment."""

    seconds: float
    first_result: float  # seconds until the first result
    store: Path
    profile: DeviceTime | None


@dataclass
class Figures:
    """The measured figures."""

    options: argparse.Namespace
    folder: Path
    ratios: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    meaning: dict[str, str] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    first_grids: dict[str, Ran] = field(default_factory=dict)  # by data set and method
    grids: dict[str, Ran] = field(default_factory=dict)

    def run(
        self,
        datasets: str,
        methods: str,
        search: str,
        settings: dict[str, Any] | None = None,
        seeds: int = 1,
    ) -> Ran:
        """Run one experiment into a separate store; names are separated by commas."""
        count = len(list(self.folder.glob("*.sqlite")))
        store = self.folder / f"{count}-{datasets}-{methods}-{search}.sqlite"
        first: list[float] = []

        def watch(state: CellState) -> None:
            if state.done and not first:
                first.append(time.perf_counter() - begin)

        begin = time.perf_counter()
        result = run_experiment(
            "lee2019",
            datasets=datasets.split(","),
            methods=methods.split(","),
            seeds=seeds,
            settings=settings,
            search=search,
            store=store,
            device="cuda",
            profile=True,
            watch=watch,
        )
        ran = Ran(time.perf_counter() - begin, first[0], store, result.profile)
        note(f"{search} {datasets} {methods} {settings or ''}: {ran.seconds:.1f} s; {ran.profile}")
        return ran

    def first_grid(self, dataset: str, method: str) -> Ran:
        """The full grid, which compiles the kernels that it needs."""
        key = f"{dataset}:{method}"
        if key not in self.first_grids:
            self.first_grids[key] = ran = self.run(dataset, method, "grid")
            self.seconds[f"{key} first"] = ran.seconds
            self.seconds[f"{key} first result"] = ran.first_result
        return self.first_grids[key]

    def grid(self, dataset: str, method: str) -> Ran:
        """The full grid, with kernels already compiled."""
        key = f"{dataset}:{method}"
        if key not in self.grids:
            self.first_grid(dataset, method)
            self.grids[key] = self.run(dataset, method, "grid")
            self.seconds[key] = self.grids[key].seconds
        return self.grids[key]

    def grid_proteins(self) -> None:
        ran = self.grid("PROTEINS", "sagpool-h")
        self.ratios["grid_proteins"] = BEFORE_PROTEINS / ran.seconds
        self.meaning["grid_proteins"] = f"{BEFORE_PROTEINS:.0f} s before"

    def grid_nci1(self) -> None:
        now = self.first_grid("NCI1", "sagpool-h").seconds  # including compilation
        first = self.options.first_shape
        chosen = SHAPES[first : first + self.options.shapes]
        alone = [self._nci1_alone(hidden, ratio) for hidden, ratio in chosen]
        self.seconds["NCI1 one shape at a time"] = sum(alone) * len(SHAPES) / len(chosen)
        self.ratios["grid_nci1"] = self.seconds["NCI1 one shape at a time"] / now
        alone_in_turn = ", ".join(
            f"{shape} {one:.0f} s" for shape, one in zip(chosen, alone, strict=True)
        )
        self.meaning["grid_nci1"] = f"from {len(chosen)} of {len(SHAPES)} shapes: {alone_in_turn}"

    def _nci1_alone(self, hidden: int, ratio: float) -> float:
        """Seconds of one shape of the grid; with earlier code, in a separate process."""
        settings = {"hidden": hidden, "ratio": ratio}
        if not self.options.before:
            return self.run("NCI1", "sagpool-h", "grid", settings).seconds
        store = self.folder / f"before-{hidden}-{ratio:g}.sqlite"
        command = "bench --dataset NCI1 --method sagpool-h --search grid --seeds 1 --device cuda"
        choices = [
            part for name, value in settings.items() for part in ("--set", f"{name}={value}")
        ]
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", COMMAND, *command.split(), *choices, "--store", store],
            env=os.environ | {"PYTHONPATH": str(self.options.before.resolve())},
            check=True,
            stdout=sys.stderr,
        )
        return time.perf_counter() - begin

    def utilisation(self) -> None:
        ran = self.grid("PROTEINS", "sagpool-h")
        graphs = load("PROTEINS").to("cuda")
        runs = read_grid(ran.store, "PROTEINS", "sagpool-h").runs
        done: dict[tuple[int, float], int] = dict.fromkeys(SHAPES, 0)
        for run in runs:
            training = replace(training_of(run.method, run.settings), fold=run.fold)
            steps = -(-len(split_of(graphs, training).train) // training.batch_size)
            done[training.hidden, training.ratio] += steps * run.epochs
        rates = {shape: steady_rate(graphs, shape, self.options.members) for shape in SHAPES}
        mix = sum(done.values()) / sum(done[shape] / rates[shape] for shape in SHAPES)
        reached = sum(done.values()) / ran.seconds
        assert ran.profile is not None
        busy = ran.profile.whole["steps"]
        self.ratios["utilisation"] = reached / mix
        self.meaning["utilisation"] = f"{reached:,.0f} of {mix:,.0f} models · steps/s"
        self.others["busy"] = busy
        self.others["steady"] = {f"{h}, {ratio:g}": rate for (h, ratio), rate in rates.items()}

    def race_cost(self) -> None:
        race = self.run(self._joined(0), self._joined(1), "race")
        self.seconds["races"] = race.seconds
        races = {name: self._compared(name, race) for name in self.options.race}
        self.ratios["race_cost"] = min(race["ratio"] for race in races.values())
        regrets = (f"{name} {race['regret']:.2f}{_further(race)}" for name, race in races.items())
        self.meaning["race_cost"] = f"regret in points: {', '.join(regrets)}"
        self.others["races"] = races

    def _joined(self, place: int) -> str:
        """All data sets (0) or methods (1) of the races, for one experiment."""
        return ",".join(dict.fromkeys(name.split(":")[place] for name in self.options.race))

    def _compared(self, name: str, race: Ran) -> dict[str, float]:
        """A race compared with the full grid."""
        dataset, method = name.split(":")
        grid = read_grid(self._grid_store(dataset, method), dataset, method)
        with Store.reading(race.store) as store:
            cells = {(cell.dataset, cell.method): cell for cell in store.cells()}
        cell = cells[dataset, method]
        assert cell.cost is not None
        accuracy = {settings_text(one.settings): one.accuracy for one in grid.cell.ranking}
        best, chosen = max(accuracy.values()), accuracy[settings_text(cell.settings)]
        found = {
            "ratio": grid.epochs / cell.cost.epochs,
            "regret": 100 * (best - chosen),  # points of validation accuracy
            "grid_epochs": grid.epochs,
            "race_epochs": cell.cost.epochs,
        }
        if not self.options.further_seeds or cell.settings == grid.cell.settings:
            return found
        used = cell.ranking[0].runs // cell.settings["folds"]  # number of seeds
        again = [
            self._further_accuracy(dataset, method, settings, used)
            for settings in (grid.cell.settings, cell.settings)
        ]
        by_seed = [100 * (one - other) for one, other in zip(*again, strict=True)]
        return found | {
            "regret_of_further_seeds": statistics.mean(by_seed),
            "standard_error": statistics.stdev(by_seed) / math.sqrt(len(by_seed)),
        }

    def _further_accuracy(
        self, dataset: str, method: str, settings: dict[str, Any], used: int
    ) -> list[float]:
        """The mean validation accuracy of each seed after those that the searches have used."""
        searched = {name: settings[name] for name in ("lr", "hidden", "weight_decay", "ratio")}
        seeds = used + self.options.further_seeds
        ran = self.run(dataset, method, "none", searched, seeds=seeds)
        with Store.reading(ran.store) as store:
            runs = list(store.runs())
        return [
            statistics.mean(run.validation_accuracy for run in runs if run.seed == seed)
            for seed in range(used, seeds)
        ]

    def _grid_store(self, dataset: str, method: str) -> Path:
        for given in self.options.grid_store:
            if find_grid(given, dataset, method):
                return given
        return self.first_grid(dataset, method).store

    def grid_mutag_cpu(self) -> None:
        here = Path(__file__).parents[1] / "src"
        before = self.options.before
        sides = {"now": (here, "all"), "before": (before or here, "all" if before else "shapes")}
        measured: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
        for _ in range(self.options.repeats):
            for name, side in sides.items():
                measured[name].append(mutag_grid(*side))
                note(f"grid on MUTAG, {name}: {measured[name][-1]}")
        for name, times in measured.items():
            self.seconds[f"MUTAG {name}"] = statistics.median(one["wall"] for one in times)
            self.seconds[f"MUTAG {name} CPU"] = statistics.median(one["cpu"] for one in times)
            self.others[f"mutag_epochs_{name}"] = times[0]["epochs"]
        self.ratios["grid_mutag_cpu"] = self.seconds["MUTAG before"] / self.seconds["MUTAG now"]
        self.meaning["grid_mutag_cpu"] = (
            "over the code before" if before else "over this code, one shape after the other"
        )


def mutag_grid(source: Path, how: str) -> dict[str, float]:
    """Seconds and epochs of the small grid, in a process with this source of the package."""
    script = Path(__file__).with_name("mutag_grid.py")
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, script, how], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def _further(race: dict[str, float]) -> str:
    if "standard_error" not in race:
        return ""
    error = race["standard_error"]
    return f", with further seeds {race['regret_of_further_seeds']:.2f} ± {error:.2f}"


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[[Figures], None]] = {
    "grid_proteins": Figures.grid_proteins,
    "grid_nci1": Figures.grid_nci1,
    "utilisation": Figures.utilisation,
    "race_cost": Figures.race_cost,
    "grid_mutag_cpu": Figures.grid_mutag_cpu,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--fresh", action="store_true", help="compile every kernel in the first run, as if new"
    )
    parser.add_argument("--shapes", type=int, default=8, help="of NCI1 that run alone; scaled up")
    parser.add_argument("--first-shape", type=int, default=0, help="leave out those before it")
    parser.add_argument("--members", type=int, default=200, help="of a fleet at its steady rate")
    parser.add_argument("--race", nargs="+", choices=RACES, default=RACES)
    parser.add_argument(
        "--grid-store", type=Path, nargs="+", default=[], help="with finished grids, for races"
    )
    parser.add_argument(
        "--further-seeds", type=int, default=10, help="of both choices, if they differ; 0 for none"
    )
    parser.add_argument("--stores", type=Path, help="folder where the run stores stay; must be new")
    parser.add_argument(
        "--before", type=Path, help="src folder of earlier code, for MUTAG and NCI1"
    )
    parser.add_argument("--repeats", type=int, default=3, help="of both sides on MUTAG")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        if options.fresh:
            os.environ["TRITON_CACHE_DIR"] = f"{name}/kernels"
        folder = options.stores or Path(name) / "stores"
        folder.mkdir()
        figures = Figures(options, folder)
        skipped = []
        for part in options.only:
            if part != "grid_mutag_cpu" and not torch.cuda.is_available():
                note(f"{part} needs a GPU; skipped.")
                skipped.append(part)
                continue
            PARTS[part](figures)
    outcome = {
        "ratios": figures.ratios,
        "meaning": figures.meaning,
        "seconds": figures.seconds,
        **figures.others,
        "skipped": skipped,
        "versions": versions("torch"),
    }
    if options.json:
        print(json.dumps(outcome))
        return
    for name, seconds in figures.seconds.items():
        print(f"{name:<28} {seconds:9.1f} s")
    for name, ratio in figures.ratios.items():
        print(f"{name:<28} {ratio:9.2f} ×   {figures.meaning[name]}")
    if "busy" in figures.others:
        print(f"{'busy with training steps':<28} {100 * figures.others['busy']:9.0f} %")


if __name__ == "__main__":
    main()
