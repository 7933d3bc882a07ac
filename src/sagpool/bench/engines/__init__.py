"""Engines: where and how the trainings of an experiment are run."""

from sagpool.bench.engines.engine import Engine, Job
from sagpool.bench.engines.local import Local

__all__ = ["Engine", "Job", "Local"]
