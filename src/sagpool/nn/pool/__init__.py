"""Pooling layers: one contract (`Pool`), one file or folder for each method."""

from sagpool.nn.pool.asap import ASAPool
from sagpool.nn.pool.attention_score import AttentionScore
from sagpool.nn.pool.clusters import DiffPool, DMoNPool, HOSCPool, JustBalancePool, MinCutPool
from sagpool.nn.pool.edge_pool import EdgePool
from sagpool.nn.pool.gmt import GMT
from sagpool.nn.pool.gpool import GPool
from sagpool.nn.pool.graclus import Graclus
from sagpool.nn.pool.hierarchy_pool import HierarchyPool
from sagpool.nn.pool.kmis import KMIS
from sagpool.nn.pool.learned_ratio import LearnedRatioPool
from sagpool.nn.pool.ndp import NDP
from sagpool.nn.pool.pan_pool import PANPool
from sagpool.nn.pool.pool import (
    READOUTS,
    Context,
    Pool,
    Pooled,
    pools_of,
    readout,
    readout_width,
)
from sagpool.nn.pool.pyg_convert import from_pyg, to_pyg
from sagpool.nn.pool.pyg_interface import PoolOutput
from sagpool.nn.pool.pyg_layers import SAGPooling, TopKPooling
from sagpool.nn.pool.random_pool import NoPool, RandomPool
from sagpool.nn.pool.sag_pool import SAGPool
from sagpool.nn.pool.score_pool import ScorePool
from sagpool.nn.pool.scores import Scores
from sagpool.nn.pool.selection import Ratio, Selection, keep_top
from sagpool.nn.pool.set2set import Set2Set
from sagpool.nn.pool.sort_pool import SortConv, SortPool
from sagpool.nn.pool.unpool import Unpool, unpool

__all__ = [
    "GMT",
    "KMIS",
    "NDP",
    "READOUTS",
    "ASAPool",
    "AttentionScore",
    "Context",
    "DMoNPool",
    "DiffPool",
    "EdgePool",
    "GPool",
    "Graclus",
    "HOSCPool",
    "HierarchyPool",
    "JustBalancePool",
    "LearnedRatioPool",
    "MinCutPool",
    "NoPool",
    "PANPool",
    "Pool",
    "PoolOutput",
    "Pooled",
    "RandomPool",
    "Ratio",
    "SAGPool",
    "SAGPooling",
    "ScorePool",
    "Scores",
    "Selection",
    "Set2Set",
    "SortConv",
    "SortPool",
    "TopKPooling",
    "Unpool",
    "from_pyg",
    "keep_top",
    "pools_of",
    "readout",
    "readout_width",
    "to_pyg",
    "unpool",
]
