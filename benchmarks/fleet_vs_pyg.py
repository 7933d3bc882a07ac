"""Training: a fleet of models against one PyG model at a time, the same net on the same data.

Both sides do whole epochs: batches of 128 graphs in random order, forward, backward, Adam, then
the validation part. Counted are models · training steps in a second.
"""

import argparse
import json
import resource
import sys
import time

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.loader import DataLoader

from measure import versions
from pyg_models import POOLS, PyGHierarchical
from sagpool import Graphs, SagpoolError, load
from sagpool.fleet import Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.room import Room, choose_room
from sagpool.fleet.schedule import Slots, split_of


def pyg_rate(graphs: Graphs, training: Training, device: str, seconds: float) -> float:
    """Training steps in a second of one PyG model, epoch after epoch."""
    data = graphs.to_pyg()
    parts = split_of(graphs, training)
    loaders = [
        DataLoader([data[i] for i in ids], batch_size=training.batch_size, shuffle=shuffle)
        for ids, shuffle in ((parts.train, True), (parts.validation, False))
    ]
    shape = (graphs.num_features, training.hidden, graphs.num_classes, training.ratio)
    model = PyGHierarchical(training.method, *shape).to(device)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=training.lr, weight_decay=training.weight_decay
    )

    def epoch() -> int:
        model.train()
        for batch in loaders[0]:
            batch = batch.to(device)
            optimiser.zero_grad()
            cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            losses = []
            for batch in loaders[1]:
                batch = batch.to(device)
                logits = model(batch.x, batch.edge_index, batch.batch)
                losses.append(cross_entropy(logits, batch.y, reduction="sum"))
        float(sum(losses))  # the host looks at it, as early stopping must
        return len(loaders[0])

    return _rate(epoch, seconds)


def fleet_rate(
    graphs: Graphs, training: Training, room: Room, device: str, seconds: float
) -> float:
    """Models · training steps in a second of a fleet."""
    members = room.members
    trainings = [
        Training(**(vars(training) | {"seed": i // 10, "fold": i % 10})) for i in range(members)
    ]
    fleet = Fleet(
        graphs.to(device), trainings, Slots.fill(range(members), members), parts=room.parts
    )
    train = max(len(parts.train) for parts in fleet.splits)
    steps = -(-train // training.batch_size) * members

    def epoch() -> int:
        fleet.epoch()
        return steps

    return _rate(epoch, seconds)


def _rate(epoch, seconds: float) -> float:
    epoch()
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        steps += epoch()
    return steps / (time.perf_counter() - start)


def peak_memory(device: str) -> float:
    """GiB at the highest: since the last call on a GPU, of the whole process on a CPU."""
    if device == "cpu":
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return round(peak, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", nargs="+", default=["PROTEINS"])
    parser.add_argument("--hidden", nargs="+", type=int, default=[128])
    parser.add_argument("--method", choices=POOLS, default="sagpool-h")
    parser.add_argument("--members", type=int, help="default: as many as fit, 200 at the most")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=10, help="for each side and case")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    ratios, rates, memory = {}, {}, {}
    for name in arguments.dataset:
        try:
            graphs = load(name)
        except SagpoolError as error:
            sys.exit(f"{error}")
        for hidden in arguments.hidden:
            # No stopping: every member does every epoch.
            training = Training(arguments.method, hidden=hidden, patience=10**9, max_epochs=10**9)
            trainings = [training] * (arguments.members or 200)
            room = choose_room(
                graphs.to(arguments.device), trainings, torch.float32, arguments.members
            )
            case = f"{name}/{hidden}"
            pyg = pyg_rate(graphs, training, arguments.device, arguments.seconds)
            pyg_peak = peak_memory(arguments.device)
            fleet = fleet_rate(graphs, training, room, arguments.device, arguments.seconds)
            ratios[case] = round(fleet / pyg, 2)
            rates[case] = {"pyg": round(pyg, 1), "fleet": round(fleet, 1), "members": room.members}
            memory[case] = {"pyg": pyg_peak, "fleet": peak_memory(arguments.device)}
            if not arguments.json:
                print(
                    f"{case:<18} PyG {pyg:8.1f}  fleet of {room.members} {fleet:9.1f} "
                    f"models·steps/s {fleet / pyg:7.1f} ×   peak memory "
                    f"{memory[case]['fleet']} GiB"
                )
    if arguments.json:
        print(
            json.dumps(
                {
                    "ratios": ratios,
                    "models_steps_per_s": rates,
                    "peak_gib": memory,
                    "device": arguments.device,
                    "versions": versions("torch", "torch-geometric"),
                }
            )
        )


if __name__ == "__main__":
    main()
