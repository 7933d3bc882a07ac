import hashlib
import json
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch_geometric.nn.aggr import QuantileAggregation

from sagpool import GraphPoolingClassifier, Graphs, SagpoolError, load
from sagpool.classifier import TrainedModel
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.folder import CARD, CONFIG, WEIGHTS, _checksum
from sagpool.classifier.novelty import Novelty
from sagpool.graphs import pack
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import Shape, build, methods, register_pyg, registry

MUTAG = load("MUTAG")[:40]


def model_of(method: str, graphs: Graphs = MUTAG, **about) -> TrainedModel:
    """A model with initial weights."""
    torch.manual_seed(1)
    shape = Shape(
        graphs.num_features, graphs.num_classes, hidden=16, k=5, max_nodes=28, mean_nodes=17.9
    )
    weights = build(method, shape).state_dict()
    model = TrainedModel.of_net(method, shape, Vocabulary.of(graphs), weights, about)
    doubt = {"conformal": Conformal(0.9, (0.7,)), "novelty": Novelty.of(graphs)}
    return replace(model, temperature=1.25, **doubt)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return model_of("sagpool-h").save_pretrained(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("method", methods())
def test_a_loaded_model_gives_identical_predictions(method, tmp_path):
    model = model_of(method)
    again = TrainedModel.from_pretrained(model.save_pretrained(tmp_path / "deep" / "model"))
    expected = model.predict_proba(MUTAG).probabilities
    assert np.array_equal(again.predict_proba(MUTAG).probabilities, expected)
    assert (again.method, again.vocabulary) == (model.method, model.vocabulary)
    assert expected.shape == (40, 2)
    np.testing.assert_allclose(expected.sum(1), 1, rtol=1e-5)


def test_a_loaded_model_has_the_constants_of_its_method(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_methods", dict(registry._methods))
    register_pyg("quantile-g", lambda shape: QuantileAggregation([0.25, 0.75]), version="1")
    model = model_of("quantile-g")
    again = TrainedModel.from_pretrained(model.save_pretrained(tmp_path / "model"))
    expected = build("quantile-g", model.shape)
    expected.load_state_dict(model.weights)
    batch = pack(MUTAG, [range(len(MUTAG))])
    logits = expected.eval()(batch).logits[0, :-1]
    probabilities = (logits / model.temperature).softmax(1).detach().numpy()
    for found in (model, again):
        given = found.predict_proba(MUTAG).probabilities
        np.testing.assert_allclose(given, probabilities, rtol=1e-5)


def test_identical_predictions_in_another_process(saved):
    code = (
        "import sys; from sagpool import TrainedModel, load\n"
        "model = TrainedModel.from_pretrained(sys.argv[1])\n"
        "found = model.predict_proba(load('MUTAG')[:40]).probabilities\n"
        "print(found.astype('<f8').tobytes().hex())"
    )
    command = [sys.executable, "-c", code, str(saved)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = model_of("sagpool-h").predict_proba(MUTAG).probabilities
    assert len(np.unique(expected[:, 0])) > 20  # it distinguishes the graphs
    assert bytes.fromhex(ended.stdout) == expected.astype("<f8").tobytes()


def test_a_model_saved_by_an_earlier_version_still_predicts_the_same():
    """The folder is a sample of format 1; do not write it again."""
    model = TrainedModel.from_pretrained(Path(__file__).parent / "format1")
    expected = [0.7956996594464706, 0.7314714979274597, 0.6206421050558228]
    found = model.predict_proba(MUTAG[:3]).probabilities[:, 1]
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-5)
    # Two symmetric nodes of the first graph have equal scores up to the rounding of the processor.
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-2)
    assert model.about["epochs"] == 40


def test_the_module_has_the_saved_weights():
    model = model_of("sagpool-h")
    torch.manual_seed(1)
    direct = build("sagpool-h", model.shape).eval()
    for name, tensor in model.module().state_dict().items():
        assert torch.equal(tensor, direct.state_dict()[name])


def test_predicting_changes_neither_random_state_nor_weights():
    model = model_of("sagpool-h")
    state = torch.random.get_rng_state()
    model.predict_proba(MUTAG)
    assert torch.equal(torch.random.get_rng_state(), state)
    before = model.weights["classifier.last.bias"].clone()
    with torch.no_grad():
        model.module().classifier.last.bias.add_(1)
    assert torch.equal(model.weights["classifier.last.bias"], before)


def test_predictions_do_not_depend_on_the_batch_size():
    model = model_of("sagpool-g")
    one, seven, all_ = (
        model.predict_proba(MUTAG, batch_size=n).probabilities for n in (1, 7, 1000)
    )
    np.testing.assert_allclose(one, seven, atol=1e-6)
    np.testing.assert_allclose(one, all_, atol=1e-6)


def test_columns_in_another_order_and_unseen_labels():
    model = model_of("sagpool-h")
    names = MUTAG.node_label_names
    order = list(range(len(names)))[::-1]
    turned = replace(
        MUTAG,
        node_label=torch.tensor(order, dtype=torch.int32)[MUTAG.node_label.long()],
        node_label_names=names[::-1],
    )
    assert np.array_equal(*(model.predict_proba(g).probabilities for g in (MUTAG, turned)))
    odd = replace(MUTAG, node_label_names=("Xx", *names[1:]))
    assert model.predict_proba(odd).unseen == {"Xx": int((MUTAG.node_label == 0).sum())}


def test_the_folder(saved):
    assert sorted(path.name for path in saved.iterdir()) == [CARD, CONFIG, WEIGHTS]
    config = json.loads((saved / CONFIG).read_text())
    assert config["vocabulary"]["node_labels"] == list(MUTAG.node_label_names)
    assert "The accuracy was not estimated." in (saved / CARD).read_text()


def test_the_card(tmp_path):
    scores = {
        "accuracy": {"value": 0.8765, "ci95": [0.8, 0.9]},
        "roc_auc": {"value": 0.912, "ci95": [0.85, 0.95]},
        "pr_auc": {"value": None, "ci95": [None, None]},
    }
    estimate = {
        "scores": scores, "majority": 0.6, "folds": 10, "better_than_majority": False,
        "coverage": {"promised": 0.9, "measured": 0.912, "size": 1.25},
        "calibration": [{"probability": 0.3, "fraction": 0.25, "graphs": 40}],
    }  # fmt: skip
    row = {"name": "counts-forest", "score": 0.8, "loss": 0.5, "error": 0.02, "weight": 0.25}
    about = {
        "data": {"name": "MUTAG"},
        "settings": {"lr": 1e-3},
        "versions": {"torch": "2"},
        "leaderboard": [{**row, "seconds": 3.21}],
    }
    text = (
        model_of("sagpool-h", estimate=estimate, **about).save_pretrained(tmp_path) / CARD
    ).read_text()
    for part in (
        "# Graph classifier: non-mutagenic, mutagenic",
        "- accuracy 87.6% (80.0% to 90.0%)",
        "- always predicting the most frequent class: 60.0%",
        "- area under the ROC curve 0.912 (0.850 to 0.950)",
        "- prediction sets: 90% promised, 91.2% contain the truth, mean size 1.25",
        "| 0.300 | 0.250 | 40 |",
        "| counts-forest | 0.8000 | 0.5000 ± 0.0200 | 0.25 | 3.2 |",
        "**Not shown to be better than always predicting the most frequent class.**",
        "- lr: 0.001",
        "torch 2",
    ):
        assert part in text


def test_about_may_be_edited(folder):
    config = json.loads((folder / CONFIG).read_text())
    config["about"]["note"] = "mine"
    (folder / CONFIG).write_text(json.dumps(config))
    assert TrainedModel.from_pretrained(folder).about == {"note": "mine"}


def edit(folder: Path, *way: str | int, value: object) -> None:
    config = json.loads((folder / CONFIG).read_text())
    inner = config
    for key in way[:-1]:
        inner = inner[key]
    inner[way[-1]] = value
    (folder / CONFIG).write_text(json.dumps(config))


NAMES = ["C", "N", "O", "F", "I", "Cl", "Sn"]
VERSION = "{folder} was written by %s version of sagpool (format %d; this version reads 1 to 3)."
INVALID = "{config} is invalid: "
DAMAGED = "{config} is damaged: "
CHANGED = "{config} was changed after it was written; save the model again."
UNKNOWN = "there is no method 'magic'; if it is your own, load it with --plugin FILE."
NET = ("parts", 0, "net")
SHAPE = (*NET, "shape")
EDITS = [
    (("format",), 4, VERSION % ("a newer", 4)),
    (
        ("format",),
        2,
        DAMAGED + "the configuration has no method, only format, parts, mixture, "
        "temperature, decision.",
    ),
    (("format",), 0, VERSION % ("an older", 0)),
    (("format",), "1", "{config} is not the configuration of a sagpool model."),
    ((*NET, "method"), "magic", INVALID + UNKNOWN),
    ((*NET, "members"), 0, INVALID + "a net cannot have 0 members."),
    ((*NET, "name"), "another", CHANGED),
    (
        (*SHAPE, "in_channels"),
        9,
        INVALID + "it has layers for 9 node features, but names for 7.",
    ),
    ((*SHAPE, "classes"), 3, INVALID + "it has layers for 3 classes, but names for 2."),
    ((*SHAPE, "hidden"), "4", DAMAGED + "hidden must be a whole number, not '4'."),
    ((*SHAPE, "hidden"), -4, INVALID + "hidden cannot be -4."),
    ((*SHAPE, "hidden"), 1, INVALID + "The hidden size must be at least 2, not 1."),
    ((*SHAPE, "ratio"), 2.0, INVALID + "The ratio must be above 0 and at most 1, not 2.0."),
    (SHAPE, {}, DAMAGED + "shape has no in_channels."),
    (("vocabulary",), [], DAMAGED + "vocabulary must be a mapping, not []."),
    (("vocabulary", "class_names"), ["a", "a"], DAMAGED + "class_names has a duplicate name."),
    (("vocabulary", "node_labels"), NAMES, CHANGED),
    ((*SHAPE, "ratio"), 0.6, CHANGED),
    (("temperature",), 1.5, CHANGED),
    (("temperature",), 0, INVALID + "the temperature cannot be 0."),
    (("mixture",), [0.5], INVALID + "the weights of the parts must be above 0 and sum to 1."),
    (("mixture",), [0.5, 0.5], INVALID + "2 weights for 1 parts."),
    (("parts",), [{}], INVALID + "a part must be either a net or a simple model."),
    (
        ("vocabulary", "task"),
        "regression",
        INVALID + "there are no names of what it predicts (regression).",
    ),
    (("decision",), [1], INVALID + "decision must have a number for each class or task."),
    (
        ("conformal", "coverage"),
        1.5,
        INVALID + "conformal must have a coverage in (0, 1) and its thresholds.",
    ),
    (
        (*SHAPE, "hidden"),
        6,
        "{weights} does not fit config.json: '0.classifier.first.bias' is (1, 1, 16), expected "
        "(1, 1, 6).",
    ),
]


@pytest.mark.parametrize(("way", "value", "sentence"), EDITS)
def test_an_edited_configuration_is_rejected(folder, way, value, sentence):
    edit(folder, *way, value=value)
    with pytest.raises(SagpoolError) as error:
        TrainedModel.from_pretrained(folder)
    paths = {"folder": folder, "config": folder / CONFIG, "weights": folder / WEIGHTS}
    assert str(error.value) == sentence.format(**paths)


def test_missing_files(folder, tmp_path):
    (folder / WEIGHTS).unlink()
    with pytest.raises(SagpoolError, match=f"is not a model: it has no {WEIGHTS}"):
        TrainedModel.from_pretrained(folder)
    with pytest.raises(SagpoolError, match=f"is not a model: it has no {CONFIG}"):
        TrainedModel.from_pretrained(tmp_path)
    with pytest.raises(SagpoolError, match=r"There is no model folder .*absent\.$"):
        TrainedModel.from_pretrained(str(tmp_path / "absent"))
    with pytest.raises(SagpoolError, match=r"config\.json is a file; a model is a folder with con"):
        TrainedModel.from_pretrained(folder / CONFIG)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SagpoolError, match=r"file cannot be written: File exists\.$"):
        model_of("sagpool-h").save_pretrained(tmp_path / "file")


def craft(folder: Path, change) -> None:
    """Change the weights, with the right checksum."""
    weights = load_tensors((folder / WEIGHTS).read_bytes())
    change(weights)
    data = save_tensors(weights)
    (folder / WEIGHTS).write_bytes(data)
    edit(folder, "sha256", "weights", value=hashlib.sha256(data).hexdigest())


BIAS = "0.classifier.last.bias"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w[BIAS].fill_(torch.nan), "has a weight that is not a finite number"),
        (lambda w: w[BIAS].fill_(-torch.inf), "has a weight that is not a finite number"),
        (lambda w: w.update({BIAS: w[BIAS].long()}), "is torch.int64, not float32 or float64"),
        (lambda w: w.update({BIAS: w[BIAS].half()}), "is torch.float16, not float32 or float64"),
        (lambda w: w.update({BIAS: w[BIAS].double()}), "mixes float32 and float64"),
    ],
)
def test_weights_that_cannot_predict_are_refused(folder, change, sentence):
    craft(folder, change)
    with pytest.raises(SagpoolError, match=rf"model\.safetensors.*{sentence}"):
        TrainedModel.from_pretrained(folder)


def test_weights_that_overflow_predict_no_nan(folder):
    craft(folder, lambda w: [tensor.fill_(3e38) for tensor in w.values()])
    model = TrainedModel.from_pretrained(folder)
    with pytest.raises(SagpoolError, match=r"^The model gives no number for graph 0 of MUTAG"):
        model.predict_proba(MUTAG)


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("about",), []),
        (("about", "versions"), ["2"]),
        (("sha256",), "abc"),
        (("sha256", "weights"), 7),
        ((*NET, "method"), ["sagpool-h"]),
        ((*SHAPE, "settings"), [1]),
        ((*SHAPE, "settings"), {"conv": ["gcn"]}),
        ((*SHAPE, "k"), -3),
        ((*SHAPE, "hidden"), 10**30),
        ((*SHAPE, "ratio"), "half"),
        ((*SHAPE, "dropout"), float("nan")),
        (("vocabulary", "attributes"), 10**30),
        (("vocabulary", "class_names"), [["a"], ["b"]]),
        (("vocabulary", "feature_kind"), ["labels"]),
        (("format",), 10**400),
    ],
)
def test_wrong_types_in_a_configuration_with_right_checksums(folder, way, value):
    edit(folder, *way, value=value)
    config = json.loads((folder / CONFIG).read_text())
    if isinstance(config["sha256"], dict):
        edit(folder, "sha256", "config", value=_checksum(config))
    with pytest.raises(SagpoolError) as raised:
        TrainedModel.from_pretrained(folder)
    assert len(str(raised.value)) < 400


class Trap:
    """Sets a flag when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_a_pickle_instead_of_weights_is_rejected_and_not_executed(folder):
    for data in (pickle.dumps(Trap()), _torch_file(folder)):
        (folder / WEIGHTS).write_bytes(data)
        with pytest.raises(SagpoolError, match="does not match the checksum in"):
            TrainedModel.from_pretrained(folder)
        # Not even with the right checksum.
        edit(folder, "sha256", "weights", value=hashlib.sha256(data).hexdigest())
        with pytest.raises(SagpoolError, match="is not a safetensors file"):
            TrainedModel.from_pretrained(folder)
    assert not Trap.sprung


def _torch_file(folder: Path) -> bytes:
    torch.save({"weights": Trap()}, folder / "trap.pt")
    return (folder / "trap.pt").read_bytes()


@settings(max_examples=600, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from([CONFIG, WEIGHTS]))
def test_damaged_bytes_raise_an_error_or_change_nothing(saved, folder, data, name):
    whole = (saved / name).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.sampled_from([0, 1, 1, 1, 4, 100, len(whole)]))
    damaged = whole[:start] + data.draw(st.binary(max_size=3)) + whole[start + length :]
    (folder / name).write_bytes(damaged)
    try:
        model = TrainedModel.from_pretrained(folder)
    except SagpoolError as error:
        (sentence,) = str(error).splitlines()
        assert str(folder) in sentence
    else:
        expected = model_of("sagpool-h")
        assert (model.method, model.vocabulary) == (expected.method, expected.vocabulary)
        assert vars(model.shape) == vars(expected.shape)
        assert all(torch.equal(model.weights[n], t) for n, t in expected.weights.items())
    finally:
        (folder / name).write_bytes(whole)


def test_a_change_of_any_digit_of_the_configuration_is_detected(saved, folder):
    """Digits, because the file is still valid JSON after such a change."""
    text = (saved / CONFIG).read_text()
    decisive = text[: text.index('"about"')]
    for place, letter in enumerate(decisive):
        if letter.isdigit():
            (folder / CONFIG).write_text(
                text[:place] + ("7" if letter != "7" else "8") + text[place + 1 :]
            )
            with pytest.raises(SagpoolError):
                TrainedModel.from_pretrained(folder)


class FakeHub(ModuleType):
    def __init__(self, folder: Path) -> None:
        super().__init__("huggingface_hub")
        self.folder, self.calls = folder, []

    def snapshot_download(self, name: str, allow_patterns: list[str]) -> str:
        if name != "me/model":
            raise RuntimeError("404 Client Error.\nRepository Not Found")
        self.calls.append(("download", tuple(allow_patterns)))
        return str(self.folder)

    def create_repo(self, name: str, private: bool, exist_ok: bool) -> None:
        self.calls.append(("create", name, private, exist_ok))

    def upload_folder(self, repo_id: str, folder_path: str) -> str:
        shutil.copytree(folder_path, self.folder)
        return f"https://hub/{repo_id}"


def test_to_the_hub_and_back(monkeypatch, tmp_path):
    hub = FakeHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.chdir(tmp_path)
    model = model_of("sagpool-h")
    assert model.push_to_hub("me/model", private=True) == "https://hub/me/model"
    again = TrainedModel.from_pretrained("me/model")
    assert np.array_equal(*(m.predict_proba(MUTAG).probabilities for m in (model, again)))
    assert hub.calls == [("create", "me/model", True, True), ("download", (WEIGHTS, CONFIG))]
    with pytest.raises(SagpoolError) as error:
        TrainedModel.from_pretrained("me/absent")
    assert str(error.value) == (
        "There is no folder me/absent, and the Hub answered: 404 Client Error."
    )
    # Folders take precedence, and names that can only be paths are not looked up on the Hub.
    model_of("sagpool-g").save_pretrained("me/model")
    assert TrainedModel.from_pretrained("me/model").method == "sagpool-g"
    for path in (Path("me/absent"), "./absent", "/absent/x", "absent", "a/b/c", "absent/"):
        with pytest.raises(SagpoolError, match="There is no model folder"):
            TrainedModel.from_pretrained(path)


def test_a_mistyped_path_is_not_looked_up_on_the_hub(monkeypatch, tmp_path):
    hub = FakeHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setattr(hub, "snapshot_download", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mutag").mkdir(parents=True)
    for source, hint in (
        ("models/mutga", "; did you mean models/mutag?"),
        ("modles/mutag", "; did you mean models/mutag?"),
        ("models/proteins", "."),
        ("modles", "; did you mean models?"),
        ("nothing-like-it", "."),
        (str(tmp_path / "model" / "mutag"), f"; did you mean {tmp_path / 'models' / 'mutag'}?"),
    ):
        with pytest.raises(SagpoolError) as error:
            TrainedModel.from_pretrained(source)
        assert str(error.value) == f"There is no model folder {source}{hint}"


def test_the_card_shows_names_as_they_are(tmp_path):
    odd = ("<script>alert(1)</script>", "[x](http://evil)\n# Title", "a_b*c|d`e$f")
    graphs = replace(MUTAG, class_names=odd[:2], name=odd[2])
    model = model_of("sagpool-h", graphs, data=vars(graphs.statistics()))
    card = (model.save_pretrained(tmp_path / "model") / CARD).read_text()
    title = r"&lt;script&gt;alert(1)&lt;/script&gt;, \[x\](http://evil) # Title"
    assert f"\n# Graph classifier: {title}\n" in card
    assert f"\n- classes: {title}\n" in card
    assert r"trained with [sagpool] on a\_b\*c\|d\`e\$f." in card


def test_without_the_hub_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(SagpoolError) as error:
        TrainedModel.from_pretrained("me/model")
    advice = "The Hub needs a package that is not installed: pip install 'sagpool[hub]'."
    assert str(error.value) == f"There is no model folder me/model. {advice}"
    with pytest.raises(SagpoolError) as error:
        model_of("sagpool-h").push_to_hub("me/model")
    assert str(error.value) == advice


def test_settings_of_the_method_are_part_of_the_model(tmp_path):
    mutag = load("MUTAG")
    settings = {"conv": "gin", "readout": "sum"}
    classifier = GraphPoolingClassifier(
        "gpool-h", hidden=8, lr=0.01, max_epochs=2, method_settings=settings
    ).fit(mutag)
    expected = classifier.predict_proba(mutag)
    folder = classifier.model_.save_pretrained(tmp_path / "model")
    model = TrainedModel.from_pretrained(folder)
    assert model.shape.settings == settings
    np.testing.assert_allclose(model.predict_proba(mutag).probabilities, expected, atol=1e-6)
    config = json.loads((folder / CONFIG).read_text())
    del config["parts"][0]["net"]["shape"]["settings"]
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(SagpoolError, match=r"does not fit|was changed"):
        TrainedModel.from_pretrained(folder)
