"""Training: a fleet of models against PyG, the same net on the same data.

Both sides run whole epochs: batches of 128 graphs in random order, forward, backward, Adam, then
validation. The figure is models · training steps per second. The peer is PyG the usual way
(``loader``: one model at a time, a DataLoader), or the best a power user gets from it (``mps``: see
pyg_mps.py). For methods that PyG lacks it is a fleet of ``sagpool-h`` of the same size.
"""

import argparse
import gc
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import torch
from torch_geometric.loader import DataLoader

from measure import versions
from pyg_models import METHODS, Collated, pyg_epoch, pyg_model
from pyg_mps import Case, Outcome, mps_rates
from sagpool import Graphs, SagpoolError, load
from sagpool.fleet import Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.memory import choose_fleet_size
from sagpool.fleet.schedule import Slots, split_of
from sagpool.models import methods

BASELINE = "sagpool-h"
MAX_MEMBERS = 200  # unless --members is given
PYG_WARM_UP, FLEET_WARM_UP = 1, 3  # epochs; a fleet compiles kernels in the first


def pyg_rate(graphs: Graphs, training: Training, device: str, seconds: float) -> float:
    """Training steps per second of one PyG model.

    This is the training loop of PyG's tutorials, with a DataLoader.
    """
    data = graphs.to_pyg()
    parts = split_of(graphs, training)
    loaders = [
        DataLoader([data[i] for i in ids], batch_size=training.batch_size, shuffle=shuffle)
        for ids, shuffle in ((parts.train, True), (parts.validation, False))
    ]
    model = pyg_model(training, graphs).to(device)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=training.lr, weight_decay=training.weight_decay
    )

    def epoch() -> int:
        return pyg_epoch(model, optimiser, *(_collated(loader, device) for loader in loaders))

    return _rate(epoch, PYG_WARM_UP, seconds)


def fleet_rate(
    graphs: Graphs, training: Training, members: int | None, device: str, seconds: float
) -> tuple[float, int]:
    """Models · training steps per second of a fleet, and its number of members."""
    graphs = graphs.to(device)
    trainings = [
        replace(training, seed=i // 10, fold=i % 10) for i in range(members or MAX_MEMBERS)
    ]
    members, parts, _ = choose_fleet_size(graphs, trainings, torch.float32, members)
    fleet = Fleet(graphs, trainings[:members], Slots.fill(range(members), members), parts=parts)
    train = max(len(parts.train) for parts in fleet.settings.splits)
    steps = -(-train // training.batch_size)

    def advance() -> int:
        before = fleet.epochs_trained
        fleet.advance()
        return steps * (fleet.epochs_trained - before)

    return _rate(advance, FLEET_WARM_UP, seconds), members


def _collated(loader: DataLoader, device: str) -> Iterator[Collated]:
    for batch in loader:
        batch = batch.to(device)
        yield batch.y, (batch.x, batch.edge_index, batch.batch)


def _rate(epoch: Callable[[], int], warm_up: int, seconds: float) -> float:
    """Steps per second; at the end of every epoch the host waits for the device."""
    for _ in range(warm_up):
        epoch()
    steps, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        steps += epoch()
    return steps / elapsed


def peak_memory(device: str) -> float:
    """Peak GiB: since `clear_memory` on a GPU, of the whole process on a CPU."""
    if device == "cpu":
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    return round(torch.cuda.max_memory_allocated() / 2**30, 2)


def clear_memory(device: str) -> None:
    """Free all memory of the device before each side."""
    gc.collect()
    if device != "cpu":
        torch.cuda.init()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


class Figures:
    """The figures of each case; a side that failed has a reason instead."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.ratios: dict[str, float] = {}
        self.rates: dict[str, dict[str, float]] = {}
        self.memory: dict[str, dict[str, float]] = {}
        self.failures: dict[str, str] = {}

    def measure(self, name: str, graphs: Graphs, training: Training, mps: float | None) -> None:
        """Measure both sides of a case; ``mps`` is the rate of the peer measured before."""
        device, seconds = self.arguments.device, self.arguments.seconds
        rates, memory = self.rates.setdefault(name, {}), self.memory.setdefault(name, {})
        if "loader" in self.arguments.peer:
            with self._side(name, "pyg"):
                clear_memory(device)
                rates["pyg"] = pyg_rate(graphs, training, device, seconds)
                memory["pyg"] = peak_memory(device)
        if mps is not None:
            rates["pyg_mps"] = mps
        if BASELINE in self.arguments.peer:
            with self._side(name, BASELINE):
                clear_memory(device)
                baseline = replace(training, method=BASELINE, method_settings=())
                rates[BASELINE] = fleet_rate(
                    graphs, baseline, self.arguments.members, device, seconds
                )[0]
        with self._side(name, "fleet"):
            clear_memory(device)
            rates["fleet"], rates["members"] = fleet_rate(
                graphs, training, self.arguments.members, device, seconds
            )
            memory["fleet"] = peak_memory(device)
        peers = (("pyg", name), ("pyg_mps", f"{name} mps"), (BASELINE, f"{name} {BASELINE}"))
        for peer, key in peers:
            if peer in rates and "fleet" in rates:
                self.ratios[key] = round(rates["fleet"] / rates[peer], 2)
        rates.update({side: round(rate, 1) for side, rate in rates.items() if side != "members"})
        self._show(name)

    @contextmanager
    def _side(self, name: str, side: str) -> Iterator[None]:
        """Record an error, so that the other figures are still measured."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self.failures[f"{name} {side}"] = reason[:300]

    def _show(self, name: str) -> None:
        """Print a readable line, to stderr with --json."""
        rates, line = self.rates[name], f"{name:<24}"
        names = {"pyg": "PyG", "pyg_mps": f"{self.arguments.processes} PyG", BASELINE: BASELINE}
        names |= {"fleet": "fleet"}
        for side, words in names.items():
            line += f" {words} {rates[side]:.1f}" if side in rates else ""
        line += f" models·steps/s, {rates.get('members', 'no')} members"
        peers = {name: "PyG", f"{name} mps": "the processes", f"{name} {BASELINE}": BASELINE}
        for key, words in peers.items():
            line += f", {self.ratios[key]:.1f} × {words}" if key in self.ratios else ""
        if "fleet" in self.memory[name]:
            line += f", peak memory {self.memory[name]['fleet']} GiB"
        print(line, file=sys.stderr if self.arguments.json else sys.stdout, flush=True)


def parse() -> argparse.Namespace:
    # Check for CUDA through NVML: a CUDA context here would disturb the peer under MPS.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", default=["PROTEINS"])
    parser.add_argument("--hidden", nargs="+", type=int, default=[128])
    parser.add_argument(
        "--method", nargs="+", choices=methods(), default=[BASELINE], metavar="METHOD"
    )
    parser.add_argument("--members", type=int, help="default: as many as fit, at most 200")
    parser.add_argument(
        "--peer",
        nargs="*",
        choices=("loader", "mps", BASELINE),
        default=["loader"],
        help="without a value only fleets are measured",
    )
    parser.add_argument("--processes", type=int, default=16, help="of the peer mps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=10, help="for each side and case")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lacking = sorted(set(arguments.method) - set(METHODS))
    if lacking and not {BASELINE}.issuperset(arguments.peer):
        parser.error(f"PyG has no {', '.join(lacking)}; give --peer {BASELINE}, or --peer alone.")
    return arguments


def main() -> None:
    arguments = parse()
    try:
        data = {name: load(name) for name in arguments.dataset}
    except SagpoolError as error:
        sys.exit(f"{error}")
    cases = {}
    for name, hidden, method in product(data, arguments.hidden, arguments.method):
        key = f"{name}/{hidden}"
        if arguments.method != [BASELINE]:
            key = f"{key}/{method}"
        if method == "sagnet" and len(arguments.hidden) == 1:
            key = f"{method}/{name}"
        # No early stopping: every member trains in every epoch.
        training = Training(
            method,
            hidden=hidden,
            ratio=0.25 if method == "diffpool-h" else 0.5,  # as in the experiment lee2019
            patience=10**9,
            max_epochs=10**9,
        )
        cases[key] = Case(name, training)

    figures = Figures(arguments)
    processes = Outcome(mps=False, rates={}, failures={})
    if "mps" in arguments.peer:  # first, while there is no CUDA context in this process
        processes = mps_rates(cases, arguments.device, arguments.seconds, arguments.processes)
    for key, reason in processes.failures.items():
        figures.failures[f"{key} pyg_mps"] = reason
    for key, case in cases.items():
        figures.measure(key, data[case.dataset], case.training, processes.rates.get(key))
    if arguments.json:
        print(
            json.dumps(
                {
                    "ratios": figures.ratios,
                    "models_steps_per_s": figures.rates,
                    "peak_gib": figures.memory,
                    "failures": figures.failures,
                    "mps": processes.mps,
                    "processes": arguments.processes,
                    "device": arguments.device,
                    "versions": versions("torch", "torch-geometric"),
                }
            )
        )
    else:
        for what, reason in figures.failures.items():
            print(f"{what} failed: {reason}")
    if any(what.endswith(" fleet") for what in figures.failures):
        sys.exit(1)


if __name__ == "__main__":
    main()
