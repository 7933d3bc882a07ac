"""Times the sides of a comparison in turn, and prints figures."""

import json
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version


def by_turns(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of one call of each side; sides alternate, the first round is a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, call in sides.items():
            start = time.perf_counter()
            call()
            if turn > 0:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def versions(*packages: str) -> dict[str, str]:
    """Versions of packages; a package that is only found by its path has none."""
    found = {"python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def report(
    ratios: dict[str, float],
    seconds: dict[str, float],
    versions: dict[str, str],
    *,
    meaning: dict[str, str],
    as_json: bool,
) -> None:
    """Print the figures, each with its ``meaning``."""
    if as_json:
        print(json.dumps({"ratios": ratios, "seconds": seconds, "versions": versions}))
        return
    for name, value in seconds.items():
        print(f"{name:<16} {value * 1000:10.2f} ms   {meaning[name]}")
    print()
    for name, value in ratios.items():
        print(f"{name:<16} {value:10.1f} ×    {meaning[name]}")
    print()
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
