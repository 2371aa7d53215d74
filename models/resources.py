"""What a design takes of a part: look-up tables, flip-flops, multiplier blocks, block RAMs and UltraRAMs."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from .link.frames import RING
from .mapping import Storage
from .target import Capacity

#: how full of logic a part may become and still be routed
FILL = 0.97
#: how full of anything a plan makes a part, where there is another one that fits
AIM = 0.8
#: resources in the order in which a plan is refused for them
_ORDER = ("dsp", "bram", "uram", "lut", "ff")
#: share of a resource that may be taken, where it is not all
MOST = {"lut": FILL, "ff": FILL}
#: look-up tables of what is around every engine on an ECP5: the device with its link and memory, the shell with its registers
DEVICE, SHELL = 660.0, 1310.0
#: those that see whether the bytes at two of its addresses lie apart (benchmarks/area.py)
APART = 110
#: look-up tables of a family for each of the ECP5's
SCALE = {"ecp5": 1.0, "nexus": 0.92, "gowin": 0.95, "ice40": 0.97, "amd": 0.8}
#: of Striders and what is around engines; of arithmetic with its multiplexers: on AMD's parts by synthesis (benchmarks/ultrascale.py)
CONTROL, UNITS = SCALE | {"amd": 0.95}, SCALE | {"amd": 0.68}


@dataclass(frozen=True)
class Resources:
    """Look-up tables, flip-flops, multiplier blocks, block RAMs and UltraRAMs, estimated or placed."""

    lut: int
    ff: int
    dsp: int
    bram: int
    uram: int = 0

    def shares(self, part: Capacity) -> dict[str, float]:
        """Return the share of each of the part's resources that is taken, by name; of what it has none, 0 or infinity."""
        pairs = ((name, getattr(self, name), getattr(part, name)) for name in _ORDER)
        return {name: need / have if have else inf if need else 0.0 for name, need, have in pairs}

    def fits(self, part: Capacity, fill: float = 1.0) -> str | None:
        """Return the name of the first resource of which more than `fill`, or more than can be used, of what `part` has is taken, or None."""
        shares = self.shares(part)
        return next(
            (name for name in _ORDER if shares[name] > min(fill, MOST.get(name, 1.0))), None
        )


def device_memories(bus_bytes: int, memory_bytes: int) -> Iterator[tuple[int, Storage]]:
    """Yield the memories that a board has beside the engine: the link's ring (`hdl.link.frames`), and its block RAM (`hdl.memory.blockram`; 0 bytes: it is
    elsewhere)."""
    yield 1, Storage(8, RING, apart=True)
    if memory_bytes:
        yield 1, Storage(8 * bus_bytes, memory_bytes // bus_bytes, granules=bus_bytes, apart=True)
