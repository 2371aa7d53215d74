"""Resources of a memory port with its Striders: its memories, counted from what the hardware is written with, its look-up tables and flip-flops from its
parts.

The hardware has its memories in `hdl.strider.pages`, `.tuples` and `.pipeline`. What a part takes was found by synthesis for an ECP5 (benchmarks/estimates.py
`--fit`); other families get it in proportion.
"""

from collections.abc import Collection, Iterator

from ..mapping import Shape, Storage, map_storage
from ..numerics.latency import convert_cost
from ..numerics.limbs import OFFSET_BITS, UNIT_BITS, Limbs
from .config import PortConfig
from .isa import Op as Step

#: look-up tables of one of each kind of thing that `features` counts
COEFFICIENTS = {
    "port": 52.0,
    "strider": 1641.0,
    "array": 494.0,
    "windows": 1.0,
    "converters": 0.59,
    "banks": 2.03,
    "cells": 6.0,
    "collector": 5.7,
}


def memories(port: PortConfig) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory) of a port: page buffers (two banks of bus words), tuple buffers (one memory a lane), programs."""
    banks = (
        1 if port.fixed is not None and port.fixed.granule >= port.bus_bytes else 2
    )  # one where windows are bus words
    yield (
        banks * port.striders,
        Storage(8 * port.bus_bytes, port.buffers * port.words_per_page // banks),
    )
    yield (
        port.striders * port.lanes,
        Storage(port.format.width, port.slots * port.beats, apart=True),
    )
    if isinstance(port.format, Limbs):  # units by flat position, beside each converter
        elements = max(port.elements(name) for name in port.types)
        yield port.striders * elements, Storage(OFFSET_BITS, port.lanes * port.beats, apart=True)
        yield port.striders * elements, Storage(UNIT_BITS, port.lanes * port.beats, apart=True)
    if port.fixed is None:
        yield port.striders, Storage(96, port.program_depth)
    else:
        yield port.striders, Storage(port.fixed.width, len(port.fixed.words), granules=0)


def features(port: PortConfig, family: str, ultra: Collection[Shape] = ()) -> dict[str, float]:
    """Return how many of each kind of thing there are in a port: `COEFFICIENTS` has what one takes; `ultra`: memories in UltraRAM."""
    striders = port.striders
    steps = (
        {instruction.op for instruction in port.fixed.instructions}
        if port.fixed is not None
        else set(Step)
    )
    # a Strider has a shifter as wide as the bus (the fitted ones had buses of 8 bytes), and a converter for each element of a window
    windows = 8 * max(0, port.bus_bytes * (port.bus_bytes.bit_length() - 1) - 24)
    converters = max(port.elements(name) for name in port.types)
    mapped = [
        (copies, memory, map_storage(memory, family, memory.shape in ultra))
        for copies, memory in memories(port)
    ]
    arrays = (
        striders * (Step.ARR in steps) * (2.75 if port.bus_bytes < 8 else 1)
    )  # on a narrow bus a header comes in several words
    return {
        "port": 1,
        "strider": striders,
        "array": arrays,
        "windows": striders * windows,
        "converters": striders * converters * convert_cost(port.types, port.format).lut,
        "banks": sum(copies * (ram.banks - 1) * memory.width for copies, memory, ram in mapped),
        "cells": sum(copies * ram.cells for copies, _, ram in mapped),
        "collector": (striders - 1) * port.lanes * port.format.width,
    }


def flops(port: PortConfig) -> float:
    elements = max(port.elements(name) for name in port.types)
    return 200 + port.striders * (
        530
        + 4 * port.bus_bytes
        + 0.6 * elements * convert_cost(port.types, port.format).ff
        + 30 * port.lanes
    )
