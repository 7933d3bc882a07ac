"""A running fleet on disk: plain arrays and JSON in one ``.npz`` file, never a pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections import deque
from dataclasses import asdict, dataclass, field, fields
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

FORMAT = 1
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
        meta["members"] = {}
        for number, member in self.members.items():
            meta["members"][number] = {name: getattr(member, name) for name in _NUMBERS}
            arrays[f"{number}.tensors"] = torch.stack(
                [getattr(member, name) for name in _TENSORS]
            ).numpy()
            arrays[f"{number}.curve"] = np.array(member.curve, np.float64).reshape(-1, 3)
        meta["results"] = {}
        for number, result in self.results.items():
            meta["results"][number] = result.row()
            arrays[f"{number}.curve"] = np.stack(list(vars(result.curve).values()))
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
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            meta = json.loads(arrays["meta"].tobytes())
            if meta["format"] != FORMAT:
                raise SagpoolError(f"The checkpoint {path} is of another version of sagpool.")
            if meta["identity"] != identity:
                raise SagpoolError(
                    f"The checkpoint {path} belongs to other trainings; name another file, or "
                    "remove it."
                )
            slots = None
            if "running" in meta:
                slots = Slots(np.array(meta["running"], np.int64), deque(meta["waiting"]))
            return Checkpoint(
                identity,
                {int(n): _result(n, row, arrays) for n, row in meta["results"].items()},
                slots,
                {int(n): _member(n, numbers, arrays) for n, numbers in meta["members"].items()},
            )
        except FileNotFoundError:
            return Checkpoint(identity)
        except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
            raise SagpoolError(f"The checkpoint {path} cannot be read: {error.strerror}.") from None
        except SagpoolError:
            raise
        except _DAMAGED as error:
            raise SagpoolError(f"The checkpoint {path} is damaged ({error}); remove it.") from None


def _member(number: str, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> MemberState:
    tensors = dict(zip(_TENSORS, torch.from_numpy(arrays[f"{number}.tensors"]), strict=True))
    curve = [(float(a), float(b), float(c)) for a, b, c in arrays[f"{number}.curve"]]
    return MemberState(**tensors, **numbers, curve=curve)


def _result(number: str, row: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
    start = f"{number}.weights."
    weights = {
        name.removeprefix(start): torch.from_numpy(values)
        for name, values in arrays.items()
        if name.startswith(start)
    }
    values: dict[str, Any] = {
        name: row[name] for name in ("diverged", "best_epoch", "epochs", "parameters", "seconds")
    }
    for part in ("train", "validation", "test"):
        values[part] = Score(row[f"{part}_loss"], row[f"{part}_accuracy"])
    return Result(
        training=Training(**{f.name: row[f.name] for f in fields(Training)}),
        confusion=np.array(row["confusion"], np.int64),
        curve=Curve(*arrays[f"{number}.curve"]),
        weights=weights or None,
        **values,
    )


def identity_of(
    graphs: Graphs, trainings: list[Training], dtype: torch.dtype, keep_weights: bool
) -> str:
    """A name for all that has to be the same when a checkpoint is continued."""
    settings = [asdict(training) for training in trainings]
    return json.dumps([graphs.fingerprint(), settings, str(dtype), keep_weights])
