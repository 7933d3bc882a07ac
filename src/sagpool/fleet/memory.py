"""How many members fit into memory, and how many parts their batches must be cut into."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError, is_out_of_memory
from sagpool.fleet.random_guard import RandomGuard, SeededDraws
from sagpool.fleet.recording import free_cached_memory
from sagpool.fleet.schedule import representative, shape_of, split_of
from sagpool.fleet.stack import Stack
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs, pack
from sagpool.graphs.batch import NO_GRAPH
from sagpool.models import build
from sagpool.models.registry import own_errors
from sagpool.nn import Streams
from sagpool.ops import LabelSums

# Tensors saved for the backward pass take most of a step's memory. Everything together (with
# gradients, temporaries and the allocator's slack) stays below this multiple of them.
OVERHEAD = 2.5
# Fraction of the memory that all fleets together may use. On a GPU recordings are padded by up to a
# fifth, and the first pass of a fleet, which is not recorded, has memory of its own.
CPU_FRACTION, GPU_FRACTION = 0.7, 0.55
# On a CPU, a step that uses more than this leaves the caches and is no faster.
CPU_THREAD_BYTES = 48 * 2**20
MAX_CPU_BYTES = 4 * 2**30  # for all threads together
WEIGHT_COPIES = 8  # weights, gradient, Adam's averages, best weights, a snapshot of each
MAX_MEMBERS = 2000
GPU_MEMBERS = 256  # more members hardly speed up a step per member
# Size of the trial step: at most this many graphs, fewer if they are large.
TRIAL_GRAPHS = 16
TRIAL_BYTES = 64 * 2**20


class MemoryShortageError(SagpoolError):
    """Not even one model with one graph at a time fits into memory."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(
            f"Not even one model fits into the memory of {device}, one graph at a time; "
            "take a smaller hidden size."
        )


class FleetSize(NamedTuple):
    members: int  # how many train side by side
    parts: int  # number of parts into which each batch is cut
    bytes: int  # estimated memory


class StepBytes(NamedTuple):
    """Bytes of memory that one training step of one member needs."""

    weights: int  # for weights; independent of the batch
    batch: int  # saved for the backward pass


@dataclass(eq=False)
class KnownShape:
    """Measured once by the first fleet of a shape for all later ones; a search has many."""

    bytes: StepBytes | None = None
    has_trained: bool = False  # so that hardly a kernel has to be compiled
    # Kinds of passes that have run, so that their kernels are loaded.
    passes: set[str] = field(default_factory=set)


def choose_fleet_size(
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    members: int | None = None,
    beside: int = 1,
    known: KnownShape | None = None,
) -> FleetSize:
    """The number of members that fit into memory: at most ``members``, at most one per training.

    The result does not depend on what else is training, so a fleet has the same size in every run.
    If not even one member fits, or not as many as ``members``, they train on their batches in
    parts.

    Args:
        graphs: the data set
        trainings: trainings of one shape
        dtype: precision of the weights
        members: as many as possible if not given
        beside: number of such fleets that share the memory
        known: measurements of earlier fleets of this shape
    """
    first, known = trainings[0], known or KnownShape()
    on_cpu = graphs.device.type == "cpu"
    least = min(members or 1, len(trainings))
    try:
        known.bytes = known.bytes or trial_step(graphs, representative(first), dtype)
    except MemoryShortageError:  # there were several graphs; one at a time may fit
        return FleetSize(least, first.batch_size, 0)
    weights, batch = known.bytes
    whole = planned_memory(graphs.device)
    if on_cpu:
        whole = min(whole, MAX_CPU_BYTES)
    whole /= OVERHEAD
    share = whole / beside

    if members is None:
        # Not more: waiting trainings keep the slots full, and a recording is used for longer.
        useful = MAX_MEMBERS if on_cpu else GPU_MEMBERS
        if on_cpu:
            useful = min(useful, CPU_THREAD_BYTES // (weights + batch))
        fitting = int(share // (weights + batch))
        least = max(least, min(fitting, useful, len(trainings)))
    if least * (weights + batch) <= share:
        return FleetSize(least, 1, int(OVERHEAD * least * (weights + batch)))
    # Exceed the share if that avoids parts; the fleet then trains alone.
    if not on_cpu and least * (weights + batch) <= whole:
        return FleetSize(least, 1, int(OVERHEAD * least * (weights + batch)))
    # Each part has a filler graph, which takes as much memory as any graph in some methods.
    graphs_per_part = int((share / least - weights) / batch * first.batch_size) - 1
    parts = -(-first.batch_size // max(1, graphs_per_part))
    return FleetSize(least, parts, int(OVERHEAD * share))


def step_bytes(graphs: Graphs, training: Training, dtype: torch.dtype) -> int:
    """Bytes that a training step of one member needs, extrapolated from a smaller step."""
    return sum(trial_step(graphs, training, dtype))


def trial_step(graphs: Graphs, training: Training, dtype: torch.dtype) -> StepBytes:
    """Try the forward pass of a small batch, and extrapolate its memory to a whole one.

    Most methods save some bytes for each node. DiffPool, whose graphs all have the same size after
    the first pooling, saves some for each graph, filler graphs included; Set2Set also some that do
    not depend on the batch. Two batches of filler graphs and one of real graphs tell them apart.

    The trial also refuses methods that draw random numbers from torch. Every training begins with
    it, so such a method never reaches a fleet.
    """
    for _ in range(2):
        with out_of_memory_suppressed():
            return _trial_step(graphs, training, dtype)
        if graphs.device.type == "cpu":
            break
        free_cached_memory()  # torch does not do so while a step is recorded
    raise MemoryShortageError(graphs.device)


def _trial_step(graphs: Graphs, training: Training, dtype: torch.dtype) -> StepBytes:
    split = split_of(graphs, training)
    with SeededDraws(0):  # the number of pooled edges depends on weights
        model = build(training.method, shape_of(graphs, training))
    with own_errors(training.method):
        stack = Stack(model.to(graphs.device, dtype))
    saved_bytes = partial(_saved_bytes, graphs, stack, training.method)
    fillers = [saved_bytes(np.full(count, NO_GRAPH)) for count in (1, 2)]
    per_graph = max(1, fillers[1] - fillers[0])  # a filler graph has one node
    fixed = max(0, fillers[0] - 2 * per_graph)  # every batch has one more filler graph
    count = int(np.clip(TRIAL_BYTES // per_graph, 1, TRIAL_GRAPHS))
    sizes = graphs.node_counts[split.train]
    # Evenly spaced from the smallest to the largest graph.
    by_size = split.train[np.argsort(sizes, kind="stable")]
    tried = by_size[((np.arange(count) + 0.5) * len(sizes) / count).astype(int)]
    saved = saved_bytes(tried, RandomGuard(training.method))
    more_nodes = graphs.node_counts[tried].sum() - count  # beyond the first of each graph
    per_node = max(0.0, saved - fixed - per_graph * (count + 1)) / max(1, more_nodes)
    nodes = (sizes.mean() - 1) * min(training.batch_size, len(sizes))
    batch = per_graph * (training.batch_size + 1) + per_node * nodes
    weights = WEIGHT_COPIES * stack.numbers * stack.weights.element_size()
    return StepBytes(int(weights + fixed), int(batch))


def _saved_bytes(
    graphs: Graphs, stack: Stack, method: str, ids: np.ndarray, guard: RandomGuard | None = None
) -> int:
    """Bytes that a model with one member saves for the backward pass of these graphs."""
    saved: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:  # sparse tensors are views of strided ones
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = pack(graphs, ids[None])
    streams = Streams(torch.zeros(1, dtype=torch.int64, device=graphs.device))
    hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor)
    with hooks, guard or nullcontext(), own_errors(method):
        stack.model(batch, streams).loss_sums(batch)
    saved.pop(stack.weights.untyped_storage().data_ptr(), None)  # counted with the weights
    neighbour_sums = batch.propagated(stack.weights.dtype)
    total = sum(saved.values())
    if isinstance(neighbour_sums, LabelSums):  # computed in the backward pass
        rows, size = len(neighbour_sums.label), stack.weights.element_size()
        total += rows * graphs.num_features * size
    return total


def planned_memory(device: torch.device) -> float:
    """Bytes that all fleets together may use."""
    fraction = CPU_FRACTION if device.type == "cpu" else GPU_FRACTION
    return fraction * usable_memory(device)


def usable_memory(device: torch.device) -> int:
    """Bytes that this process can have; on a GPU, the reserved plus the free memory."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: half of the installed memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@contextmanager
def out_of_memory_suppressed() -> Iterator[None]:
    """Leave the block if memory runs out; other errors are raised.

    After the block the error is freed, and with it the tensors that its traceback refers to.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
