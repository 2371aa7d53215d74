"""What stores of rows count, and how they draw."""

from dataclasses import dataclass

#: the state that the shift register begins with
SEED = 0xACE1
#: x^16 + x^14 + x^13 + x^11 + 1
TAPS = 0xB400


def next_random(state: int) -> int:
    """Return the next state of the 16-bit shift register, which has all states but 0."""
    return (state >> 1) ^ (TAPS if state & 1 else 0)


@dataclass
class Counts:
    """Rows that were asked for, found, fetched from memory and written back to it."""

    lookups: int = 0
    hits: int = 0
    fetched: int = 0
    written: int = 0
