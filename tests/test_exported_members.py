import sagpool
import sagpool.graphs


def test_the_names_of_the_package():
    assert sagpool.__all__ == ["Graphs", "SagpoolError", "__version__", "load"]
    assert all(hasattr(sagpool, name) for name in sagpool.__all__)


def test_the_names_of_graphs():
    assert sagpool.graphs.__all__ == [
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


def test_an_error_is_also_a_value_error():
    assert issubclass(sagpool.SagpoolError, ValueError)
