"""How many nodes of each graph are kept."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sagpool.errors import SagpoolError

Ratio = float | Fraction


@dataclass(frozen=True, eq=False)
class Selection:
    """⌈ratio · N⌉ nodes of each graph, or k, or all of fewer than k.

    Args:
        ratio: in (0, 1]; a float is taken for the simple fraction that it stands for, so that
            0.6 of 25 nodes are 15; 1 keeps all (what PyG calls an integer ratio is ``k`` here)
        k: at least 1; a number, or an array that fits ``[members, graphs]``, fillers not counted;
            goes before ratio
    """

    ratio: Ratio = 0.5
    k: int | np.ndarray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.ratio, (int, float, Fraction)) or not 0 < self.ratio <= 1:
            raise SagpoolError(f"The ratio must be above 0 and at most 1, not {self.ratio}.")
        if self.k is not None:
            k = np.asarray(self.k)
            if not np.issubdtype(k.dtype, np.integer) or not k.size or k.min() < 1:
                raise SagpoolError(f"k must be whole numbers of at least 1, not {self.k}.")

    def counts(self, sizes: np.ndarray) -> np.ndarray:
        """Nodes kept of each graph, ``[members, graphs]`` as ``sizes``."""
        if self.k is not None:
            try:
                return np.minimum(sizes, np.broadcast_to(self.k, sizes.shape))
            except ValueError:
                raise SagpoolError(
                    f"k has shape {np.shape(self.k)}, which does not fit {sizes.shape[-1]} graphs."
                ) from None
        exact = Fraction(self.ratio).limit_denominator(10**9)
        kept = -(-sizes * exact.numerator // exact.denominator)
        return np.clip(kept, 1, sizes)
