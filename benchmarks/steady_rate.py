"""The rate of a fleet in which no member stops."""

import time

import torch

from sagpool.fleet import Training
from sagpool.fleet.fleet import Fleet
from sagpool.fleet.memory import choose_fleet_size
from sagpool.fleet.schedule import Slots
from sagpool.graphs import Graphs

WARM_UP, TIMED = 3, 4  # calls, of one or more epochs each


def steady_rate(graphs: Graphs, shape: tuple[int, float], members: int) -> float:
    """Models · training steps per second of a fleet whose members never stop."""
    hidden, ratio = shape
    trainings = [
        Training("sagpool-h", hidden=hidden, ratio=ratio, seed=n // 10, fold=n % 10, patience=10**9)
        for n in range(members)
    ]
    size = choose_fleet_size(graphs, trainings, torch.float32, members)
    with torch.cuda.stream(torch.cuda.Stream()):
        slots = Slots.fill(range(size.members), size.members)
        fleet = Fleet(graphs, trainings, slots, parts=size.parts)
        most = max(len(split.train) for split in fleet.settings.splits)
        steps = -(-most // trainings[0].batch_size)
        for _ in range(WARM_UP):
            fleet.advance()
        torch.cuda.synchronize()
        begin, before = time.perf_counter(), fleet.epochs_trained
        for _ in range(TIMED):
            fleet.advance()
        torch.cuda.synchronize()
        return steps * (fleet.epochs_trained - before) / (time.perf_counter() - begin)
