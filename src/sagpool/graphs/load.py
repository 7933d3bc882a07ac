"""`load`: a data set by name or path."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

from sagpool.errors import SagpoolError
from sagpool.foreign.paths import user_path
from sagpool.graphs.cache import load_raw, read_cached
from sagpool.graphs.columns import Encoding
from sagpool.graphs.counting import colors, triangles
from sagpool.graphs.features import Features, choose_features
from sagpool.graphs.graphs import Graphs, Task
from sagpool.graphs.motifs import motifs, motifs_shift
from sagpool.graphs.named_datasets import find_dataset
from sagpool.graphs.raw_graphs import RawGraphs
from sagpool.graphs.record_files import holds_records, load_records
from sagpool.graphs.records import Columns
from sagpool.graphs.targets import check_task
from sagpool.graphs.tu_files import open_files

# Built-in data sets that come with a split, and the kind of their features.
WITH_SPLIT = {
    "colors": (colors, "attributes"),
    "triangles": (triangles, "degree"),
    "motifs-shift": (motifs_shift, "degree"),
}


def load(
    source: str | Path,
    features: Features | Encoding = "auto",
    *,
    degree_cap: int = 64,
    columns: Columns = Columns(),
    task: Task = "classification",
    scaffolds: bool = False,
    need_labels: bool = False,
) -> Graphs:
    """Load a data set.

    Args:
        source: a built-in name (``MUTAG``, ``motifs``, ``motifs-shift``, ``colors``,
            ``triangles``), a TU folder or zip, a file of JSON Lines (.jsonl), a table with a
            SMILES column (.csv, .tsv), an SDF file (.sdf), or the name of a TU data set, looked up
            in the folders of ``SAGPOOL_DATA``, then in the cache folder, then on the official site
        features: node features: ``labels``, ``attributes``, ``both``, ``degree``, ``auto``
            (labels; attributes if there are none; degrees if there is neither), or ``all`` that is
            known: also edge labels and, for molecules, charges, rings, fragments, ...; an
            `Encoding`, as in ``model.vocabulary.features``, gives the columns that a model knows
        degree_cap: higher degrees count as this one
        columns: titles of the columns of a table of molecules, if not the standard ones
        task: what the labels are: classes, several targets of 0 and 1 (``multitask``), or numbers
            (``regression``)
        scaffolds: whether ``group`` is the scaffold of each molecule
        need_labels: whether it is an error if there are no labels
    """
    check_task(task)
    columns = replace(columns, need_label=need_labels)
    # Path("MUTAG") is the user's folder, not the built-in data set.
    name = source.lower() if isinstance(source, str) else None
    if name == "motifs":
        if isinstance(features, str) and features not in ("auto", "degree", "all"):
            raise SagpoolError(f"motifs has node degrees as features, no {features}.")
        graphs = motifs(
            degree_cap=degree_cap, features="degree" if features == "auto" else features
        )
        return _with_classes(graphs, task, scaffolds, columns)
    if name in WITH_SPLIT:
        make, kind = WITH_SPLIT[name]
        if features not in ("auto", kind):
            raise SagpoolError(f"{name} has {kind} as node features, no {features}.")
        return _with_classes(make(), task, scaffolds, columns)
    if name == "mutag":
        graphs = choose_features(_read_mutag(), features, degree_cap)
        return _with_classes(graphs, task, scaffolds, columns)
    path = user_path(source)
    try:
        path = _located(source)
        if holds_records(path):
            everything = features == "all" or isinstance(features, Encoding)
            raw = load_records(path, columns, task=task, everything=everything, scaffolds=scaffolds)
            return choose_features(raw, features, degree_cap)
        raw = read_cached(open_files(path), path)
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror or error}.") from None
    return _with_classes(choose_features(raw, features, degree_cap), task, scaffolds, columns)


def read_raw(source: str) -> RawGraphs:
    """Everything in a built-in or a TU data set, before node features are chosen."""
    if source.lower() == "mutag":
        return _read_mutag()
    if source.lower() == "motifs":
        graphs = motifs()
        degree, col = graphs.degree.numpy(), graphs.col.numpy()
        return RawGraphs("motifs", graphs.node_counts, graphs.edge_counts, degree, col)
    path = user_path(source)
    try:
        path = _located(source)
        return read_cached(open_files(path), path)
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror or error}.") from None


def _located(source: str | Path) -> Path:
    """The path of a data set that was given as a path or as a name."""
    path = user_path(source)
    if path.exists():
        return path
    # A string that can only be a path is not looked up as a name.
    is_path = isinstance(source, Path) or len(path.parts) > 1 or path.suffix == ".zip"
    return path if is_path or holds_records(path) else find_dataset(str(source))


def _with_classes(graphs: Graphs, task: Task, scaffolds: bool, columns: Columns) -> Graphs:
    """The graphs; refuses options that do not fit a data set with only classes."""
    if task != "classification":
        raise SagpoolError(f"{graphs.name} has classes, no targets for {task}.")
    if scaffolds:
        raise SagpoolError(f"{graphs.name} has no molecules, so it has no scaffolds.")
    if named := columns.smiles or columns.label or columns.id or columns.time:
        raise SagpoolError(f"{graphs.name} is not a table, so it has no column {named!r}.")
    return graphs


def _read_mutag() -> RawGraphs:
    """188 nitroaromatic compounds and their mutagenicity (Debnath et al., 1991)."""
    with (resources.files("sagpool.graphs.builtin") / "MUTAG.npz").open("rb") as file:
        raw = load_raw(file, stamp="built in")
    assert raw is not None, "MUTAG.npz does not have the format cache.FORMAT"
    return raw
