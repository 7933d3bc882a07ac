"""Predictions for any number of graphs, chunk by chunk, with statistics of the whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from sagpool.classifier.model import TrainedModel
from sagpool.foreign.paths import user_path
from sagpool.graphs import load
from sagpool.graphs.molecules import read_texts
from sagpool.graphs.record_files import CHUNK_NODES, Chunk, chunks, chunks_of, holds_records
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary


class PredictedChunk(NamedTuple):
    names: list[str]  # of the graphs
    classes: list[str]  # the most probable class of each graph
    probabilities: np.ndarray  # [graphs, classes]
    fraction_read: float | None  # of the source so far; None if its size is unknown


@dataclass
class Tally:
    """Counts over all chunks of a run."""

    nodes: int = 0
    unseen: Counter[str] = field(default_factory=Counter)  # nodes of each unknown label
    labelled: int = 0  # graphs that came with a class known to the model
    correct: int = 0  # graphs whose class was predicted


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
    """A TU data set, which has to be loaded as a whole."""
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
    class_names = model.vocabulary.class_names
    known = set(class_names)
    predict = model.predictor(device)
    for graphs, names, targets, fraction_read in parts:
        found = predict(graphs)
        predicted = [class_names[best] for best in found.predicted.tolist()]
        tally.nodes += graphs.num_nodes
        tally.unseen += found.unseen
        for target, prediction in zip(targets, predicted, strict=True):
            tally.labelled += target in known
            tally.correct += target == prediction
        yield PredictedChunk(names, predicted, found.probabilities, fraction_read)
