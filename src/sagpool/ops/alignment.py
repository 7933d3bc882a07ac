"""Alignment for vector loads."""

ALIGNMENT = 16  # elements


def aligned(numel: int) -> int:
    """The next multiple of the alignment."""
    return -(-numel // ALIGNMENT) * ALIGNMENT
