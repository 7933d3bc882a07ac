"""Experiment files: those of the package are complete, and errors in others are explained."""

from dataclasses import replace

import pytest
import yaml

from sagpool.bench.experiment import Accuracy, number
from sagpool.bench.experiment_file import experiment_names, load_experiment, read_experiment
from sagpool.bench.plan import Overrides, plan
from sagpool.errors import SagpoolError
from sagpool.models import methods


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_of_the_package_can_be_planned(name):
    experiment = load_experiment(name)
    for search in (False, True):
        cells = plan(experiment, Overrides(), search=search)
        assert len(cells) == len(set(cells)) > 0
    listed = {method for table in experiment.tables.values() for method in table.methods}
    assert listed <= set(methods())
    for dataset, method in experiment.accuracy:
        assert any(
            dataset in table.datasets and method in table.methods
            for table in experiment.tables.values()
        ), "a published number without a table"


def test_the_paper_as_published():
    paper = load_experiment("lee2019")
    cells = {
        (cell.dataset.name, cell.method): cell for cell in plan(paper, Overrides(), search=True)
    }
    assert len(cells) == 6 * 5 + 7 * 2 + 5 * 4
    assert {method for (_, method), cell in cells.items() if not cell.published} == {
        *("random-h", "complement-h", "nopool-h", "nopool-g", "mlp-g")
    }
    assert paper.published_seeds == 20
    assert paper.accuracy["NCI109", "diffpool-h"] == Accuracy(61.98, 1.98)
    assert paper.accuracy["PROTEINS", "sagpool-h-parallel2"] == Accuracy(72.05, 0.43)
    # Table 2: 6 learning rates, 4 sizes, 4 penalties, and two ratios where there is one.
    assert len(cells["DD", "sagpool-h"].candidates) == 192
    assert len(cells["DD", "sagpool-g"].candidates) == 96
    assert len(cells["DD", "complement-h"].candidates) == 192
    assert len(cells["DD", "nopool-h"].candidates) == 96
    default = cells["DD", "sagpool-h"].default
    assert (default.patience, default.max_epochs, default.folds) == (50, 100_000, 10)
    assert (default.lr, default.weight_decay, default.hidden, default.ratio) == (
        5e-4,
        1e-4,
        128,
        0.5,
    )
    assert cells["PROTEINS", "set2set-g"].default.hidden == 32
    variants = paper.tables["table4"]
    same = {
        replace(cells[d, m].default, method="") for d in variants.datasets for m in variants.methods
    }
    assert len(same) == 1, "the variants of Table 4 are compared with the same settings"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/2", 0.5), ("5e-4", 5e-4), ("1e-2", 0.01), (128, 128), ("128", 128), (0.25, 0.25)],
)
def test_numbers(text, value):
    assert number(text) == value
    assert type(number(text)) is type(value)


WRONG = {
    "not: [closed": r"line \d+ is not valid YAML",
    "just text": r"the file must be a mapping, not 'just text'",
    "datasets: {MUTAG: }": r"'tables' is missing",
    "titel: x": r"the file has no 'titel'; did you mean 'title'\.",
    "protocol.seeds: 0": r"protocol\.seeds must be an integer of at least 1, not 0",
    "protocol.patients: 5": r"protocol has no 'patients'; did you mean 'patience'",
    "protocol.folds: 1": r"protocol\.folds: folds must be at least 2, not 1",
    "protocol.max_epochs: many": r"protocol\.max_epochs: max_epochs must be a number, not 'many'",
    "tables.main.methods: [sagpol-h]": r"tables\.main\.methods: There is no method 'sagpol-h'; did",
    "tables.main.datasets: [MUTAGEN]": r"names 'MUTAGEN', which is not among the datasets",
    "grid.0.set.lrr: [0.1]": r"grid\[0\]\.set\.lrr: 'lrr' is not a setting; did you mean 'lr'",
    "grid.0.set.lr: [0.1, x]": r"grid\[0\]\.set\.lr: lr must be a number, not 'x'",
    "grid.0.set.lr: []": r"grid\[0\]\.set\.lr must be values, not \[\]",
    "grid.0.set.lr: [-1]": r"grid\[0\]\.set\.lr: lr must be above 0",
    "grid.0.set.ratio: [1/0]": r"grid\[0\]\.set\.ratio: ratio must be a number, not '1/0'",
    "grid.0.set.ratio: [2]": r"grid\[0\]\.set\.ratio: ratio must be above 0 and at most 1, not 2",
    "grid.0.methods: sagpool-x*": r"grid\[0\]: methods has no 'sagpool-x\*'",
    "settings.0.set.lr: [0.1, 0.2]": r"settings\[0\]\.set\.lr must be one value",
    "grid: 5": r"grid must be a list, not 5",
    "published.accuracy.sagpool-h.MUTAG: [75, .inf]": r"must be a number, not inf",
    "published.features: {MUTAGEN: degree}": r"published\.features has no 'MUTAGEN'; did you mean",
    "settings.0.datasets: MUTAGEN": r"settings\[0\]: datasets has no 'MUTAGEN'",
    "datasets.MUTAG: {features: colour}": r"MUTAG\.features must be one of .*, not 'colour'",
    "datasets.MUTAG: {normalise: l1}": r"MUTAG\.normalise must be one of none, l2, not 'l1'",
    "protocol.select: best": r"protocol\.select must be one of over-folds, per-fold, test, not 'be",
    "protocol.stopping: auc": r"protocol\.stopping: stopping must be one of loss, loss\+norm",
    "protocol.split: 3": r"protocol\.split: split must be one of "
    r"stratified, contiguous, fixed, given, n",
    "grid.0.set.order: [fixed]": r"grid\[0\]\.set\.order: all cells have the same protocol; move",
    "settings.0.set.split: contiguous": r"settings\[0\]\.set\.split: all cells have the same",
    "published.accuracy.sagpool-h.MUTAG: 76": r"must be \[mean, standard deviation\], not 76",
    "published.accuracy.sagpool-h.MUTAG: [0.5, 200, 1]": r"must be \[mean, standard deviation\]",
    "published.accuracy.sagpool-h.MUTAG: [176, 1]": r"must be in percent, not \[176, 1\]",
    "published.seeds: 1": r"published\.seeds must be an integer of at least 2, not 1",
    "published.statistics.MUTAG.nodes: 3": r"has no 'nodes'; ",
    "related: MUTAG": r"related must be a list of lists of data sets, not 'MUTAG'",
    "related: [[MUTAG, MUTAGEN]]": r"related names 'MUTAGEN', which is not among the datasets",
    "related: [[MUTAG], [MUTAG]]": r"related names 'MUTAG' more than once",
}  # fmt: skip


@pytest.mark.parametrize("change", WRONG)
def test_an_error_is_explained(change, small_text):
    place, _, value = change.partition(": ")
    if change in ("not: [closed", "just text", "datasets: {MUTAG: }"):
        text = change
    else:
        content = yaml.safe_load(small_text)
        entry = content
        *path, last = place.split(".")
        for key in path:
            entry = entry[int(key) if isinstance(entry, list) else key]
        entry[last] = yaml.safe_load(value)
        text = yaml.safe_dump(content)
    with pytest.raises(SagpoolError, match=f"^The experiment wrong.*{WRONG[change]}") as error:
        read_experiment(text, "wrong")
    assert not str(error.value).endswith("..")


def test_data_may_be_beside_the_file(tmp_path):
    (tmp_path / "graphs").mkdir()
    text = """
    datasets: {mine: {source: graphs, features: degree}, MUTAG: }
    tables: {all: {methods: [gpool-h]}}
    protocol: {folds: 3}
    """
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    experiment = load_experiment(file)
    assert experiment.datasets["mine"].source == tmp_path / "graphs"
    assert experiment.datasets["mine"].features == "degree"
    assert experiment.datasets["MUTAG"].source == "MUTAG"
    cells = plan(experiment, Overrides(), search=False)
    assert [cell.dataset.name for cell in cells] == ["mine", "MUTAG"]
    assert cells[0].default.folds == 3


def test_a_missing_experiment_is_an_error(tmp_path):
    with pytest.raises(
        SagpoolError, match=r"^There is no experiment 'lee2020'; name a \.yaml file or"
    ):
        load_experiment("lee2020")
    with pytest.raises(SagpoolError, match=r"none\.yaml cannot be read: No such file"):
        load_experiment(tmp_path / "none.yaml")
    (tmp_path / "image.yaml").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(SagpoolError, match=r"image\.yaml cannot be read: it is not a text file\.$"):
        load_experiment(tmp_path / "image.yaml")
