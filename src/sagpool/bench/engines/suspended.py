"""Splitting a stopped fleet into smaller ones that resume where it stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sagpool.fleet import Training
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.graphs import Graphs


@dataclass(frozen=True, eq=False)
class FleetPart:
    """Unfinished trainings of a stopped fleet, and a checkpoint from which `train` resumes them."""

    trainings: tuple[Training, ...]
    state: bytes


def split_checkpoint(
    checkpoint: Path,
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keep_weights: Callable[[Training], bool],
    parts: int,
) -> list[FleetPart]:
    """Distribute the unfinished trainings of a stopped call of `train` over several checkpoints.

    The first argument is the file that the call wrote, the next four are those of the call. There
    are as many parts as requested, or fewer if there are fewer trainings.
    """
    saved = Checkpoint.load(checkpoint, identity_of(graphs, trainings, dtype, keep_weights))
    unfinished = [number for number in range(len(trainings)) if number not in saved.results]
    # Started trainings first, so that they are spread evenly over the parts.
    unfinished.sort(key=lambda number: number not in saved.members)
    made = []
    with TemporaryDirectory() as folder:
        for first in range(min(parts, len(unfinished))):
            numbers = unfinished[first::parts]
            part = [trainings[number] for number in numbers]
            members = {
                position: saved.members[number]
                for position, number in enumerate(numbers)
                if number in saved.members
            }
            file = Path(folder) / "part.npz"
            Checkpoint(identity_of(graphs, part, dtype, keep_weights), members=members).save(file)
            made.append(FleetPart(tuple(part), file.read_bytes()))
    return made
