"""The memories that the hardware of a map is written with, as data: those with clocked reads, which may become blocks, and the cipher cores' own.

Smaller queues are LUT RAM, and counted with the logic beside them. `tests/omap/test_resources.py` holds the list against the hardware's netlist.
"""

from collections.abc import Iterator

from ..mapping import DISTRIBUTED_BITS, Storage
from .back import BackSchedule
from .boundary import Frames
from .config import OmapConfig, power_of_two
from .front_schedule import FrontSchedule
from .shell import WALK_BITS

#: bits of a command to HBM: address and length; of a length alone
_COMMAND, _LENGTH = 64, 24
#: bits of what is known of a request that comes, that was opened, and of an answer
_ASKED, _OPENED, _RULED = 336, 153, 89
#: bits of what is known beside that of a record; of one of the past's incarnations, and how many there may be
_RECORD, _LINK, _LINKS = 192, 193, 256
#: of the table of sessions
_SLOTS = 64
#: pages that are read and whose write is not answered yet, for each request in flight
PENDING = 4


def memories(config: OmapConfig, state: bool = False) -> Iterator[tuple[int, Storage]]:
    """Yield (copies, memory). `state`: of a map that keeps its state."""
    yield from _ciphers(config)
    yield from _sessions(config, state)
    if state:
        yield 1, Storage(_LINK, _LINKS)
        lanes = config.bus_bytes // config.entry_bytes
        words = power_of_two(((1 << WALK_BITS) - 1) * config.bucket_beats)
        yield 1, Storage(lanes * (1 + 8 * config.key_bytes), words)
    for copies, width, depth in (
        *_requests_and_pages(config),
        *_front(config),
        *_back(config),
    ):
        if width * depth > DISTRIBUTED_BITS:
            yield copies, Storage(width, depth, transparent=True)
    yield from _stores(config)


def _bits(count: int) -> int:
    return max((count - 1).bit_length(), 1)


def _rows(config: OmapConfig, items: int, parts: int) -> int:
    """Return the rows of RAM of a text of so many items of `parts` blocks, a power of two."""
    return power_of_two(max(items * -(-parts // config.merge_blocks), 2))


def _ciphers(config: OmapConfig) -> Iterator[tuple[int, Storage]]:
    """Texts of pages on both sides of the cipher cores (`hdl.omap.sealing`): plain ones in rows, and words of the bus."""
    lanes, merge, bus = config.host_bus_bytes // 16, config.merge_blocks, 8 * config.host_bus_bytes
    page = -(-config.chunks * (config.chunk_blocks + 1) // lanes)
    rows = _rows(config, config.slots, config.slot_blocks)
    slots = max(config.pages_in_flight // config.cores.openers, 1)
    yield config.cores.openers, Storage(128 * merge, max(slots, 2) * rows, granules=merge)
    yield config.cores.sealers, Storage(128 * merge, 2 * rows)
    for copies, width, depth in (
        (config.cores.openers, 129, slots),
        (config.cores.openers, bus, slots * page),
        (config.cores.sealers, bus, 2 * page),
    ):
        if width * depth > DISTRIBUTED_BITS:
            yield copies, Storage(width, depth, transparent=True)


def _sessions(config: OmapConfig, state: bool) -> Iterator[tuple[int, Storage]]:
    """Frames, and records, on both sides of their cipher cores (`hdl.omap.envelopes`), and the table of sessions."""
    frames, merge, bus = Frames.of(config), config.merge_blocks, 8 * config.host_bus_bytes
    cores, slots = config.cores.request_openers, config.window // config.cores.request_openers
    room = _rows(config, 1, frames.request_blocks)
    yield cores, Storage(128 * merge, max(slots, 2) * room, granules=merge)
    answer = 2 * power_of_two(max(frames.answer_blocks, 2))
    sealers = config.cores.responders * (1 + 2 * state)
    yield sealers, Storage(128, answer, transparent=True)
    for copies, width, depth in (
        (cores, _ASKED, slots),
        (cores, _OPENED + _RECORD * state, slots),
        (cores, bus, slots * frames.beats),
        (sealers, bus, 2 * frames.beats),
        (1, _RULED, config.window),
    ):
        if width * depth > DISTRIBUTED_BITS:
            yield copies, Storage(width, depth, transparent=True)
    for copies, width in ((1, 3), (1, 64), (2, 256)):
        yield copies, Storage(width, _SLOTS, transparent=True)


def _requests_and_pages(config: OmapConfig) -> Iterator[tuple[int, int, int]]:
    """Yield (copies, width, depth) of the queues of requests and pages."""
    flight, window = config.pages_in_flight, config.window
    yield 1, _LENGTH, window
    yield 1, config.bin_bits, flight  # pages to read
    yield 1, _LENGTH, flight
    yield 1, config.bin_bits, flight  # those that are commanded, and their counters
    yield 1, 64, flight
    yield 1, config.bin_bits, PENDING * window
    yield 1, 8, PENDING * window


def _port(
    config: OmapConfig, reads: int, words: int, writes: int, beats: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the queues of a port to HBM (`hdl.omap.hbm`)."""
    bus = config.bus_bytes
    yield 1, _COMMAND, reads
    yield 1, _LENGTH, reads
    yield 1, 8 * bus, words
    yield 1, _COMMAND, writes
    yield 1, 9 * bus, beats


def _front(config: OmapConfig) -> Iterator[tuple[int, int, int]]:
    front = FrontSchedule.of(config)
    scans = front.within(front.hashed, front.decided)
    yield from _port(config, 2 * scans, 2 * config.bucket_beats * scans, 4, 4)
    asks, beats = front.within(front.ask, front.placed), 4 * config.record_beats
    yield from _port(config, 4 * asks, beats * asks, 8, 2 * beats)
    bucket, slot = _bits(config.buckets), _bits(config.bucket_slots)
    key, bins = 8 * config.key_bytes, 4 * config.bin_bits
    yield 1, 8 + key + 2 * bucket + bins, front.within(front.hashed, front.decided + 1)
    source = front.kept_entries.bit_length()
    decision = key + 7 + config.frame_bits + source + bucket + slot + bins
    yield 1, decision, front.within(front.decided, front.placed + 2)


def _back(config: OmapConfig) -> Iterator[tuple[int, int, int]]:
    back, window = BackSchedule.of(config), config.window
    frame, frames = config.frame_bits, config.slots * config.frame_bits
    side = 66 + config.bin_bits + 2 * config.load_bits
    yield 1, 8 * config.key_bytes + 5 + frame + 2 * side, window
    yield 1, 2 * (frames + config.slots.bit_length()) + 1 + frame, window
    fetches = back.due // back.fetch + 2
    yield 2, _LENGTH, config.slots * fetches
    yield 2, config.slots.bit_length(), fetches
    yield 2, _COMMAND, 2 * config.slots
    yield 2, back.due.bit_length() + 1, fetches
    stores = back.stored // back.apart + 2
    yield 1, _COMMAND, stores
    yield 1, 8 * config.bus_bytes, stores * config.frame_beats
    yield 1, back.stored.bit_length() + 1, stores


def _stores(config: OmapConfig) -> Iterator[tuple[int, Storage]]:
    """Yield what is no queue: free frames, records and items that HBM may not show yet, and frames that were fetched."""
    front, back = FrontSchedule.of(config), BackSchedule.of(config)
    yield 1, Storage(front.packed * config.frame_bits, front.words)
    record = 64 + 2 * config.load_bits + config.slots * config.frame_bits
    yield 1, Storage(record, 4 << front.kept_records.bit_length())
    # two of the three readers see what is written in the same cycle
    width = (max(config.slot_rows, 2) - 1).bit_length()
    yield 1, Storage(128 * config.merge_blocks, back.items << width, 3, transparent=True)
    beats = power_of_two(max(config.slots * config.frame_beats, 2))
    slots = power_of_two(max(config.slots, 2))
    yield 2, Storage(1 + (back.items - 1).bit_length(), config.window * slots)
    yield 2, Storage(8 * config.bus_bytes, config.window * beats)
