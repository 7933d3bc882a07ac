"""``scripts/kill_bench.py`` with a few kills."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_bench.py"


def test_a_killed_bench_loses_nothing():
    options = "--kills 2 --seeds 1 --epochs 12 --seed 29 --json"
    ended = subprocess.run(
        [sys.executable, SCRIPT, *options.split()], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    outcome = json.loads(ended.stdout)
    assert outcome["equal"]
    assert outcome["trainings"] == outcome["killed_rows"] == 30
    assert outcome["kills"] > 0
