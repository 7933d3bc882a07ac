import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from sagpool.ops import gather_gated, induced_csr, keep_rows

pytestmark = pytest.mark.usefixtures("path")

masks = st.lists(st.booleans(), min_size=1, max_size=12).filter(any)
MASK = [False, True, True, False, True, False, True]


def kept_of(mask, repeats=None):
    times = None if repeats is None else torch.tensor(repeats)
    return keep_rows(torch.tensor(mask), sum(mask), times, sum(repeats or []))


@given(mask=masks, data=st.data())
def test_kept_rows_and_their_inverse(mask, data):
    rows = [i for i, marked in enumerate(mask) if marked]
    once = kept_of(mask)
    assert once.perm.tolist() == once.rows.tolist() == rows
    assert once.place.tolist() == list(range(len(rows)))
    assert once.seen.tolist() == [sum(mask[:i]) for i in range(len(mask) + 1)]

    repeats = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    often = kept_of(mask, repeats)
    assert often.rows.tolist() == rows
    assert often.perm.tolist() == [r for r, n in zip(rows, repeats, strict=True) for _ in range(n)]
    assert often.place.tolist() == [sum(repeats[:i]) for i in range(len(rows))]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("gated", [True, False])
def test_rows_are_gathered_and_gated(agree, channels, gated):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(len(MASK), channels, generator=random, dtype=torch.float64).requires_grad_()
    gate = torch.randn(sum(MASK), generator=random, dtype=torch.float64).requires_grad_()
    kept = kept_of(MASK)
    expected = x[kept.perm] * gate[:, None] if gated else x[kept.perm]
    agree(gather_gated(x, kept, gate if gated else None), expected, [x, gate])
    if gated:
        assert gradcheck(lambda x, gate: gather_gated(x, kept, gate), (x, gate))


@pytest.mark.parametrize("channels", [1, 3])
def test_only_the_first_copy_of_a_repeated_row_has_a_gradient(agree, channels):
    x = torch.randn(len(MASK), channels, dtype=torch.float64, requires_grad=True)
    gate = torch.randn(7, dtype=torch.float64)
    kept = kept_of(MASK, [1, 3, 1, 2])
    assert kept.perm.tolist() == [1, 2, 2, 2, 4, 6, 6]
    first = torch.tensor([1, 1, 0, 0, 1, 1, 0], dtype=torch.bool)[:, None]
    taken = x[kept.perm]
    expected = torch.where(first, taken, taken.detach()) * gate[:, None]
    agree(gather_gated(x, kept, gate), expected, [x])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_nan_stays_in_its_row(channels):
    x = torch.ones(len(MASK), channels)
    x[2] = torch.nan
    x.requires_grad_()
    gate = torch.ones(sum(MASK), requires_grad=True)
    y = gather_gated(x, kept_of(MASK), gate)
    assert y.isnan().any(1).tolist() == [False, True, False, False]
    y.square().sum().backward()
    assert x.grad.isnan().any(1).nonzero().view(-1).tolist() == [2]
    assert gate.grad.isnan().tolist() == [False, True, False, False]


def dense_of(row_ptr, col, rows):
    counts = torch.zeros(rows, rows, dtype=torch.int64)
    for i in range(rows):
        for j in col[row_ptr[i] : row_ptr[i + 1]]:
            counts[i, j] += 1
    return counts


@given(mask=st.lists(st.booleans(), min_size=8, max_size=8).filter(any), seed=st.integers(0, 99))
def test_adjacency_among_kept_rows(path, sparse, mask, seed):
    row_ptr, col, _, _ = sparse(8, 25, seed=seed)
    kept = kept_of(mask)
    new = induced_csr(row_ptr, col, kept)
    assert new.row_ptr.dtype == new.col.dtype == torch.int32
    expected = dense_of(row_ptr, col, 8)[kept.rows][:, kept.rows]
    assert torch.equal(dense_of(*new, len(kept.rows)), expected)
    entries = int(expected.sum())
    assert new.row_ptr[-1] == entries
    if path == "cpu path":
        assert len(new.col) == entries
    else:
        assert len(new.col) == len(col)
        assert (new.col[entries:] == len(kept.rows) - 1).all()


@given(
    first=st.lists(st.booleans(), min_size=8, max_size=8).filter(lambda mask: sum(mask) > 3),
    seed=st.integers(0, 99),
)
def test_keeping_twice(sparse, first, seed):
    """On a device the second call starts with spare entries."""
    row_ptr, col, _, _ = sparse(8, 25, seed=seed)
    once = kept_of(first)
    twice = kept_of([True, False, True, *[True] * (sum(first) - 3)])
    new = induced_csr(*induced_csr(row_ptr, col, once), twice)
    rows = once.rows[twice.rows]
    expected = dense_of(row_ptr, col, 8)[rows][:, rows]
    assert torch.equal(dense_of(*new, len(rows)), expected)


def test_only_the_first_copy_of_a_filler_has_entries():
    # Edge 0 - 1; row 2, the filler, has a self-loop and is repeated three times.
    row_ptr = torch.tensor([0, 2, 4, 5], dtype=torch.int32)
    col = torch.tensor([0, 1, 0, 1, 2], dtype=torch.int32)
    new = induced_csr(row_ptr, col, kept_of([False, True, True], [1, 3]))
    assert new.row_ptr.tolist() == [0, 1, 2, 2, 2]
    assert new.col[:2].tolist() == [0, 1]


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_may_be_strided(agree, channels):
    random = torch.Generator().manual_seed(0)
    wide = torch.randn(len(MASK), 2 * channels, generator=random, dtype=torch.float64)
    gate = torch.randn(sum(MASK), generator=random, dtype=torch.float64).requires_grad_()
    x = wide.requires_grad_()[:, channels:]
    kept = kept_of(MASK)
    agree(gather_gated(x, kept, gate), x[kept.perm] * gate[:, None], [wide, gate])
