"""A running fleet on disk: plain arrays and JSON in one ``.npz`` file, never a pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sagpool.errors import SagpoolError
from sagpool.fleet.schedule import Slots
from sagpool.fleet.state import MemberState
from sagpool.fleet.training import Curve, Result, Score, Training
from sagpool.graphs import Graphs
from sagpool.graphs.cache import replacing
from sagpool.models import method_version

FORMAT = 3
_TENSORS = ("weights", "mean", "square", "best")
_NUMBERS = ("steps", "best_loss", "best_epoch", "epoch", "seconds")

# What NumPy, zipfile and the reading of the content raise for files that are not as they were
# written.
_DAMAGED = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


@dataclass(eq=False)
class Checkpoint:
    """Where a list of trainings stands at the end of an epoch; numbers stand for trainings.

    Args:
        identity: of the data, the trainings and the precision that this belongs to
        results: of those that are done
        slots: of the fleet that is running, with its queue; None between two fleets
        members: all that have begun and are not done
    """

    identity: str
    results: dict[int, Result] = field(default_factory=dict)
    slots: Slots | None = None
    members: dict[int, MemberState] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file; the old one stays until the new one is whole."""
        arrays: dict[str, Any] = {}
        meta: dict[str, Any] = {"format": FORMAT, "identity": self.identity}
        if self.slots is not None:
            meta["running"] = self.slots.running.tolist()
            meta["waiting"] = list(self.slots.waiting)
        meta["members"] = {
            number: {name: getattr(member, name) for name in _NUMBERS}
            for number, member in self.members.items()
        }
        meta["results"] = {number: result.row() for number, result in self.results.items()}
        curves = [np.array(m.curve, np.float64).reshape(-1, 3).T for m in self.members.values()]
        curves += [np.stack(list(vars(r.curve).values())) for r in self.results.values()]
        # Thousands of small arrays would be slow to write; a few large ones are not.
        arrays["curves"] = np.concatenate([np.zeros((3, 0)), *curves], axis=1)
        arrays["epochs"] = np.array([curve.shape[1] for curve in curves], np.int64)
        if self.members:
            arrays["tensors"] = torch.stack(
                [getattr(m, name) for m in self.members.values() for name in _TENSORS]
            ).numpy()  # [members * tensors, numbers]
        for number, result in self.results.items():
            for name, weights in (result.weights or {}).items():
                arrays[f"{number}.weights.{name}"] = weights.numpy()
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                np.savez(file, **arrays)
        except OSError as error:
            raise SagpoolError(f"The checkpoint {path} cannot be written: {error}.") from None

    @staticmethod
    def load(path: Path, identity: str) -> Checkpoint:
        """Read what was saved; an empty one where there is no file."""
        with _reading(path):
            try:
                stream = path.open("rb")
            except FileNotFoundError:
                return Checkpoint(identity)
            with stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = _meta(path, arrays["meta"])
            if meta["identity"] != identity:
                raise SagpoolError(
                    f"The checkpoint {path} belongs to other trainings; name another file, or "
                    "remove it."
                )
            slots = None
            if "running" in meta:
                slots = Slots(np.array(meta["running"], np.int64), deque(meta["waiting"]))
            begun, done = meta["members"], meta["results"]
            epochs = arrays["epochs"]
            if len(epochs) != len(begun) + len(done) or epochs.sum() != arrays["curves"].shape[1]:
                raise ValueError("its curves do not fit its trainings")
            curves = iter(np.split(arrays["curves"], np.cumsum(epochs)[:-1], axis=1))
            tensors = arrays["tensors"].reshape(len(begun), len(_TENSORS), -1) if begun else []
            members = {
                int(n): _member(numbers, rows, next(curves))
                for (n, numbers), rows in zip(begun.items(), tensors, strict=True)
            }
            results = {int(n): _result(n, row, next(curves), arrays) for n, row in done.items()}
            return Checkpoint(identity, results, slots, members)


def identity_in(path: Path) -> str:
    """The identity of a checkpoint; what else is in the file is not read."""
    with _reading(path), path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        return str(_meta(path, file["meta"])["identity"])


def _meta(path: Path, array: np.ndarray) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads(array.tobytes())
    if meta["format"] != FORMAT:
        raise SagpoolError(
            f"The checkpoint {path} is of another version of sagpool; name another file, or remove "
            "it."
        )
    return meta


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in a sentence what is wrong with the file."""
    try:
        yield
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise SagpoolError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
    except SagpoolError:
        raise
    except _DAMAGED as error:
        raise SagpoolError(f"The checkpoint {path} is damaged ({error}); remove it.") from None


def _member(numbers: dict[str, Any], rows: np.ndarray, curve: np.ndarray) -> MemberState:
    tensors = dict(zip(_TENSORS, torch.from_numpy(rows), strict=True))
    points = [(float(a), float(b), float(c)) for a, b, c in curve.T]
    return MemberState(**tensors, **numbers, curve=points)


def _result(
    number: str, row: dict[str, Any], curve: np.ndarray, arrays: dict[str, np.ndarray]
) -> Result:
    start = f"{number}.weights."
    weights = {
        name.removeprefix(start): torch.from_numpy(values)
        for name, values in arrays.items()
        if name.startswith(start)
    }
    values: dict[str, Any] = {
        name: row.pop(name)
        for name in ("diverged", "best_epoch", "epochs", "parameters", "seconds")
    }
    for part in ("train", "validation", "test"):
        values[part] = Score(row.pop(f"{part}_loss"), row.pop(f"{part}_accuracy"))
    return Result(
        confusion=np.array(row.pop("confusion"), np.int64),
        training=Training.from_dict(row),
        curve=Curve(*np.ascontiguousarray(curve)),
        weights=weights or None,
        **values,
    )


def identity_of(
    graphs: Graphs,
    trainings: Sequence[Training],
    dtype: torch.dtype,
    keeps: Callable[[Training], bool],
) -> str:
    """A name for all that has to be the same when a checkpoint is continued."""
    settings = [training.to_dict() for training in trainings]
    kept = [number for number, training in enumerate(trainings) if keeps(training)]
    # Products may be less exact than the type, if torch is told so.
    exactness = f"{dtype}, {torch.get_float32_matmul_precision()}"
    versions = {training.method: method_version(training.method) for training in trainings}
    changing = [{name: version for name, version in versions.items() if version}]
    return json.dumps(
        [graphs.fingerprint(), settings, exactness, kept, *(changing if changing[0] else [])]
    )


def trainings_of(identity: str) -> list[Training]:
    """The trainings that an identity stands for."""
    return [Training.from_dict(settings) for settings in json.loads(identity)[1]]
