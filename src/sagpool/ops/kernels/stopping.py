"""The end of an epoch: which members improved, their best weights, and which of them stop."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

_MEMBERS = 128
_NUMBERS = 1024


def end_epoch(
    curves: Tensor,
    weights: Tensor,
    best: Tensor,
    best_loss: Tensor,
    waited: Tensor,
    left: Tensor,
    patience: Tensor,
    stopped: Tensor,
    *,
    accepts_ties: bool,
    exceeds_patience: bool,
) -> None:
    """See `sagpool.fleet.stopping.DeviceStopping.update`. Changes all but the curves and weights.

    Args:
        curves: ``[3, members]`` float64
        weights: ``[members, numbers]``
        best: ``[members, numbers]``
        best_loss: ``[members]`` float64
        waited: ``[members]`` int64
        left: ``[members]`` int64
        patience: ``[members]`` int64
        stopped: ``[members]`` bool
        accepts_ties: whether an equal loss is an improvement
        exceeds_patience: whether a member waits for one epoch more
    """
    members, numbers = weights.shape
    improved = torch.empty_like(stopped)
    _end_epoch[(triton.cdiv(members, _MEMBERS),)](
        curves, best_loss, waited, left, patience, stopped.view(torch.uint8),
        improved.view(torch.uint8), members,
        TIES=accepts_ties, EXCEEDS=exceeds_patience, BLOCK=_MEMBERS, num_warps=1,
    )  # fmt: skip
    # The best weights in a second pass: many programs read what the first one decides.
    _keep_best[(triton.cdiv(numbers, _NUMBERS), members)](
        weights, best, improved.view(torch.uint8), numbers, BLOCK=_NUMBERS, num_warps=4
    )


@kernel(do_not_specialize=["members"])
def _end_epoch(
    curves, best_loss, waited, left, patience, stopped, improved, members,
    TIES: tl.constexpr, EXCEEDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = member < members
    train = tl.load(curves + member, mask=inside, other=0.0)
    loss = tl.load(curves + members + member, mask=inside, other=0.0)
    best = tl.load(best_loss + member, mask=inside, other=0.0)
    done = tl.load(stopped + member, mask=inside, other=1) != 0
    finite = (tl.abs(train) < float("inf")) & (tl.abs(loss) < float("inf"))  # False for NaN
    better = loss <= best if TIES else loss < best
    better = finite & better & (done == 0)
    epochs = tl.where(better, 0, tl.load(waited + member, mask=inside, other=0) + 1)
    rest = tl.load(left + member, mask=inside, other=0) - 1
    limit = tl.load(patience + member, mask=inside, other=0)
    ends = epochs > limit if EXCEEDS else epochs >= limit
    done = done | (finite == 0) | ends | (rest <= 0)
    tl.store(improved + member, better.to(tl.uint8), mask=inside)
    tl.store(best_loss + member, tl.where(better, loss, best), mask=inside)
    tl.store(waited + member, epochs, mask=inside)
    tl.store(left + member, rest, mask=inside)
    tl.store(stopped + member, done.to(tl.uint8), mask=inside)


@kernel()
def _keep_best(weights, best, improved, numbers, BLOCK: tl.constexpr):
    member = tl.program_id(1)
    if tl.load(improved + member) != 0:
        offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        at = member.to(tl.int64) * numbers + offset
        value = tl.load(weights + at, mask=offset < numbers, other=0.0)
        tl.store(best + at, value, mask=offset < numbers)
