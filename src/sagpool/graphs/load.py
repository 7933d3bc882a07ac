"""`load`: a data set by name or path."""

from importlib import resources
from pathlib import Path

from sagpool.errors import SagpoolError
from sagpool.foreign.paths import user_path
from sagpool.graphs.cache import load_raw, read_cached
from sagpool.graphs.features import Features, RawGraphs, choose_features
from sagpool.graphs.graphs import Graphs
from sagpool.graphs.motifs import motifs
from sagpool.graphs.named_datasets import find_dataset
from sagpool.graphs.record_files import holds_records, load_records
from sagpool.graphs.records import Columns
from sagpool.graphs.tu_files import open_files


def load(
    source: str | Path,
    features: Features = "auto",
    *,
    degree_cap: int = 64,
    columns: Columns = Columns(),
) -> Graphs:
    """Load a data set.

    Args:
        source: a built-in name (``MUTAG``, ``motifs``), a TU folder or zip, a file of JSON Lines
            (.jsonl), a table with a SMILES column (.csv, .tsv), an SDF file (.sdf), or the name of
            a TU data set, looked up in the folders of ``SAGPOOL_DATA``, then in the cache folder,
            then on the official site
        features: node features: ``labels``, ``attributes``, ``both``, ``degree``, or ``auto``
            (labels; attributes if there are none; degrees if there is neither)
        degree_cap: higher degrees count as this one, if degrees are the features
        columns: of a table of molecules, if they have no standard names
    """
    # Path("MUTAG") is a folder of the user's, not the built-in data set.
    name = source.lower() if isinstance(source, str) else None
    if name == "motifs":
        if features not in ("auto", "degree"):
            raise SagpoolError(f"motifs has node degrees as features, no {features}.")
        return motifs(degree_cap=degree_cap)
    if name == "mutag":
        return choose_features(_read_mutag(), features, degree_cap)
    path = user_path(source)
    try:
        if not path.exists():
            # A string that can only be a path is not looked up as a name.
            is_path = isinstance(source, Path) or len(path.parts) > 1 or path.suffix == ".zip"
            path = path if is_path or holds_records(path) else find_dataset(str(source))
        if holds_records(path):
            return choose_features(load_records(path, columns), features, degree_cap)
        raw = read_cached(open_files(path), path)
    except OSError as error:
        raise SagpoolError(f"{path} cannot be read: {error.strerror or error}.") from None
    return choose_features(raw, features, degree_cap)


def _read_mutag() -> RawGraphs:
    """188 nitroaromatic compounds and their mutagenicity (Debnath et al., 1991)."""
    with (resources.files("sagpool.graphs.builtin") / "MUTAG.npz").open("rb") as file:
        raw = load_raw(file, stamp="built in")
    assert raw is not None, "MUTAG.npz does not have the format cache.FORMAT"
    return raw
