"""Look for known vulnerabilities of the installed packages with pip-audit.

Skipped with a message if pip-audit is not installed or its database cannot be reached, so that it
also runs on a machine without a network.
"""

import argparse
import importlib.util
import json
import socket
import subprocess
import sys
from typing import Any

DATABASE = ("pypi.org", 443)
SECONDS = 120
COMMAND = ["-m", "pip_audit", "--skip-editable", "--progress-spinner", "off", "--format", "json"]


def reachable(seconds: float = 3) -> bool:
    try:
        socket.create_connection(DATABASE, seconds).close()
    except OSError:
        return False
    return True


def audit() -> list[dict[str, Any]] | str:
    """The packages that pip-audit has found, or the reason why there are none."""
    if importlib.util.find_spec("pip_audit") is None:
        return "pip-audit is not installed (pip install 'sagpool[audit]')"
    if not reachable():
        return f"{DATABASE[0]} cannot be reached"
    try:
        done = subprocess.run(
            [sys.executable, *COMMAND], timeout=SECONDS, capture_output=True, text=True, check=False
        )
        return json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return f"{DATABASE[0]} did not answer within {SECONDS} s"
    except (ValueError, KeyError, TypeError):
        last = done.stderr.strip().splitlines()[-1:]
        return f"pip-audit failed: {''.join(last) or f'exit code {done.returncode}'}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = audit()
    if isinstance(found, str):
        print(f"Audit skipped: {found}.")
        return
    audited = [package for package in found if "skip_reason" not in package]
    if not audited:
        # A mirror has packages but no advisories; pip-audit reports that as a success.
        print(f"Audit skipped: {DATABASE[0]} knows none of the {len(found)} packages.")
        return
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for one in package["vulns"]:
            fixed = ", ".join(one["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}")
    unknown = len(found) - len(audited)
    print(f"{len(audited)} packages audited, {len(vulnerable)} vulnerable, {unknown} unknown.")
    sys.exit(bool(vulnerable))


if __name__ == "__main__":
    main()
