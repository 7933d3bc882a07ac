import re
from pathlib import Path

import numpy as np
import pytest
import torch

from sagpool.errors import SagpoolError
from sagpool.graphs import load
from sagpool.graphs.named_datasets import find_dataset

TABLE_1 = [
    ("DD", 1178, 2, 284.32, 715.66, 82),
    ("PROTEINS", 1113, 2, 39.06, 72.82, 3),
    ("NCI1", 4110, 2, 29.87, 32.30, 37),
    ("NCI109", 4127, 2, 29.68, 32.13, 38),
]


@pytest.mark.parametrize(("name", "graphs", "classes", "nodes", "edges", "features"), TABLE_1)
def test_the_papers_table_1(real_data, name, graphs, classes, nodes, edges, features):
    s = load(name).statistics()
    assert (s.graphs, s.classes) == (graphs, classes)
    assert (round(s.avg_nodes, 2), round(s.avg_edges, 2)) == (nodes, edges)
    assert (s.features, s.feature_kind) == (features, "labels")


@pytest.mark.parametrize("name", ["FRANKENSTEIN"])
def test_the_papers_table_1_for_the_data_set_without_labels(real_data, name):
    s = load(name).statistics()
    assert (s.graphs, s.classes) == (4337, 2)
    assert (round(s.avg_nodes, 2), round(s.avg_edges, 2)) == (16.90, 17.88)
    # Without its large file of attributes the data set has only its structure.
    assert s.feature_kind in ("attributes", "degree")


@pytest.mark.parametrize("name", ["MUTAG"])
def test_the_built_in_mutag_is_the_original(real_data, name):
    original, built_in = load(find_dataset(name)), load(name)
    for field in ("degree", "col", "y", "node_label", "edge_attr"):
        assert torch.equal(getattr(original, field), getattr(built_in, field))
    assert np.array_equal(original.node_counts, built_in.node_counts)


def test_mutag_has_names():
    mutag = load("mutag")
    assert mutag.class_names == ("non-mutagenic", "mutagenic")
    assert mutag.node_label_names == ("C", "N", "O", "F", "I", "Cl", "Br")
    assert mutag.edge_attr.shape == (mutag.num_edges, 4)
    assert (mutag.edge_attr.sum(1) == 1).all()
    carbons = mutag.x[:, 0].mean()
    assert 0.6 < carbons < 0.8


def test_built_in_data_sets_do_not_use_the_cache(cache, monkeypatch):
    monkeypatch.setenv("SAGPOOL_CACHE", str(cache / "never"))
    assert len(load("MUTAG")) == 188
    assert len(load("motifs")) == 1000
    assert not (cache / "never").exists()


def test_features_of_the_built_in_data_sets():
    assert load("MUTAG", "degree").feature_kind == "degree"
    with pytest.raises(SagpoolError, match=r"^MUTAG has no node attributes\.$"):
        load("MUTAG", "attributes")
    with pytest.raises(SagpoolError, match="motifs has node degrees as features, no labels"):
        load("motifs", "labels")


def test_a_folder_called_mutag_can_be_loaded(small, monkeypatch):
    small.folder.rename(small.folder.with_name("MUTAG"))
    monkeypatch.chdir(small.folder.parent)
    assert len(load("./MUTAG")) == 4
    assert len(load(Path("MUTAG"))) == 4
    assert len(load("MUTAG")) == 188


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_of_any_kind(small, kind, monkeypatch):
    assert len(load(kind(small.folder))) == 4
    assert len(load(kind(small.zip()))) == 4
    monkeypatch.chdir(small.folder.parent)
    assert len(load(kind("SMALL"))) == 4
    assert len(load(kind("SMALL.zip"))) == 4
    monkeypatch.setenv("HOME", str(small.folder.parent))
    assert len(load(kind("~/SMALL"))) == 4


@pytest.mark.parametrize("source", [Path("NOPE"), "some/NOPE", "NOPE.zip"])
def test_a_path_is_not_looked_up_as_a_name(source):
    with pytest.raises(SagpoolError, match=re.escape(f"There is no file or folder {source}.")):
        load(source)


def test_unknown_features(small):
    with pytest.raises(SagpoolError) as error:
        load(small.folder, "colours")
    assert str(error.value) == (
        "Unknown node features 'colours'; choose one of auto, labels, attributes, both, degree, "
        "all."
    )
    with pytest.raises(SagpoolError, match="degree cap must be at least 1, not 0"):
        load(small.folder, "degree", degree_cap=0)


FILES = {
    "x.jsonl": '{"nodes": ["C", "O"], "edges": [[0, 1]], "label": 1}\n'
    '{"nodes": ["C"], "label": 0}\n',
    "x.csv": "smiles,label\nCO,1\nC,0\n",
    "x.tsv": "smiles\tlabel\nCO\t1\nC\t0\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", [str, Path])
def test_record_files(name, kind, tmp_path, monkeypatch, cache):
    (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for source in (name, tmp_path / name, f"~/{name}"):
        graphs = load(kind(source))
        assert (graphs.name, graphs.node_counts.tolist(), graphs.y.tolist()) == (
            "x",
            [2, 1],
            [1, 0],
        )
        assert (graphs.node_label_names, graphs.class_names) == (("C", "O"), ("0", "1"))
    assert load(name, "degree").node_label_names == ("0", "1")
    assert not list(cache.iterdir())  # such files are not cached


@pytest.mark.parametrize("name", ["NOPE.jsonl", "NOPE.csv", "NOPE.sdf", "some/NOPE.tsv"])
def test_a_missing_file_is_not_looked_up_as_a_name(name):
    with pytest.raises(SagpoolError, match=re.escape(f"There is no file or folder {name}.")):
        load(name)


def test_a_tu_folder_may_have_any_name(small):
    assert len(load(small.folder.rename(small.folder.with_name("SMALL.csv")))) == 4
