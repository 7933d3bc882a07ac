"""ASAPool, with the graphs that it leaves: weighted, and dense in blocks of similar size."""

from sagpool.nn.pool.asap.layer import ASAPool

__all__ = ["ASAPool"]
