"""Unpooling: puts pooled rows back where they came from."""

from torch import Tensor, nn

from sagpool.errors import SagpoolError


def unpool(x: Tensor, perm: Tensor, rows: int) -> Tensor:
    """Put pooled rows back in place: row i at row ``perm[i]``, zero where nodes were dropped.

    Args:
        x: ``[new rows, channels]``
        perm: ``[new rows]`` as the pooling layer gave it
        rows: number of rows before pooling

    Returns:
        ``[rows, channels]``
    """
    if len(x) != len(perm):
        raise SagpoolError(f"x has {len(x)} rows, but perm has {len(perm)}.")
    return x.new_zeros(rows, *x.shape[1:]).index_copy(0, perm, x)


class Unpool(nn.Module):
    """gUnpool of a graph U-Net (Gao and Ji, 2019): `unpool` as a layer, without weights.

    Shapes:
        ``unpool(x, perm, rows)``: x ``[new rows, channels]``, perm ``[new rows]``, result
        ``[rows, channels]``
    """

    def forward(self, x: Tensor, perm: Tensor, rows: int) -> Tensor:
        return unpool(x, perm, rows)
