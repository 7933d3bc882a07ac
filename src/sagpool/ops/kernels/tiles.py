"""How rows and columns are divided among programs."""


def blocks(total: int, size: int) -> int:
    """⌈total / size⌉, as `triton.cdiv`, which takes microseconds of a short call."""
    return -(-total // size)


def tile(columns: int, numbers: int = 2048) -> tuple[int, int]:
    """Rows and columns that a program loads at once, powers of two."""
    width = min(128, 1 << (columns - 1).bit_length())
    return numbers // width, width
