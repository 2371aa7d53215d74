"""What a map is expected to take of a part."""

from __future__ import annotations

from ..resources import SCALE, Resources, memory_blocks
from ..target import Target
from .config import OmapConfig
from .cycles import PENDING

__all__ = ["estimate"]

#: look-up tables of an ECP5: a round of Ascon, a sponge without its rounds, what a comparator's bit takes, control
_ROUND, _SPONGE, _COMPARE, _CONTROL = 1_000, 900, 0.7, 9_000


def estimate(config: OmapConfig, part: Target) -> Resources:
    """Return the resources of a map on a part. An estimate: no map has been placed yet."""
    cores = config.openers + config.sealers + 2
    slots = 2 * config.slots + 1
    lut: float = cores * (_SPONGE + config.rounds * _ROUND) + config.rounds * _ROUND + _CONTROL
    lut += PENDING * config.window * config.bin_bits * _COMPARE
    lut += 4 * config.record_bytes * 8 * 2 + slots * config.frame_bits * 4
    ff = cores * 700 + 4 * config.record_bytes * 16 + PENDING * config.window * config.bin_bits
    ff += 4_000
    memories = [
        (128, 1 << max(config.page_blocks - 1, 1).bit_length(), 2 * config.sealers),
        (config.frame_bits, config.frames, 1),
        (8 * config.bus_bytes, slots * config.frame_beats, 1),
        (8 * config.bus_bytes, config.pages_in_flight * config.page_beats, 1),
        (128, config.pages_in_flight * config.page_blocks, 1),
        (8 * config.bus_bytes, config.window * config.message_beats, 2),
        (2 * slots * config.frame_bits, config.window, 1),
    ]
    blocks = 0
    for width, depth, count in memories:
        found, more = memory_blocks(width, depth, 1, part)
        blocks += count * found
        lut += count * more
    return Resources(round(lut * SCALE[part.family]), round(ff), 0, blocks)
