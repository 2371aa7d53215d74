"""Which blocks of a part memories and multipliers become: the rules of Yosys' `memory_libmap` and `mul2dsp`, as numbers.

A memory goes where it is cheapest: flip-flops (a unit for each bit; a sixteenth of that without a write port), LUT RAM, or block RAM. A block has
a choice of widths; a memory is cut into so many columns of a width and so many banks of the depth that goes with it. Banks cost half a unit for each bit
of the multiplexers behind them, and for each decoded write enable. Costs, widths and depths are those of Yosys' library files (`techlibs/*/brams.txt`,
`lutrams.txt`) as of Yosys 0.50 to 0.70.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Mapped", "Storage", "map_storage", "multiplier_blocks"]


@dataclass(frozen=True)
class Storage:
    """A memory as hardware writes it: `depth` words of `width` bits, one write port with `granules` write enables (0: read only), `readers` ports.

    `clocked`: reads take a cycle; only such memories can be block RAM. `transparent`: what is written is read in the same cycle. `apart`: nobody uses
    what is read of a word while it is written (`hdl.apart`).
    """

    width: int
    depth: int
    readers: int = 1
    granules: int = 1
    clocked: bool = True
    transparent: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Mapped:
    """What a memory becomes: block RAMs, cells of LUT RAM (16 × 4 bits), or bits of flip-flops; `banks` of which one is chosen by the upper address."""

    blocks: int = 0
    cells: int = 0
    bits: int = 0
    banks: int = 1


@dataclass(frozen=True)
class _Ram:
    """One kind of block: `cost`, `address` bits for the narrowest of `widths`, bits per write enable (`byte`), the narrowest written width, LUT RAM or not,
    whether a word that is being written is read as it was (`old`), which otherwise takes logic, and whether only used bits cost (`scaled`)."""

    cost: int
    address: int
    widths: tuple[int, ...]
    byte: int
    least: int = 0
    distributed: bool = False
    old: bool = False
    scaled: bool = False


_LUTRAM = _Ram(4, 4, (4,), 4, distributed=True, old=True)
_RAMS: dict[str, tuple[_Ram, ...]] = {
    "ecp5": (
        _LUTRAM,
        _Ram(128, 14, (1, 2, 4, 9, 18), 9),
        _Ram(128, 14, (1, 2, 4, 9, 18, 36), 9, least=9),
    ),
    "nexus": (
        _LUTRAM,
        _Ram(129, 14, (1, 2, 4, 9, 18), 9),
        _Ram(128, 14, (1, 2, 4, 9, 18, 36), 9, old=True),
    ),
    "gowin": (
        _Ram(4, 4, (4,), 4, distributed=True, old=True, scaled=True),
        _Ram(128, 14, (1, 2, 4, 9, 18, 36), 9),
    ),
    "ice40": (_Ram(64, 11, (2, 4, 8, 16), 1),),
}
#: (widest factors, narrowest factors) of the multipliers, the widest first
_MULTIPLIERS: dict[str, tuple[tuple[tuple[int, int], tuple[int, int]], ...]] = {
    "ecp5": (((18, 18), (2, 2)),),
    "amd": (((27, 18), (2, 2)),),
    "nexus": (
        ((36, 36), (22, 22)),
        ((36, 18), (22, 10)),
        ((18, 18), (10, 4)),
        ((18, 18), (4, 10)),
        ((9, 9), (4, 4)),
    ),
}


@lru_cache(maxsize=4096)
def map_storage(memory: Storage, family: str) -> Mapped:
    """Return what a memory becomes on a family of parts; for AMD's, where Yosys is not asked, halves of block RAM (512 words of 36 bits)."""
    if memory.depth <= 1:
        return Mapped(bits=memory.width * memory.depth)
    if family not in _RAMS:
        return _coarse(memory)
    best = memory.width * memory.depth if memory.granules else memory.width * memory.depth // 16
    found = Mapped(bits=memory.width * memory.depth)
    for ram in _RAMS[family]:
        if (ram.distributed and not memory.granules) or (
            not ram.distributed and not memory.clocked
        ):
            continue
        cost, units, banks = min(_geometries(memory, ram))
        if cost < best:
            best = int(cost)
            count = memory.readers * units
            found = (
                Mapped(cells=count, banks=banks)
                if ram.distributed
                else Mapped(blocks=count, banks=banks)
            )
    return found


def _geometries(memory: Storage, ram: _Ram) -> Iterator[tuple[float, int, int]]:
    """Yield (cost, blocks of one copy, banks) for each width of the block's."""
    granules = max(memory.granules, 1)
    for log, unit in enumerate(ram.widths):
        if unit < ram.least:
            continue
        byte = min(ram.byte, unit) if memory.granules else 1
        padded = granules * -(-(memory.width // granules) // byte) * byte
        banks = -(-memory.depth // (1 << (ram.address - log)))
        units = -(-banks * padded // unit)
        read_first = 3 * (
            memory.granules > 0 and not ram.old and not memory.transparent and not memory.apart
        )
        emulated = read_first + memory.readers * (1 + 3 * (memory.transparent or read_first > 0))
        used = banks * memory.width / unit if ram.scaled else units
        cost = (
            ram.cost * used * memory.readers
            + (banks - 1) * memory.width * memory.readers / 2
            + 2 * emulated
        )
        yield cost + (banks * granules / 2 if banks > 1 and memory.granules else 0), units, banks


def _coarse(memory: Storage) -> Mapped:
    if memory.depth <= 32 or (not memory.granules and memory.depth * memory.width <= 1024):
        return Mapped(cells=memory.readers * -(-memory.width // 4) * -(-memory.depth // 16))
    return Mapped(blocks=memory.readers * -(-memory.width // 36) * -(-memory.depth // 512))


def multiplier_blocks(factors: Iterable[tuple[int, int]], family: str) -> int:
    """Return the multiplier blocks of products of factors with these widths (bits, each with its own signedness)."""
    return sum(_blocks(max(a, b), min(a, b), family) for a, b in factors)


@lru_cache(maxsize=4096)
def _blocks(a: int, b: int, family: str) -> int:
    rules = _MULTIPLIERS.get(family, _MULTIPLIERS["ecp5"])
    for (wide, narrow), (least_a, least_b) in rules:
        if (
            a >= least_a and b >= least_b
        ):  # parts of the widest size; what is left over may be too narrow for a block
            pieces = [
                (min(wide, a - i), min(narrow, b - j))
                for i in range(0, a, wide)
                for j in range(0, b, narrow)
            ]
            return sum(
                min(piece) >= min(least_a, least_b) and max(piece) >= max(least_a, least_b)
                for piece in pieces
            )
    return 0
