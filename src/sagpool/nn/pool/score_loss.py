"""`score_losses`: the loss of scores, if the relevant nodes are known."""

import torch
from torch import Tensor

from sagpool.ops import Layout, segment_max, segment_sum


def score_losses(score: Tensor, target: Tensor, layout: Layout) -> Tensor:
    """How far the softmax of the scores of each graph is from its targets.

    ``1/N Σ_i t_i log(t_i / α_i)``, where α is the softmax of the scores of the N nodes, and t are
    the targets divided by their sum: the supervision of attention by Knyazev, Taylor and Amer
    (2019). A graph whose targets are all zero has no loss.

    Args:
        score: ``[rows]``
        target: ``[rows]``, at least 0
        layout: layout of the rows

    Returns:
        ``[members * graphs]``
    """
    ptr, graph = layout.node_ptr, layout.graph
    target = target.to(score.dtype)
    # The result does not depend on the shift, so it needs no gradient.
    largest = segment_max(score.detach()[:, None], ptr, graph)  # [members * graphs, 1]
    # Unused rows refer to an empty graph, whose maximum is -inf.
    score = (score - largest.view(-1).index_select(0, graph)).clamp(max=0)
    entropy = torch.special.xlogy(target, target)
    columns = torch.stack([target, entropy, target * score, score.exp()], 1)
    total, entropy, agreement, exponential = segment_sum(columns, ptr, graph).unbind(1)
    # With T = Σ target, Σ t log t = (Σ target log target) / T - log T.
    known = total > 0
    safe = torch.where(known, total, 1)
    loss = (entropy - agreement) / safe - safe.log() + exponential.clamp(min=1).log()
    return torch.where(known, loss, 0) / ptr.diff().clamp(min=1).to(score.dtype)
