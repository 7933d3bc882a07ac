"""How many members fit into memory, and in how many parts they have to do their batches."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.errors import SagpoolError
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.fleet.stack import Stack
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs, pack
from sagpool.graphs.batch import NO_GRAPH
from sagpool.models import build
from sagpool.nn import Streams
from sagpool.ops import LabelSums

# What is kept for the backward pass is most of a step's memory; the rest (gradients that are
# under way, temporaries, the allocator's slack) stays below this factor.
OVERHEAD = 2.5
# Share of the free memory that a fleet may fill.
FILL = 0.6
# On a CPU a step is as fast as its tensors are near: what holds more than this for each thread
# gains nothing more.
CPU_THREAD_BYTES = 48 * 2**20
CPU_MOST_BYTES = 4 * 2**30  # of all threads together, however much there is
WEIGHT_COPIES = 8  # weights, gradient, Adam's averages, the best ones, a snapshot of each
MOST_MEMBERS = 2000
# What is tried to see how much a step takes: so many graphs, or fewer if they are large.
TRIED_GRAPHS = 16
TRIED_BYTES = 64 * 2**20


class MemoryShortageError(SagpoolError):
    """Not even one model with one graph at a time fits into memory."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(
            f"Not even one model fits into the memory of {device}, one graph at a time; "
            "take a smaller hidden size."
        )


class Room(NamedTuple):
    members: int  # side by side
    parts: int  # in which each of them does a batch


def choose_fleet_size(
    graphs: Graphs, trainings: Sequence[Training], dtype: torch.dtype, members: int | None = None
) -> Room:
    """The number of members that fit beside each other, at most one for each training.

    One for each thread of a CPU, one on a GPU, or ``members`` if given, there are in any case;
    if they do not fit, they do their batches in parts.
    """
    first = trainings[0]
    on_cpu = graphs.device.type == "cpu"
    least = min(members or (torch.get_num_threads() if on_cpu else 1), len(trainings))
    try:
        weights, batch = _step(graphs, first, dtype)
    except MemoryShortageError:  # for the graphs that were tried; fewer may fit
        return Room(least, first.batch_size)
    budget = FILL * free_memory(graphs.device)
    if on_cpu:
        budget = min(budget, CPU_MOST_BYTES)
    budget /= OVERHEAD

    if members is None:
        useful = MOST_MEMBERS
        if on_cpu:
            useful = min(useful, least * CPU_THREAD_BYTES // (weights + batch))
        fitting = int(budget // (weights + batch))
        least = max(least, min(fitting, useful, len(trainings)))
    of_one = budget / least
    if weights + batch <= of_one:
        return Room(least, 1)
    # Each part has a filler, which takes as much as a graph in some methods.
    at_a_time = int((of_one - weights) / batch * first.batch_size) - 1
    return Room(least, -(-first.batch_size // max(1, at_a_time)))


def step_bytes(graphs: Graphs, training: Training, dtype: torch.dtype) -> int:
    """Bytes that a training step of one member holds, seen by trying a smaller one."""
    return sum(_step(graphs, training, dtype))


class _Step(NamedTuple):
    weights: int  # bytes of all that does not depend on the batch, most of it of the weights' size
    batch: int  # bytes that are kept for the backward pass of a batch


def _step(graphs: Graphs, training: Training, dtype: torch.dtype) -> _Step:
    """Most methods keep something for each node; DiffPool, whose graphs are all of one size after
    the first pooling, for each graph, fillers too; Set2Set also a sum of weights. Batches of
    few fillers and one of some graphs tell how much.
    """
    try:
        parts = split_of(graphs, training)
        train, shape = parts.train, replace(shape_of(graphs, training, parts), members=1)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # how many edges are kept depends on the weights
            stack = Stack(build(training.method, shape).to(graphs.device, dtype))
        fillers = [_kept(graphs, stack, np.full(count, NO_GRAPH)) for count in (1, 2)]
        small = max(1, fillers[1] - fillers[0])  # for a filler, which is one node
        fixed = max(0, fillers[0] - 2 * small)  # there is a filler in every batch
        count = int(np.clip(TRIED_BYTES // small, 1, TRIED_GRAPHS))
        # Evenly from the small ones to the large ones.
        by_size = train[np.argsort(graphs.node_counts[train], kind="stable")]
        tried = by_size[((np.arange(count) + 0.5) * len(train) / count).astype(int)]
        kept = _kept(graphs, stack, tried)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        further = graphs.node_counts[tried].sum() - count  # nodes, besides one for each graph
        for_node = max(0.0, kept - fixed - small * (count + 1)) / max(1, further)
        nodes = (graphs.node_counts[train].mean() - 1) * min(training.batch_size, len(train))
        batch = small * (training.batch_size + 1) + for_node * nodes
        weights = WEIGHT_COPIES * stack.numbers * stack.weights.element_size()
        return _Step(int(weights + fixed), int(batch))
    # Outside of the handler, which holds on to what was tried.
    raise MemoryShortageError(graphs.device)


def _kept(graphs: Graphs, stack: Stack, ids: np.ndarray) -> int:
    """Bytes that one member keeps for the backward pass of these graphs."""
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:  # sparse ones are views of some that were seen
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = pack(graphs, ids[None])
    streams = Streams(torch.zeros(1, dtype=torch.int64, device=graphs.device))
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        stack.model(batch, streams).loss_sums(batch)
    seen.pop(stack.weights.untyped_storage().data_ptr(), None)  # they are there anyway
    looked_up = batch.propagated(stack.weights.dtype)
    if isinstance(looked_up, LabelSums):  # to be made on the way back
        made = len(looked_up.label) * graphs.num_features * stack.weights.element_size()
        return sum(seen.values()) + made
    return sum(seen.values())


def free_memory(device: torch.device) -> int:
    """Bytes that can still be had."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        # What torch holds and does not use is free as well.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":") for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):  # not Linux: half of what there is
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        "can't allocate memory" in str(error)
    )
