"""Experiments: run them into a store, search for settings, compare methods.

An experiment and its rows::

    from sagpool.bench import rows, run_experiment

    result = run_experiment("quick", datasets=["MUTAG"], methods=["sagpool-h"], seeds=1)
    table = rows(result.store)
"""

from sagpool.bench.api import ExperimentResult, run_experiment
from sagpool.bench.experiment import Experiment
from sagpool.bench.experiment_file import experiment_names, load_experiment
from sagpool.bench.experiment_plan import ExperimentPlan, plan_experiment
from sagpool.bench.frame import curves, rows
from sagpool.bench.merge import merge_stores
from sagpool.bench.plan import Overrides
from sagpool.bench.run import CellState
from sagpool.bench.search import Search
from sagpool.bench.selection import Select
from sagpool.bench.store import Store
from sagpool.bench.summary import Summary

__all__ = [
    "CellState",
    "Experiment",
    "ExperimentPlan",
    "ExperimentResult",
    "Overrides",
    "Search",
    "Select",
    "Store",
    "Summary",
    "curves",
    "experiment_names",
    "load_experiment",
    "merge_stores",
    "plan_experiment",
    "rows",
    "run_experiment",
]
