"""Set2Set."""

from sagpool.nn.pool.set2set.layer import Set2Set

__all__ = ["Set2Set"]
