"""How many nodes of each graph are kept."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

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
        kept = -(-sizes * self.share.numerator // self.share.denominator)
        return np.clip(kept, 1, sizes)

    @cached_property
    def share(self) -> Fraction:
        """The fraction that the ratio stands for."""
        return Fraction(self.ratio).limit_denominator(10**9)

    @property
    def one_k_each(self) -> bool:
        """Whether all graphs of a member have the same k, or none."""
        return self.k is None or np.ndim(self.k) == 0 or np.shape(self.k)[-1] == 1

    @property
    def largest_k(self) -> int | None:
        return None if self.k is None else int(np.max(self.k))

    def k_on(self, device: torch.device, members: int) -> Tensor | None:
        """The k of each member, ``[members]`` on the device; None without a k.

        The tensor stays the same one: what has been recorded with it sees what `refresh` wrote.
        """
        if self.k is None:
            return None
        known = vars(self).get("_k")
        if known is None or known.device != device or len(known) != members:
            vars(self)["_k"] = torch.empty(members, dtype=torch.int64, device=device)
            self.refresh()
        return vars(self)["_k"]

    def refresh(self) -> None:
        """Take note of a k that has changed in place."""
        if "_k" in vars(self):
            vars(self)["_k"].copy_(torch.as_tensor(self.k, dtype=torch.int64).view(-1))
