"""The folder of a saved model: weights, configuration and model card.

Nothing in the files is ever executed: the weights are plain arrays, the rest is JSON and text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sagpool.classifier.card import model_card
from sagpool.classifier.model import TrainedModel
from sagpool.errors import SagpoolError
from sagpool.foreign import limits
from sagpool.foreign.values import DecodingError, decode, decoding, parse_json, shorten
from sagpool.graphs.cache import replacing
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, method_version, methods

log = logging.getLogger("sagpool")

# Format 2 has settings of the method, which a reader of format 1 would ignore.
FORMATS = (1, 2)
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"


class _SavedShape(NamedTuple):
    """The fields of a `Shape` without `members`, which are for training only."""

    in_channels: int
    classes: int
    hidden: int
    ratio: float
    k: int | None
    max_nodes: int | None
    dropout: float
    settings: dict[str, int | float | bool | str] = {}  # noqa: RUF012, never changed


class _Checksums(NamedTuple):
    weights: str
    config: str


class _Config(NamedTuple):
    method: str
    shape: _SavedShape
    vocabulary: dict[str, Any]
    sha256: _Checksums
    about: dict[str, Any]


def files_of(model: TrainedModel) -> dict[str, bytes]:
    """The content of the files of a model, by name."""
    weights = save({name: t.cpu().contiguous() for name, t in model.weights.items()})
    shape = {name: getattr(model.shape, name) for name in _SavedShape._fields[:-1]}
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
    return {
        WEIGHTS: weights,
        CONFIG: json.dumps(config, indent=2).encode() + b"\n",
        CARD: model_card(model).encode(),
    }


def write_folder(model: TrainedModel, folder: Path) -> None:
    """Write a model into a folder, which is created if it does not exist."""
    content = files_of(model)
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
    written = _read_config(path)
    try:
        with decoding(lambda reason: f"{path} is damaged: {reason}."):
            config = decode(_Config, written, "the configuration")
            versions = decode(dict[str, Any], config.about.get("versions", {}), "versions")
            vocabulary = Vocabulary.from_json(config.vocabulary)
    except MemoryError:
        raise SagpoolError(f"{path} does not fit into memory.") from None
    method = config.method
    try:
        if method not in methods():
            raise SagpoolError(
                f"there is no method {method[:60]!r}; if it is your own, load it with --plugin FILE"
            )
        shape = _read_shape(config.shape, vocabulary)
        with torch.device("meta"):
            parameters = build(method, shape).state_dict()
    except (SagpoolError, DecodingError) as error:
        raise SagpoolError(f"{path} is invalid: {str(error).rstrip('.')}.") from None
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # of a layer
        reason = (str(error).splitlines() or ["?"])[0][:200].rstrip(".")
        raise SagpoolError(f"{path} is invalid: {reason}.") from None
    expected = {name: tuple(tensor.shape) for name, tensor in parameters.items()}
    weights = _read_weights(folder, expected, config.sha256.weights)
    if _checksum(written) != config.sha256.config:
        raise SagpoolError(f"{path} was changed after it was written; save the model again.")
    if versions.get(f"method {method}", "") != method_version(method):
        log.warning(
            "The code of %s has changed since %s was saved; its predictions may be wrong.",
            *(method, folder),
        )
    return TrainedModel(method, shape, vocabulary, weights, config.about)


def _read_config(path: Path) -> dict[str, Any]:
    with decoding(lambda reason: f"{path} is damaged: {reason}."):
        config = parse_json(_read(path, limits.CONFIG.most))
    if not isinstance(config, dict) or type(config.get("format")) is not int:
        raise SagpoolError(f"{path} is not the configuration of a sagpool model.")
    if config["format"] not in FORMATS:
        age = "a newer" if config["format"] > FORMATS[-1] else "an older"
        raise SagpoolError(
            f"{path.parent} was written by {age} version of sagpool (format "
            f"{shorten(config['format'])}; "
            f"this version reads {FORMATS[0]} to {FORMATS[-1]})."
        )
    return config


def _read_shape(saved: _SavedShape, vocabulary: Vocabulary) -> Shape:
    for name in ("in_channels", "classes", "hidden", "k", "max_nodes"):
        size = getattr(saved, name)
        if size is not None and not 1 <= size < 2**31:
            raise SagpoolError(f"{name} cannot be {size}")
    if not 0 <= saved.dropout < 1:
        raise SagpoolError(f"dropout must be at least 0 and below 1, not {saved.dropout}")
    for name, what, named in (
        ("in_channels", "node features", vocabulary.num_features),
        ("classes", "classes", len(vocabulary.class_names)),
    ):
        size = getattr(saved, name)
        if size != named:
            raise SagpoolError(f"it has layers for {size} {what}, but names for {named}")
    return Shape(**saved._asdict())


def _read_weights(
    folder: Path, expected: dict[str, tuple[int, ...]], checksum: str
) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    numbers = sum(math.prod(shape) for shape in expected.values())
    data = _read(path, 8 * numbers + limits.CONFIG.most)
    if _sha256(data) != checksum:
        raise SagpoolError(
            f"{path} does not match the checksum in {CONFIG}: it is damaged, incomplete or from "
            "another model."
        )
    try:
        weights = load(data)
    except (SafetensorError, ValueError, LookupError, RuntimeError, TypeError, AttributeError):
        raise SagpoolError(f"{path} is not a safetensors file.") from None
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if found != expected:
        name = sorted({*found.items()} ^ {*expected.items()})[0][0]
        raise SagpoolError(
            f"{path} does not fit {CONFIG}: '{name}' is {found.get(name, 'missing')}, expected "
            f"{expected.get(name, 'no such parameter')}."
        )
    for name, tensor in weights.items():
        if tensor.dtype not in (torch.float32, torch.float64):
            raise SagpoolError(f"{path}: '{name}' is {tensor.dtype}, not float32 or float64.")
        if not bool(tensor.isfinite().all()):
            raise SagpoolError(f"{path}: '{name}' has a weight that is not a finite number.")
    if len({tensor.dtype for tensor in weights.values()}) > 1:
        raise SagpoolError(f"{path} mixes float32 and float64.")
    return weights


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise SagpoolError(f"{path} is larger than a file of this model can be.")
        return data
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
