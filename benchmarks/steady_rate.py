"""The rate of a fleet of which no member stops."""

import time

import torch

from sagpool.fleet import Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.memory import choose_fleet_size
from sagpool.fleet.schedule import Slots
from sagpool.graphs import Graphs

WARM_UP, EPOCHS = 5, 20


def steady_rate(graphs: Graphs, shape: tuple[int, float], members: int) -> float:
    """Models · training steps per second of a fleet whose members train all the time."""
    hidden, ratio = shape
    trainings = [
        Training("sagpool-h", hidden=hidden, ratio=ratio, seed=n // 10, fold=n % 10, patience=10**9)
        for n in range(members)
    ]
    size = choose_fleet_size(graphs, trainings, torch.float32, members)
    with torch.cuda.stream(torch.cuda.Stream()):
        slots = Slots.fill(range(size.members), size.members)
        fleet = Fleet(graphs, trainings, slots, parts=size.parts)
        steps = sum(-(-len(split.train) // trainings[0].batch_size) for split in fleet.splits)
        for _ in range(WARM_UP):
            fleet.epoch()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(EPOCHS):
            fleet.epoch()
        torch.cuda.synchronize()
        return steps * EPOCHS / (time.perf_counter() - begin)
