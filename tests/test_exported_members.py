import sagpool
import sagpool.graphs
import sagpool.models
import sagpool.nn


def test_the_names_of_the_package():
    assert sagpool.__all__ == [
        "AutoGraphClassifier",
        "AutoGraphRegressor",
        "GraphPoolingClassifier",
        "GraphPoolingRegressor",
        "Graphs",
        "SAGPoolClassifier",
        "SAGPoolRegressor",
        "SagpoolError",
        "TrainedModel",
        "__version__",
        "explain",
        "load",
    ]
    assert all(hasattr(sagpool, name) for name in sagpool.__all__)


def test_the_names_of_graphs():
    assert sagpool.graphs.__all__ == [
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
    assert all(hasattr(sagpool.graphs, name) for name in sagpool.graphs.__all__)


def test_the_names_for_methods_of_ones_own():
    assert {"Context", "Linear", "Norm", "Pool", "Pooled", "ScorePool", "Scores", "Streams"} <= set(
        sagpool.nn.__all__
    )
    assert {"Shape", "global_", "hierarchical", "load_plugin", "register"} <= set(
        sagpool.models.__all__
    )
    for module in (sagpool.nn, sagpool.models):
        assert all(hasattr(module, name) for name in module.__all__)


def test_errors_are_value_errors():
    assert issubclass(sagpool.SagpoolError, ValueError)
