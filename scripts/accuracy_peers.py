"""Alternatives to `sagpool train`: simple counts with scikit-learn, and GIN in PyG.

Nothing here uses the models of the package, so that the package is not compared with itself. A peer
gets all graphs, loaded with ``features="all"``, and the training and test ids; it predicts the
classes of the test graphs.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

from sagpool import Graphs

WL_ROUNDS = 3
TREES = 500
# GIN as in the paper of Xu et al. (2019): five layers, sums over the nodes of every layer.
HIDDEN, LAYERS, DROPOUT, LR, BATCH = 64, 5, 0.5, 1e-3, 32
MAX_EPOCHS, PATIENCE = 300, 30

Peer = Callable[[Graphs, np.ndarray, np.ndarray, int], np.ndarray]


def labels_of(graphs: Graphs) -> np.ndarray:
    """The label of every node, or its degree if there are no labels."""
    if graphs.node_label is not None:
        return graphs.node_label.numpy().astype(np.int64)
    return degrees_of(graphs)


def degrees_of(graphs: Graphs) -> np.ndarray:
    return np.bincount(graphs.edge_index[1].numpy(), minlength=graphs.num_nodes)


def count(graphs: Graphs, kinds: np.ndarray) -> sp.csr_matrix:
    """``[graphs, kinds]`` counts of each kind of node."""
    _, kinds = np.unique(kinds, return_inverse=True)
    ones = np.ones(len(kinds), dtype=np.float32)
    return sp.csr_matrix(
        (ones, (graphs.batch.numpy(), kinds)), shape=(len(graphs), kinds.max() + 1)
    )


def simple_counts(graphs: Graphs) -> np.ndarray:
    """Counts of labels and of degrees, means of attributes, numbers of nodes and edges."""
    nodes, edges = graphs.node_counts[:, None], graphs.edge_counts[:, None]
    parts = [
        count(graphs, labels_of(graphs)).toarray(),
        count(graphs, degrees_of(graphs)).toarray(),
    ]
    if graphs.continuous:
        attributes = graphs.node_attr.numpy()[:, : graphs.continuous]
        parts.append(np.add.reduceat(attributes, graphs.node_ptr[:-1]) / nodes)
    return np.hstack([*parts, nodes, edges])


def wl_counts(graphs: Graphs) -> sp.csr_matrix:
    """Counts of Weisfeiler-Lehman labels of all rounds.

    A new label stands for the old one and the multiset of the neighbours' labels; multisets are
    told apart by the sum of one random 62-bit number per label.
    """
    source, target = graphs.edge_index.numpy()
    random = np.random.default_rng(0)
    labels = np.unique(labels_of(graphs), return_inverse=True)[1]
    counts = [count(graphs, labels)]
    for _ in range(WL_ROUNDS):
        code = random.integers(2**62, size=labels.max() + 1, dtype=np.int64)
        sums = np.zeros(len(labels), dtype=np.int64)
        np.add.at(sums, target, code[labels[source]])
        pairs = np.stack([labels, sums], axis=1)
        labels = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        counts.append(count(graphs, labels))
    return sp.hstack(counts).tocsr()


def logistic(
    features: np.ndarray | sp.csr_matrix, graphs: Graphs, train: np.ndarray, seed: int
) -> LogisticRegressionCV:
    """Logistic regression on the training rows, with a penalty chosen in five folds of them."""
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 2, 6),
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
        scoring="neg_log_loss",
        max_iter=2000,
        l1_ratios=(0,),
        use_legacy_attributes=False,
    )
    return model.fit(features[train], graphs.y.numpy()[train])


def counts_logistic(graphs: Graphs, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    counts = simple_counts(graphs)
    counts = StandardScaler().fit(counts[train]).transform(counts)
    return logistic(counts, graphs, train, seed).predict(counts[test])


def counts_forest(graphs: Graphs, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    counts = simple_counts(graphs)
    forest = RandomForestClassifier(TREES, random_state=seed)
    return forest.fit(counts[train], graphs.y.numpy()[train]).predict(counts[test])


def wl_logistic(graphs: Graphs, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    counts = wl_counts(graphs).log1p()
    shared = np.diff(counts[train].tocsc().indptr) > 1  # other columns only identify a graph
    counts = counts[:, np.flatnonzero(shared)]
    return logistic(counts, graphs, train, seed).predict(counts[test])


class GIN(nn.Module):
    def __init__(self, in_channels: int, classes: int) -> None:
        super().__init__()
        self.convs, self.heads = nn.ModuleList(), nn.ModuleList([nn.Linear(in_channels, classes)])
        for i in range(LAYERS):
            mlp = nn.Sequential(
                nn.Linear(HIDDEN if i else in_channels, HIDDEN),
                *(nn.BatchNorm1d(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)),
                *(nn.BatchNorm1d(HIDDEN), nn.ReLU()),
            )
            self.convs.append(GINConv(mlp, train_eps=True))
            self.heads.append(nn.Linear(HIDDEN, classes))

    def forward(self, data: Batch) -> torch.Tensor:
        x, layers = data.x, [data.x]
        for conv in self.convs:
            x = conv(x, data.edge_index)
            layers.append(x)
        logits = [
            nn.functional.dropout(head(global_add_pool(x, data.batch)), DROPOUT, self.training)
            for head, x in zip(self.heads, layers, strict=True)
        ]
        return torch.stack(logits).sum(0)  # [graphs, classes]


def gin(graphs: Graphs, train: np.ndarray, test: np.ndarray, seed: int) -> np.ndarray:
    """GIN with one-hot labels, at the epoch of the lowest loss on a tenth of the graphs."""
    torch.manual_seed(seed)
    one_hot = nn.functional.one_hot(torch.from_numpy(labels_of(graphs))).float()
    data: list[Data] = graphs.to_pyg()
    for graph, x in zip(data, one_hot.split(graphs.node_counts.tolist()), strict=True):
        graph.x = x
    fit, held = train_test_split(
        train, test_size=0.1, stratify=graphs.y.numpy()[train], random_state=seed
    )
    loader = DataLoader(
        [data[i] for i in fit], BATCH, shuffle=True, drop_last=len(fit) % BATCH == 1
    )
    validation, tested = (Batch.from_data_list([data[i] for i in ids]) for ids in (held, test))
    model = GIN(one_hot.shape[1], graphs.num_classes)
    optimiser = torch.optim.Adam(model.parameters(), lr=LR)
    best, since, predicted = np.inf, 0, None
    for _ in range(MAX_EPOCHS):
        model.train()
        for batch in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(batch), batch.y).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            loss = nn.functional.cross_entropy(model(validation), validation.y).item()
            if loss < best:
                best, since, predicted = loss, 0, model(tested).argmax(1).numpy()
            else:
                since += 1
        if since == PATIENCE:
            break
    assert predicted is not None
    return predicted


PEERS: dict[str, Peer] = {
    "counts-logistic": counts_logistic,
    "counts-forest": counts_forest,
    "wl-logistic": wl_logistic,
    "gin": gin,
}
