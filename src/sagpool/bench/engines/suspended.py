"""Fleets that were stopped, cut into smaller ones that go on where it was."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sagpool.fleet import Training
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.graphs import Graphs


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a fleet.

    Args:
        trainings: that are not done
        state: a checkpoint of `train` for them
    """

    trainings: tuple[Training, ...]
    state: bytes


def cut(
    checkpoint: Path,
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keeps: Callable[[Training], bool],
    pieces: int,
) -> list[Piece]:
    """What a stopped call of `train` had left, in pieces; who has begun keeps what it learnt.

    Args:
        checkpoint: the file of the call
        graphs: as it got them; so the other arguments
        trainings: all of them
        dtype: of the weights
        keeps: whether the result of a training carries its weights
        pieces: how many, if there are trainings enough
    """
    saved = Checkpoint.load(checkpoint, identity_of(graphs, trainings, dtype, keeps))
    left = [number for number in range(len(trainings)) if number not in saved.results]
    # Those that have begun come first, so that each piece has its share of them.
    left.sort(key=lambda number: number not in saved.members)
    made = []
    with TemporaryDirectory() as folder:
        for first in range(min(pieces, len(left))):
            numbers = left[first::pieces]
            part = [trainings[number] for number in numbers]
            members = {
                place: saved.members[number]
                for place, number in enumerate(numbers)
                if number in saved.members
            }
            file = Path(folder) / "piece.npz"
            Checkpoint(identity_of(graphs, part, dtype, keeps), members=members).save(file)
            made.append(Piece(tuple(part), file.read_bytes()))
    return made
