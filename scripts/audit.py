"""Look for known vulnerabilities of the installed packages, with pip-audit.

Skipped with a word if pip-audit is not installed or its database cannot be reached, so that a
machine without a network can run it, too.
"""

import argparse
import importlib.util
import socket
import subprocess
import sys

DATABASE = ("pypi.org", 443)
SECONDS = 120


def reachable(seconds: float = 3) -> bool:
    try:
        socket.create_connection(DATABASE, seconds).close()
    except OSError:
        return False
    return True


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    if importlib.util.find_spec("pip_audit") is None:
        print("Audit skipped: pip-audit is not installed (pip install 'sagpool[audit]').")
        return
    if not reachable():
        print(f"Audit skipped: {DATABASE[0]} cannot be reached.")
        return
    command = [sys.executable, "-m", "pip_audit", "--skip-editable", "--progress-spinner", "off"]
    try:
        sys.exit(subprocess.run(command, timeout=SECONDS, check=False).returncode)
    except subprocess.TimeoutExpired:
        print(f"Audit skipped: {DATABASE[0]} did not answer within {SECONDS} s.")


if __name__ == "__main__":
    main()
