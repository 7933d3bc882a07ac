"""Inputs of scikit-learn estimators: graphs, and classes or targets."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sagpool.errors import SagpoolError
from sagpool.graphs import Graphs, from_networkx, from_pyg
from sagpool.graphs.columns import Encoding
from sagpool.graphs.concat import concat
from sagpool.graphs.features import Features
from sagpool.graphs.from_molecules import from_molecules
from sagpool.graphs.targets import MAX_TARGET
from sagpool.graphs.vocabulary import Vocabulary

if TYPE_CHECKING:
    import networkx
    from rdkit.Chem import Mol
    from torch_geometric.data import Data

    ManyGraphs = (
        Graphs
        | Iterable[Graphs]
        | Iterable[Data]
        | Iterable[networkx.Graph]
        | Iterable[str]
        | Iterable[Mol]
    )


class Classes(NamedTuple):
    graphs: Graphs  # y are the classes
    values: np.ndarray  # [classes] in ascending order


class Targets(NamedTuple):
    graphs: Graphs  # has the targets
    one_column: bool  # whether y was a vector, not a matrix


def pack_graphs(X: Any, features: Features | Encoding) -> Graphs:
    """All graphs in one collection; `Graphs` keep their features."""
    graphs = _listed(X)
    if not graphs:
        raise SagpoolError("X has no graphs.")
    for number, graph in enumerate(graphs):
        if graph is None or (isinstance(graph, float) and np.isnan(graph)):
            raise SagpoolError(f"X[{number}] is {graph}, not a graph.")
    if _all_are(graphs, Graphs):
        # scikit-learn's splitters turn `Graphs` into lists of single graphs.
        return graphs[0] if len(graphs) == 1 else concat(graphs)
    if _all_are(graphs, _molecule_types()):
        return from_molecules(graphs, features=features, name="X")

    import networkx
    from torch_geometric.data import Data

    # Classes stored in the graphs are ignored: they may be vectors, or missing in some graphs.
    if _all_are(graphs, networkx.Graph):
        packed = from_networkx(graphs, [0] * len(graphs), features=features)
        return replace(packed, y=None, class_names=())
    if _all_are(graphs, Data):
        everything = features == "all" or isinstance(features, Encoding)
        bare = [
            Data(g.x, g.edge_index, g.edge_attr if everything else None, num_nodes=g.num_nodes)
            for g in graphs
        ]
        return from_pyg(bare, features=features)
    kinds = ", ".join(sorted({type(graph).__name__ for graph in graphs}))
    raise SagpoolError(
        "X must be Graphs, or a list of either SMILES strings, RDKit molecules, PyG Data or "
        f"networkx graphs, not of {kinds}."
    )


def pack_for_fit(X: Any, features: Features) -> Graphs:
    """Like `pack_graphs`; an error if `Graphs` have other features than requested."""
    graphs = pack_graphs(X, features)
    own = Vocabulary.of(graphs).kind
    if features not in ("auto", "all", own):
        raise SagpoolError(f"{graphs.name} already has {own} as node features, not {features}.")
    return graphs


def with_classes(graphs: Graphs, y: Any) -> Classes:
    """The graphs with these classes; without ``y``, with the classes they have."""
    classes, codes = _encode(classes_of(graphs) if y is None else y)
    if len(codes) != len(graphs):
        raise SagpoolError(f"y has {len(codes)} classes for {len(graphs)} graphs.")
    if len(classes) < 2:
        raise SagpoolError(f"y needs at least two classes, but has only {classes[0]}.")
    return Classes(
        replace(
            without_answers(graphs),
            y=torch.from_numpy(codes).to(graphs.device),
            class_names=tuple(str(value) for value in classes),
        ),
        classes,
    )


def has_tasks(graphs: Graphs, y: Any) -> bool:
    """Whether ``y``, or the targets of the graphs without it, is a matrix of several tasks."""
    return graphs.task == "multitask" if y is None else np.ndim(y) == 2 and np.shape(y)[1] > 1


def with_tasks(graphs: Graphs, y: Any) -> Graphs:
    """The graphs with several tasks of 0 and 1, NaN where not measured; names as in pandas."""
    values = task_matrix(graphs.targets if y is None else y)
    found = with_targets(graphs, values).graphs
    names = graphs.target_names if y is None else _target_names(y, values.shape[1])
    return replace(found, target_names=names, task="multitask")


def task_matrix(y: Any) -> np.ndarray:
    """``[graphs, tasks]`` float64 of 0, 1 and NaN."""
    values = target_matrix(y)
    wrong = ~(np.isnan(values) | (values == 0) | (values == 1)).all(1)
    if wrong.any():
        raise SagpoolError(
            f"y has several columns, so each must be 0, 1 or NaN; graph {int(wrong.argmax())} has "
            "another number."
        )
    return values


def with_targets(graphs: Graphs, y: Any) -> Targets:
    """The graphs with these targets; without ``y``, with the targets they have.

    Targets are named as in pandas, or y; or y 0, y 1, ...
    """
    given = targets_of(graphs) if y is None else y
    values = target_matrix(given)
    if len(values) != len(graphs):
        raise SagpoolError(f"y has {len(values)} rows for {len(graphs)} graphs.")
    unmeasured = np.isnan(values).all(1)
    if unmeasured.any():
        raise SagpoolError(f"y has no number for graph {int(unmeasured.argmax())}.")
    names = graphs.target_names if y is None else _target_names(y, values.shape[1])
    targets = torch.from_numpy(values.astype(np.float32)).to(graphs.device)
    graphs = replace(
        without_answers(graphs), targets=targets, target_names=names, task="regression"
    )
    return Targets(graphs, np.ndim(given) < 2)


def target_matrix(y: Any) -> np.ndarray:
    """``[graphs, targets]`` float64, NaN where not measured."""
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):
        raise SagpoolError("y must have numbers, one or a row of them for each graph.") from None
    if values.ndim not in (1, 2) or (values.ndim == 2 and not values.shape[1]):
        shape = " x ".join(map(str, values.shape)) or "one number"
        raise SagpoolError(f"y must have a number, or a row of numbers, for each graph: {shape}.")
    values = values.reshape(len(values), -1)
    wrong = (np.abs(values) > MAX_TARGET).any(1)
    if wrong.any():
        raise SagpoolError(f"y is not finite for graph {int(wrong.argmax())}; use NaN for gaps.")
    return values


def without_answers(graphs: Graphs) -> Graphs:
    """The graphs without classes and targets."""
    return replace(
        graphs, y=None, class_names=(), targets=None, target_names=(), task="classification"
    )


def classes_of(graphs: Graphs) -> np.ndarray:
    """``[graphs]`` names of the classes stored in `Graphs`."""
    if graphs.y is None:
        raise SagpoolError("y is missing, and the graphs have no classes.")
    return np.array(graphs.class_names)[graphs.y.cpu().numpy()]


def targets_of(graphs: Graphs) -> np.ndarray:
    """The targets stored in `Graphs`: ``[graphs]``, or ``[graphs, targets]`` if several."""
    if graphs.targets is None or graphs.task != "regression":
        raise SagpoolError("y is missing, and the graphs have no numbers to predict.")
    values = graphs.targets.cpu().numpy()
    return values[:, 0] if values.shape[1] == 1 else values


def seed_of(random_state: Any) -> int:
    """A seed from scikit-learn's ``random_state``."""
    if isinstance(random_state, Integral):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise SagpoolError(
            f"random_state must be an int, a RandomState or None, not {random_state!r}."
        ) from None


def _listed(X: Any) -> list[Any]:
    if isinstance(X, Graphs):
        return [X] if len(X) else []
    # Iterating over these yields characters, keys, nodes or column names, not graphs.
    single = isinstance(X, str | bytes | Mapping) or hasattr(X, "nodes")
    if single or getattr(X, "ndim", 1) != 1:
        of_many = "" if single else f" with {X.ndim} dimensions"
        raise SagpoolError(f"X must be a list of graphs, not {type(X).__name__}{of_many}.")
    try:
        return list(X)
    except TypeError:
        raise SagpoolError(f"X must be a list of graphs, not {type(X).__name__}.") from None


def _molecule_types() -> tuple[type, ...]:
    """Texts and, if RDKit was imported (otherwise there are none), RDKit molecules."""
    rdchem = sys.modules.get("rdkit.Chem.rdchem")
    return (str,) if rdchem is None else (str, rdchem.Mol)


def _all_are(values: list[Any], kinds: type | tuple[type, ...]) -> bool:
    return all(isinstance(value, kinds) for value in values)


def _encode(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes in ascending order, and the index of each graph's class, ``[graphs]`` int64."""
    try:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
    except (TypeError, ValueError) as error:
        reason = str(error).split(". ")[0].rstrip(".")
        raise SagpoolError(f"y must have one class for each graph: {reason}.") from None
    return classes, codes.astype(np.int64)


def _target_names(y: Any, targets: int) -> tuple[str, ...]:
    columns = getattr(y, "columns", None)  # y is a DataFrame
    if columns is not None and len(set(map(str, columns))) == targets:
        return tuple(map(str, columns))
    if targets > 1:
        return tuple(f"y {number}" for number in range(targets))
    name = getattr(y, "name", None)  # y is a Series
    return ("y" if name is None else str(name),)
