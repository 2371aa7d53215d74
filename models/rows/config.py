"""The size of rows in memory."""

from collections.abc import Sequence


def row_bytes(columns: Sequence[int], code_bytes: int) -> int:
    """Return the bytes of a row of models with so many columns each, which share it: the next power of two, at least a code."""
    needed = max(1, sum(columns)) * code_bytes
    return 1 << (needed - 1).bit_length()
