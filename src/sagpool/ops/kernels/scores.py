"""Products of rows with the few columns of a score's weight, where the rows are computed."""

import triton
import triton.language as tl
from torch import Tensor


def score_columns(score_weight: Tensor | None) -> dict[str, int]:
    """Their number and the next power of two, as kernels need them."""
    scores = 0 if score_weight is None else score_weight.shape[2]
    return {"SCORES": scores, "PADDED": triton.next_power_of_2(max(1, scores))}


@triton.jit
def no_scores(HEIGHT: tl.constexpr, SCORES: tl.constexpr, PADDED: tl.constexpr, dtype):
    """Zeros, to add to: of one score ``[HEIGHT]``, of several ``[HEIGHT, PADDED]``."""
    if SCORES > 1:
        return tl.zeros((HEIGHT, PADDED), dtype)
    else:
        return tl.zeros((HEIGHT,), dtype)


@triton.jit
def add_score(scores, one, number, SCORES: tl.constexpr, PADDED: tl.constexpr):
    """Add to one of the scores."""
    if SCORES > 1:
        return scores + tl.where((tl.arange(0, PADDED) == number)[None, :], one[:, None], 0.0)
    else:
        return scores + one


@triton.jit
def add_scores(
    scores, rows, weight, column, in_columns, SCORES: tl.constexpr, PADDED: tl.constexpr
):
    """Add the product of these columns of rows with their rows of the weight."""
    for number in tl.static_range(SCORES):
        v = tl.load(weight + column * SCORES + number, mask=in_columns, other=0.0)
        scores = add_score(scores, tl.sum(rows * v[None, :], 1), number, SCORES, PADDED)
    return scores


@triton.jit
def store_scores(scores, first, stride, inside, SCORES: tl.constexpr, PADDED: tl.constexpr):
    """At the pointers ``first``, and at those ``stride`` numbers after the one before."""
    if SCORES > 1:
        number = tl.arange(0, PADDED)
        mask = inside[:, None] & (number < SCORES)[None, :]
        tl.store(first[:, None] + number[None, :] * stride, scores, mask=mask)
    else:
        tl.store(first, scores, mask=inside)
