"""The paper's hierarchical net as a PyG user would write it: the peer of the fleet."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGPooling, TopKPooling, global_max_pool, global_mean_pool

POOLS = {
    "sagpool-h": lambda hidden, ratio: SAGPooling(hidden, ratio=ratio, GNN=GCNConv),
    "gpool-h": lambda hidden, ratio: TopKPooling(hidden, ratio=ratio),
}


class PyGHierarchical(nn.Module):
    def __init__(self, method: str, in_channels: int, hidden: int, classes: int, ratio: float):
        super().__init__()
        self.convs = nn.ModuleList(
            GCNConv(hidden if block else in_channels, hidden) for block in range(3)
        )
        self.pools = nn.ModuleList(POOLS[method](hidden, ratio) for _ in range(3))
        self.head = nn.Sequential(
            nn.Linear(2 * hidden, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden // 2),
            nn.ReLU(),
            nn.Linear(hidden // 2, classes),
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        summary = torch.zeros((), device=x.device)
        for conv, pool in zip(self.convs, self.pools, strict=True):
            x = conv(x, edge_index).relu()
            x, edge_index, _, batch, _, _ = pool(x, edge_index, batch=batch)
            readout = torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], dim=1)
            summary = summary + readout
        return self.head(summary)
