"""Predictions for any number of graphs, chunk by chunk, with statistics of the whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from sagpool.classifier.model import Predictions, TrainedModel
from sagpool.fleet.metrics import scores
from sagpool.foreign.paths import user_path
from sagpool.graphs import load
from sagpool.graphs.columns import UNKNOWN
from sagpool.graphs.graphs import Task
from sagpool.graphs.molecules import read_texts
from sagpool.graphs.record_files import CHUNK_NODES, Chunk, chunks, chunks_of, holds_records
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary


class PredictedChunk(NamedTuple):
    names: list[str]  # names of the graphs
    found: Predictions
    fraction_read: float | None  # fraction of the source so far; None if its size is unknown


@dataclass
class Tally:
    """Counts over all chunks of a run."""

    graphs: int = 0
    nodes: int = 0
    unseen: Counter[str] = field(default_factory=Counter)  # number of nodes of each unknown label
    unlike: int = 0  # number of graphs unlike the training data
    # Classes or targets, of the graphs that have one.
    truth: list[np.ndarray] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)  # for the graphs with a truth
    predicted: list[np.ndarray] = field(default_factory=list)

    @property
    def without_label(self) -> int:
        """Nodes whose first label (the element) is unknown; others may lack only a charge."""
        return sum(n for name, n in self.unseen.items() if not name.startswith(UNKNOWN))

    @property
    def labelled(self) -> int:
        """Number of graphs with a class known to the model, or with a target."""
        return sum(map(len, self.truth))

    def scores(self, task: Task) -> dict[str, float]:
        """Scores on the graphs that have a class or a target."""
        columns = (np.concatenate(parts) for parts in (self.truth, self.outputs, self.predicted))
        return scores(task, *columns)

    def add(self, chunk: Chunk, found: Predictions, class_names: Sequence[str]) -> None:
        self.graphs += len(chunk.graphs)
        self.nodes += chunk.graphs.num_nodes
        self.unseen += found.unseen
        self.unlike += int(found.unlike.sum())
        if chunk.graphs.task == "classification":
            number = {name: place for place, name in enumerate(class_names)}
            truth = np.array([number.get(str(target), -1) for target in chunk.targets])
            known = truth >= 0
        elif chunk.graphs.targets is not None:
            truth = chunk.graphs.targets.cpu().numpy().astype(np.float64)
            known = ~np.isnan(truth).all(1)
        else:
            return
        if known.any():
            self.truth.append(truth[known])
            self.outputs.append(found.probabilities[known])
            self.predicted.append(found.predicted[known])


def chunks_from(
    source: str | Sequence[str], vocabulary: Vocabulary, columns: Columns, *, size: int
) -> Iterator[Chunk]:
    """At most ``size`` graphs at a time of anything that `sagpool.load` reads, or of SMILES."""
    if not isinstance(source, str):
        return chunks_of(read_texts(source, "SMILES"), "SMILES", vocabulary, size=size)
    path = user_path(source)
    if holds_records(path):
        return chunks(path, vocabulary, columns, size=size)
    return _chunks_of_data_set(source, vocabulary, size)


def _chunks_of_data_set(source: str, vocabulary: Vocabulary, size: int) -> Iterator[Chunk]:
    """The chunks of a TU data set, which has to be loaded as a whole."""
    graphs = load(source, vocabulary.features)
    targets = [None] * len(graphs) if graphs.y is None else graphs.y.tolist()
    start = 0
    while start < len(graphs):
        # As many graphs as fit into CHUNK_NODES, but at least one.
        full = int(np.searchsorted(graphs.node_ptr, graphs.node_ptr[start] + CHUNK_NODES, "right"))
        stop = min(max(start + 1, full - 1), start + size)
        yield Chunk(
            graphs[start:stop],
            [str(number + 1) for number in range(start, stop)],
            [None if y is None else graphs.class_names[y] for y in targets[start:stop]],
            stop / len(graphs),
        )
        start = stop


def predict_chunks(
    model: TrainedModel, parts: Iterable[Chunk], tally: Tally, *, device: torch.device | str = "cpu"
) -> Iterator[PredictedChunk]:
    """Predict chunk after chunk, and add each to the tally."""
    predict = model.predictor(device)
    for chunk in parts:
        found = predict(chunk.graphs)
        tally.add(chunk, found, model.vocabulary.class_names)
        yield PredictedChunk(chunk.names, found, chunk.fraction)
