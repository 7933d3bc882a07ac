"""A trained model with all that it needs to classify other graphs, in memory and in a folder."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sagpool.classifier.hub import download, is_name, upload
from sagpool.errors import SagpoolError
from sagpool.fleet.evaluate import predict
from sagpool.graphs import Graphs
from sagpool.graphs.cache import replacing
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, methods

FORMAT = 1
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
# The numbers of a `Shape` that a saved model has, and their types; fleets are for training.
_SHAPE: dict[str, tuple[type, ...]] = {
    "in_channels": (int,),
    "classes": (int,),
    "hidden": (int,),
    "ratio": (int, float),
    "k": (int, type(None)),
    "max_nodes": (int, type(None)),
    "dropout": (int, float),
}
BATCH = 1024  # graphs at a time


class Predictions(NamedTuple):
    probabilities: np.ndarray  # [graphs, classes]
    unseen: Counter[str]  # node labels that the model does not know, and how many nodes have them


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model, the features and classes it knows, and how it came to be.

    Args:
        method: a registered name
        shape: of its layers
        vocabulary: what its columns and classes stand for
        weights: a state dict for ``build(method, shape)``
        about: settings, estimate, data and versions, in plain values: what the model card tells
    """

    method: str
    shape: Shape
    vocabulary: Vocabulary
    weights: dict[str, Tensor]
    about: dict[str, Any] = field(default_factory=dict)

    def module(self, device: torch.device | str = "cpu") -> nn.Module:
        """The model itself, ready to be called with a packed batch."""
        # Made without numbers: nobody's random numbers are drawn for weights that are not used.
        with torch.device("meta"):
            model = build(self.method, self.shape)
        weights = {name: tensor.clone() for name, tensor in self.weights.items()}
        model.load_state_dict(weights, assign=True)
        return model.to(device).eval()

    def predict_proba(self, graphs: Graphs, *, batch_size: int = BATCH) -> Predictions:
        """Probabilities of all classes for each graph; its features may be in other columns."""
        return self.predictor(graphs.device, batch_size=batch_size)(graphs)

    def predictor(
        self, device: torch.device | str = "cpu", *, batch_size: int | None = None
    ) -> Callable[[Graphs], Predictions]:
        """`predict_proba` for many collections, each as a whole: the model is made once."""
        model = self.module(device)
        keys = torch.zeros(1, dtype=torch.int64, device=device)

        def predict_proba(graphs: Graphs) -> Predictions:
            fitted, unseen = self.vocabulary.fit(graphs)
            log_share = predict(model, fitted.to(device), 1, keys, batch_size or len(graphs))[0]
            return Predictions(np.exp(log_share), unseen)

        return predict_proba

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write weights, configuration and model card into a folder, made if need be."""
        from safetensors.torch import save

        from sagpool.classifier.card import model_card

        folder = Path(folder)
        weights = save({name: t.cpu().contiguous() for name, t in self.weights.items()})
        shape = {name: getattr(self.shape, name) for name in _SHAPE}
        config: dict[str, Any] = {
            "format": FORMAT,
            "method": self.method,
            "shape": shape | {"ratio": float(self.shape.ratio)},
            "vocabulary": self.vocabulary.to_json(),
        }
        config["sha256"] = {"weights": _sha256(weights), "config": _checksum(config)}
        config["about"] = self.about
        content = {
            WEIGHTS: weights,
            CONFIG: json.dumps(config, indent=2).encode() + b"\n",
            CARD: model_card(self).encode(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, data in content.items():
                with replacing(folder / name) as file:
                    file.write(data)
        except OSError as error:
            raise SagpoolError(f"{folder} cannot be written: {error.strerror}.") from None
        return folder

    @staticmethod
    def from_pretrained(source: str | Path) -> TrainedModel:
        """Read a model from a folder, or from the Hugging Face Hub by its name.

        Nothing in the files is ever run: weights are plain arrays, the rest is JSON.
        """
        folder = Path(source).expanduser()
        if not folder.is_dir():
            folder = _found_on_hub(source)
        path = folder / CONFIG
        config = _read_config(path)
        try:
            method = str(config["method"])
            if method not in methods():
                raise SagpoolError(f"there is no method {method[:60]!r} here")
            shape = _read_shape(config["shape"])
            vocabulary = Vocabulary.from_json(config["vocabulary"])
            about = dict(config["about"])
            checksum = {name: str(config["sha256"][name]) for name in ("weights", "config")}
            _check_consistent(shape, vocabulary)
            expected = _parameter_shapes(method, shape)
        except KeyError as error:
            raise SagpoolError(f"{path} is not as it was written: it has no {error}.") from None
        except SagpoolError as error:
            raise SagpoolError(f"{path} is wrong: {str(error).rstrip('.')}.") from None
        except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            reason = (str(error).splitlines() or ["?"])[0].rstrip(".")
            raise SagpoolError(f"{path} is not as it was written: {reason}.") from None
        weights = _read_weights(folder, expected, checksum["weights"])
        if _checksum(config) != checksum["config"]:
            raise SagpoolError(f"{path} was changed after it was written; save the model again.")
        return TrainedModel(method, shape, vocabulary, weights, about)

    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Put the model on the Hugging Face Hub (extra ``hub``); its address."""
        with tempfile.TemporaryDirectory() as folder:
            return upload(self.save_pretrained(folder), name, private=private)


def _parameter_shapes(method: str, shape: Shape) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        model = build(method, shape)
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _read_shape(entry: Any) -> Shape:
    numbers = {name: entry[name] for name in _SHAPE}
    for name, types in _SHAPE.items():
        if type(numbers[name]) not in types:
            raise SagpoolError(f"{name} cannot be {str(numbers[name])[:60]!r}")
        if types == (int,) and not 1 <= numbers[name] < 2**31:
            raise SagpoolError(f"{name} cannot be {str(numbers[name])[:60]}")
    return Shape(**numbers)


def _check_consistent(shape: Shape, vocabulary: Vocabulary) -> None:
    for what, in_shape, in_words in (
        ("node features", shape.in_channels, vocabulary.num_features),
        ("classes", shape.classes, len(vocabulary.class_names)),
    ):
        if in_shape != in_words:
            raise SagpoolError(f"it has layers for {in_shape} {what}, and names for {in_words}")


def _checksum(config: dict[str, Any]) -> str:
    """Of what decides the predictions; what is told about the model may be edited."""
    decisive = {name: config[name] for name in ("format", "method", "shape", "vocabulary")}
    return _sha256(json.dumps(decisive, sort_keys=True).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SagpoolError(f"{path.parent} holds no model: it has no {CONFIG}.") from None
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise SagpoolError(f"{path} is damaged: it is no JSON.") from None
    if not isinstance(config, dict) or type(config.get("format")) is not int:
        raise SagpoolError(f"{path} is not the configuration of a sagpool model.")
    if config["format"] != FORMAT:
        age = "a newer" if config["format"] > FORMAT else "an older"
        raise SagpoolError(
            f"{path.parent} was written by {age} version of sagpool (format {config['format']}; "
            f"this one reads {FORMAT})."
        )
    return config


def _read_weights(
    folder: Path, expected: dict[str, tuple[int, ...]], checksum: str
) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    path = folder / WEIGHTS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SagpoolError(f"{folder} holds no model: it has no {WEIGHTS}.") from None
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror}.") from None
    if _sha256(data) != checksum:
        raise SagpoolError(
            f"{path} is not what was saved with {CONFIG}: it is damaged, incomplete or of another "
            "model."
        )
    try:
        weights = load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError, TypeError):
        raise SagpoolError(f"{path} is no file of weights.") from None
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if found != expected:
        odd = sorted({*found.items()} ^ {*expected.items()})[0][0]
        raise SagpoolError(
            f"{path} does not fit {CONFIG}: '{odd}' is {found.get(odd, 'missing')}, where the "
            f"configuration asks for {expected.get(odd, 'nothing of that name')}."
        )
    return weights


def _found_on_hub(source: str | Path) -> Path:
    if Path(source).expanduser().exists():
        raise SagpoolError(f"{source} is a file; a model is a folder with {CONFIG} and {WEIGHTS}.")
    if isinstance(source, Path) or not is_name(source):
        raise SagpoolError(f"There is no model folder {source}.")
    return download(source, [WEIGHTS, CONFIG])
