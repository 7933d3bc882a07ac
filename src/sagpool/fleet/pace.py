"""How large the steps of a fleet are, and how it trains because of that."""

from dataclasses import dataclass

from sagpool.fleet.schedule import trained_on
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs

# Numbers in a layer of a small or a medium step: rows x channels of all members.
SMALL, MEDIUM = 2**24, 2**28
FEW_MEMBERS = 16  # a step of fewer is hardly shorter
AT_ONCE = 8  # epochs


@dataclass(frozen=True)
class Pace:
    """Of a fleet. It depends on its work alone, not on time: it decides who trains beside whom.

    Args:
        on_gpu: whether it trains there
        numbers: in a layer of a step of one member
    """

    on_gpu: bool
    numbers: float

    @staticmethod
    def of(graphs: Graphs, training: Training) -> "Pace":
        nodes = graphs.node_counts[trained_on(graphs, training)]
        rows = float(nodes.mean()) * training.batch_size
        return Pace(graphs.device.type == "cuda", rows * training.hidden)

    def whole_epochs(self, members: int) -> bool:
        """Whether a GPU takes less time for a step than the host to launch it.

        Then whole epochs are recorded.
        """
        return self.on_gpu and self.numbers * members < SMALL

    def epochs_at_once(self, members: int) -> int:
        """How many epochs before the host looks at the losses, if no training waits for a slot.

        While it looks, the device waits, and so do the hosts of other fleets. But a member that
        ends in between trains for nothing.
        """
        return AT_ONCE if self.on_gpu and self.numbers * members < MEDIUM else 1

    def most_empty(self, members: int) -> float:
        """The largest fraction of empty slots.

        They take a GPU as long as others, but a smaller fleet must be recorded anew.
        """
        if not self.on_gpu:
            return 0.25
        return 0.5 if members <= FEW_MEMBERS else 0.15
