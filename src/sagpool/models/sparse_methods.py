"""Methods that coarsen sparse graphs, by scores or once for a whole data set."""

from torch import nn

from sagpool.models.methods import hierarchical
from sagpool.models.registry import Shape, register
from sagpool.nn import ASAPool


@register("asap-h")
def asap_h(shape: Shape) -> nn.Module:
    return hierarchical(shape, lambda _: ASAPool(shape.hidden, shape.ratio, members=shape.members))
