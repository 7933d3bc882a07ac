"""Where numbers that are read together begin."""

# Numbers. Kernels that read several at a time need to know that they may.
ALIGNED = 16


def aligned(numbers: int) -> int:
    """The next multiple: so many numbers to store instead, of which the last ones are zero."""
    return -(-numbers // ALIGNED) * ALIGNED
