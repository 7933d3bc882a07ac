import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sagpool.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def sagpool(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Run the command in this process: ``sagpool("data", "MUTAG")``."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["sagpool", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return run
