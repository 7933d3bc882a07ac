"""Parts of a model as JSON values and named arrays, and back, with every value checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sagpool.classifier.parts import NetPart, Part, SimplePart
from sagpool.errors import SagpoolError
from sagpool.fleet.versions import versions
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, method_version, methods

log = logging.getLogger("sagpool")

Shapes = dict[str, tuple[int, ...]]
MOST_MEMBERS = 10_000


class SavedShape(NamedTuple):
    """The fields of a `Shape` without `members`; ``k`` is a list if the members differ in it."""

    in_channels: int
    classes: int
    hidden: int
    ratio: float
    k: int | list[int] | None
    max_nodes: int | None
    dropout: float
    mean_nodes: float | None = None  # None in models of older versions
    settings: dict[str, int | float | bool | str] = {}  # noqa: RUF012, never changed


class SavedNet(NamedTuple):
    method: str
    shape: SavedShape
    members: int = 1
    name: str = ""


class SavedSimple(NamedTuple):
    config: dict[str, Any]
    arrays: dict[str, list[int]]  # the shape of each array


class SavedPart(NamedTuple):
    """Either a net or a simple model."""

    net: SavedNet | None = None
    simple: SavedSimple | None = None


def save_part(part: Part) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The JSON values of a `SavedPart`, and the arrays."""
    if isinstance(part, SimplePart):
        config, arrays = part.model.to_saved()
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        return {"simple": {"config": config, "arrays": shapes}}, tensors
    shape = {name: getattr(part.shape, name) for name in SavedShape._fields[:-1]}
    k = part.shape.k
    shape |= {
        "ratio": float(part.shape.ratio),
        "k": k[:, 0].tolist() if isinstance(k, np.ndarray) else k,
        "settings": dict(part.shape.settings),
    }
    net = {"method": part.method, "members": part.members, "name": part.name, "shape": shape}
    return {"net": net}, {name: t.cpu().contiguous() for name, t in part.weights.items()}


def expected_shapes(part: SavedPart, vocabulary: Vocabulary) -> Shapes:
    """The shapes of the arrays of a part with the features and outputs of the vocabulary.

    Raises the errors of `build` for impossible shapes.
    """
    if (part.net is None) == (part.simple is None):
        raise SagpoolError("a part must be either a net or a simple model")
    if part.simple is not None:
        shapes = {name: tuple(shape) for name, shape in part.simple.arrays.items()}
        if any(size < 0 for shape in shapes.values() for size in shape):
            raise SagpoolError("an array cannot have a negative size")
        return shapes
    assert part.net is not None
    method = part.net.method
    if method not in methods():
        raise SagpoolError(
            f"there is no method {method[:60]!r}; if it is your own, load it with --plugin FILE"
        )
    if not 1 <= part.net.members <= MOST_MEMBERS:
        raise SagpoolError(f"a net cannot have {part.net.members} members")
    shape = _shape(part.net, vocabulary)
    with torch.device("meta"):
        parameters = build(method, shape).state_dict()
    return {name: tuple(tensor.shape) for name, tensor in parameters.items()}


def restore_part(
    part: SavedPart, vocabulary: Vocabulary, arrays: Mapping[str, Tensor], place: Path
) -> Part:
    """The part from arrays that have the expected shapes."""
    if part.simple is not None:
        from sagpool.classifier.simple import SimpleModel

        found = {name: tensor.numpy() for name, tensor in arrays.items()}
        return SimplePart(SimpleModel.from_saved(part.simple.config, found))
    assert part.net is not None
    for name, tensor in arrays.items():
        if tensor.dtype not in (torch.float32, torch.float64):
            raise SagpoolError(f"{place}: '{name}' is {tensor.dtype}, not float32 or float64.")
        if not bool(tensor.isfinite().all()):
            raise SagpoolError(f"{place}: '{name}' has a weight that is not a finite number.")
    if len({tensor.dtype for tensor in arrays.values()}) > 1:
        raise SagpoolError(f"{place} mixes float32 and float64.")
    alone = replace(_shape(part.net, vocabulary), members=1)
    return NetPart(part.net.method, alone, dict(arrays), part.net.name)


def warn_of_changed_code(part: Part, about: Mapping[str, Any], folder: Path) -> None:
    """Warn if the code of a method has changed since the model was saved."""
    if not isinstance(part, NetPart):
        return
    if about.get(f"method {part.method}", "") != method_version(part.method):
        log.warning(
            "The code of %s has changed since %s was saved; its predictions may be wrong.",
            *(part.method, folder),
        )


def versions_of(parts: tuple[Part, ...]) -> dict[str, str]:
    """Versions of the libraries, and of the code of the methods."""
    return versions(sorted({part.method for part in parts if isinstance(part, NetPart)}))


def _shape(net: SavedNet, vocabulary: Vocabulary) -> Shape:
    saved = net.shape
    ks = saved.k if isinstance(saved.k, list) else [saved.k]
    if isinstance(saved.k, list) and len(ks) != net.members:
        raise SagpoolError(f"k has {len(ks)} numbers for {net.members} members")
    for name in ("in_channels", "classes", "hidden", "k", "max_nodes", "mean_nodes"):
        for size in ks if name == "k" else [getattr(saved, name)]:
            if size is not None and not 1 <= size < 2**31:
                raise SagpoolError(f"{name} cannot be {size}")
    if not 0 <= saved.dropout < 1:
        raise SagpoolError(f"dropout must be at least 0 and below 1, not {saved.dropout}")
    for name, what, named in (
        ("in_channels", "node features", vocabulary.num_features),
        ("classes", "classes", vocabulary.num_outputs),
    ):
        size = getattr(saved, name)
        if size != named:
            raise SagpoolError(f"it has layers for {size} {what}, but names for {named}")
    k = np.array(saved.k)[:, None] if isinstance(saved.k, list) else saved.k
    return Shape(**{**saved._asdict(), "k": k}, members=net.members, task=vocabulary.task)
