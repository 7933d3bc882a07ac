"""Where trainings are done."""

from sagpool.bench.engines.engine import Engine, Job
from sagpool.bench.engines.local import Local

__all__ = ["Engine", "Job", "Local"]
