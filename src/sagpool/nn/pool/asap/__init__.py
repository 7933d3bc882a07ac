"""ASAPool, and its pooled graphs: weighted, and dense in blocks of similar size."""

from sagpool.nn.pool.asap.layer import ASAPool

__all__ = ["ASAPool"]
