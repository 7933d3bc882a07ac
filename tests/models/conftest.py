"""Random graphs as the paper writes them, and the registry's methods, by what they do.

A test that asks for one of these is run for every registered method that ...
    method: (all of them)
    settled_method: gives the same output when called again
    selecting_method: keeps some of the nodes
    ranking_method: keeps some of the nodes, and not at random
    k_method: needs k, which may differ from member to member
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from sagpool.errors import SagpoolError
from sagpool.graphs import Batch, Graphs, pack
from sagpool.models import Output, Shape, build, count_parameters, methods
from sagpool.nn import Pooled, Streams

ATTRIBUTES, LABELS, CLASSES = 3, 2, 3


@dataclass(frozen=True)
class Dense:
    """One undirected graph."""

    A: np.ndarray  # [nodes, nodes] bool
    attr: np.ndarray  # [nodes, ATTRIBUTES] float32
    label: np.ndarray  # [nodes] int32

    @property
    def X(self) -> np.ndarray:  # noqa: N802
        return np.concatenate([self.attr, np.eye(LABELS)[self.label]], axis=1)

    def reordered(self, order: np.ndarray) -> "Dense":
        return Dense(self.A[order][:, order], self.attr[order], self.label[order])


def random_dense(seed: int, sizes: list[int], *, plain: bool = False) -> list[Dense]:
    """Graphs of these sizes, sparse enough for isolated nodes and several components.

    In plain ones all attributes are equal: nodes differ in their label only, and many in nothing.
    """
    random = np.random.default_rng(seed)
    graphs = []
    for nodes in sizes:
        upper = np.triu(random.random((nodes, nodes)) < random.choice([0, 0.2, 0.4, 0.9]), 1)
        attr = random.standard_normal((nodes, ATTRIBUTES)).astype(np.float32)
        label = random.integers(0, LABELS, nodes).astype(np.int32)
        graphs.append(Dense(upper | upper.T, np.ones_like(attr) if plain else attr, label))
    return graphs


def collect(dense: list[Dense]) -> Graphs:
    return Graphs(
        node_counts=np.array([len(graph.A) for graph in dense]),
        edge_counts=np.array([graph.A.sum() for graph in dense]),
        degree=torch.from_numpy(np.concatenate([g.A.sum(1) for g in dense]).astype(np.int32)),
        col=torch.from_numpy(np.concatenate([np.nonzero(g.A)[1] for g in dense]).astype(np.int32)),
        node_attr=torch.from_numpy(np.concatenate([graph.attr for graph in dense])),
        node_label=torch.from_numpy(np.concatenate([graph.label for graph in dense])),
        node_label_names=tuple("ab"),
    )


def small_shape(**changes) -> Shape:
    defaults = {"hidden": 8, "ratio": 0.5, "k": 4, "max_nodes": 16}
    return Shape(ATTRIBUTES + LABELS, CLASSES, **{**defaults, **changes})


def new_model(method: str, seed: int = 0, dtype: torch.dtype = torch.float64, **changes):
    """An untrained model, no bias of which is zero, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # manual_seed looks for devices each time
        model = build(method, small_shape(**changes)).to(dtype).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def keyed(model: nn.Module, batch: Batch, *keys: int) -> Output:
    """Call the model with these keys of the members' random streams."""
    return model(batch, Streams(torch.tensor(keys)))


def kept_nodes(output: Output, batch: Batch) -> list[list[np.ndarray]]:
    """For each real graph and each level, the nodes of the input that are left, ascending.

    Those of several masks, mask after mask.
    """
    layout = batch.structure.layout
    graphs = batch.real.view(-1).nonzero().view(-1)
    rows = torch.arange(layout.total_rows).view(layout.members, 1, -1)
    kept: list[list[np.ndarray]] = [[] for _ in graphs]
    for level in output.levels:
        left = level.structure.layout
        masks = left.members // layout.members
        if rows.ndim == 3:
            rows = rows.expand(-1, masks, -1).reshape(-1)
        rows = rows[level.perm]
        member = left.graph // (masks * left.graphs)
        of_input = member * layout.graphs + left.graph % layout.graphs
        for levels, graph in zip(kept, graphs, strict=True):
            levels.append((rows[of_input == graph] - layout.node_ptr[graph]).numpy())
    return kept


def poolings(model: nn.Module, batch: Batch) -> list[tuple[nn.Module, tuple, Pooled]]:
    """Each layer that keeps nodes, with its arguments and its result, which is a level."""
    calls = []

    def record(layer, arguments, result) -> None:
        if isinstance(result, Pooled):
            calls.append((layer, arguments, result))

    hooks = [module.register_forward_hook(record) for module in model.modules()]
    output = model(batch)
    for hook in hooks:
        hook.remove()
    assert all(level is call[2] for call, level in zip(calls, output.levels, strict=False))
    return calls[: len(output.levels)]


@cache
def is_settled(method: str) -> bool:
    model, batch = new_model(method), pack(collect(random_dense(0, [12])), [[0]])
    return torch.equal(keyed(model, batch, 1).logits, keyed(model, batch, 2).logits)


@cache
def is_selecting(method: str) -> bool:
    levels = new_model(method)(pack(collect(random_dense(0, [12])), [[0]])).levels
    # With a learnt ratio, rows of nodes that are dropped stay; several masks have their own tests.
    return any(level.presence is None and level.structure.layout.members == 1 for level in levels)


@cache
def takes_k_of_each_member(method: str) -> bool:
    """A k that decides on the shape of the weights must be the same for all members."""
    try:
        count_parameters(method, small_shape(k=None))
    except SagpoolError:
        return len({count_parameters(method, small_shape(k=k)) for k in (5, 50)}) == 1
    return False


KINDS: dict[str, Callable[[str], bool]] = {
    "method": lambda method: True,
    "settled_method": is_settled,
    "selecting_method": is_selecting,
    "ranking_method": lambda method: is_selecting(method) and is_settled(method),
    "k_method": takes_k_of_each_member,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind in KINDS.keys() & set(metafunc.fixturenames):
        metafunc.parametrize(kind, [name for name in methods() if KINDS[kind](name)])


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """On graphs as small as these, threads do little but wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def kit() -> SimpleNamespace:
    """What the test files share; importlib mode gives them no way to import each other."""
    return SimpleNamespace(
        dense=random_dense,
        graphs=collect,
        shape=small_shape,
        model=new_model,
        keyed=keyed,
        kept_nodes=kept_nodes,
        poolings=poolings,
    )
