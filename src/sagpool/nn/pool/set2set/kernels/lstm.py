"""The elementwise part of an LSTM cell."""

import triton
import triton.language as tl
from torch import Tensor

from sagpool.ops.kernels.jit import kernel

TILE = 512
MAX_COLUMNS = 128


def lstm_cell(gates: Tensor, cell: Tensor, new_cell: Tensor, state: Tensor) -> None:
    """Write the new cell and the state; shapes as in `sagpool.nn.pool.set2set.lstm`."""
    members, graphs, columns = state.shape
    grid, tile = _tiles(state)
    _lstm_cell[grid](
        gates, cell, new_cell, state, members * graphs, graphs, columns, *gates.stride()[:2],
        *state.stride()[:2],
        **tile,
    )  # fmt: skip


def _tiles(state: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    members, graphs, columns = state.shape
    width = min(MAX_COLUMNS, triton.next_power_of_2(columns))
    height = TILE // width
    grid = (triton.cdiv(members * graphs, height), triton.cdiv(columns, width))
    return grid, {"HEIGHT": height, "WIDTH": width, "num_warps": 2}


@triton.jit
def _places(rows, graphs, columns, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):
    """Row, member and graph ``[HEIGHT, 1]``, column ``[1, WIDTH]``, and their mask."""
    row = (tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT))[:, None]
    column = (tl.program_id(1) * WIDTH + tl.arange(0, WIDTH))[None, :]
    mask = (row < rows) & (column < columns)
    return row.to(tl.int64), (row // graphs).to(tl.int64), (row % graphs).to(tl.int64), column, mask


@triton.jit
def _tanh(x):
    # Of the absolute value, so that exp does not overflow.
    t = tl.exp(-2 * tl.abs(x))
    y = (1 - t) / (1 + t)
    return tl.where(x < 0, -y, y)


@kernel(do_not_specialize=["rows", "graphs"])
def _lstm_cell(
    gates, cell, new_cell, state, rows, graphs, columns, gates_member, gates_graph, state_member,
    state_graph,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, member, graph, column, mask = _places(rows, graphs, columns, HEIGHT, WIDTH)
    gates += member * gates_member + graph * gates_graph + column
    keep_in = tl.sigmoid(tl.load(gates, mask=mask, other=0.0))
    forget = tl.sigmoid(tl.load(gates + columns, mask=mask, other=0.0))
    new = _tanh(tl.load(gates + 2 * columns, mask=mask, other=0.0))
    out = tl.sigmoid(tl.load(gates + 3 * columns, mask=mask, other=0.0))
    here = row * columns + column
    c = forget * tl.load(cell + here, mask=mask, other=0.0) + keep_in * new
    tl.store(new_cell + here, c, mask=mask)
    tl.store(
        state + member * state_member + graph * state_graph + column, out * _tanh(c), mask=mask
    )


def lstm_cell_backward(
    gates: Tensor, cell: Tensor, grad_state: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> None:
    """Write the gradient of the gates; that of the old cell overwrites that of the new one."""
    members, graphs, columns = grad_state.shape
    grid, tile = _tiles(grad_state)
    _lstm_cell_backward[grid](
        gates, cell, grad_state, grad_cell, grad_gates, members * graphs, graphs, columns,
        *gates.stride()[:2], *grad_state.stride()[:2], *grad_gates.stride()[:2],
        **tile,
    )  # fmt: skip


@kernel(do_not_specialize=["rows", "graphs"])
def _lstm_cell_backward(
    gates, cell, grad_state, grad_cell, grad_gates, rows, graphs, columns, gates_member,
    gates_graph, state_member, state_graph, back_member, back_graph,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    row, member, graph, column, mask = _places(rows, graphs, columns, HEIGHT, WIDTH)
    gates += member * gates_member + graph * gates_graph + column
    keep_in = tl.sigmoid(tl.load(gates, mask=mask, other=0.0))
    forget = tl.sigmoid(tl.load(gates + columns, mask=mask, other=0.0))
    new = _tanh(tl.load(gates + 2 * columns, mask=mask, other=0.0))
    out = tl.sigmoid(tl.load(gates + 3 * columns, mask=mask, other=0.0))
    here = row * columns + column
    old = tl.load(cell + here, mask=mask, other=0.0)
    # Cheaper than reading the new cell.
    c = _tanh(forget * old + keep_in * new)
    at = grad_state + member * state_member + graph * state_graph + column
    of_state = tl.load(at, mask=mask, other=0.0)
    of_cell = tl.load(grad_cell + here, mask=mask, other=0.0) + of_state * out * (1 - c * c)
    tl.store(grad_cell + here, of_cell * forget, mask=mask)
    grad_gates += member * back_member + graph * back_graph + column
    tl.store(grad_gates, of_cell * new * keep_in * (1 - keep_in), mask=mask)
    tl.store(grad_gates + columns, of_cell * old * forget * (1 - forget), mask=mask)
    tl.store(grad_gates + 2 * columns, of_cell * keep_in * (1 - new * new), mask=mask)
    tl.store(grad_gates + 3 * columns, of_state * c * out * (1 - out), mask=mask)
