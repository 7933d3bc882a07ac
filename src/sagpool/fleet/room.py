"""How many members fit into memory."""

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sagpool.fleet.evaluate import member_losses
from sagpool.fleet.schedule import shape_of, split_of
from sagpool.fleet.stack import Stack
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs, pack
from sagpool.models import build

# What is kept for the backward pass is most of a step's memory; the rest (gradients that are
# under way, temporaries, the allocator's slack) stays below this factor.
OVERHEAD = 2.5
# Share of the free memory that a fleet may fill.
FILL = 0.6
# On a CPU a step is as fast as its tensors are near: what holds more than this for each thread
# gains nothing more.
CPU_THREAD_BYTES = 48 * 2**20
WEIGHT_COPIES = 8  # weights, gradient, Adam's averages, the best ones, a snapshot of each
MOST_MEMBERS = 2000


def choose_members(graphs: Graphs, trainings: Sequence[Training], dtype: torch.dtype) -> int:
    """The number of members that fit beside each other, at most one for each training."""
    bytes_of_one = step_bytes(graphs, trainings[0], dtype)
    fitting = int(FILL * free_memory(graphs.device) // (OVERHEAD * bytes_of_one))
    useful = MOST_MEMBERS
    if graphs.device.type == "cpu":
        threads = torch.get_num_threads()
        useful = min(useful, max(threads, threads * CPU_THREAD_BYTES // bytes_of_one))
    return max(1, min(fitting, useful, len(trainings)))


def step_bytes(graphs: Graphs, training: Training, dtype: torch.dtype) -> int:
    """Bytes that a training step of one member holds, seen by trying one."""
    shape = replace(shape_of(graphs, training), members=1)
    stack = Stack(build(training.method, shape).to(graphs.device, dtype))
    train = split_of(graphs, training).train
    # A batch of larger graphs than any that will come.
    largest = train[np.argsort(graphs.node_counts[train])[::-1][: training.batch_size]]
    typical = graphs.node_counts[train].mean() * len(largest) / graphs.node_counts[largest].sum()
    seen: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided:  # sparse ones are views of some that were seen
            storage = tensor.untyped_storage()
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = pack(graphs, largest[None])
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        member_losses(stack.model(batch), batch)
    weights = WEIGHT_COPIES * stack.numbers * stack.weights.element_size()
    return int(sum(seen.values()) * typical) + weights


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
