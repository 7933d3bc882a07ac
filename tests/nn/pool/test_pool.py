"""What every pooling layer promises."""

import pytest

from sagpool.errors import SagpoolError
from sagpool.nn import (
    DiffPool,
    GPool,
    LearnedRatioPool,
    NoPool,
    RandomPool,
    SAGPool,
    Set2Set,
    SortConv,
    SortPool,
)

pytestmark = pytest.mark.usefixtures("path")

POOLS = [
    SAGPool(3, members=3),
    GPool(3, members=3),
    RandomPool(),
    NoPool(),
    SortPool(2),
    SortConv(3, 10, members=3),
    LearnedRatioPool(3, members=3),
    DiffPool(3, 2, members=3),
    Set2Set(3, members=3),
]


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: type(pool).__name__)
@pytest.mark.parametrize("missing", [3, -3])
def test_rows_of_other_graphs(fleet, pool, missing):
    x = fleet.features(3).float()
    x = x[missing:] if missing > 0 else x.repeat(2, 1)
    with pytest.raises(SagpoolError, match=r"x has \d+ rows, but the graphs have \d+"):
        pool(x, fleet.adjacency)
