import torch
from torch.nn import LayerNorm

from sagpool.nn import RowNorm


def test_every_row_is_normalised_by_itself_with_the_weights_of_its_member():
    norm = RowNorm(5, members=2).double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.add_(torch.randn_like(parameter))
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    for member, rows in enumerate(norm(x.view(8, 5)).view(2, 4, 5)):
        theirs = LayerNorm(5).double()
        theirs.weight = torch.nn.Parameter(norm.scale[member, 0])
        theirs.bias = torch.nn.Parameter(norm.shift[member, 0])
        torch.testing.assert_close(rows, theirs(x[member]))
