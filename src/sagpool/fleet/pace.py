"""How large the steps of a fleet are, and how it trains because of that."""

from dataclasses import dataclass

from sagpool.fleet.schedule import Slots, trained_on
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs

# Numbers in a layer of a small or a medium step: rows x channels of all members.
SMALL, MEDIUM = 2**24, 2**28
AT_ONCE = 8  # epochs
MOST_EMPTY = 0.25  # of the slots of a CPU
# Numbers in a layer that a GPU trains on in the time of a recording, about a tenth of a second.
RECORDING = 2**31


@dataclass(frozen=True)
class Pace:
    """How a fleet trains. Does not depend on timing, because it decides who trains together.

    Args:
        on_gpu: whether it trains there
        numbers: in a layer of a step of one member
        steps: of an epoch
    """

    on_gpu: bool
    numbers: float
    steps: int = 1

    @staticmethod
    def of(graphs: Graphs, training: Training) -> "Pace":
        nodes = graphs.node_counts[trained_on(graphs, training)]
        numbers = float(nodes.mean()) * training.batch_size * training.hidden
        return Pace(graphs.device.type == "cuda", numbers, -(-len(nodes) // training.batch_size))

    def whole_epochs(self, members: int) -> bool:
        """Whether a GPU takes less time for a step than the host to launch it.

        Then whole epochs are recorded.
        """
        return self.on_gpu and self.numbers * members < SMALL

    def epochs_at_once(self, members: int) -> int:
        """How many epochs before the host looks at the losses, if no training waits for a slot.

        Reading them stalls the device and the hosts of other fleets. But epochs that a member
        trains after its end are wasted.
        """
        return AT_ONCE if self.on_gpu and self.numbers * members < MEDIUM else 1

    def should_compact(self, slots: Slots, wasted: int) -> bool:
        """Whether to rebuild the fleet without its empty slots.

        On a GPU empty slots cost as much time as others, but a smaller fleet must be recorded
        again. So it is rebuilt once they have cost as much as a recording: at most twice the best
        possible time, whenever the other members end.

        Args:
            slots: of the fleet
            wasted: epochs of empty slots since the last rebuilding
        """
        if not self.on_gpu:
            return slots.too_empty(MOST_EMPTY)
        return slots.too_empty(0.0) and wasted * self.steps * self.numbers >= RECORDING
