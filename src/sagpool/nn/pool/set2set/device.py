"""Whether Set2Set's kernels are used."""

from functools import partial

from sagpool.ops import device

kernels_for = partial(device.kernels_for, package="sagpool.nn.pool.set2set.kernels")
