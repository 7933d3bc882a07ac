"""`TrainedModel`: a trained model with everything it needs to classify other graphs."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.classifier.hub import download, is_name, similar_folder, upload
from sagpool.errors import SagpoolError
from sagpool.fleet import Result
from sagpool.fleet.evaluate import predict
from sagpool.fleet.schedule import shape_of
from sagpool.fleet.versions import versions
from sagpool.foreign.paths import user_path
from sagpool.graphs import Graphs
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build

BATCH_SIZE = 1024
MOST_LISTED = 5  # unknown node labels in a warning


class Predictions(NamedTuple):
    probabilities: np.ndarray  # [graphs, classes]
    unseen: Counter[str]  # number of nodes for each node label that is not in the vocabulary


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model, the node features and classes it was trained with, and how it was trained."""

    method: str
    shape: Shape
    vocabulary: Vocabulary  # the meaning of feature columns and classes
    weights: dict[str, Tensor]  # a state dict for ``build(method, shape)``
    about: dict[str, Any] = field(default_factory=dict)  # JSON values for the model card

    def module(self, device: torch.device | str = "cpu") -> nn.Module:
        """The model as a module in evaluation mode, to be called with a packed batch."""
        # On the meta device no random numbers are drawn for weights that are replaced anyway.
        with torch.device("meta"):
            model = build(self.method, self.shape)
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        model.load_state_dict(weights, assign=True)
        return model.to(device).eval()

    def predict_proba(self, graphs: Graphs, *, batch_size: int = BATCH_SIZE) -> Predictions:
        """Class probabilities of each graph; feature columns are matched by name."""
        return self.predictor(graphs.device, batch_size=batch_size)(graphs)

    def predictor(
        self, device: torch.device | str = "cpu", *, batch_size: int | None = None
    ) -> Callable[[Graphs], Predictions]:
        """A function like `predict_proba` for many collections: the module is built only once.

        Without a ``batch_size``, each collection is one batch.
        """
        model = self.module(device)
        keys = torch.zeros(1, dtype=torch.int64, device=device)

        def predict_proba(graphs: Graphs) -> Predictions:
            fitted, unseen = self.vocabulary.fit(graphs)
            logs = predict(model, fitted.to(device), 1, keys, batch_size or len(graphs))[0]
            if np.isnan(logs).any():
                number = int(np.isnan(logs).any(1).argmax())
                raise SagpoolError(
                    f"The model gives no number for graph {number} of {graphs.name}: its weights "
                    "or the features are too large."
                )
            return Predictions(np.exp(logs), unseen)

        return predict_proba

    def __repr__(self) -> str:
        from sagpool.classifier.display import model_text

        return model_text(self)

    def _repr_html_(self) -> str:
        from sagpool.classifier.display import model_html

        return model_html(self)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write weights, configuration and model card into a folder; returns its path."""
        from sagpool.classifier.folder import write_folder

        write_folder(self, Path(folder))
        return Path(folder)

    @staticmethod
    def from_pretrained(source: str | Path) -> TrainedModel:
        """Read a model from a folder, or by name from the Hugging Face Hub."""
        from sagpool.classifier.folder import CONFIG, WEIGHTS, read_folder

        folder = user_path(source)
        if folder.is_dir():
            return read_folder(folder)
        if folder.exists():
            raise SagpoolError(
                f"{source} is a file; a model is a folder with {CONFIG} and {WEIGHTS}."
            )
        similar = similar_folder(str(source))
        if similar or folder.parent.is_dir() or isinstance(source, Path) or not is_name(source):
            # A local path with a typing error; the Hub does not need to know it.
            hint = f"; did you mean {similar}?" if similar else "."
            raise SagpoolError(f"There is no model folder {source}{hint}")
        return read_folder(download(source, [WEIGHTS, CONFIG]))

    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Upload the model to the Hugging Face Hub (extra ``hub``); returns its address."""
        with tempfile.TemporaryDirectory() as folder:
            return upload(self.save_pretrained(folder), name, private=private)


def trained_model(graphs: Graphs, result: Result, **about: Any) -> TrainedModel:
    """The model of a training that ran with ``keep_weights=True`` on these graphs."""
    if result.weights is None or not result.best_epoch:
        raise SagpoolError("The training diverged; try a lower learning rate.")
    training = result.training
    settings = {
        name: value
        for name, value in training.to_dict().items()
        if name not in ("method", "fold", "folds", "validation", "patience", "max_epochs")
    }
    described = {
        "data": vars(graphs.statistics()),
        "settings": settings,
        "versions": versions([training.method]),
    }
    return TrainedModel(
        training.method,
        shape_of(graphs, training),
        Vocabulary.of(graphs),
        result.weights,
        described | about,
    )


def describe_unseen(unseen: Counter[str], what: str = "labels") -> str:
    """A warning about nodes whose labels are unknown to the model, the most frequent first."""
    listed = ", ".join(f"{name} ({nodes})" for name, nodes in unseen.most_common(MOST_LISTED))
    more = ", ..." if len(unseen) > MOST_LISTED else ""
    return f"{unseen.total()} nodes have {what} that the model does not know: {listed}{more}"
