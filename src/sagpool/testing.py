"""Checks of the contract of methods, for your own methods: ``check_method("my-method")``.

They need no training and no GPU. Random graphs go through untrained models in float64.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.graphs import Batch, Graphs, pack
from sagpool.models import Output, Shape, Value, build
from sagpool.nn import Pool, Pooled, Streams
from sagpool.nn.pool import pools_of
from sagpool.nn.pool.pyg_module import PyGModule

CLASSES, LABELS, ATTRIBUTES = 3, 2, 3
CLOSE = 1e-9  # relative and absolute tolerance, in float64
# Steps of numerical derivatives: a ReLU may have its kink within one step.
STEPS = (1e-6, 1e-7, 1e-8)
BATCHES = 4  # in which a parameter may have a gradient

Settings = Mapping[str, Value]
Check = Callable[[str, int, Sequence[int], Settings], None]
Agree = Callable[[Tensor, Tensor], bool]


def check_method(
    name: str, settings: Settings | None = None, seeds: Iterable[int] = range(4)
) -> None:
    """Raise an AssertionError with a sentence if a registered method breaks a promise.

    Args:
        name: name of the method
        settings: settings of the method other than its defaults
        seeds: seeds of random graphs and weights
    """
    for seed in seeds:
        sizes = 1 + np.random.default_rng(seed).integers(0, 13, 5)
        for check in CHECKS:
            check(name, seed, [*sizes.tolist(), 1], settings or {})


def random_graphs(
    seed: int, sizes: Sequence[int], order: Sequence[np.ndarray] | None = None
) -> Graphs:
    """Graphs of these sizes, with some isolated nodes; an ``order`` reorders the nodes."""
    random = np.random.default_rng(seed)
    degree, col, label, attr = [], [], [], []
    for number, nodes in enumerate(sizes):
        upper = np.triu(random.random((nodes, nodes)) < random.choice([0, 0.2, 0.4, 0.9]), 1)
        adjacency = upper | upper.T
        attributes = random.standard_normal((nodes, ATTRIBUTES)).astype(np.float32)
        labels = random.integers(0, LABELS, nodes).astype(np.int32)
        new = np.arange(nodes) if order is None else order[number]
        adjacency = adjacency[new][:, new]
        degree.append(adjacency.sum(1).astype(np.int32))
        col.append(np.nonzero(adjacency)[1].astype(np.int32))
        attr.append(attributes[new])
        label.append(labels[new])
    return Graphs(
        node_counts=np.array(sizes),
        edge_counts=np.array([counts.sum() for counts in degree]),
        degree=torch.from_numpy(np.concatenate(degree)),
        col=torch.from_numpy(np.concatenate(col)),
        node_attr=torch.from_numpy(np.concatenate(attr)),
        node_label=torch.from_numpy(np.concatenate(label)),
        ground_truth=torch.from_numpy(np.concatenate(label) == 0),
        node_label_names=tuple("ab"),
    )


def random_model(
    name: str, seed: int, settings: Settings, k: Sequence[int] = (4,), max_nodes: int = 16
) -> nn.Module:
    """An untrained model in evaluation mode, with a member for each k; no weight is zero."""
    shape = Shape(
        ATTRIBUTES + LABELS,
        CLASSES,
        hidden=24,  # wide enough that ReLU leaves no all-zero row, which would cause ties
        k=k[0] if len(k) == 1 else np.array(k)[:, None],
        max_nodes=max_nodes,
        members=len(k),
        settings=settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # only the CPU's, unlike torch.manual_seed
        model = build(name, shape).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def check_node_order(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """The order of nodes does not change the result."""
    model = random_model(name, seed, settings)
    random = np.random.default_rng(seed)
    order = [random.permutation(nodes) for nodes in sizes]
    batches = [_pack_all(random_graphs(seed, sizes, nodes)) for nodes in (None, order)]
    if not _is_deterministic(model, batches[0]):
        return
    first, second = (_call(model, batch).logits[0, :-1] for batch in batches)
    differ = ~torch.isclose(first, second, rtol=CLOSE, atol=CLOSE).all(1)
    # Ties go to the lower node, so some graphs (such as two joined nodes) may differ.
    assert differ.sum() <= len(sizes) / 2, (
        f"{name} gives another result for {int(differ.sum())} of {len(sizes)} graphs if their "
        "nodes are reordered."
    )


def check_batches(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """A graph has the same result in a batch and alone."""
    graphs, model = random_graphs(seed, sizes), random_model(name, seed, settings)
    alone = [[number] for number in range(len(sizes))]
    different = mixed_graphs(graphs, alone, model, _agree)
    assert not different, f"{name} gives a graph another result in a batch than alone{different}."


def mixed_graphs(
    graphs: Graphs, parts: Sequence[Sequence[int]], model: nn.Module, agree: Agree
) -> str:
    """Where a graph differs in a smaller batch; empty if no graph does or if a result is random.

    Args:
        graphs: at least two
        parts: the graph numbers of the smaller batches
        model: in evaluation mode
        agree: whether two tensors are equal up to rounding
    """
    everything = _pack_all(graphs)
    together = _call(model, everything)
    if not _is_deterministic(model, everything):
        return ""
    for part in parts:
        apart = _call(model, pack(graphs, [part]))
        pairs = [(together.logits, apart.logits)]
        if together.auxiliary is not None and apart.auxiliary is not None:
            pairs.append((together.auxiliary, apart.auxiliary))
        for one, other in pairs:
            if different := _difference(one[:, part], other[:, : len(part)], agree):
                return different
    return ""


def check_members(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """In a fleet of three, each member has the same values and gradients as alone."""
    one_k = any(pool.one_k for pool in pools_of(random_model(name, seed, settings)))
    ks = (4, 4, 4) if one_k else (4, 3, 5)
    model_of = partial(random_model, name, seed, settings)
    mixed = mixed_members(random_graphs(seed, sizes), ks, model_of, _agree)
    assert not mixed, f"{name} mixes the members of a fleet{mixed}."


def mixed_members(
    graphs: Graphs,
    ks: tuple[int, int, int],
    model_of: Callable[[Sequence[int]], nn.Module],
    agree: Agree,
) -> str:
    """Where a member of a fleet differs from the same member alone; empty if no member does.

    Args:
        graphs: at least three
        ks: the k of each member
        model_of: makes a model with a member for each k
        agree: whether two tensors are equal up to rounding
    """
    count, fleet = len(graphs), model_of(ks)
    ids = [[*range(count)], [*range(count - 1, -1, -1)], [0, 1, -1] + [-1] * (count - 3)]
    together = _losses(fleet.train(), pack(graphs, ids))
    grads = torch.autograd.grad(together.sum(), [*fleet.parameters()], materialize_grads=True)
    for member, k in enumerate(ks):
        alone = model_of([k])
        alone.load_state_dict({k: v[member : member + 1] for k, v in fleet.state_dict().items()})
        used = [[graph for graph in ids[member] if graph >= 0]]
        loss = _losses(alone.train(), pack(graphs, used), first_key=member)
        own = torch.autograd.grad(loss.sum(), [*alone.parameters()], materialize_grads=True)
        if different := _difference(together[member, : len(used[0])], loss[0, :-1], agree):
            return different
        for (parameter, _), stacked, single in zip(
            fleet.named_parameters(), grads, own, strict=True
        ):
            if different := _difference(stacked[member], single[0], agree):
                return f" in the gradient of {parameter}{different}"
    return ""


def check_gradients(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """The gradient of the loss agrees with its numerical derivative in a random direction.

    First for all parameters together; if that disagrees, for each parameter separately. Models
    with a pooling layer that is `straight_through` are not checked: their gradients need not agree.
    """
    batch, model = _pack_all(random_graphs(seed, sizes)), random_model(name, seed, settings)
    if any(pool.straight_through for pool in pools_of(model)):
        return
    named = dict(model.named_parameters())
    weights = [*named.values()]
    grads = torch.autograd.grad(_losses(model, batch).sum(), weights, materialize_grads=True)
    generator = torch.Generator().manual_seed(seed)
    directions = [torch.randn(w.shape, generator=generator, dtype=w.dtype) for w in weights]
    exact = [float((grad * to).sum()) for grad, to in zip(grads, directions, strict=True)]
    if _disagreement(model, batch, weights, directions, sum(exact), 1e-6) is None:
        return
    for parameter, weight, to, slope in zip(named, weights, directions, exact, strict=True):
        found = _disagreement(model, batch, [weight], [to], slope, 1e-5)
        assert found is None, (
            f"{name} has a wrong gradient: that of {parameter} in a random direction is "
            f"{slope:.8g}, and the difference quotient {found:.8g}."
        )


def check_trained(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """Every parameter of a pooling layer is trained.

    A gradient of 0 counts, as of a ReLU that is off for all nodes. So do several batches: a layer
    may ignore a parameter for graphs without edges. Layers of PyG may have parameters that they do
    not use, such as ``select.weight`` of ASAPooling.
    """
    model = random_model(name, seed, settings).train()
    untrained = {
        f"{path}.{key}": parameter
        for path, layer in model.named_modules()
        if isinstance(layer, Pool) and not isinstance(layer, PyGModule)
        for key, parameter in layer.named_parameters()
    }
    for number in range(BATCHES):
        if not untrained:
            return
        loss = _losses(model, _pack_all(random_graphs(seed + number, [*sizes, 12, 12, 12]))).sum()
        grads = torch.autograd.grad(loss, [*untrained.values()], allow_unused=True)
        found = zip(untrained.items(), grads, strict=True)
        untrained = {key: parameter for (key, parameter), grad in found if grad is None}
    assert not untrained, (
        f"{name} does not train {next(iter(untrained))}: the loss has no gradient with respect to "
        "it."
    )


def _disagreement(
    model: nn.Module,
    batch: Batch,
    weights: Sequence[Tensor],
    directions: Sequence[Tensor],
    exact: float,
    close: float,
) -> float | None:
    """None if a difference quotient is close to ``exact``; otherwise the last quotient."""
    found = 0.0
    for step in STEPS:
        found = _difference_quotient(model, batch, weights, directions, step)
        if abs(found - exact) <= close * (1 + abs(exact)):
            return None
    return found


@torch.no_grad()
def _difference_quotient(
    model: nn.Module,
    batch: Batch,
    weights: Sequence[Tensor],
    directions: Sequence[Tensor],
    step: float,
) -> float:
    before, values = [weight.clone() for weight in weights], []
    for sign in (1, -1):
        for weight, old, direction in zip(weights, before, directions, strict=True):
            weight.copy_(old + sign * step * direction)
        values.append(float(_losses(model, batch).sum()))
    for weight, old in zip(weights, before, strict=True):
        weight.copy_(old)
    return (values[0] - values[1]) / (2 * step)


def check_rows(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """Each pooling layer leaves as many rows as it declares, and its losses reach the output."""
    batch, model = _pack_all(random_graphs(seed, sizes)), random_model(name, seed, settings)
    losses = []

    def inspect(layer: nn.Module, given: tuple[Any, ...], pooled: Pooled) -> None:
        assert isinstance(layer, Pool)
        before, after = given[1].layout, pooled.structure.layout
        promised = layer.rows_left(before.sizes)
        if layer.leaves == "graphs":
            after_sizes: object = len(pooled.x) // before.members
            promised_sizes: object = before.graphs
        else:
            real = slice(None, -1 if before.filler else None)
            after_sizes = promised_sizes = after.sizes[:, real].tolist()
            if promised is not None:
                copies = after.members // before.members  # one for each mask
                promised_sizes = promised[:, real].repeat(copies, axis=0).tolist()
        assert after_sizes == promised_sizes, (
            f"{type(layer).__name__} of {name} leaves {after_sizes} rows where its rows_left says "
            f"{promised_sizes}."
        )
        assert pooled.presence is None or layer.absent_rows, (
            f"{type(layer).__name__} of {name} leaves rows of absent nodes; set absent_rows = True."
        )
        if pooled.auxiliary is not None:
            losses.append(pooled.auxiliary)

    hooks = [m.register_forward_hook(inspect) for m in model.modules() if isinstance(m, Pool)]
    output = _call(model, batch)
    for hook in hooks:
        hook.remove()
    if losses:
        assert output.auxiliary is not None, f"{name} drops the auxiliary loss of its layers."
        total = torch.stack(losses).sum(0).view_as(output.auxiliary)
        _equal(output.auxiliary, total, name, "changes the auxiliary loss of its layers")


def check_finite(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """Neither one-node graphs nor padding lead to NaN."""
    for largest in (2, 16):
        small = [min(nodes, largest) for nodes in sizes]
        model = random_model(name, seed, settings, max_nodes=largest).train()
        loss = _losses(model, pack(random_graphs(seed, small), [[*range(len(small)), -1]])).sum()
        grads = torch.autograd.grad(loss, [*model.parameters()], materialize_grads=True)
        assert all(value.isfinite().all() for value in (loss, *grads)), (
            f"{name} has a loss or gradient that is not finite for graphs of {small} nodes."
        )


def check_random_numbers(name: str, seed: int, sizes: Sequence[int], settings: Settings) -> None:
    """Random numbers come only from the streams of the context."""
    batch, model = _pack_all(random_graphs(seed, sizes)), random_model(name, seed, settings).train()
    logits = []
    for torch_seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(torch_seed)
            logits.append(_call(model, batch).logits)
    _equal(
        logits[0],
        logits[1],
        name,
        "draws random numbers from elsewhere than the streams of its context",
    )


CHECKS: tuple[Check, ...] = (
    check_node_order,
    check_batches,
    check_members,
    check_gradients,
    check_trained,
    check_rows,
    check_finite,
    check_random_numbers,
)


def _pack_all(graphs: Graphs) -> Batch:
    return pack(graphs, [range(len(graphs))])


def _call(model: nn.Module, batch: Batch, first_key: int = 0) -> Output:
    members = len(batch.real)
    return model(batch, Streams(torch.arange(first_key, first_key + members)))


def _losses(model: nn.Module, batch: Batch, first_key: int = 0) -> Tensor:
    """``[members, graphs]``, 0 for padding; every class has a different weight.

    asinh bounds the loss where a sum over nodes makes logits of untrained models huge.
    """
    output = _call(model, batch, first_key)
    weights = torch.linspace(-1, 2, output.logits.shape[2], dtype=output.logits.dtype)
    loss = (output.logits.asinh() * weights).sum(2)
    if output.auxiliary is not None:
        loss = loss + output.auxiliary
    return torch.where(batch.real, loss, 0)


def _is_deterministic(model: nn.Module, batch: Batch) -> bool:
    return torch.equal(_call(model, batch).logits, _call(model, batch, first_key=7).logits)


def _equal(one: Tensor, other: Tensor, name: str, broken: str) -> None:
    different = _difference(one, other, _agree)
    assert not different, f"{name} {broken}{different}."


def _difference(one: Tensor, other: Tensor, agree: Agree) -> str:
    """The largest difference in words; empty if the tensors agree."""
    one, other = one.detach(), other.detach()
    return "" if agree(one, other) else f" (difference {float((one - other).abs().max()):.2g})"


def _agree(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=CLOSE, atol=CLOSE)
