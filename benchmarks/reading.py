"""Reading DD and packing PROTEINS, against PyG's TUDataset and DataLoader.

python benchmarks/reading.py --data FOLDER_WITH_THE_ZIPS [--json]
"""

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader

from measure import by_turns, report, versions
from sagpool import Graphs, SagpoolError, load
from sagpool.graphs import pack
from sagpool.graphs.features import choose_features
from sagpool.graphs.named_datasets import find_dataset
from sagpool.graphs.tu import read_tu
from sagpool.graphs.tu_files import open_files

MEMBERS, BATCH = 200, 128

MEANING = {
    "text_ours": "DD from text: read, checked, node features dense",
    "text_pyg": "DD from text: TUDataset(...) without its processed file",
    "text_ours_labels": "the same, features as compact labels",
    "cache_ours": "DD from the packed copy: load(...), features as compact labels",
    "cache_ours_x": "the same with dense node features, load(...).x",
    "cache_pyg": "DD from PyG's processed file: TUDataset(...)",
    "pack_ours": f"{MEMBERS} members × {BATCH} PROTEINS graphs in one batch, pack(...).x",
    "pack_pyg": f"DataLoader collating as many separate Data, {BATCH} at a time",
    "dd_text": "text_pyg / text_ours",
    "dd_cache": "text_ours_labels / cache_ours",
    "pack": "pack_pyg / pack_ours",
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Reading and packing, compared with PyG.")
    parser.add_argument("--data", metavar="FOLDER", help="in place of SAGPOOL_DATA")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=7, help="of each measurement (7)")
    options = parser.parse_args()
    if options.data:
        os.environ["SAGPOOL_DATA"] = options.data
    try:
        dd, proteins = find_dataset("DD"), load("PROTEINS")
    except SagpoolError as error:
        print(error, file=sys.stderr)
        sys.exit(2)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAGPOOL_CACHE"] = str(Path(folder) / "cache")
        seconds = measure_reading(dd, Path(folder), options.repeats)
    seconds |= measure_packing(proteins, options.repeats)
    ratios = {
        "dd_text": seconds["text_pyg"] / seconds["text_ours"],
        "dd_cache": seconds["text_ours_labels"] / seconds["cache_ours"],
        "pack": seconds["pack_pyg"] / seconds["pack_ours"],
    }
    packages = versions("sagpool", "torch", "torch-geometric", "numpy")
    report(ratios, seconds, packages, meaning=MEANING, as_json=options.json)


def measure_reading(source: Path, root: Path, repeats: int) -> dict[str, float]:
    raw = unpack(source, root / "DD" / "raw")

    def pyg(*, from_text: bool) -> TUDataset:
        with contextlib.redirect_stderr(io.StringIO()):  # "Processing..."
            return TUDataset(str(root), "DD", use_node_attr=False, force_reload=from_text)

    return by_turns(
        {
            "text_ours": lambda: choose_features(read_tu(open_files(raw))).x,
            "text_pyg": lambda: pyg(from_text=True),
            "text_ours_labels": lambda: choose_features(read_tu(open_files(raw))),
            "cache_ours": lambda: load(raw),
            "cache_ours_x": lambda: load(raw).x,
            "cache_pyg": lambda: pyg(from_text=False),
        },
        repeats,
    )


def unpack(source: Path, raw: Path) -> Path:
    """The files of the set in the folder where PyG looks for them."""
    raw.mkdir(parents=True)
    if source.is_dir():
        files = source if any(source.glob("*_A.txt")) else source / "raw"
        shutil.copytree(files, raw, dirs_exist_ok=True)
        return raw
    with zipfile.ZipFile(source) as archive:
        for name in archive.namelist():
            if name.endswith(".txt"):
                (raw / Path(name).name).write_bytes(archive.read(name))
    return raw


def measure_packing(graphs: Graphs, repeats: int) -> dict[str, float]:
    ids = np.random.default_rng(0).integers(0, len(graphs), (MEMBERS, BATCH))
    data = graphs.to_pyg()
    loader = DataLoader([data[i] for i in ids.ravel()], batch_size=BATCH)
    return by_turns(
        {"pack_ours": lambda: pack(graphs, ids).x, "pack_pyg": lambda: list(loader)}, repeats
    )


if __name__ == "__main__":
    main()
