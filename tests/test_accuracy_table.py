"""scripts/accuracy_table.py: the table of docs/accuracy.md from its rows."""

import math
import shutil
import statistics
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "accuracy.md"


def test_the_page_follows_from_the_rows(run_script, tmp_path):
    page = Path(shutil.copy(PAGE, tmp_path))
    assert run_script("accuracy_table.py", "table", "--page", page).code == 0
    assert page.read_bytes() == PAGE.read_bytes()


def test_the_gain_is_over_the_closest_peer_on_common_folds(run_script, tmp_path):
    """The fourth fold of ``sagpool`` has no counterpart, and ``gin`` is further behind."""
    ours, peer, gin = (18, 16, 17, 1), (17, 17, 14), (10, 10, 10)
    rows = ["dataset,model,repeat,fold,correct,graphs,seconds"]
    for model, correct in (("sagpool", ours), ("wl-logistic", peer), ("gin", gin)):
        rows += [f"MUTAG,{model},0,{fold},{right},20,1.0" for fold, right in enumerate(correct)]
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    shown = run_script("accuracy_table.py", "--rows", tmp_path / "rows.csv", "table").out
    differences = [5.0, -5.0, 15.0]  # in points
    # The variance is corrected by 1/3 + 1/9: a test part is a ninth of its training part.
    error = math.sqrt(statistics.variance(differences) * (1 / 3 + 1 / 9))
    assert f"| +5.0 ± {error:.1f} |" in shown
