"""Chooses how a fleet trains, by the size of its steps."""

from dataclasses import dataclass

from sagpool.fleet.schedule import Slots, trained_on
from sagpool.fleet.training import Training
from sagpool.graphs import Graphs

# Numbers in a layer of a small or a medium step: rows x channels of all members.
SMALL, MEDIUM = 2**24, 2**28
AT_ONCE = 8  # epochs before the host looks at the losses
MOST_EMPTY = 0.25  # fraction of the slots, on a CPU
# Size (rows x channels) of the steps that a GPU computes in the time of one recording, about 0.1 s.
RECORDING = 2**31


@dataclass(frozen=True)
class Pace:
    """How a fleet trains. Independent of timing, because it decides which members train together.

    Args:
        on_gpu: whether the fleet trains on a GPU
        numbers: rows x channels of a layer in a step of one member
        steps: number of steps of an epoch
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
        """Whether to record whole epochs.

        Steps are so short that copying each batch alone would take too long.
        """
        return self.on_gpu and self.numbers * members < SMALL

    def epochs_at_once(self, members: int) -> int:
        """Number of epochs before the host looks at the losses, if no training waits for a slot.

        Reading them stalls the device and the hosts of other fleets. But epochs that a member
        trains after its end are wasted.
        """
        return AT_ONCE if self.on_gpu and self.numbers * members < MEDIUM else 1

    def should_compact(self, slots: Slots, wasted: int) -> bool:
        """Whether to rebuild the fleet without its empty slots.

        On a GPU empty slots cost as much time as full ones, but a smaller fleet must be recorded
        again. So it is rebuilt once the empty slots have cost as much as a recording. That takes at
        most twice the best possible time, whenever the other members end.

        Args:
            slots: the fleet's slots
            wasted: epochs of empty slots since the last rebuilding
        """
        if not self.on_gpu:
            return slots.too_empty(MOST_EMPTY)
        return slots.too_empty(0.0) and wasted * self.steps * self.numbers >= RECORDING
