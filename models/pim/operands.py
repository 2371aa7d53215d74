"""What passes of tokens compute with, and the range of numbers that a device takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..numerics.floating import float16
from ..numerics.mx import BIAS, FAMILY, LARGEST

MX8 = FAMILY["mx8"]
Floats = NDArray[np.float64]


def largest(format: str) -> float:
    """Return the largest number of "mx8" or "float16"."""
    if format == "mx8":
        return float(np.ldexp(MX8.largest_magnitude, LARGEST - BIAS - MX8.magnitude_bits + 1))
    return float(float16.decode(float16.infinity - 1))


def beyond(format: str, values: Floats) -> NDArray[np.bool_]:
    """Return which numbers, rounded, lie beyond the range of "mx8" or "float16"."""
    magnitude = np.abs(np.asarray(values, dtype=np.float64))
    if format == "mx8":
        last = np.ldexp(1.0, LARGEST - BIAS - MX8.magnitude_bits + 1)  # place of the largest number
        return magnitude >= largest(format) + last / 2
    return np.isinf(float16.decode(float16.encode(magnitude)))


def coded(format: str, values: Floats) -> NDArray[np.uint8]:
    """Return numbers as bytes: of 16 a group in MX8, of 2 bytes each in float16."""
    if format == "mx8":
        return MX8.pack(MX8.encode(values))
    return np.ascontiguousarray(float16.encode(values).astype("<u2")).view(np.uint8)


def decoded(format: str, data: NDArray[np.uint8]) -> Floats:
    """Return the numbers of what `coded` gave."""
    if format == "mx8":
        return MX8.decode(MX8.unpack(data))
    return float16.decode(np.ascontiguousarray(data).view("<u2").astype(np.int64))


class Operands(NamedTuple):
    """What a pass computes with, in float64: k, q (tokens, items, dim_head), v (tokens, items, dim_state), the rates
    c = 1 − d (tokens, items, dim_head, or 1 where a head has a single one);
    items are requests times heads. Those that a pass lacks are None."""

    q: Floats | None = None
    c: Floats | None = None
    k: Floats | None = None
    v: Floats | None = None


class Work(NamedTuple):
    """What some tokens, from `first` of the run on, take in one of their passes, by its number."""

    number: int
    first: int
    given: Operands


class Bits(NamedTuple):
    """Whose random bits: the seed, the request's own, and the number of the first token."""

    seed: int
    request: int
    first: int


class Put(NamedTuple):
    """A REG_WRITE to several banks: masks of bank groups of the set and of the banks of each, the register, and 32 bytes."""

    groups: int
    banks: int
    register: str
    data: NDArray[np.uint8]


def shared(
    banks: int,
    names: Sequence[str],
    data: NDArray[np.uint8],
    seeds: NDArray[np.uint8] | None,
    units: int = 1,
) -> tuple[Put, ...]:
    """Return the REG_WRITEs of a round (models.pim.device.Step) that send each operand once to all banks of a set which take it, where groups of
    `banks` have it at the same places; seeds of pairs with so many `units` come last. Those of two pairs of a group with one unit each come
    together, the second in the upper half, by the pair's bottom bank."""
    puts = []
    for index, name in enumerate(names):
        masks: dict[
            bytes, dict[int, int]
        ] = {}  # of each operand: the banks of each group that take it
        for place, content in enumerate(data[:, index]):
            group, bank = divmod(place, banks)
            of = masks.setdefault(content.tobytes(), {})
            of[group] = of.get(group, 0) | 1 << bank
        for operand, of in masks.items():
            groups: dict[int, int] = {}
            for group, mask in of.items():
                groups[mask] = groups.get(mask, 0) | 1 << group
            content = np.frombuffer(operand, dtype=np.uint8)
            puts += [Put(which, mask, name, content) for mask, which in groups.items()]
    both = units == 1 and banks > 2
    if seeds is None:
        return tuple(puts)
    for pair in range(0, len(seeds), 1 + both):
        group, bank = divmod(2 * pair, banks)
        content = np.concatenate([seeds[pair, :16], seeds[pair + both, 16 * (not both) :][:16]])
        puts.append(Put(1 << group, (1 | both << 3) << bank, "seed", content))
    return tuple(puts)


@dataclass(frozen=True)
class Seating:
    """Where the parts of items lie in a step of a session, instead of in order."""

    slots: tuple[int, ...]  #: of each part, seat · pairs + pair
    rows: tuple[int, ...]  #: the first row of each seat
    idle: tuple[int, ...]  #: slots of requests that take no step, which keep their bits
    bits: tuple[Bits, ...]  #: of each request
    layer: int = 0  #: theirs
