"""Every method: exported, reloaded by NumPy and by onnxruntime, and compared with our predictor."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool import SagpoolError, load
from sagpool.classifier.conformal import Conformal
from sagpool.classifier.novelty import Novelty
from sagpool.classifier.parts import SimplePart
from sagpool.classifier.simple import fit_simple
from sagpool.export import export
from sagpool.export.check import compare
from sagpool.export.molecules import molecule_inputs
from sagpool.export.plan import Plan, plan_of
from sagpool.export.samples import drawn_records, inputs_of, samples
from sagpool.export.write import Content, numpy_content, onnx_content
from sagpool.graphs.records import Record
from sagpool.graphs.source_records import source_records
from sagpool.graphs.vocabulary import Vocabulary
from sagpool.models import methods
from sagpool.nn import SAGPool

REFUSED = {
    *("random-h", "sagpool-h-masks2", "sagpool-h-masks4"),
    *("asap-h", "graclus-h", "kmis-h", "ndp-h", "edgepool-h", "panpool-h"),
}
EXPORTED = [name for name in methods() if name not in REFUSED]
# Together these have every layer.
MIXTURES = [
    ("sagpool-h-serial2", "sagpool-h-cheb", "gpool-h", "sagpool-h-ratio", "diffpool-h"),
    ("sagpool-g-gat", "sagpool-g-augmentation", "sortpool-g-conv1d", "set2set-g", "gin-g"),
    ("sagnet", "sagpool-h-parallel2", "sagpool-g-sage", "mlp-g", "sortpool-g"),
    ("mincut-h", "dmon-h", "justbalance-h", "hosc-h", "gmt-g"),
]
# A node alone, a label and a degree that no training graph has, self-loops, an edge in both
# directions and twice, no edges at all.
ODD = [
    Record("0", "0", 1, [], ["C"]),
    Record("1", "1", 2, [0, 1, 1, 0, 0, 1, 1, 1], ["N", "<script>"]),
    Record("2", "2", 9, [end for node in range(1, 9) for end in (0, node)], ["C"] * 9),
    Record("3", "3", 3, [], ["C", "O", "Zz\0"]),
]


def onnx_of(plan: Plan) -> Content:
    return onnx_content(Path("model.onnx"), plan)


def numpy_of(plan: Plan) -> Content:
    return numpy_content(Path("model.py"), plan)


def check(model, content_of, records) -> None:
    plan = plan_of(model)
    content = content_of(plan)
    found = compare(model, plan, content.run, samples(records, plan, model.vocabulary, 0))
    assert found.graphs == len(records)


@pytest.mark.parametrize("method", EXPORTED)
def test_every_method_in_numpy(method, mutag, new_part, new_model):
    records = [*source_records("MUTAG")][:30] + ODD
    check(new_model(mutag, new_part(mutag, method)), numpy_of, records)


@pytest.mark.parametrize("names", MIXTURES, ids=lambda names: names[0])
def test_every_layer_in_onnxruntime(names, mutag, new_part, new_model):
    records = [*source_records("MUTAG")][:30] + ODD
    check(new_model(mutag, *(new_part(mutag, name) for name in names)), onnx_of, records)


@pytest.mark.parametrize("content_of", [onnx_of, numpy_of])
def test_members_whose_attention_sums_to_1_over_nodes(content_of, mutag, new_part, new_model):
    nets = new_part(mutag, "gmt-g", members=2, settings={"over": "nodes"})
    check(new_model(mutag, nets), content_of, ODD)


@pytest.mark.parametrize("content_of", [onnx_of, numpy_of])
def test_other_readouts_of_gin(content_of, mutag, new_part, new_model):
    kinds = ("mean", "mean-max")
    nets = [new_part(mutag, "gin-g", settings={"readout": kind}) for kind in kinds]
    check(new_model(mutag, *nets), content_of, ODD)


@pytest.mark.parametrize("content_of", [onnx_of, numpy_of])
def test_ensembles_of_nets_and_simple_models_with_all_features(
    content_of, everything, new_part, new_model
):
    # Members that keep different numbers of nodes run in groups.
    nets = new_part(everything, "sagpool-g", members=3, k=np.array([[5], [7], [5]]))
    names = ("counts-linear", "counts-forest", "counts-boosted", "wl-linear")
    some = np.arange(0, 188, 3)
    simple = [SimplePart(_few_trees(fit_simple(name, everything, some, 0))) for name in names]
    model = new_model(
        everything,
        nets,
        *simple,
        temperature=1.4,
        decision=(1.0, 0.7),
        conformal=Conformal(0.9, (0.6,)),
        novelty=Novelty.of(everything),
    )
    plan = plan_of(model)
    content = content_of(plan)
    records = [*source_records("MUTAG")][:40]
    (sample,) = samples(records, plan, model.vocabulary, 0)
    compare(model, plan, content.run, [sample])
    ours, theirs = model.predict_proba(sample.graphs), content.run(sample.inputs)
    assert (theirs["predicted"] == ours.predicted).all()
    assert (theirs["prediction_set"] == ours.sets).all()
    assert (theirs["unlike"] == ours.unlike).all()
    assert 0 < theirs["prediction_set"][:, 0].mean() < 1
    assert len(theirs["kept_1"]) == 40 * 5  # of the first member


def _few_trees(model):
    """The first trees of a forest: all of them take a while."""
    fitted = model.fitted
    if not hasattr(fitted, "roots"):
        return model
    last = int(fitted.roots[8])
    cut = {name: getattr(fitted, name)[:last] for name in ("column", "threshold", "right", "value")}
    trees = {name: getattr(fitted, name)[:8] for name in ("roots", "output")}
    return dataclasses.replace(model, fitted=dataclasses.replace(fitted, **cut, **trees))


@pytest.mark.parametrize("content_of", [onnx_of, numpy_of])
@pytest.mark.parametrize("task", ["multitask", "regression"])
def test_several_tasks_and_regressions(content_of, task, mutag, new_part, new_model):
    targets = torch.stack([mutag.y.float(), torch.tensor(mutag.node_counts).float()], 1)
    graphs = dataclasses.replace(
        mutag,
        y=None,
        class_names=(),
        task=task,
        targets=targets.clamp(max=1),
        target_names=("a", "b"),
    )
    if task == "regression":
        graphs = dataclasses.replace(graphs, targets=targets)
    model = new_model(
        graphs,
        new_part(graphs, "sagnet", task=task),
        conformal=Conformal(0.9, (0.4, None)),
    )
    plan = plan_of(model)
    content = content_of(plan)
    (sample,) = samples([*source_records("MUTAG")][:20], plan, model.vocabulary, 0)
    compare(model, plan, content.run, [sample])
    ours, theirs = model.predict_proba(sample.graphs), content.run(sample.inputs)
    if task == "regression":
        np.testing.assert_allclose(theirs["interval"], ours.interval, rtol=1e-5)
    else:
        assert (theirs["predicted"] == ours.predicted).all()
        assert (theirs["prediction_set"] == ours.sets).all()


def test_kept_nodes_are_those_of_our_own_trace(mutag, new_part, new_model):
    model = new_model(mutag, new_part(mutag, "sagpool-h-sage"))
    from sagpool.explain import explain

    trace = explain(model, mutag, 3)
    out = numpy_of(plan_of(model)).run(_inputs(model, 3))
    for number, level in enumerate(trace.levels, 1):
        assert out[f"kept_{number}"].tolist() == level.kept.tolist()
        np.testing.assert_allclose(out[f"score_{number}"], level.score, atol=1e-5)


def _inputs(model, number: int):
    return inputs_of([[*source_records("MUTAG")][number]], plan_of(model))


def test_a_graph_does_not_depend_on_the_others_of_its_batch(mutag, new_part, new_model):
    model = new_model(mutag, new_part(mutag, "sagpool-g"))
    plan = plan_of(model)
    run = onnx_of(plan).run
    records = [*source_records("MUTAG")][:6]
    together = run(inputs_of(records, plan))["probabilities"]
    alone = np.concatenate([run(inputs_of([one], plan))["probabilities"] for one in records])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_inputs_that_do_not_fit(mutag, new_part, new_model):
    model = new_model(mutag, new_part(mutag, "nopool-g"))
    plan = plan_of(model)
    labels = np.array(["C", "C"], object)
    apart = {"labels": labels, "sizes": np.array([1, 1]), "edges": np.array([[0, 1]])}
    assert np.isnan(onnx_of(plan).run(apart)["probabilities"]).all()
    namespace: dict = {}
    exec(numpy_of(plan).files[Path("model.py")].decode(), namespace)
    checked = namespace["checked_inputs"]
    for wrong, sentence in [
        ({"edges": [[0, 1]], "sizes": [1, 1]}, "different graphs"),
        ({"edges": [[0, 2]], "sizes": None}, "not one of 0 to 1"),
        ({"edges": [], "sizes": [3]}, "2 labels for 3 nodes"),
        ({"edges": [], "sizes": [2, 0]}, "at least 1"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            checked(plan.description, {"labels": labels}, wrong["edges"], wrong["sizes"])


def test_random_graphs_have_every_input(everything, new_part, new_model):
    model = new_model(everything, new_part(everything, "mlp-g"))
    plan = plan_of(model)
    drawn = drawn_records(plan, model.vocabulary)
    check(model, numpy_of, [next(drawn) for _ in range(20)])


MOLECULES = ["CCO", "c1ccccc1", "CC(=O)O", "C[NH3+]", "CC#N", "C1CCCCC1", "OCCO", "ClCCl"]


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """A table of molecules, whose atoms have numbers with names: log P, ..."""
    pytest.importorskip("rdkit")
    path = tmp_path_factory.mktemp("molecules") / "some.csv"
    rows = [f"{smiles},{number % 2}" for number, smiles in enumerate(MOLECULES)]
    path.write_text("\n".join(["smiles,label", *rows]))
    return path


@pytest.mark.parametrize("by_random_graphs", [True, False])
def test_models_of_molecules(by_random_graphs, molecules, tmp_path, new_part, new_model):
    graphs = load(str(molecules), "all")
    simple = SimplePart(fit_simple("morgan-linear", graphs, np.arange(len(graphs)), 0))
    model = new_model(graphs, new_part(graphs, "sagpool-h"), simple)
    file = tmp_path / "of_molecules.py"
    export(model, file, graphs=20, check=None if by_random_graphs else str(molecules))
    plan = plan_of(model)
    run = numpy_of(plan).run
    for number, smiles in enumerate(MOLECULES):
        given = molecule_inputs(smiles)
        inputs = {name: np.asarray(given[name]) for name in plan.description["inputs"]}
        inputs |= {name: np.asarray(given[name], np.int64) for name in ("edges", "sizes")}
        inputs["edges"] = inputs["edges"].reshape(-1, 2)
        ours = model.predict_proba(graphs[[number]]).probabilities
        np.testing.assert_allclose(run(inputs)["probabilities"], ours, atol=1e-5)


def test_the_numpy_file_needs_numpy_alone(tmp_path, mutag, new_part, new_model):
    model = new_model(mutag, new_part(mutag, "sagpool-h"))
    export(model, tmp_path / "mine.py", graphs=20)
    program = (
        "import sys, mine; out = mine.Model()(labels=['C', 'O'], edges=[[0, 1]]);"
        "assert not {'torch', 'scipy', 'sagpool'} & set(sys.modules);"
        "print(out['probabilities'].tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert np.isclose(sum(found[0]), 1)


NAMES = ("<script>alert(1)</script>", "'; import os #", 'quote " \\ \n', "{x}", "نص")


def test_names_stay_text(tmp_path, mutag, new_part, new_model):
    import onnx

    labels = (*NAMES, "C", "N")
    model = new_model(mutag, new_part(mutag, "nopool-g"))
    vocabulary = Vocabulary("labels", labels, 0, NAMES[:2])
    model = dataclasses.replace(model, vocabulary=vocabulary)
    done = export(model, tmp_path / "m.onnx", graphs=20)
    assert done.agreement.graphs == 20
    props = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(props["names"]) == list(NAMES[:2])
    assert json.loads(props["node_labels"]) == list(labels)
    export(model, tmp_path / "m.py", graphs=20)
    text = (tmp_path / "m.py").read_text()
    assert not any(name in text for name in NAMES if len(name) > 3)


def test_a_difference_is_refused(tmp_path, monkeypatch, mutag, new_part, new_model):
    model = new_model(mutag, new_part(mutag, "sagpool-h"))
    wrong = dataclasses.replace(model, temperature=1.01)
    monkeypatch.setattr("sagpool.export.write.plan_of", lambda _: plan_of(wrong))
    with pytest.raises(SagpoolError, match=r"differ by up to .*No file was written"):
        export(model, tmp_path / "m.py", graphs=20)
    assert not [*tmp_path.iterdir()]


def test_what_cannot_be_exported(tmp_path, mutag, new_part, new_model):
    random = new_model(mutag, new_part(mutag, "nopool-h"))
    part = dataclasses.replace(random.parts[0], method="random-h")
    with pytest.raises(SagpoolError, match="nodes at random cannot be exported"):
        export(new_model(mutag, part), tmp_path / "m.onnx")

    class Own(SAGPool):
        pass

    from sagpool.export.layers import Describer

    layer = Own(3)
    with pytest.raises(SagpoolError, match="Own cannot be exported"):
        Describer(layer, "").describe(layer)
    for options, sentence in (
        ({"multiplier": 2.0}, "with a multiplier or another nonlinearity"),
        ({"nonlinearity": "relu"}, "with a multiplier or another nonlinearity"),
        ({"GNN": lambda *_: torch.nn.Identity()}, "a GNN of PyG cannot be exported"),
    ):
        layer = SAGPool(3, **options)
        with pytest.raises(SagpoolError, match=sentence):
            Describer(layer, "").describe(layer)
    with pytest.raises(SagpoolError, match="must end in"):
        export(random, tmp_path / "model.bin")
    with pytest.raises(SagpoolError, match="cannot be imported"):
        export(random, tmp_path / "my-model.py")
    (tmp_path / "there.onnx").touch()
    with pytest.raises(SagpoolError, match="exists"):
        export(random, tmp_path / "there.onnx")
