"""Which code made a row: its commit, and a hash of its kernels."""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import sagpool

UNKNOWN = "unknown"  # of rows that were made before this was stored
COMMIT, KERNELS = "commit", "kernels"  # among the versions of an invocation
COMMIT_VARIABLE = "SAGPOOL_COMMIT"  # for a copy of a checkout that has no history
_DIGITS = 12


@cache
def code_state() -> dict[str, str]:
    """The commit of the running code and the hash of its kernels."""
    return {COMMIT: commit(), KERNELS: kernel_hash()}


def commit(package: Path | None = None) -> str:
    """Of the checkout that the package is part of; otherwise the version of the package.

    ``+changes`` follows if its files differ from those of the commit.
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    folder = package or Path(sagpool.__file__).parent
    # In site-packages the folder may lie in a checkout of something else.
    if _git(folder, "ls-files", "__init__.py"):
        found = _git(folder, "rev-parse", f"--short={_DIGITS}", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--", ".")
        if found:
            return f"{found}+changes" if changed else found
    return f"version {sagpool.__version__}"


def kernel_hash(package: Path | None = None) -> str:
    """Of the source of all operators and of all kernels of layers."""
    folder = package or Path(sagpool.__file__).parent
    files = {
        file.relative_to(folder).as_posix(): file
        for pattern in ("ops/**/*.py", "nn/**/kernels/*.py")
        for file in folder.glob(pattern)
    }
    content = hashlib.sha256()
    for name in sorted(files):
        source = files[name].read_bytes().replace(b"\r\n", b"\n")
        content.update(f"{name} {len(source)}\n".encode() + source)
    return content.hexdigest()[:_DIGITS]


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; nothing if there is no git, or it fails."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
