"""Splitting a stopped fleet into smaller ones that resume where it stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sagpool.fleet import Outcome, Training
from sagpool.fleet.checkpoint import Checkpoint, identity_of
from sagpool.fleet.state import TENSORS, MemberState
from sagpool.graphs import Graphs


@dataclass(frozen=True, eq=False)
class FleetPart:
    """Unfinished trainings of a stopped fleet, with the states of begun ones."""

    trainings: tuple[Training, ...]
    states: dict[Training, MemberState]


@dataclass(frozen=True, eq=False)
class StoppedFleet:
    """The state that a stopped call of `train` leaves."""

    outcomes: tuple[Outcome, ...]  # including outcomes that were not reported
    parts: tuple[FleetPart, ...]

    @property
    def epochs(self) -> int:
        """Epochs of all trainings together, since they began."""
        states = [state for part in self.parts for state in part.states.values()]
        done = sum(len(outcome.curve.train_loss) for outcome in self.outcomes)
        return done + sum(state.epoch for state in states)


def split_checkpoint(
    checkpoint: Path,
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keep_weights: Callable[[Training], bool],
    until: int | None,
    parts: int,
) -> StoppedFleet:
    """Distribute the unfinished trainings of a stopped call of `train` over several fleets.

    The first argument is the file that the call wrote; the next five are the arguments of the call.
    There are as many parts as requested, or fewer if there are fewer trainings.
    """
    identity = identity_of(graphs, trainings, dtype, keep_weights, until, keep_predictions=True)
    saved = Checkpoint.load(checkpoint, identity) or Checkpoint(identity)
    unfinished = [number for number in range(len(trainings)) if number not in saved.results]
    # Begun trainings first, so that they are spread evenly over the parts.
    unfinished.sort(key=lambda number: number not in saved.members)
    made = []
    for first in range(min(parts, len(unfinished))):
        numbers = unfinished[first::parts]
        states = {
            trainings[number]: _copied(saved.members[number])
            for number in numbers
            if number in saved.members
        }
        made.append(FleetPart(tuple(trainings[number] for number in numbers), states))
    return StoppedFleet(tuple(saved.results.values()), tuple(made))


def _copied(state: MemberState) -> MemberState:
    """A copy with its own tensors: a pickled view would include its whole base tensor."""
    return replace(state, **{name: getattr(state, name).clone() for name in TENSORS})
