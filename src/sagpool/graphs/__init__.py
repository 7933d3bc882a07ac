"""`Graphs`, and reading, packing, splitting and batching them."""

from sagpool.graphs.adjacency import Adjacency, InducedGraphs, Structure
from sagpool.graphs.batch import Batch, pack
from sagpool.graphs.convert import from_networkx, from_pyg, to_pyg
from sagpool.graphs.counting import colors, triangles
from sagpool.graphs.edge_list import EdgeList
from sagpool.graphs.graphs import Graphs, Statistics
from sagpool.graphs.hierarchy import Clusters, coarser
from sagpool.graphs.host_graphs import Coarse, Coarsening, HostGraphs
from sagpool.graphs.load import load
from sagpool.graphs.motifs import motifs, motifs_shift
from sagpool.graphs.node_target_file import with_node_targets
from sagpool.graphs.split_file import with_split
from sagpool.graphs.splits import (
    NO_TEST,
    Split,
    fixed_split,
    folds_of_groups,
    split,
    stratified_folds,
    time_split,
)
from sagpool.graphs.weighted import WeightedAdjacency

__all__ = [
    "NO_TEST",
    "Adjacency",
    "Batch",
    "Clusters",
    "Coarse",
    "Coarsening",
    "EdgeList",
    "Graphs",
    "HostGraphs",
    "InducedGraphs",
    "Split",
    "Statistics",
    "Structure",
    "WeightedAdjacency",
    "coarser",
    "colors",
    "fixed_split",
    "folds_of_groups",
    "from_networkx",
    "from_pyg",
    "load",
    "motifs",
    "motifs_shift",
    "pack",
    "split",
    "stratified_folds",
    "time_split",
    "to_pyg",
    "triangles",
    "with_node_targets",
    "with_split",
]
