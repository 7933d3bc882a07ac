"""Options that are numbers out of range, or no devices."""

import pytest

LONG = "9" * 30


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "quick", "--dry-run", "--seeds", LONG],
        ["bench", "quick", "--dry-run", "--folds", LONG],
        ["bench", "quick", "--dry-run", "--members", LONG],
        ["bench", "quick", "--dry-run", "--checkpoint-seconds", "inf"],
        ["bench", "quick", "--dry-run", "--seeds", "1000000"],
        *(
            ["bench", "quick", "--dry-run", "--dataset", "MUTAG", "--set", f"{name}={LONG}"]
            for name in ("hidden", "batch_size", "patience", "max_epochs")
        ),
        ["bench", "quick", "--dry-run", "--set", f"lr=1{'0' * 400}"],
        ["bench", "quick", "--dry-run", "--set", "lr=1e400"],
        ["bench", "quick", "--dry-run", "--set", f"lr={'9' * 5000}"],
        ["train", "MUTAG", "-o", "model", "--quick", "--seed", LONG],
        ["train", "MUTAG", "-o", "model", "--quick", "--folds", LONG],
        ["train", "MUTAG", "-o", "model", "--quick", "--device", "meta"],
        ["train", "MUTAG", "-o", "model", "--quick", "--device", "cuda:99"],
        ["train", "MUTAG", "-o", "model", "--quick", "--device", "9"],
        ["data", "٣"],
        ["data", "~nobody-here/x"],
        ["data", "x" * 5000],
        ["data", "a\0b"],
    ],
    ids=lambda arguments: " ".join(arguments)[-40:].encode(),
)
def test_one_sentence(sagpool, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    outcome = sagpool(*arguments)
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    assert "bug" not in outcome.err
    assert outcome.err.strip()


def test_the_device_meta(sagpool, tmp_path):
    outcome = sagpool("train", "MUTAG", "-o", tmp_path / "model", "--quick", "--device", "meta")
    assert outcome.err.endswith("sagpool: A model runs on cpu or cuda, not on 'meta'.\n")


@pytest.mark.parametrize("reference", ["nosuch-h", "gpool-h"])
def test_a_reference_that_is_not_compared_is_refused_before_training(
    sagpool, tmp_path, monkeypatch, reference
):
    monkeypatch.chdir(tmp_path)
    outcome = sagpool("bench", "demo", "--method", "sagpool-h", "--against", reference)
    assert outcome.code == 2
    assert reference in outcome.err
    assert not list(tmp_path.iterdir())
