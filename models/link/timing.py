"""How long the link takes: a UART of ten bits a byte (start, eight, stop)."""

#: bits on the wire for a byte
BYTE_BITS = 10
#: the fewest cycles a bit that the receiver can sample; what simulation uses, so that few cycles pass for a byte
SIMULATED_DIVISOR = 4
#: how far bit times may differ: half a bit at the stop bit's middle, 9.5 bits after the start, shared by both ends
_TOLERANCE = 0.02


def divisor(clock_hz: int, baud: int) -> int:
    """Return the cycles of a bit.

    Raises ValueError for a baud rate that the clock cannot make: within 2 %, with at least 4 cycles a bit.
    """
    cycles = round(clock_hz / baud)
    if cycles < SIMULATED_DIVISOR or abs(clock_hz / cycles / baud - 1) > _TOLERANCE:
        raise ValueError(
            f"a clock of {clock_hz} Hz cannot make {baud} baud: it takes {SIMULATED_DIVISOR} cycles a bit or more, within {_TOLERANCE:.0%}"
        )
    return cycles
