"""What memory may do beside its timing."""

from __future__ import annotations

import random
from enum import Flag

#: cycles by which something is late are fewer, as in `sim/native/harness.cpp`
LATEST = 64


class Mode(Flag):
    """What AXI4 lets memory do to a core beside its timing. No cycle model covers it."""

    ADDRESS_WAITS = 1  #: AWREADY only once the burst's first word is offered, WREADY only behind it
    DATA_FIRST = 2  #: AWREADY only once all words of the burst are taken
    VISIBLE_AT_B = 4  #: what a burst writes can be read from its answer on
    READY_AFTER_VALID = 8  #: READY is low until VALID is seen
    LATE = 16  #: reads and answers come up to 63 cycles later, at random

    @classmethod
    def drawn(cls, seed: int) -> Mode:
        source = random.Random(seed)
        first = source.choice([cls(0), cls.ADDRESS_WAITS, cls.DATA_FIRST])
        return first | cls(source.getrandbits(3) << 2)


NO_MODES = Mode(0)
