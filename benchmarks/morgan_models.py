"""Molecules without a deep-learning package: Morgan counts and scikit-learn.

One command trains on a table and writes the predictions of another, so that its wall time can be
compared with that of other commands:

python benchmarks/morgan_models.py forest|boosting TASK train.csv test.csv predictions.csv

TASK is classification or regression. The column ``smiles`` holds the molecule. All other columns
are targets, each with its own model, which learns from the rows in which the target is measured.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
from sklearn.base import BaseEstimator
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

RADIUS, BITS, TREES = 2, 2048, 500
MODELS = {
    ("forest", "classification"): lambda: RandomForestClassifier(TREES, random_state=0),
    ("forest", "regression"): lambda: RandomForestRegressor(TREES, random_state=0),
    ("boosting", "classification"): lambda: HistGradientBoostingClassifier(random_state=0),
    ("boosting", "regression"): lambda: HistGradientBoostingRegressor(random_state=0),
}


def main() -> None:
    if len(sys.argv) != 6 or (sys.argv[1], sys.argv[2]) not in MODELS:
        sys.exit(__doc__)
    model, task, train, test, output = sys.argv[1:]
    train_x, train_y, names = read(Path(train))
    test_x, _, _ = read(Path(test))
    columns = [
        predict(MODELS[model, task](), train_x, train_y[:, i], test_x) for i in range(len(names))
    ]
    with Path(output).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(names)
        rows.writerows(np.stack(columns, axis=1).tolist())


def read(path: Path) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Morgan counts ``[molecules, BITS]``, targets ``[molecules, tasks]`` with NaN for gaps."""
    RDLogger.DisableLog("rdApp.*")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "smiles"]
    morgan = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    molecules = [Chem.MolFromSmiles(row["smiles"]) for row in rows]
    counts = [morgan.GetCountFingerprintAsNumPy(molecule) for molecule in molecules]
    targets = [[float(row[name] or "nan") for name in names] for row in rows]
    return np.stack(counts).astype(np.float32), np.array(targets), names


def predict(
    model: BaseEstimator, train_x: np.ndarray, train_y: np.ndarray, test_x: np.ndarray
) -> np.ndarray:
    measured = ~np.isnan(train_y)
    model.fit(train_x[measured], train_y[measured])
    if hasattr(model, "predict_proba"):
        return model.predict_proba(test_x)[:, -1]
    return model.predict(test_x)


if __name__ == "__main__":
    main()
