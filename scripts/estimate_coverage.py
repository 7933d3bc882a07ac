"""Measure how often the interval that `fit` prints covers the accuracy on new graphs.

Draws subsamples of a data set, fits a model to each, and compares its 95 % interval, and the
promised coverage of its prediction sets, with the results of the model on the rest of the data set.
Each finished subsample is written to a file, and a second run continues from there.

    python scripts/estimate_coverage.py --out coverage.jsonl --json
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from sagpool import Graphs, load
from sagpool.classifier import fit
from sagpool.classifier.candidates import SimpleCandidate, candidates_for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="NCI1")
    parser.add_argument("--features", default="all")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--graphs", type=int, default=300, help="in a subsample")
    parser.add_argument("--folds", type=int, default=None)
    parser.add_argument(
        "--candidates",
        default="counts-linear,wl-linear",
        help="names of simple models, separated by commas; or all, which takes hours",
    )
    parser.add_argument("--out", type=Path, required=True, help="a row for each subsample")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    graphs = load(options.data, options.features)
    key = [options.data, options.features, options.graphs, options.folds, options.candidates]
    rows = read_rows(options.out, key)
    seeds = range(options.first_seed, options.first_seed + options.repeats)
    for seed in seeds:
        if seed not in rows:
            rows[seed] = one_subsample(graphs, seed, options)
            with options.out.open("a") as file:
                file.write(json.dumps({"key": key, "seed": seed, **rows[seed]}) + "\n")
    found = summary([rows[seed] for seed in seeds])
    print(json.dumps(found, indent=2) if options.json else sentences(found))


def read_rows(path: Path, key: list[object]) -> dict[int, dict[str, float]]:
    """The subsamples of an earlier run with the same options, by seed."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["seed"]: row for row in rows if row["key"] == key}


def one_subsample(graphs: Graphs, seed: int, options: argparse.Namespace) -> dict[str, float]:
    start = time.monotonic()
    shuffled = np.random.default_rng(seed).permutation(len(graphs))
    chosen, rest = np.sort(shuffled[: options.graphs]), np.sort(shuffled[options.graphs :])
    sample = graphs[chosen]
    candidates = None
    if options.candidates != "all":
        candidates = [SimpleCandidate(name) for name in options.candidates.split(",")]
    fitted = fit(
        sample,
        candidates=candidates or candidates_for(sample, seed=seed),
        folds=options.folds,
        seed=seed,
    )
    others = graphs[rest]
    assert others.y is not None
    y = others.y.numpy()
    found = fitted.model.predict_proba(others)
    assert found.sets is not None
    low, high = fitted.estimate.ci95
    return {
        "low": low,
        "high": high,
        "estimate": fitted.estimate.accuracy,
        "accuracy": float((found.predicted == y).mean()),
        "promised": fitted.estimate.coverage.promised,
        "measured": fitted.estimate.coverage.measured,
        "covered": float(found.sets[np.arange(len(y)), y].mean()),
        "unlike": float(found.unlike.mean()),
        "seconds": time.monotonic() - start,
    }


def summary(rows: list[dict[str, float]]) -> dict[str, float]:
    column = {name: np.array([row[name] for row in rows]) for name in rows[0] if name != "key"}
    inside = (column["low"] <= column["accuracy"]) & (column["accuracy"] <= column["high"])
    error = column["estimate"] - column["accuracy"]
    half = (column["high"] - column["low"]) / 2
    return {
        "subsamples": len(rows),
        "interval_covers": float(inside.mean()),
        "too_high": float((column["accuracy"] < column["low"]).mean()),
        "too_low": float((column["accuracy"] > column["high"]).mean()),
        "mean_estimate": float(column["estimate"].mean()),
        "mean_accuracy": float(column["accuracy"].mean()),
        "error_std": float(error.std(ddof=1)) if len(rows) > 1 else 0.0,
        "mean_half_width": float(half.mean()),
        "sets_promised": float(column["promised"].mean()),
        "sets_cover": float(column["covered"].mean()),
        "sets_estimated": float(column["measured"].mean()),
        "unlike": float(column["unlike"].mean()),
        "seconds": float(column["seconds"].sum()),
    }


def sentences(found: dict[str, float]) -> str:
    return (
        f"Over {found['subsamples']} subsamples, the 95 % interval covers the accuracy on the rest "
        f"in {found['interval_covers']:.1%} (accuracy below it {found['too_high']:.1%}, above it "
        f"{found['too_low']:.1%}).\nPrediction sets promise {found['sets_promised']:.0%}, contain "
        f"the class of {found['sets_cover']:.1%} of the other graphs, and were estimated at "
        f"{found['sets_estimated']:.1%}."
    )


if __name__ == "__main__":
    main()
