"""Which blocks of a part memories and multipliers become: the rules of Yosys' `memory_libmap` and `mul2dsp`, as numbers.

A memory goes where it is cheapest: flip-flops (a unit for each bit; a sixteenth of that without a write port), LUT RAM, or block RAM. A block has
a choice of widths; a memory is cut into so many columns of a width and so many banks of the depth that goes with it. Banks cost half a unit for each bit
of the multiplexers behind them, and for each decoded write enable. Costs, widths and depths are those of Yosys' library files (`techlibs/*/brams.txt`,
`lutrams.txt`) as of Yosys 0.50 to 0.70.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .target import Capacity

#: depth and width of a memory
Shape = tuple[int, int]

#: queues of up to this many bits read combinationally (LUT RAM); larger ones read with the clock, and see what is written
DISTRIBUTED_BITS = 2048
#: of an UltraRAM (AMD UG573)
ULTRA_BITS = 4096 * 72


@dataclass(frozen=True)
class Storage:
    """A memory as hardware writes it: `depth` words of `width` bits."""

    width: int
    depth: int
    readers: int = 1  #: ports to read
    granules: int = 1  #: write enables of the one write port; 0: read only
    clocked: bool = True  #: reads take a cycle; only such memories can be block RAM
    transparent: bool = False  #: what is written is read in the same cycle
    apart: bool = False  #: nobody uses what is read of a word while it is written (`hdl.apart`)

    @property
    def shape(self) -> Shape:
        return self.depth, self.width


@dataclass(frozen=True)
class Mapped:
    """What a memory becomes."""

    blocks: int = 0  #: block RAMs, AMD's in halves of 18 Kb
    cells: int = 0  #: cells of LUT RAM: four look-up tables
    bits: int = 0  #: bits of flip-flops
    banks: int = 1  #: banks, of which the upper address chooses one
    ultra: int = 0  #: UltraRAMs


@dataclass(frozen=True)
class _Ram:
    """One kind of block."""

    cost: int
    address: int  #: bits for the narrowest of `widths`
    widths: tuple[int, ...]
    byte: int  #: bits per write enable
    least: int = 0  #: the narrowest written width
    distributed: bool = False  #: it is LUT RAM
    #: a word that is being written is read as it was, which otherwise takes logic
    old: bool = False
    #: a word that is being written is read as it becomes, which otherwise takes logic
    new: bool = False
    scaled: bool = False  #: only used bits cost
    readers: int = 1  #: of a copy, beside its writer
    roms: int = 1  #: readers of a copy without a writer
    cells: int = 1  #: of LUT RAM, in a copy
    blocks: int = 1  #: in a copy

    @property
    def huge(self) -> bool:
        return not self.blocks


def _amd_luts(readers: int, *widths: int) -> Iterator[_Ram]:
    """Yield eight look-up tables as LUT RAM of 32, 64 … words of these widths."""
    for log, width in enumerate(widths):
        yield _Ram(
            16,
            5 + log,
            (width,),
            width,
            distributed=True,
            old=True,
            scaled=True,
            readers=readers,
            cells=2,
        )


def _amd_blocks(cost: int, address: int, blocks: int) -> Iterator[_Ram]:
    """Yield a block RAM with two ports for either, and with one to write and one to read, which may be twice as wide."""
    widths = (1, 2, 4, 9, 18, 36, 72)[: address - 8]
    yield _Ram(cost, address, widths[:-1], 9, old=True, roms=2, blocks=blocks)
    yield _Ram(cost, address, widths, 9, old=True, blocks=blocks)


_ULTRA = tuple(_Ram(1024, 12, (72,), byte, old=True, new=True, blocks=0) for byte in (8, 9))
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
    "amd": (
        *_amd_luts(1, 8, 4, 2, 1),
        *_amd_luts(3, 4, 2),
        *_amd_luts(7, 2, 1),
        *_amd_luts(1, 14, 7),
        *_amd_blocks(129, 14, 1),
        *_amd_blocks(257, 15, 2),
    ),
}
#: widths of both factors of a product, signed ones where either is, and whether both are unsigned
Factors = tuple[int, int, bool]
#: (widest factors, narrowest factors) of the multipliers, the widest first
_MULTIPLIERS: dict[str, tuple[tuple[tuple[int, int], tuple[int, int]], ...]] = {
    "ecp5": (((18, 18), (2, 2)),),
    "nexus": (
        ((36, 36), (22, 22)),
        ((36, 18), (22, 10)),
        ((18, 18), (10, 4)),
        ((18, 18), (4, 10)),
        ((9, 9), (4, 4)),
    ),
}


@lru_cache(maxsize=4096)
def map_storage(memory: Storage, family: str, ultra: bool | None = False) -> Mapped:
    """Return what a memory becomes on a family of parts: never UltraRAM, nothing else (`ultra`), or what is cheaper (None)."""
    bits = memory.width * memory.depth
    if memory.depth <= 1:
        return Mapped(bits=bits)
    best = (
        float("inf")
        if ultra
        else bits
        if memory.granules
        else bits // (64 if family == "amd" else 16)
    )
    mapping = Mapped(bits=bits)
    kinds = (*(() if ultra else _RAMS[family]), *(() if ultra is False else _ULTRA))
    for ram in kinds:
        if not (memory.granules if ram.distributed else memory.clocked):
            continue
        cost, units, banks = _cheapest(memory, ram)
        if cost < best:
            best = int(cost)
            if ram.distributed:
                mapping = Mapped(cells=units * ram.cells, banks=banks)
            elif ram.huge:
                mapping = Mapped(ultra=units, banks=banks)
            else:
                mapping = Mapped(blocks=units * ram.blocks, banks=banks)
    return mapping


def _cheapest(memory: Storage, ram: _Ram) -> tuple[float, int, int]:
    """Return (cost, blocks, banks) of the width that costs least; of those that cost about as much the narrowest."""
    granules = max(memory.granules, 1)
    best: tuple[float, int, int] | None = None
    copies = -(-memory.readers // (ram.readers if memory.granules else ram.roms))
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
        seen = (memory.transparent and not ram.new) or read_first > 0
        used = banks * memory.width / unit if ram.scaled else units
        cost = (
            ram.cost * used * copies
            + (banks - 1) * memory.width * memory.readers / 2
            + 2 * (read_first + memory.readers * (1 + 3 * seen))
            + (banks * granules / 2 if banks > 1 and memory.granules else 0)
        )
        if best is None or cost < int(best[0]):
            best = cost, units * copies, banks
    assert best is not None
    return best


def ultra_shapes(memories: Iterable[tuple[int, Storage]], part: Capacity) -> frozenset[Shape]:
    """Return (depth, width) of those of a design's memories, given with how many there are of each, that become UltraRAM.

    They are clocked, start empty and have one reader beside the writer, and a part's share of UltraRAM goes down by less than that of block RAM. The deepest go
    first, until the larger one of both shares is least.
    """
    if not part.uram:
        return frozenset()
    groups: dict[Shape, list[tuple[int, Storage]]] = {}
    for copies, memory in memories:
        groups.setdefault(memory.shape, []).append((copies, memory))
    halves, huge, candidates = 0, 0, []
    for shape, group in groups.items():
        saved = sum(copies * map_storage(memory, part.family).blocks for copies, memory in group)
        halves += saved
        if all(m.clocked and m.granules and m.readers == 1 for _, m in group):
            taken = sum(copies * map_storage(m, part.family, True).ultra for copies, m in group)
            if 2 * part.bram * taken < part.uram * saved:
                candidates.append((shape, saved, taken))
    best, shapes, count = halves / part.bram / 2, [], 0
    for shape, saved, taken in sorted(candidates, reverse=True):
        halves, huge = halves - saved, huge + taken
        shapes.append(shape)
        if (share := max(halves / part.bram / 2, huge / part.uram)) < best:
            best, count = share, len(shapes)
    return frozenset(shapes[:count])


def memory_blocks(memories: Iterable[tuple[int, Storage]], part: Capacity) -> tuple[int, int]:
    """Return how many block RAMs and UltraRAMs a design's memories take of a part."""
    memories = list(memories)
    shapes = ultra_shapes(memories, part)
    blocks = huge = 0
    for copies, memory in memories:
        mapping = map_storage(memory, part.family, memory.shape in shapes)
        blocks, huge = blocks + copies * mapping.blocks, huge + copies * mapping.ultra
    return -(-blocks // 2) if part.family == "amd" else blocks, huge


def ram_styles(memories: Iterable[tuple[int, Storage]], part: Capacity) -> dict[Shape, str]:
    """Return what synthesis has to be told of memories by (depth, width): which become UltraRAM, and which do not although it would have them there."""
    memories = list(memories)
    shapes = ultra_shapes(memories, part)
    return {
        shape: "ultra" if shape in shapes else "block"
        for _, memory in memories
        if (shape := memory.shape) in shapes
        or (part.uram and map_storage(memory, part.family, None).ultra)
    }


def multiplier_blocks(factors: Iterable[Factors], family: str) -> int:
    """Return the multiplier blocks that products take."""
    rule = _dsp48 if family == "amd" else _blocks
    return sum(rule(max(a, b), min(a, b), bare, family) for a, b, bare in factors)


def by_constant(bits: int, constant: int) -> Factors:
    """Return the factors of a product of so many bits and a constant, whose low zeros are a shift; the product of a power of two is one alone."""
    return bits, (constant // (constant & -constant)).bit_length(), True


@lru_cache(maxsize=4096)
def _dsp48(a: int, b: int, bare: bool, family: str) -> int:
    """Return the blocks of an UltraScale+ part, 27 × 18 bits and signed: what is wider is cut into pieces of 17 bits, from below, and what is left over."""
    if b < 2 or a + b < 9:
        return 0
    return (1 + -(-max(a + bare - 27, 0) // 17)) * (1 + -(-max(b + bare - 18, 0) // 17))


@lru_cache(maxsize=4096)
def _blocks(a: int, b: int, bare: bool, family: str) -> int:
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
