"""Crafted ``.npz`` files: valid zips, with changed arrays or changed JSON inside."""

import io
import json
from random import Random

import numpy as np

from fuzzing.mutations import ODD_NUMBERS, mutate_json


def craft(random: Random, content: bytes) -> bytes:
    """The file with one array changed, or with an entry of its JSON changed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    if random.random() < 0.5:
        meta = mutate_json(random, json.loads(arrays["meta"].tobytes()))
        text = json.dumps(meta).encode()
        arrays["meta"] = np.frombuffer(text, np.uint8)
    else:
        name = random.choice(list(arrays))
        changed = _changed(random, arrays[name])
        if changed is None:
            del arrays[name]
        else:
            arrays[name] = changed
    if random.random() < 0.05:
        arrays[random.choice(("x", "meta2", "0.weights.a", "y"))] = np.zeros(3)
    written = io.BytesIO()
    np.savez(written, **arrays)
    packed = written.getvalue()
    if random.random() < 0.1:  # a header that claims another size
        packed = packed.replace(b"'shape': (", b"'shape': (9999999999, ", 1)
    return packed


def _changed(random: Random, array: np.ndarray) -> np.ndarray | None:
    action = random.randrange(8)
    if action == 0:
        return None
    if action == 1:
        return array[: random.randrange(len(array) + 1)] if array.ndim else array
    if action == 2:
        kind = random.choice(("f4", "f8", "i1", "u8", "i4", "S3", "?", "c16"))
        return array.astype(kind) if array.dtype.kind in "iufb" else array
    if action == 3:
        return array.reshape(*array.shape, 1) if random.random() < 0.5 else array.ravel()
    if action == 4:
        return np.concatenate([array, array]) if array.ndim else array
    if array.size:
        array = array.copy()
        place = random.randrange(array.size)
        with np.errstate(all="ignore"):
            try:
                array.reshape(-1)[place] = random.choice(ODD_NUMBERS[:19])
            except (OverflowError, ValueError):
                array.reshape(-1)[place] = -1 if array.dtype.kind != "u" else 255
    return array
