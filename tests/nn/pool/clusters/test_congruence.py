import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from sagpool.nn.pool.clusters import segments
from sagpool.nn.pool.clusters.congruence import congruence
from sagpool.nn.pool.clusters.segments import PaddedSegments

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@pytest.fixture(params=["padded", "one product per graph"], autouse=True, scope="module")
def padding(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "one product per graph":
            patch.setattr(segments, "MIN_UNPADDED_NUMEL", 0)
        yield


def rows_and_matrix(sizes, channels):
    """T, and a symmetric A without edges between graphs."""
    random = torch.Generator().manual_seed(channels)
    t = torch.randn(sum(sizes), channels, generator=random, dtype=torch.float64)
    parts = [torch.randn(size, size, generator=random, dtype=torch.float64) for size in sizes]
    return t.requires_grad_(), torch.block_diag(*(part + part.T for part in parts))


def segments_of(t, sizes):
    return PaddedSegments.of(t, np.cumsum(sizes) - sizes, np.array(sizes))


@given(sizes=sizes, channels=st.integers(1, 12), identity=st.booleans())
def test_trace_and_norm_are_those_of_the_matrix(agree, sizes, channels, identity):
    """With more rows than channels, and with fewer."""
    t, A = rows_and_matrix(sizes, channels)
    multiply = None if identity else (lambda x: A @ x)
    found = congruence(t, segments_of(t, sizes), multiply)
    right = (t if identity else A @ t).split(sizes)
    formed = [p.T @ q for p, q in zip(t.split(sizes), right, strict=True)]
    agree(found.trace, torch.stack([matrix.trace() for matrix in formed]), [t])
    agree(found.squared_norm, torch.stack([m.square().sum() for m in formed]), [t])


def test_gradients():
    sizes = [3, 1, 5, 4]
    t, A = rows_and_matrix(sizes, 4)
    assert gradcheck(lambda t: congruence(t, segments_of(t, sizes), lambda x: A @ x), [t])
