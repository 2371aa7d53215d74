"""The image of HBM: position map, records of bins and frames as bytes, and what they say.

Fields lie in entries and records as in `hdl.omap.layout`, the first one lowest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .config import KEY_BYTES, OmapConfig
from .golden import Item, Map

__all__ = ["Entry", "Record", "entries", "frame", "image", "records"]

_COUNTER = 64


class Entry(NamedTuple):
    """An entry that is taken: the key, the bin that holds its item, and its frame in HBM."""

    key: int
    bin: int
    frame: int


class Record(NamedTuple):
    """How often a page was written, the items of its bin, and the frames of those that wait."""

    counter: int
    load: int
    frames: tuple[int, ...]


def _fields(value: int, *widths: int) -> Iterator[int]:
    for width in widths:
        yield value & (1 << width) - 1
        value >>= width


def _joined(*fields: tuple[int, int]) -> int:
    value = at = 0
    for field, width in fields:
        value |= field << at
        at += width
    return value


def _number(text: bytes, at: int, size: int) -> int:
    return int.from_bytes(text[at : at + size], "little")


def entries(config: OmapConfig, text: bytes) -> Iterator[Entry]:
    """Yield the entries of an image's position map that are taken."""
    width = config.entry_bytes
    for place in range(config.buckets * config.bucket_slots):
        value = _number(text, place * width, width)
        sizes = 8 * KEY_BYTES, 1, 1, config.bin_bits, config.bin_bits, config.frame_bits
        key, valid, *where = _fields(value, *sizes)
        if valid:
            yield Entry(key, where[1 + where[0]], where[-1])


def records(config: OmapConfig, text: bytes) -> Iterator[Record]:
    """Yield the records of an image's bins."""
    bits = config.load_bits
    for number in range(config.bins):
        value = _number(text, config.records_at + number * config.record_bytes, config.record_bytes)
        counter, load, waiting = _fields(value, _COUNTER, bits, bits)
        sizes = [config.frame_bits] * min(waiting, config.slots)
        frames = _fields(value >> _COUNTER + 2 * bits, *sizes)
        yield Record(counter, load, tuple(frames))


def frame(config: OmapConfig, text: bytes, number: int) -> Item:
    """Return the item in a frame of an image."""
    at = config.frames_at + number * config.frame_bytes
    end = at + KEY_BYTES + config.value_bytes
    return Item(_number(text, at, KEY_BYTES), text[at + KEY_BYTES : end])


def image(box: Map) -> bytes:
    """Return an image that says what a map holds. Places within buckets, and frames, are taken in
    order: hardware's may be others."""
    config = box.config
    out = bytearray(config.hbm_bytes)
    frames: dict[int, int] = {}
    for number, item in enumerate(box.framed(), 1):
        at = config.frames_at + number * config.frame_bytes
        text = item.key.to_bytes(KEY_BYTES, "little") + item.value
        out[at : at + len(text)] = text
        frames[item.key] = number
    filled = [0] * config.buckets
    for key, place in box.places():
        value = _joined(
            (key, 8 * KEY_BYTES),
            (1, 1),
            (place.second, 1),
            (place.pair[0], config.bin_bits),
            (place.pair[1], config.bin_bits),
            (frames.get(key, 0), config.frame_bits),
        )
        at = place.bucket * config.bucket_bytes + filled[place.bucket] * config.entry_bytes
        filled[place.bucket] += 1
        out[at : at + config.entry_bytes] = value.to_bytes(config.entry_bytes, "little")
    for number in range(config.bins):
        page = number - config.hbm_bins
        counter = box.page(page)[0] if page >= 0 else 0
        load, waiting = box.bin(number)
        taken: Sequence[int] = [frames[key] for key in waiting]
        value = _joined(
            (counter, _COUNTER),
            (load, config.load_bits),
            (len(taken), config.load_bits),
            *((one, config.frame_bits) for one in taken),
        )
        at = config.records_at + number * config.record_bytes
        out[at : at + config.record_bytes] = value.to_bytes(config.record_bytes, "little")
    return bytes(out)
