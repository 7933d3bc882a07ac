"""The folder of a saved model: weights, configuration and model card.

Nothing in the files is ever executed: the weights are plain arrays, the rest is JSON and text.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sagpool.classifier.card import model_card
from sagpool.classifier.model import TrainedModel
from sagpool.errors import SagpoolError
from sagpool.graphs.cache import replacing
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, method_version, methods

log = logging.getLogger("sagpool")

# Format 2 has settings of the method, which a reader of format 1 would ignore.
FORMATS = (1, 2)
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
# The saved fields of a `Shape` with their types; `members` is for training only.
_SHAPE: dict[str, tuple[type, ...]] = {
    "in_channels": (int,),
    "classes": (int,),
    "hidden": (int,),
    "ratio": (int, float),
    "k": (int, type(None)),
    "max_nodes": (int, type(None)),
    "dropout": (int, float),
}


def write_folder(model: TrainedModel, folder: Path) -> None:
    """Write a model into a folder, which is created if it does not exist."""
    weights = save({name: t.cpu().contiguous() for name, t in model.weights.items()})
    shape = {name: getattr(model.shape, name) for name in _SHAPE}
    settings = dict(model.shape.settings)
    config: dict[str, Any] = {
        "format": 2 if settings else 1,
        "method": model.method,
        "shape": shape
        | {"ratio": float(model.shape.ratio)}
        | ({"settings": settings} if settings else {}),
        "vocabulary": model.vocabulary.to_json(),
    }
    config["sha256"] = {"weights": _sha256(weights), "config": _checksum(config)}
    config["about"] = model.about
    content = {
        WEIGHTS: weights,
        CONFIG: json.dumps(config, indent=2).encode() + b"\n",
        CARD: model_card(model).encode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in content.items():
            with replacing(folder / name) as file:
                file.write(data)
    except OSError as error:
        raise SagpoolError(f"{folder} cannot be written: {error.strerror}.") from None


def read_folder(folder: Path) -> TrainedModel:
    """Read a saved model, and check that its files are complete, consistent and unchanged."""
    path = folder / CONFIG
    config = _read_config(path)
    try:
        method = str(config["method"])
        if method not in methods():
            raise SagpoolError(
                f"there is no method {method[:60]!r}; if it is your own, load it with --plugin FILE"
            )
        vocabulary = Vocabulary.from_json(config["vocabulary"])
        shape = _read_shape(config["shape"], vocabulary)
        about = dict(config["about"])
        checksum = {name: str(config["sha256"][name]) for name in ("weights", "config")}
        with torch.device("meta"):
            parameters = build(method, shape).state_dict()
    except KeyError as error:
        raise SagpoolError(f"{path} is damaged: {error} is missing.") from None
    except SagpoolError as error:
        raise SagpoolError(f"{path} is invalid: {str(error).rstrip('.')}.") from None
    except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        reason = (str(error).splitlines() or ["?"])[0].rstrip(".")
        raise SagpoolError(f"{path} is damaged: {reason}.") from None
    expected = {name: tuple(tensor.shape) for name, tensor in parameters.items()}
    weights = _read_weights(folder, expected, checksum["weights"])
    if _checksum(config) != checksum["config"]:
        raise SagpoolError(f"{path} was changed after it was written; save the model again.")
    saved = about.get("versions", {}).get(f"method {method}", "")
    if saved != method_version(method):
        log.warning(
            "The code of %s has changed since %s was saved; its predictions may be wrong.",
            *(method, folder),
        )
    return TrainedModel(method, shape, vocabulary, weights, about)


def _read_config(path: Path) -> dict[str, Any]:
    data = _read(path)
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        raise SagpoolError(f"{path} is damaged: it is not valid JSON.") from None
    if not isinstance(config, dict) or type(config.get("format")) is not int:
        raise SagpoolError(f"{path} is not the configuration of a sagpool model.")
    if config["format"] not in FORMATS:
        age = "a newer" if config["format"] > FORMATS[-1] else "an older"
        raise SagpoolError(
            f"{path.parent} was written by {age} version of sagpool (format {config['format']}; "
            f"this version reads {FORMATS[0]} to {FORMATS[-1]})."
        )
    return config


def _read_shape(entry: Any, vocabulary: Vocabulary) -> Shape:
    values = {name: entry[name] for name in _SHAPE}
    for name, types in _SHAPE.items():
        if type(values[name]) not in types:
            raise SagpoolError(f"{name} cannot be {str(values[name])[:60]!r}")
        if types == (int,) and not 1 <= values[name] < 2**31:
            raise SagpoolError(f"{name} cannot be {str(values[name])[:60]}")
    for name, what, named in (
        ("in_channels", "node features", vocabulary.num_features),
        ("classes", "classes", len(vocabulary.class_names)),
    ):
        if values[name] != named:
            raise SagpoolError(f"it has layers for {values[name]} {what}, but names for {named}")
    return Shape(**values, settings=dict(entry.get("settings", {})))


def _read_weights(
    folder: Path, expected: dict[str, tuple[int, ...]], checksum: str
) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    data = _read(path)
    if _sha256(data) != checksum:
        raise SagpoolError(
            f"{path} does not match the checksum in {CONFIG}: it is damaged, incomplete or from "
            "another model."
        )
    try:
        weights = load(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError, TypeError):
        raise SagpoolError(f"{path} is not a safetensors file.") from None
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if found != expected:
        name = sorted({*found.items()} ^ {*expected.items()})[0][0]
        raise SagpoolError(
            f"{path} does not fit {CONFIG}: '{name}' is {found.get(name, 'missing')}, expected "
            f"{expected.get(name, 'no such parameter')}."
        )
    return weights


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SagpoolError(f"{path.parent} is not a model: it has no {path.name}.") from None
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror}.") from None


def _checksum(config: dict[str, Any]) -> str:
    """Of what decides the predictions; ``about`` may be edited."""
    decisive = {name: config[name] for name in ("format", "method", "shape", "vocabulary")}
    return _sha256(json.dumps(decisive, sort_keys=True).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
