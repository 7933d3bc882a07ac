"""SIGTERM stops every command as Ctrl-C does."""

import signal
import sys
import threading
import weakref

import pytest

from sagpool.termination import Terminated, sigterm_raises

pytestmark = pytest.mark.usefixtures("usual_signals")


@pytest.mark.parametrize(
    ("command", "called"),
    [
        (("data", "MUTAG"), "sagpool.cli.data.load"),
        (("bench", "demo", "--device", "cpu"), "sagpool.bench.api.ExperimentRunner.run"),
        (("report", "runs.sqlite"), "sagpool.report.content.read_content"),
        (("train", "MUTAG", "-o", "model"), "sagpool.cli.train.fit"),
        (("predict", "model", "MUTAG"), "sagpool.cli.predict.TrainedModel.from_pretrained"),
        (
            ("explain", "model", "-o", "x", "--smiles", "C"),
            "sagpool.cli.explain.TrainedModel.from_pretrained",
        ),
        (("demo",), "sagpool.cli.demo.run_experiment"),
        (("data", "MUTAG"), "typer.core.TyperCommand.make_context"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_status_says_it(sagpool, command, called, sent, status, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def stop(*_, **__):
        signal.raise_signal(sent)

    monkeypatch.setattr(called, stop)
    ended = sagpool(*command)
    assert (ended.code, ended.out) == (status, "")
    assert "Traceback" not in ended.err
    if command[0] in ("bench", "train", "demo"):
        assert "Stopped. Run the same command " in ended.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("sent", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_is_not_lost_where_python_drops_exceptions(sent, raised):
    class Referred:
        pass

    one, never = Referred(), threading.Event()
    reference = weakref.ref(one, lambda _: signal.raise_signal(sent))
    hook = sys.unraisablehook

    def block(objects) -> None:
        with sigterm_raises():
            objects.clear()
            assert reference() is None
            never.wait(60)

    objects = [one]
    del one
    with pytest.raises(raised):
        block(objects)
    assert sys.unraisablehook is hook


def test_other_errors_that_python_drops_are_printed(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: seen.append(lost.exc_type))

    class Broken:
        def __del__(self):
            raise ValueError

    with sigterm_raises():
        Broken()
    assert seen == [ValueError]
