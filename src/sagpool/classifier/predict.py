"""Predicting graphs by the million: in chunks, with a tally of what is to be told at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from sagpool.classifier.model import TrainedModel
from sagpool.graphs import load
from sagpool.graphs.molecules import read_texts
from sagpool.graphs.record_files import CHUNK_NODES, Chunk, chunks, chunks_of, holds_records
from sagpool.graphs.records import Columns
from sagpool.graphs.vocabulary import Vocabulary


class Predicted(NamedTuple):
    """What a model says about the graphs of one chunk."""

    names: list[str]
    classes: list[str]  # the most probable of each graph
    probabilities: np.ndarray  # [graphs, classes]
    share: float | None  # of the source that has been read, where its size is known


@dataclass
class Tally:
    """Of a whole run.

    Args:
        graphs: how many were predicted
        nodes: of all of them
        unseen: node labels that the model does not know, and how many nodes have them
        known: graphs that came with a class that the model knows
        hits: those of them for which it is the predicted one
    """

    graphs: int = 0
    nodes: int = 0
    unseen: Counter[str] = field(default_factory=Counter)
    known: int = 0
    hits: int = 0


def chunks_from(
    source: str, vocabulary: Vocabulary, columns: Columns = Columns(), *, size: int
) -> Iterator[Chunk]:
    """The graphs of anything that `sagpool.load` takes, so many at a time."""
    path = Path(source).expanduser()
    if holds_records(path):
        return chunks(path, vocabulary, columns, size=size)
    return _cut(source, vocabulary, size)


def chunks_from_smiles(
    smiles: Sequence[str], vocabulary: Vocabulary, *, size: int
) -> Iterator[Chunk]:
    """Molecules that were written down."""
    return chunks_of(read_texts(smiles, "SMILES"), "SMILES", vocabulary, size=size)


def _cut(source: str, vocabulary: Vocabulary, size: int) -> Iterator[Chunk]:
    """A TU data set, which can only be read as a whole."""
    graphs = load(source, vocabulary.features)
    targets = [None] * len(graphs) if graphs.y is None else graphs.y.tolist()
    start = 0
    while start < len(graphs):
        # As many as there may be nodes, but one at least.
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
    model: TrainedModel,
    parts: Iterable[Chunk],
    tally: Tally,
    *,
    device: torch.device | str = "cpu",
) -> Iterator[Predicted]:
    """What the model says about them, chunk by chunk, counted in the tally."""
    names = model.vocabulary.class_names
    known = set(names)
    predict = model.predictor(device)
    for chunk in parts:
        probabilities, unseen = predict(chunk.graphs)
        best = probabilities.argmax(1).tolist()
        tally.graphs += len(best)
        tally.nodes += chunk.graphs.num_nodes
        tally.unseen += unseen
        for target, said in zip(chunk.targets, best, strict=True):
            if target in known:
                tally.known += 1
                tally.hits += target == names[said]
        yield Predicted(chunk.names, [names[said] for said in best], probabilities, chunk.fraction)
