"""Real signals to a real process, at a step in the middle of an epoch."""

import json
import signal
import subprocess
import sys

import pytest

from sagpool.fleet import train

# Waits in the n-th step for a line of input.
SCRIPT = """
import json, sys
from pathlib import Path
import torch
import sagpool
import sagpool.fleet.lockstep as lockstep
from sagpool.fleet import Training, train

torch.set_num_threads(1)
settings = json.loads(sys.argv[1])
step, steps = lockstep.adam_step, 0

def waiting_step(*arguments):
    global steps
    steps += 1
    step(*arguments)
    if steps == settings["wait_at"]:
        print("waiting", flush=True)
        sys.stdin.readline()

lockstep.adam_step = waiting_step
train(
    sagpool.load("MUTAG"),
    [Training(**training) for training in settings["trainings"]],
    members=3,
    keep_weights=True,
    checkpoint=Path(settings["checkpoint"]),
    checkpoint_seconds=settings["seconds"],
)
"""


@pytest.mark.parametrize(
    ("sent", "wait_at", "seconds"),
    [(signal.SIGKILL, 9, 0.0), (signal.SIGINT, 11, 1e9)],
)
def test_continued_after_a_signal(sent, wait_at, seconds, mutag, kit, tmp_path):
    trainings, file = kit.trainings(7), tmp_path / "fleet.npz"
    settings = {
        "trainings": [training.to_dict() for training in trainings],
        "checkpoint": str(file),
        "wait_at": wait_at,
        "seconds": seconds,
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "waiting\n", process.communicate()
    process.send_signal(sent)
    process.communicate("go on\n")
    assert process.returncode == -sent
    assert [path.name for path in tmp_path.iterdir()] == ["fleet.npz"]

    expected = train(mutag, trainings, members=3, keep_weights=True)
    reported: list = []
    options = {"keep_weights": True, "checkpoint": file, "on_result": reported.append}
    kit.same(train(mutag, trainings, members=3, **options), expected)
    assert 0 < len(reported) < len(trainings), "nothing was saved, or the signal had no effect"
