"""Random numbers that are a pure function of a key.

NumPy does not guarantee the streams of its generators across versions, and with a shared generator
each draw depends on all earlier ones. Here every draw is a hash (SplitMix64) of a key and a
counter: the same on every platform and with every version, independent of all other draws.
"""

import hashlib

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def key_of(*parts: int | str) -> np.uint64:
    """The 64-bit key of a stream from its name, for example ``("split", seed, fold)``."""
    plain = tuple(int(part) if isinstance(part, np.integer) else part for part in parts)
    digest = hashlib.sha256(repr(plain).encode()).digest()
    return np.uint64(int.from_bytes(digest[:8], "little"))


def bits(key: np.uint64, count: int) -> np.ndarray:
    """``[count]`` uint64"""
    return mix(np.arange(1, count + 1, dtype=np.uint64) * _GAMMA + key)


def uniform(key: np.uint64, count: int) -> np.ndarray:
    """``[count]`` float64 in [0, 1)"""
    return (bits(key, count) >> np.uint64(11)) * 2.0**-53


def permutation(key: np.uint64, count: int) -> np.ndarray:
    """The numbers 0 to ``count - 1`` in random order, ``[count]`` int64"""
    return np.argsort(bits(key, count), kind="stable")


def mix(z: np.ndarray) -> np.ndarray:
    """A hash of each 64-bit number (the finaliser of SplitMix64), uint64"""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))
