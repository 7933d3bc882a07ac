"""Which code made a row: its commit, and a hash of its kernels."""

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import sagpool

UNKNOWN = "unknown"  # for rows that are older than this information
COMMIT, KERNELS = "commit", "kernels"  # keys in the versions of an invocation
COMMIT_VARIABLE = "SAGPOOL_COMMIT"  # for a copy of a checkout without its history
_DIGITS = 12


@cache
def code_state() -> dict[str, str]:
    """The commit of the running code and the hash of its kernels."""
    return {COMMIT: commit(), KERNELS: kernel_hash()}


def commit(package: Path | None = None) -> str:
    """The commit of the checkout that has the package; otherwise the version of the package.

    ``+changes`` is appended if files of the package differ from the commit.
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    folder = package or Path(sagpool.__file__).parent
    # In site-packages the folder may be inside the checkout of another project.
    if _git(folder, "ls-files", "__init__.py"):
        found = _git(folder, "rev-parse", f"--short={_DIGITS}", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--", ".")
        if found:
            return f"{found}+changes" if changed else found
    return f"version {sagpool.__version__}"


def kernel_hash(package: Path | None = None) -> str:
    """A hash of the source of all operators and of all kernels of layers."""
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
    """The output of git; empty if git is missing or fails."""
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
