"""Pooling layers: one contract (`Pool`), one file or folder for each method."""

from sagpool.nn.pool.diffpool import DiffPool
from sagpool.nn.pool.gpool import GPool
from sagpool.nn.pool.learned_ratio import LearnedRatioPool
from sagpool.nn.pool.pool import (
    READOUTS,
    Context,
    Pool,
    Pooled,
    pools_of,
    readout,
    readout_width,
)
from sagpool.nn.pool.pyg_interface import PoolOutput, unpool
from sagpool.nn.pool.random_pool import NoPool, RandomPool
from sagpool.nn.pool.sag_pool import AttentionScore, SAGPool
from sagpool.nn.pool.score_pool import ScorePool, Scores
from sagpool.nn.pool.selection import Ratio, Selection, keep_top
from sagpool.nn.pool.set2set import Set2Set
from sagpool.nn.pool.sort_pool import SortConv, SortPool

__all__ = [
    "READOUTS",
    "AttentionScore",
    "Context",
    "DiffPool",
    "GPool",
    "LearnedRatioPool",
    "NoPool",
    "Pool",
    "PoolOutput",
    "Pooled",
    "RandomPool",
    "Ratio",
    "SAGPool",
    "ScorePool",
    "Scores",
    "Selection",
    "Set2Set",
    "SortConv",
    "SortPool",
    "keep_top",
    "pools_of",
    "readout",
    "readout_width",
    "unpool",
]
