"""What batches are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from sagpool.ops import edge_rows, gcn_propagate

# Features of a whole collection are kept beside it up to this many numbers.
MOST_NUMBERS = 2**26


@dataclass(frozen=True, eq=False)
class BatchSource:
    """Ã = A + I of a collection in CSR, and one more node and graph than there are.

    The node has no entries and no features, the graph no entries: fillers are made of them.

    Args:
        length: ``[nodes + 1]`` int32, entries of each row, of which the first is the node itself
        col: ``[entries]`` int32, indices inside the node's graph
        counts: ``[graphs + 1]`` entries of each graph, on the host
        ptr: ``[graphs + 1]`` first entry of each graph, on the host
        first_node: ``[graphs + 1]`` first node of each graph, on the host
        y: ``[graphs + 1]``
        node_label: ``[nodes + 1]`` int32, the one-hot column of each node; -1 is an all-zero row
        node_attr: ``[nodes + 1, attributes]`` float32
        num_labels: how many one-hot columns there are
    """

    length: Tensor
    col: Tensor
    counts: np.ndarray
    ptr: np.ndarray
    first_node: np.ndarray
    y: Tensor | None
    node_label: Tensor | None
    node_attr: Tensor | None
    num_labels: int
    _propagated: dict[torch.dtype, Tensor] = field(default_factory=dict)

    @cached_property
    def row_ptr(self) -> Tensor:
        """``[nodes + 2]`` int32, the first entry of each row, and the end."""
        return pad(torch.cumsum(self.length, 0, dtype=torch.int32), (1, 0))

    @cached_property
    def starts(self) -> Tensor:
        """``[2, graphs + 1]`` int32, the first node and the first entry of each graph."""
        return torch.tensor(np.stack([self.first_node, self.ptr]), dtype=torch.int32).to(
            self.col.device
        )

    @cached_property
    def sizes(self) -> Tensor:
        """``[2, graphs + 1]`` int32, nodes and entries of each graph; a filler has one node."""
        nodes = np.append(np.diff(self.first_node), 1)
        return torch.tensor(np.stack([nodes, self.counts]), dtype=torch.int32).to(self.col.device)

    def features(self, node: Tensor) -> Tensor:
        """``[nodes, attributes + labels]`` float32 of the chosen nodes."""
        label, attr = (
            None if of_all is None else of_all.index_select(0, node)
            for of_all in (self.node_label, self.node_attr)
        )
        return dense_features(attr, label, self.num_labels)

    def propagated(self, dtype: torch.dtype) -> Tensor | None:
        """``D̃^-1/2 Ã D̃^-1/2 x``, ``[nodes + 1, features]``; None if that is too large."""
        columns = self.num_labels + (0 if self.node_attr is None else self.node_attr.shape[1])
        if len(self.length) * columns > MOST_NUMBERS:
            return None
        if dtype not in self._propagated:
            nodes = torch.arange(len(self.length), device=self.col.device, dtype=torch.int32)
            row = edge_rows(self.row_ptr, self.col)
            # The first entry of a row names the row itself, as all do: from the graph's first.
            own = pad(self.col, (0, 1)).index_select(0, self.row_ptr[:-1])
            col = self.col + (nodes - own).index_select(0, row)
            scale = self.length.clamp(min=1).to(dtype).rsqrt()
            self._propagated[dtype] = gcn_propagate(
                self.features(nodes).to(dtype),
                self.row_ptr,
                col,
                lambda: scale.index_select(0, row) * scale.index_select(0, col),
                symmetric=True,
            )
        return self._propagated[dtype]


def dense_features(attr: Tensor | None, label: Tensor | None, labels: int) -> Tensor:
    """Attributes and one-hot labels side by side, ``[nodes, attributes + labels]`` float32."""
    parts = [] if attr is None else [attr]
    if label is not None:
        one_hot = torch.eye(labels, device=label.device)
        parts.append(embedding(label + 1, pad(one_hot, (0, 0, 1, 0))))  # row 0 for no label
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)
