import sagpool
import sagpool.graphs


def test_the_names_of_the_package():
    assert sagpool.__all__ == [
        "GraphPoolingClassifier",
        "Graphs",
        "SAGPoolClassifier",
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
        "Graphs",
        "Split",
        "Statistics",
        "from_networkx",
        "from_pyg",
        "load",
        "motifs",
        "pack",
        "split",
        "stratified_folds",
        "to_pyg",
    ]
    assert all(hasattr(sagpool.graphs, name) for name in sagpool.graphs.__all__)


def test_errors_are_value_errors():
    assert issubclass(sagpool.SagpoolError, ValueError)
