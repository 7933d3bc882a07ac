"""Checks of methods from outside of the package, before anything is trained."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sagpool import testing
from sagpool.bench.experiment_plan import ExperimentPlan
from sagpool.bench.precision import PRECISIONS
from sagpool.bench.search import Search
from sagpool.errors import SagpoolError
from sagpool.fleet import Training
from sagpool.fleet.memory import out_of_memory_suppressed
from sagpool.fleet.random_guard import RandomGuard
from sagpool.fleet.schedule import shape_of
from sagpool.graphs import Graphs, pack
from sagpool.models import Shape, build
from sagpool.models.registry import find_method, own_errors
from sagpool.nn import Streams
from sagpool.nn.pool import pools_of
from sagpool.nn.pool.default_type import default_type

GRAPHS = 5
SEEDS = 3  # of weights: in a small net, ReLU may leave nothing that could differ
PARTS = ([0, 1], [2, 3, 4])  # batches that are compared with one of all graphs
ROUGH = 1e-4  # relative tolerance in the precision of the command


def check_own_methods(plan: ExperimentPlan) -> None:
    """Refuse a method whose members, or graphs of a batch, depend on each other, or that fails.

    Its results would depend on the size of its fleets, which is no part of a run's key: the
    batches in which members are evaluated depend on it, too.
    """
    dtype = PRECISIONS[plan.precision].dtype
    for training, graphs in _trainings(plan):
        # Training does a step that does not fit into memory in parts.
        with out_of_memory_suppressed():
            sample = _Sample.of(graphs, training)
            for seed in range(SEEDS):
                _check(sample, seed, dtype)


def _trainings(plan: ExperimentPlan) -> Iterator[tuple[Training, Graphs]]:
    """One training for each method that is not of the package, and for each of its settings."""
    seen: set[object] = set()
    for cell in plan.cells:
        if find_method(cell.method).packaged:
            continue
        searching = plan.search is not Search.NONE
        for training in cell.candidates if searching else [cell.default]:
            found = {(cell.method, *item) for item in [(), *training.method_settings]}
            if not found <= seen:
                seen |= found
                yield training, plan.data[cell.dataset.name].graphs


class _Sample(NamedTuple):
    """A training, with a few graphs of its data set."""

    training: Training
    graphs: Graphs
    shape: Shape
    ks: tuple[int, int, int]  # of three members

    @staticmethod
    def of(graphs: Graphs, training: Training) -> "_Sample":
        """From small graphs to some with more nodes than the usual k."""
        order = np.argsort(graphs.node_counts, kind="stable")
        few = graphs[order[(np.arange(GRAPHS) * 0.2 * len(order)).astype(int)]]
        # Nodes that look the same have equal scores, and rounding would decide between them.
        noise = torch.rand(few.x.shape, generator=torch.Generator().manual_seed(0)) / 100
        few = replace(
            few, node_attr=few.x + noise, node_label=None, node_label_names=(), encoding=None
        )
        sizes = few.node_counts
        shape = shape_of(graphs, training)
        shape = replace(shape, max_nodes=int(sizes.max()), mean_nodes=float(sizes.mean()))
        return _Sample(training, few, shape, _ks(training.method, shape))

    def model(self, seed: int, dtype: torch.dtype, ks: Sequence[int]) -> nn.Module:
        return _model(self.training.method, seed, self.shape, ks).to(dtype)


def _model(method: str, seed: int, shape: Shape, ks: Sequence[int]) -> nn.Module:
    """A model with a member for each k, almost as new, but without weights of 0."""
    k = ks[0] if len(ks) == 1 else np.array(ks)[:, None]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(seed)  # only the CPU's, unlike torch.manual_seed
        model = build(method, replace(shape, members=len(ks), k=k))
        for parameter in model.parameters():
            # Of the size of the weights: much larger ones could let attention amplify rounding.
            size = float(parameter.square().mean().sqrt()) or 0.3
            parameter.add_(size * torch.randn_like(parameter))
    return model


def _ks(method: str, shape: Shape) -> tuple[int, int, int]:
    """Three different values of k, if models with these may train in the same fleet."""
    assert isinstance(shape.k, int)
    different = shape.k, shape.k + 1, shape.k + 2
    models = [_model(method, 0, shape, [k]) for k in different]
    sizes = {tuple(parameter.shape for parameter in model.parameters()) for model in models}
    one_k = any(pool.one_k for pool in pools_of(models[0]))
    return different if len(sizes) == 1 and not one_k else (shape.k,) * 3


def _check(sample: _Sample, seed: int, dtype: torch.dtype) -> None:
    """In float64, and then in the precision of the command: a layer may compute in that alone."""
    method, fault = sample.training.method, ""
    passes = [(torch.float64, testing.CLOSE)]
    if dtype is not torch.float64:
        passes.append((dtype, ROUGH))
    for one, close in passes:
        try:
            with default_type(one), own_errors(method):
                fault = _fault(sample, seed, one, partial(_agree, close))
        except SagpoolError:
            if one is dtype:  # the last pass
                raise
        else:
            if not fault:
                return
    raise SagpoolError(f"The method '{method}' {fault}.")


def _fault(sample: _Sample, seed: int, dtype: torch.dtype, agree: testing.Agree) -> str:
    model_of = partial(sample.model, seed, dtype)
    model = model_of(sample.ks[:1])
    with RandomGuard(sample.training.method):
        batch = pack(sample.graphs, [range(GRAPHS)])
        model.train()(batch, Streams(torch.zeros(1, dtype=torch.int64)))
    if mixed := testing.mixed_members(sample.graphs, sample.ks, model_of, agree):
        return (
            f"mixes the models that train side by side{mixed}, so its results would depend on "
            "their number; statistics must be those of a single graph, as in norms of PyG that get "
            "the batch vector, or in sagpool.nn.Norm, and "
            f"sagpool.testing.check_method('{sample.training.method}') checks that"
        )
    if any(pool.depends_on_batch for pool in pools_of(model)):
        return ""
    with torch.no_grad(), _StableSorts():
        mixed = testing.mixed_graphs(sample.graphs, PARTS, model.eval(), agree)
    return mixed and (
        f"gives a graph another result in another batch{mixed}, so its results would depend on "
        "how many models train side by side: a layer must read neither the other graphs of a batch "
        "nor their padding, and statistics must be those of a single graph, as in norms of PyG "
        "that get the batch vector"
    )


class _StableSorts(TorchFunctionMode):
    """All sorts are stable, so that equal scores are in the order of the nodes in any batch.

    PyG's layers sort the rows of all graphs at once, and not stably: which of two nodes with equal
    scores is kept depends on the rest of the batch.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.sort, Tensor.sort, torch.argsort, Tensor.argsort):
            # Only a stable sort takes these by name alone.
            kwargs |= zip(("dim", "descending"), args[1:], strict=False)
            args, kwargs["stable"] = args[:1], True
        return func(*args, **kwargs)


def _agree(close: float, one: Tensor, other: Tensor) -> bool:
    """More leniently than `check_method`: these are graphs of the user, not random ones."""
    # Sums of large numbers that are almost 0 have the rounding errors of these numbers.
    largest = float(other.nan_to_num(0, 0, 0).abs().max()) if other.numel() else 0.0
    # A loss may be NaN for a graph without edges; the training is then recorded as diverged.
    return torch.allclose(one, other, close, close * max(1.0, largest), equal_nan=True)
