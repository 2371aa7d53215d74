"""Targets: what a plan may use. A board is a target too; boards register their own through `register`.

Resources follow the vendors' device tables (LUT: look-up tables as the device counts them; DSP: multiplier blocks; BRAM: 18 Kb
blocks on Lattice ECP5 (sysMEM EBR) and 36 Kb blocks on AMD parts).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TARGETS", "Capacity", "Target", "register", "target"]


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What a part has. `family`: whose synthesis rules hold ("ecp5", "ice40", "gowin", "nexus", or "amd").

    `multiplier` is the DSP block's multiplier (bits × bits); `bram_bits` one block RAM's size.
    """

    family: str
    lut: int
    ff: int
    dsp: int
    bram: int
    bram_bits: int
    multiplier: tuple[int, int]


@dataclass(frozen=True)
class Target(Capacity):
    """One part with its memory.

    `ports`: AXI memory ports, each `bus_bytes` wide; `bytes_per_cycle` and `latency` (cycles) are the default memory timing of a port at `clock_mhz`.
    `shared`: bytes of block RAM that hold pages on the part itself, beside the engine and the host's link (0: link and memory control, but memory
    elsewhere); None: the part has the engine alone. `lean`: plans get what is for small parts, see `models.analytics.config.AnalyticsPlan`. `page_size`:
    bytes of the pages that suit it, where Penstock packs them itself. `dram`: what is behind each port, as `--memory` takes it, with the ratio of the
    port's clock to the DRAM's: `--memory dram`; "" where no preset has it.
    """

    name: str
    title: str
    clock_mhz: float
    bus_bytes: int
    bytes_per_cycle: int
    latency: int
    ports: int
    shared: int | None = None
    lean: bool = False
    page_size: int = 8192
    dram: str = ""

    @property
    def memory(self) -> str:
        """The default memory timing as the option `--memory` takes it."""
        return f"latency={self.latency},bytes={self.bytes_per_cycle}"

    @property
    def bandwidth(self) -> float:
        """Bytes a second over all ports."""
        return self.ports * self.bytes_per_cycle * self.clock_mhz * 1e6


TARGETS: dict[str, Target] = {}


def register(target: Target) -> Target:
    """Make `target` known by its name. Raises ValueError when the name is taken."""
    if target.name in TARGETS:
        raise ValueError(f"a target called {target.name!r} is registered already")
    TARGETS[target.name] = target
    return target


def target(name: str) -> Target:
    """Return the target called `name`; KeyError where there is none."""
    return TARGETS[name]


register(
    Target(
        "small",
        "a made-up part for tests, of a large ECP5's size, with fast memory",
        50.0,
        8,
        8,
        20,
        1,
        family="ecp5",
        lut=84_000,
        ff=84_000,
        dsp=156,
        bram=208,
        bram_bits=18 * 1024,
        multiplier=(18, 18),
    )
)
register(
    Target(
        "ulx3s-85f",
        "ULX3S with Lattice ECP5-85F and 32 MB of 16-bit SDRAM",
        60.0,
        8,
        2,
        24,
        1,
        dram="sdr-60,ratio=1/1,transit=13",
        family="ecp5",
        lut=83_640,
        ff=83_640,
        dsp=156,
        bram=208,
        bram_bits=18 * 1024,
        multiplier=(18, 18),
    )
)
# the paper's part: DAnA, PVLDB 11(11), section 7; 9.6 GB/s is the bandwidth that CoSMIC's rule implies for it
register(
    Target(
        "vu9p",
        "AMD Virtex UltraScale+ VU9P at 150 MHz with 9.6 GB/s",
        150.0,
        64,
        64,
        40,
        1,
        family="amd",
        lut=1_182_000,
        ff=2_364_000,
        dsp=6_840,
        bram=2_160,
        bram_bits=36 * 1024,
        multiplier=(27, 18),
    )
)
# a pseudo-channel gives 14.4 GB/s; a 32-byte port at 250 MHz uses 8 GB/s of it
register(
    Target(
        "u55c",
        "AMD Alveo U55C: 32 HBM2 pseudo-channels, 250 MHz",
        250.0,
        32,
        32,
        60,
        32,
        dram="hbm2-2000,ratio=5/18,transit=50",  # 900 MHz
        family="amd",
        lut=1_304_000,
        ff=2_607_000,
        dsp=9_024,
        bram=2_016,
        bram_bits=36 * 1024,
        multiplier=(27, 18),
    )
)
