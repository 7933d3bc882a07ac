"""SIGTERM stops every command as Ctrl-C does."""

import signal

import pytest

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
