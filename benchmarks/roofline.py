"""Each operation, and a whole training step, compared with the limits of the GPU.

The limit of an operation is the larger of two times: the bytes it must move (every input read once,
every output written once) over the bandwidth of a large copy, and its floating-point operations
over the rate of a large float32 matrix product. In a step each operation waits for the one before,
so its limit is the sum of theirs (`step`). Two lower limits: all operations overlap, so that the
larger of total bytes and total operations counts (`step_overlapped`); and matrix products are as
fast as three tf32 products on tensor cores (`step_tensor_cores`), which is how the kernels compute
float32 products, and torch does not.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from measure import versions
from sagpool import SagpoolError, load
from sagpool.fleet import Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.schedule import Slots
from sagpool.fleet.stack import AdamState, adam_step, row_length
from sagpool.graphs import Adjacency, pack
from sagpool.models import Shape, build
from sagpool.nn import GATConv
from sagpool.nn.pool.selection import Selection, keep_selected, select_top
from sagpool.ops import LabelSums, dense_relu

F32, INT = 4, 4


@dataclass(frozen=True)
class Limits:
    bandwidth: float  # bytes in a second, read and written
    rate: float  # floating-point operations in a second
    tensor_rate: float  # the same, with each float32 product as three tf32 products

    def seconds(self, moved: float, done: float) -> float:
        return max(moved / self.bandwidth, done / self.rate)


@dataclass(frozen=True)
class Op:
    name: str
    moved: float  # bytes
    done: float  # floating-point operations
    seconds: float
    in_step: bool = True


def seconds_of(call: Callable[[], object], repeats: int = 20) -> float:
    """Median time on the device."""
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return statistics.median(times)


def measured_limits() -> Limits:
    x = torch.randn(2**28, device="cuda")
    y = torch.empty_like(x)
    bandwidth = 2 * x.numel() * F32 / seconds_of(lambda: y.copy_(x))
    a, b = torch.randn(2, 8192, 8192, device="cuda")
    rates = []
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        rates.append(2 * 8192**3 / seconds_of(lambda: a @ b, repeats=5))
    torch.set_float32_matmul_precision("highest")
    return Limits(bandwidth, rates[0], rates[1] / 3)


def both_ways(forward: Callable[[], tuple[torch.Tensor, ...]], leaves: list) -> tuple[float, float]:
    """Seconds of the forward and of the backward pass."""
    results = forward()
    grads = [torch.randn_like(result) for result in results]

    def backward() -> None:
        torch.autograd.grad(results, leaves, grads, retain_graph=True)

    with torch.no_grad():
        forward_s = seconds_of(forward)
    return forward_s, seconds_of(backward)


def dense_ops(level: int, rows: int, members: int, fan_in: int, hidden: int) -> list[Op]:
    x = torch.randn(members * rows, fan_in, device="cuda", requires_grad=level > 1)
    weights = layer(members, fan_in, hidden)
    forward_s, backward_s = both_ways(
        lambda: dense_relu(x, *weights), [*([x] if level > 1 else []), *weights]
    )
    n, product = members * rows, 2 * members * rows * fan_in * hidden
    wide, narrow = n * hidden * F32, n * fan_in * F32
    return [
        Op(f"dense {level}", narrow + wide + n * F32, product, forward_s),
        Op(
            f"dense {level} backward",
            # The gradient and the result, x, and the gradient of x after the first level.
            2 * wide + n * F32 + narrow * (2 if level > 1 else 1),
            product * (2 if level > 1 else 1),
            backward_s,
        ),
    ]


def label_ops(x: LabelSums, entries: int, members: int, fan_in: int, hidden: int) -> list[Op]:
    """The first layer if nodes have many labels: its input is only the labels."""
    weights = layer(members, fan_in, hidden)
    forward_s, backward_s = both_ways(lambda: dense_relu(x, *weights), weights)
    n, done = len(x.label), 2 * entries * hidden
    wide, known = n * hidden * F32, (2 * n + entries) * INT
    return [
        Op("dense 1", known + wide + n * F32, done, forward_s),
        Op("dense 1 backward", known + 2 * wide + n * F32, done, backward_s),
    ]


def layer(members: int, fan_in: int, hidden: int) -> list[torch.Tensor]:
    """Weight, bias and score weight."""
    shapes = ((members, fan_in, hidden), (members, 1, hidden), (members, hidden, 1))
    return [torch.randn(*shape, device="cuda").requires_grad_() for shape in shapes]


def propagate_ops(level: int, adjacency: Adjacency, hidden: int) -> list[Op]:
    n, entries = adjacency.layout.members * adjacency.layout.rows, int(adjacency.row_ptr[-1])
    x = torch.randn(n, hidden, device="cuda", requires_grad=True)
    forward_s, backward_s = both_ways(lambda: (adjacency.gcn(x),), [x])
    moved = 2 * n * hidden * F32 + (n + entries) * INT
    done = 2 * entries * hidden
    name = f"propagate {level}" if hidden > 1 else f"score {level}"
    return [Op(name, moved, done, forward_s), Op(f"{name} backward", moved, done, backward_s)]


def pool_ops(level: int, adjacency: Adjacency, hidden: int) -> tuple[list[Op], Adjacency]:
    layout = adjacency.layout
    n, graphs = layout.members * layout.rows, layout.members * layout.graphs
    x = torch.randn(n, hidden, device="cuda", requires_grad=True)
    gate = torch.randn(n, device="cuda", requires_grad=True)
    selection, rank = Selection(0.5), gate.detach()
    choose = seconds_of(lambda: select_top(layout, rank, gate, selection))
    selected = select_top(layout, rank, gate, selection)

    def forward() -> tuple[torch.Tensor, ...]:
        pooled = keep_selected(x, adjacency, selected)
        return pooled.x, pooled.readout()

    forward_s, backward_s = both_ways(forward, [x, gate])
    smaller = keep_selected(x.detach(), adjacency, selected).structure
    kept = smaller.layout.members * smaller.layout.rows
    entries, fewer = int(adjacency.row_ptr[-1]), int(smaller.row_ptr[-1])
    rows, readout = kept * hidden * F32, 2 * graphs * hidden * F32
    ops = [
        Op(f"top-k {level}", n * (F32 + 1), 0, choose),
        Op(
            f"gather, readout, edges {level}",
            2 * rows + readout + (n + kept + entries + fewer) * INT,
            2 * kept * hidden,
            forward_s,
        ),
        Op(
            f"gather, readout {level} backward",
            # Gradient and x of the kept rows, and a gradient for every row.
            2 * rows + n * hidden * F32 + readout + 2 * n * F32,
            4 * kept * hidden,
            backward_s,
        ),
    ]
    return ops, smaller


def operations(name: str, hidden: int, members: int) -> list[Op]:
    graphs = load(name).to("cuda")
    random = np.random.default_rng(0)
    ids = np.stack([random.permutation(len(graphs))[:128] for _ in range(members)])
    adjacency = pack(graphs, ids).structure
    n, entries = members * adjacency.layout.rows, int(adjacency.row_ptr[-1])
    fan_in = graphs.num_features
    batch = pack(graphs, ids)
    looked_up = batch.propagated(torch.float32)
    by_label = isinstance(looked_up, LabelSums)
    ops = [
        # Row pointers and neighbours, read and written; the node of each row.
        Op("batch", (3 * n + 2 * entries) * INT, 0, seconds_of(lambda: pack(graphs, ids))),
        Op(
            "features",
            n * INT + 2 * n * (INT if by_label else fan_in * F32),
            0,
            seconds_of(lambda: batch.propagated(torch.float32)),
        ),
    ]
    adjacency_now = adjacency
    for level in (1, 2, 3):
        if level > 1:
            ops += propagate_ops(level, adjacency_now, hidden)
        if level == 1 and by_label:
            ops += label_ops(looked_up, entries, members, fan_in, hidden)
        else:
            ops += dense_ops(
                level, adjacency_now.layout.rows, members, fan_in if level == 1 else hidden, hidden
            )
        ops += propagate_ops(level, adjacency_now, 1)
        more, adjacency_now = pool_ops(level, adjacency_now, hidden)
        ops += more
    shape = Shape(fan_in, graphs.num_classes, hidden=hidden)
    with torch.device("meta"):
        numbers = row_length(build("sagpool-h", shape))
    weights, mean, square, grad = torch.rand(4, members, numbers, device="cuda")
    state = AdamState(weights, mean, square, torch.ones(members, dtype=torch.int64, device="cuda"))
    rate = torch.full((members,), 1e-3, dtype=torch.float64, device="cuda")
    step = seconds_of(lambda: adam_step(state, grad, rate, rate, rate > 0))
    ops.append(Op("Adam", 7 * members * numbers * F32, 12 * members * numbers, step))
    # Not part of the step: the attention score of a variant.
    conv = GATConv(hidden, 1, members=members).to("cuda")
    x = torch.randn(n, hidden, device="cuda")
    with torch.no_grad():
        gat = seconds_of(lambda: conv(x, adjacency))
    moved = n * hidden * F32 + (n + entries) * INT + 5 * 6 * n * F32
    ops.append(Op("GAT score", moved, 2 * n * hidden * 6, gat, in_step=False))
    return ops


def step_seconds(name: str, hidden: int, members: int) -> float:
    """Seconds of a training step, with its part of validation and everything else."""
    graphs = load(name).to("cuda")
    trainings = [
        Training("sagpool-h", hidden=hidden, seed=i // 10, fold=i % 10, patience=10**9)
        for i in range(members)
    ]
    fleet = Fleet(graphs, trainings, Slots.fill(range(members), members))
    for _ in range(8):  # until all shapes have been recorded
        fleet.advance()
    steps = -(-max(len(split.train) for split in fleet.settings.splits) // 128)
    # The last batch of an epoch is smaller, and counts as a fraction of a step.
    whole = max(len(split.train) for split in fleet.settings.splits) / 128
    before = fleet.epochs_trained
    fleet.advance()
    epochs = (fleet.epochs_trained - before) / members
    return seconds_of(fleet.advance, repeats=8) / epochs / min(steps, whole)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="PROTEINS")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    case = (arguments.dataset, arguments.hidden, arguments.members)
    limits = measured_limits()
    try:
        ops = operations(*case)
    except SagpoolError as error:
        sys.exit(f"{error}")
    measured = step_seconds(*case)
    in_step = [op for op in ops if op.in_step]
    chain = sum(limits.seconds(op.moved, op.done) for op in in_step)
    faster = replace(limits, rate=limits.tensor_rate)
    hard = sum(faster.seconds(op.moved, op.done) for op in in_step)
    moved, done = sum(op.moved for op in in_step), sum(op.done for op in in_step)
    ratios = {op.name: limits.seconds(op.moved, op.done) / op.seconds for op in ops}
    ratios |= {
        "step": chain / measured,
        "step_overlapped": limits.seconds(moved, done) / measured,
        "step_tensor_cores": hard / measured,
    }
    if arguments.json:
        figures = {
            "ratios": {name: round(value, 3) for name, value in ratios.items()},
            "gigabytes_per_s": round(limits.bandwidth / 1e9),
            "teraflops": round(limits.rate / 1e12, 1),
            "tensor_teraflops": round(limits.tensor_rate / 1e12, 1),
            "milliseconds": {op.name: round(op.seconds * 1e3, 3) for op in ops}
            | {"step": round(measured * 1e3, 2)},
            "case": dict(zip(("dataset", "hidden", "members"), case, strict=True)),
            "device": torch.cuda.get_device_name(),
            "versions": versions("torch", "triton"),
        }
        print(json.dumps(figures))
        return
    print(
        f"copy {limits.bandwidth / 1e12:.2f} TB/s, float32 product {limits.rate / 1e12:.1f} TFLOPS "
        f"({limits.tensor_rate / 1e12:.1f} as three of tf32)"
    )
    for op in ops:
        limit = limits.seconds(op.moved, op.done)
        kind = "bytes" if op.moved / limits.bandwidth >= op.done / limits.rate else "products"
        print(
            f"{op.name:<30} {op.moved / 1e6:9.1f} MB {op.done / 1e9:8.2f} GFLOP  limit "
            f"{limit * 1e3:7.3f} ms ({kind})  measured {op.seconds * 1e3:7.3f} ms  "
            f"{ratios[op.name]:5.0%}"
        )
    print(
        f"step: limit {chain * 1e3:.2f} ms, measured {measured * 1e3:.2f} ms: {ratios['step']:.0%} "
        f"(if everything overlapped: {ratios['step_overlapped']:.0%}; products as three of tf32: "
        f"{ratios['step_tensor_cores']:.0%})"
    )


if __name__ == "__main__":
    main()
