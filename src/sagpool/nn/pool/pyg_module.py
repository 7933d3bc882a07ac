"""`PyGModule`: any pooling layer or aggregation of PyG as a `Pool`."""

import copy
import inspect
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sagpool.errors import SagpoolError
from sagpool.graphs import Structure
from sagpool.nn.pool.default_type import default_type
from sagpool.nn.pool.pool import Context, Edges, Pool, Pooled, check_rows
from sagpool.nn.pool.pyg_members import (
    Member,
    Part,
    join,
    put_together,
    real_graphs,
    rows_of_graphs,
    take_apart,
)

# How to call a layer, by the first of these arguments that its `forward` has.
_KINDS = {
    "index": "aggregation",
    "adj": "dense",
    "M": "paths",
    "edge_index": "sparse",
    "batch": "memory",
}
# Names of layers whose result for a graph depends on its batch, see docs/pyg.md.
_DEPEND_ON_BATCH = {"EdgePooling", "PatchTransformerAggregation"}
_LOSSES = "Only a dense layer, forward(x, adj), can return losses."


class PyGModule(Pool):
    """A layer of PyG, with separate weights and a separate call for each member.

    The arguments of the layer's ``forward`` decide how it is called:

    - ``(x, edge_index, batch)``, optionally with ``edge_weight`` or ``edge_attr``: TopKPooling,
      SAGPooling, ASAPooling, EdgePooling, ClusterPooling;
    - ``(x, M, batch)``: PANPooling. M is D̃^-1/2 Ã D̃^-1/2, the paths of at most one edge, and the
      edges that it leaves have no weights, as in PyG's example;
    - ``(x, adj)``, optionally with ``mask``: DMoNPooling, or a module around ``dense_mincut_pool``
      and the like, which returns features, adjacency and losses, optionally after an assignment. It
      gets one graph at a time: its losses are means over its input, and a graph's loss must not
      depend on the other graphs of its batch;
    - ``(x, batch)``: MemPooling, which leaves no edges, without its KL loss;
    - ``(x, index, ...)``: an aggregation, which leaves one row per graph.

    Unweighted self-loops are left out, since convolutions add their own.
    Filler graphs never reach the layer. Every call waits for the device.

    Args:
        make: makes one layer, with new weights
        in_channels: size of each input row
        one_k: whether the layer depends on k, so that members of a fleet must have the same k
        members: how many models train side by side
    """

    def __init__(
        self,
        make: Callable[[], nn.Module],
        in_channels: int,
        *,
        one_k: bool = False,
        members: int = 1,
    ) -> None:
        super().__init__()
        self.one_k = one_k
        layers = [make() for _ in range(members)]
        self.name = type(layers[0]).__name__
        if not isinstance(layers[0], nn.Module):
            raise SagpoolError(f"A layer of PyG must be a torch.nn.Module, not {self.name}.")
        _check_attributes(layers[0])
        self.kind, self.weight_name = _convention(layers[0])
        self.takes_mask = "mask" in inspect.signature(layers[0].forward).parameters
        self.leaves = "graphs" if self.kind == "aggregation" else "clusters"  # type: ignore[misc]
        self.read = _channels_read(layers[0], in_channels) if self.leaves == "graphs" else None
        self.depends_on_batch = any(
            cls.__name__ in _DEPEND_ON_BATCH
            for module in layers[0].modules()
            for cls in type(module).__mro__
        )
        self.layer = _stacked(layers)

    def forward(self, x: Tensor, structure: Structure, context: Context = Context()) -> Pooled:
        check_rows(x, structure.layout)
        real = real_graphs(structure)
        given = take_apart(x, structure, real)
        if self.leaves == "graphs":
            rows = [x.new_zeros(0, self.graph_channels())]
            rows += [self._aggregated(n, one) for n, one in enumerate(given) if len(one.sizes)]
            return Pooled(rows_of_graphs(torch.cat(rows), real), structure)
        parts = [self._pooled(n, one) if len(one.sizes) else None for n, one in enumerate(given)]
        return put_together(x, structure.layout, parts, real, self.name)

    def rows_left(self, sizes: np.ndarray) -> np.ndarray | None:
        return None

    def graph_channels(self) -> int:
        return super().graph_channels() if self.read is None else self.read

    def _run(self, member: int, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        own = {name: weight[member] for name, weight in self.layer.named_parameters()}
        buffers = {name: buffer.clone() for name, buffer in self.layer.named_buffers()}
        with default_type(x.dtype):
            result = functional_call(self.layer, own, (x, *args), kwargs)
        for name, now in self.layer.named_buffers():
            if not torch.allclose(now, buffers[name], 0, 0, equal_nan=True):
                raise SagpoolError(
                    f"{self.name} changes its buffer {name}, which a fleet cannot keep for each "
                    "member."
                )
        return result

    def _aggregated(self, member: int, given: Member) -> Tensor:
        """``[graphs, channels]``"""
        rows: Tensor = self._run(member, given.x, index=given.batch, dim_size=len(given.sizes))
        return rows

    def _pooled(self, member: int, given: Member) -> Part:
        x, batch, graphs = given.x, given.batch, len(given.sizes)
        if self.kind == "dense":
            return join([self._dense(member, graph) for graph in given.graphs()], x)
        if self.kind == "memory":
            result = self._run(member, x, batch=batch, batch_size=graphs)
            if not isinstance(result, tuple) or len(result) != 2:
                raise SagpoolError(f"{self.name} must return PyG's (x, S). {_LOSSES}")
            rows = result[0]
            none = Edges(batch.new_zeros(2, 0), None)
            return Part(rows.flatten(0, 1), none, np.full(graphs, rows.shape[1]))
        if self.kind == "paths":
            result = self._run(member, x, _Paths(given), batch=batch)
            return self._sparse((*result[:2], None, *result[3:]), graphs)
        weights = {}
        if given.edges.weight is not None:
            if self.weight_name is None:
                raise SagpoolError(f"{self.name} has no argument for the weights of edges.")
            weights[self.weight_name] = given.edges.weight
        return self._sparse(self._run(member, x, given.edges.pairs, batch=batch, **weights), graphs)

    def _sparse(self, result: Any, graphs: int) -> Part:
        """The result, from PyG's four, five or six values."""
        if not isinstance(result, tuple) or len(result) not in (4, 5, 6):
            raise SagpoolError(
                f"{self.name} must return PyG's (x, edge_index, batch, info) or (x, edge_index, "
                "edge_weight, batch, perm), perhaps with scores at the end."
            )
        x, pairs, weight, batch, *others = (
            result if len(result) > 4 else (*result[:2], None, *result[2:])
        )
        for one in others:
            if isinstance(one, Tensor) and (one.ndim == 0 or len(one) < len(x)):
                raise SagpoolError(
                    f"{self.name} returns a value of shape {tuple(one.shape)} for {len(x)} "
                    f"nodes in place of perm, scores or info. {_LOSSES}"
                )
        if weight is not None and weight.ndim > 1:
            raise SagpoolError(f"{self.name} leaves edges with {weight.shape[1]} weights each.")
        order = torch.argsort(batch, stable=True)  # graph by graph
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        sizes = torch.bincount(batch, minlength=graphs).cpu().numpy()
        return Part(x[order], Edges(place[pairs], weight), sizes)

    def _dense(self, member: int, graph: Member) -> Part:
        (source, target), weight = graph.edges
        x, nodes = graph.x, len(graph.x)
        weight = x.new_ones(len(source)) if weight is None else weight
        adj = x.new_zeros(nodes, nodes).index_put((target, source), weight, accumulate=True)
        mask = torch.ones(1, nodes, dtype=torch.bool, device=x.device)
        masked = {"mask": mask} if self.takes_mask else {}
        result = self._run(member, x[None], adj=adj[None], **masked)
        matrices = list(takewhile(lambda one: one.ndim == 3, result))
        losses = result[len(matrices) :]
        if len(matrices) not in (2, 3) or any(loss.numel() != 1 for loss in losses):
            raise SagpoolError(
                f"{self.name} must return features and an adjacency, perhaps after an assignment, "
                "and then losses of one number each."
            )
        rows, coarse = matrices[-2][0], matrices[-1][0]
        each = torch.arange(len(rows), device=x.device)
        pairs = torch.stack([each.repeat(len(rows)), each.repeat_interleave(len(rows))])
        total = torch.stack([loss.view(1) for loss in losses]).sum(0) if losses else None
        return Part(rows, Edges(pairs, coarse.reshape(-1)), np.array([len(rows)]), total)


class _Paths:
    """The interface of the sparse matrix M that PANPooling reads; here the matrix of `GCNConv`."""

    def __init__(self, given: Member) -> None:
        nodes = torch.arange(len(given.x), device=given.x.device)
        self.col, self.row = torch.cat([given.edges.pairs, nodes.expand(2, -1)], 1)
        scale = torch.bincount(self.row, minlength=len(nodes)).to(given.x.dtype).rsqrt()
        self.value = scale[self.row] * scale[self.col]

    def coo(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.row, self.col, self.value


def _check_attributes(layer: nn.Module) -> None:
    """Refuse tensors that would stay on their device, and be those of one member."""
    for path, module in layer.named_modules(prefix=type(layer).__name__):
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                raise SagpoolError(
                    f"{path} has the tensor {name} as an attribute; make it a parameter, or if it "
                    "is a constant, a buffer with persistent=False."
                )


def _convention(layer: nn.Module) -> tuple[str, str | None]:
    """How to call the layer, and the name of its argument for weights of edges."""
    names = inspect.signature(layer.forward).parameters
    kind = next((kind for name, kind in _KINDS.items() if name in names), None)
    if kind is None or "x" not in names:
        raise SagpoolError(
            f"{type(layer).__name__} takes ({', '.join(names)}), which is not the call of a "
            "pooling layer of PyG; wrap it in a module with forward(x, edge_index, batch)."
        )
    return kind, next((name for name in ("edge_weight", "edge_attr") if name in names), None)


def _stacked(layers: list[nn.Module]) -> nn.Module:
    """The first layer, with the parameters of all layers stacked, members first.

    Its buffers are no part of its state.
    """
    first, others = layers[0], [dict(layer.named_parameters()) for layer in layers[1:]]
    made = {}
    for name, parameter in first.named_parameters():
        values = [parameter.detach(), *(other[name].detach() for other in others)]
        # With one member a view: a fleet recognises drawn parameters by their address.
        made[parameter] = nn.Parameter(torch.stack(values) if others else values[0][None])
    for module in first.modules():
        for name, own in module._parameters.items():
            if own is not None:
                module._parameters[name] = made[own]
        # They are constants, see `PyGModule._run`: a member needs none of its own.
        module._non_persistent_buffers_set |= module._buffers.keys()
    return first


def _channels_read(layer: nn.Module, in_channels: int) -> int:
    """The number of output channels of an aggregation, found by a call of a copy on the CPU."""
    copied = copy.deepcopy(layer).to_empty(device="cpu").eval()
    for buffer in copied.buffers():
        buffer.zero_()  # it may contain indices
    with torch.device("cpu"), torch.no_grad():
        rows = copied(torch.zeros(2, in_channels), index=torch.zeros(2, dtype=torch.int64))
    return int(rows.shape[1])
