"""The folder of a saved model: weights, configuration and model card.

Nothing in the files is ever executed: the weights are plain arrays, the rest is JSON and text.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from sagpool.classifier.card import model_card
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.model import TrainedModel
from sagpool.classifier.novelty import Novelty, num_descriptors
from sagpool.classifier.saved_parts import (
    SavedNet,
    SavedPart,
    SavedShape,
    Shapes,
    expected_shapes,
    restore_part,
    save_part,
    warn_of_changed_code,
)
from sagpool.errors import SagpoolError
from sagpool.foreign import limits
from sagpool.foreign.values import DecodingError, decode, decoding, parse_json, shorten
from sagpool.graphs.cache import replacing
from sagpool.graphs.vocabulary import Vocabulary

# Formats 1 and 2 have one net; 2 adds settings of its method; 3 has any number of parts.
FORMATS = (1, 2, 3)
WEIGHTS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
NOVELTY = "novelty."
NOVELTY_ARRAYS = ("mean", "root")


class _Checksums(NamedTuple):
    weights: str
    config: str


class _Novelty(NamedTuple):
    threshold: float


class _Config(NamedTuple):
    parts: tuple[SavedPart, ...]
    mixture: tuple[float, ...]
    temperature: float
    decision: tuple[float, ...] | None
    conformal: Conformal | None
    novelty: _Novelty | None
    vocabulary: dict[str, Any]
    sha256: _Checksums
    about: dict[str, Any]


class _OneNet(NamedTuple):
    """The configuration of formats 1 and 2."""

    method: str
    shape: SavedShape
    vocabulary: dict[str, Any]
    sha256: _Checksums
    about: dict[str, Any]

    def config(self) -> _Config:
        net = SavedPart(net=SavedNet(self.method, self.shape))
        return _Config(
            parts=(net,),
            mixture=(1.0,),
            temperature=1.0,
            decision=None,
            conformal=None,
            novelty=None,
            vocabulary=self.vocabulary,
            sha256=self.sha256,
            about=self.about,
        )


def files_of(model: TrainedModel) -> dict[str, bytes]:
    """The content of the files of a model, by name."""
    parts, arrays = [], dict[str, Tensor]()
    for number, part in enumerate(model.parts):
        entry, tensors = save_part(part)
        parts.append(entry)
        arrays |= {_prefix(number) + name: tensor for name, tensor in tensors.items()}
    novelty = None
    if model.novelty is not None:
        novelty = {"threshold": model.novelty.threshold}
        for name in NOVELTY_ARRAYS:
            arrays[NOVELTY + name] = torch.from_numpy(getattr(model.novelty, name))
    weights = save(arrays)
    config: dict[str, Any] = {
        "format": FORMATS[-1],
        "parts": parts,
        "mixture": list(model.mixture),
        "temperature": model.temperature,
        "decision": None if model.decision is None else list(model.decision),
        "conformal": None if model.conformal is None else vars(model.conformal),
        "novelty": novelty,
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
    several = written["format"] > 2
    try:
        with decoding(lambda reason: f"{path} is damaged: {reason}."):
            config = (
                decode(_Config, written, "the configuration")
                if several
                else decode(_OneNet, written, "the configuration").config()
            )
            versions = decode(dict[str, Any], config.about.get("versions", {}), "versions")
            vocabulary = Vocabulary.from_json(config.vocabulary)
    except MemoryError:
        raise SagpoolError(f"{path} does not fit into memory.") from None
    try:
        _check(config, vocabulary)
        expected = [expected_shapes(part, vocabulary) for part in config.parts]
    except (SagpoolError, DecodingError) as error:
        raise SagpoolError(f"{path} is invalid: {str(error).rstrip('.')}.") from None
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:  # raised by a layer
        reason = (str(error).splitlines() or ["?"])[0][:200].rstrip(".")
        raise SagpoolError(f"{path} is invalid: {reason}.") from None
    prefixes = [_prefix(number) if several else "" for number in range(len(expected))]
    shapes = {
        prefix + name: shape
        for prefix, of_part in zip(prefixes, expected, strict=True)
        for name, shape in of_part.items()
    }
    if config.novelty is not None:
        columns = num_descriptors(vocabulary.attributes, len(vocabulary.node_labels))
        shapes |= {NOVELTY + "mean": (columns,), NOVELTY + "root": (columns, columns)}
    arrays = _read_arrays(folder, shapes, config.sha256.weights)
    if _checksum(written) != config.sha256.config:
        raise SagpoolError(f"{path} was changed after it was written; save the model again.")
    with decoding(lambda reason: f"{folder} is damaged: {reason}."):
        parts = tuple(
            restore_part(
                part,
                vocabulary,
                {name: arrays[prefix + name] for name in of_part},
                folder / WEIGHTS,
            )
            for part, prefix, of_part in zip(config.parts, prefixes, expected, strict=True)
        )
        novelty = _restore_novelty(config, arrays)
    for part in parts:
        warn_of_changed_code(part, versions, folder)
    return TrainedModel(
        vocabulary=vocabulary,
        parts=parts,
        mixture=config.mixture,
        temperature=config.temperature,
        decision=config.decision,
        conformal=config.conformal,
        novelty=novelty,
        about=config.about,
    )


def _check(config: _Config, vocabulary: Vocabulary) -> None:
    """Raise an error that names a meaningless number in the configuration."""
    outputs = vocabulary.num_outputs
    if not outputs:
        raise SagpoolError(f"there are no names of what it predicts ({vocabulary.task})")
    if not config.parts or len(config.mixture) != len(config.parts):
        raise SagpoolError(f"{len(config.mixture)} weights for {len(config.parts)} parts")
    if not (all(w > 0 for w in config.mixture) and abs(sum(config.mixture) - 1) < 1e-6):
        raise SagpoolError("the weights of the parts must be above 0 and sum to 1")
    if not 1e-3 < config.temperature < 1e3:
        raise SagpoolError(f"the temperature cannot be {config.temperature}")
    if config.decision is not None and (
        len(config.decision) != outputs or not all(0 <= d < 1e9 for d in config.decision)
    ):
        raise SagpoolError("decision must have a number for each class or task")
    if config.novelty is not None and not math.isfinite(config.novelty.threshold):
        raise SagpoolError("the threshold of novelty must be a finite number")
    if config.conformal is not None:
        bounds = config.conformal.thresholds
        tasks = 1 if vocabulary.task == "classification" else outputs
        if not 0 < config.conformal.coverage < 1 or len(bounds) != tasks:
            raise SagpoolError("conformal must have a coverage in (0, 1) and its thresholds")
        if not all(one is None or 0 <= one < math.inf for one in bounds):
            raise SagpoolError("a conformal threshold must be at least 0")


def _restore_novelty(config: _Config, arrays: dict[str, Tensor]) -> Novelty | None:
    if config.novelty is None:
        return None
    mean, root = (arrays[NOVELTY + name].double() for name in NOVELTY_ARRAYS)
    if not (bool(mean.isfinite().all()) and bool(root.isfinite().all())):
        raise DecodingError("the statistics of the training graphs are not finite")
    return Novelty(mean.numpy(), root.numpy(), config.novelty.threshold)


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


def _read_arrays(folder: Path, expected: Shapes, checksum: str) -> dict[str, Tensor]:
    path = folder / WEIGHTS
    numbers = sum(math.prod(shape) for shape in expected.values())
    data = _read(path, 8 * numbers + limits.CONFIG.most)
    if _sha256(data) != checksum:
        raise SagpoolError(
            f"{path} does not match the checksum in {CONFIG}: it is damaged, incomplete or from "
            "another model."
        )
    try:
        arrays = load(data)
    except (SafetensorError, ValueError, LookupError, RuntimeError, TypeError, AttributeError):
        raise SagpoolError(f"{path} is not a safetensors file.") from None
    found = {name: tuple(tensor.shape) for name, tensor in arrays.items()}
    if found != expected:
        name = sorted({*found.items()} ^ {*expected.items()})[0][0]
        raise SagpoolError(
            f"{path} does not fit {CONFIG}: '{name}' is {found.get(name, 'missing')}, expected "
            f"{expected.get(name, 'no such array')}."
        )
    return arrays


def _read(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size  # a configuration can claim any size
            data = file.read(min(most, size) + 1)
        if len(data) > most:
            raise SagpoolError(f"{path} is larger than a file of this model can be.")
        return data
    except FileNotFoundError:
        raise SagpoolError(f"{path.parent} is not a model: it has no {path.name}.") from None
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror}.") from None


def _checksum(config: dict[str, Any]) -> str:
    """Checksum of everything that affects predictions; ``about`` may be edited."""
    decisive = {name: value for name, value in config.items() if name not in ("sha256", "about")}
    return _sha256(json.dumps(decisive, sort_keys=True).encode())


def _prefix(number: int) -> str:
    return f"{number}."


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
