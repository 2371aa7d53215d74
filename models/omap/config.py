"""What an oblivious map is made of, and where everything lies in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..crypto.ascon import ROUNDS, Pace, pace
from ..fields import part_of
from ..memory.dealt import CHUNK_BITS

#: bytes of a cipher's block, the unit of all data paths
BLOCK = 16
#: items of the largest map, and cycles of its longest deadline
MOST_ITEMS, MOST_CYCLES = 1 << 30, 4096
#: bytes by which regions of memory are aligned: no burst crosses a multiple of them
_REGION = 1 << CHUNK_BITS
#: bytes of a key in the device, by what clients name items with: numbers are keys, others are hashed to them
KEYS = {"u64": 8, "bytes": 16, "text": 16}


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def power_of_two(least: int) -> int:
    """Return the least power of two that is no less."""
    return 1 << max(least - 1, 0).bit_length()


def digest_of(data: Any) -> str:
    """Return SHA-256 of plain data as canonical JSON, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check_ranges(record: Any, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Raise ValueError for a number out of its range."""
    for name, (low, high) in ranges.items():
        value = getattr(record, name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError(f"{name} must be an integer from {low} to {high}, not {value!r}")


def _check_powers(record: Any, *names: str) -> None:
    """Raise ValueError for a number that is no power of two."""
    for name in names:
        if (value := getattr(record, name)) & (value - 1):
            raise ValueError(f"{name} must be a power of two, not {value}")


@dataclass(frozen=True, kw_only=True)
class Cores:
    """Cores of ciphers, and what draws bins from their numbers."""

    openers: int = 4  #: of pages: a power of two
    sealers: int = 4  #: of pages: a power of two
    responders: int = 2  #: that seal responses: a power of two
    request_openers: int = 1  #: a power of two, at most `OmapConfig.window`
    generators: int = 1  #: cores that draw pairs of bins
    rounds: int = 1  #: of a cipher core a cycle

    def __post_init__(self) -> None:
        ranges = {"openers": (2, 64), "sealers": (2, 64), "responders": (1, 64)}
        _check_ranges(self, ranges | {"request_openers": (1, 256), "generators": (1, 16)})
        _check_powers(self, "openers", "sealers", "responders", "request_openers")
        if self.rounds not in ROUNDS:
            *few, last = ROUNDS
            names = f"{', '.join(map(str, few))} or {last}"
            raise ValueError(f"rounds must be {names}, not {self.rounds!r}")


@dataclass(frozen=True, kw_only=True)
class Access:
    """When HBM answers, over which channels, and how often it is asked."""

    deadline: int = 68  #: cycles after which every access is answered: the stated worst case
    frame_deadline: int = 0  #: of accesses to frames; 0: `deadline`
    beat_cycles: int = 1  #: cycles that a port takes for a bus word, in the long run
    #: channels of each port, a power of two: chunks of 4 KiB lie in one after another
    dealt: int = 1
    frames_dealt: int = 1  #: channels of each side's port to frames
    #: least cycles from one operation to the next one, which HBM asks for; 0: it asks for none
    pace: int = 0
    frame_pace: int = 0  #: least cycles from one merge to the next one

    def __post_init__(self) -> None:
        cycles = dict.fromkeys(("frame_deadline", "pace", "frame_pace"), (0, MOST_CYCLES))
        channels = dict.fromkeys(("dealt", "frames_dealt"), (1, 8))
        _check_ranges(
            self, {"deadline": (4, MOST_CYCLES), "beat_cycles": (1, 64)} | cycles | channels
        )
        _check_powers(self, "dealt", "frames_dealt")


@dataclass(frozen=True, kw_only=True)
class OmapConfig:
    """A map, as the planner decided it, and all sizes, widths and addresses that follow.

    Each item belongs to one of two *bins* drawn for it. A bin lies in HBM or is an encrypted *page* of the host. The *position map* (buckets of entries)
    says where each key's item is, a *record* what is known of a bin. A *frame* is the room of one item in HBM; items for a page wait in frames until it
    is opened, and are then *merged* into it. What an operation does: `models.omap.golden`.
    """

    capacity: int  #: items that it holds
    value_bytes: int  #: a multiple of 8, from 8 to 1024
    bins: int  #: bins in all; their mean load is `capacity / bins`
    hbm_bins: int  #: bins 0 to `hbm_bins - 1` lie in HBM; the others are pages of the host
    slots: int  #: items that a page holds
    #: of the position map: a power of two, at least 2: a key has one bucket in each half
    buckets: int
    bucket_slots: int  #: of a bucket
    frames: int  #: items that HBM holds: those of its bins, and those that wait for their page
    key: str = "u64"  #: what clients name items with, one of `KEYS`
    window: int = 32  #: requests in flight: a power of two
    chunks: int = 1  #: pieces of a page that are sealed apart
    cores: Cores = Cores()
    access: Access = Access()
    bus_bytes: int = 32  #: of a bus word of the ports to HBM
    host_bus_bytes: int = 32  #: of a bus word of the ports to pages, and to requests and responses
    #: blocks of a page that are merged a cycle: a power of two, no more than a word of HBM has
    merge_blocks: int = 1

    def __post_init__(self) -> None:
        ranges = {
            "capacity": (1, MOST_ITEMS),
            "value_bytes": (8, 1024),
            "bins": (2, 1 << 30),
            "hbm_bins": (0, self.bins - 1),
            "slots": (1, 64),
            "buckets": (2, 1 << 30),
            "bucket_slots": (1, 64),
            "frames": (2, 1 << 30),
            "window": (2, 256),
            "chunks": (1, 64),
        }
        _check_ranges(self, ranges)
        _check_ranges(self.cores, {"request_openers": (1, self.window)})
        _check_powers(self, "buckets", "window")
        self._check_shapes()

    def _check_shapes(self) -> None:
        """Raise ValueError for what ranges do not say."""
        if self.key not in KEYS:
            raise ValueError(f"key must be one of {', '.join(KEYS)}, not {self.key!r}")
        if self.value_bytes % 8:
            raise ValueError(f"value_bytes must be a multiple of 8, not {self.value_bytes}")
        for name in ("bus_bytes", "host_bus_bytes"):
            if getattr(self, name) not in (16, 32, 64, 128):
                raise ValueError(f"{name} must be 16, 32, 64 or 128, not {getattr(self, name)!r}")
        if self.merge_blocks not in (1, 2, 4, 8) or self.merge_blocks * BLOCK > self.bus_bytes:
            raise ValueError(
                f"merge_blocks must be 1, 2, 4 or 8, and at most the {self.bus_bytes // BLOCK} of a "
                f"word of HBM, not {self.merge_blocks!r}"
            )
        if self.bucket_bytes % self.bus_bytes or self.entry_bytes > self.bus_bytes:
            raise ValueError(
                f"the {self.bucket_slots} entries of a bucket must fill whole bus words: each has "
                f"{self.entry_bytes} bytes, a word {self.bus_bytes}"
            )
        if self.page_blocks % self.chunks:
            raise ValueError(
                f"chunks must divide a page's {self.page_blocks} blocks, not {self.chunks}"
            )

    @property
    def sealing_pace(self) -> Pace:
        """How long a cipher core takes."""
        return pace(self.cores.rounds)

    # sizes of items

    @property
    def key_bytes(self) -> int:
        return KEYS[self.key]

    @property
    def load(self) -> float:
        """Mean items of a bin."""
        return self.capacity / self.bins

    @property
    def alpha(self) -> float:
        """Share of the bins in HBM."""
        return self.hbm_bins / self.bins

    @property
    def host_bins(self) -> int:
        """Pages of the host."""
        return self.bins - self.hbm_bins

    @property
    def slot_blocks(self) -> int:
        """Blocks of an item: its key and its value, filled up."""
        return _up(self.key_bytes + self.value_bytes, BLOCK) // BLOCK

    @property
    def page_blocks(self) -> int:
        """Blocks of a page, without tags."""
        return self.slots * self.slot_blocks

    @property
    def slot_rows(self) -> int:
        """Cycles that an item takes in a merge."""
        return -(-self.slot_blocks // self.merge_blocks)

    @property
    def page_rows(self) -> int:
        """Cycles that the slots of a page take in a merge."""
        return self.slots * self.slot_rows

    @property
    def chunk_blocks(self) -> int:
        """Blocks of a piece of a page that is sealed apart, without its tag."""
        return self.page_blocks // self.chunks

    @property
    def page_bytes(self) -> int:
        """Bytes of a page that cross the host's port: ciphertext and tags, in whole bus words."""
        return _up((self.page_blocks + self.chunks) * BLOCK, self.host_bus_bytes)

    @property
    def page_beats(self) -> int:
        return self.page_bytes // self.host_bus_bytes

    @property
    def message_blocks(self) -> int:
        """Blocks of a request and of a response, without the tag: key, value, and 8 bytes with the
        operation or the status."""
        return _up(self.key_bytes + self.value_bytes + 8, BLOCK) // BLOCK

    @property
    def pages_in_flight(self) -> int:
        """Pages that are read and not yet merged."""
        return 2 * self.window

    @property
    def draw_cycles(self) -> int:
        """Cycles in which a generator draws a block: a permutation of 12 rounds, and two."""
        return 2 + 12 // self.cores.rounds

    # widths, bits

    @property
    def bin_bits(self) -> int:
        return (self.bins - 1).bit_length()

    @property
    def frame_bits(self) -> int:
        return (self.frames - 1).bit_length()

    @property
    def load_bits(self) -> int:
        return 8

    # HBM

    @property
    def entry_bytes(self) -> int:
        """An entry of the position map: valid, destination, frame, two bins, key."""
        bits = 2 + self.frame_bits + 2 * self.bin_bits + 8 * self.key_bytes
        return max(16, power_of_two(_up(bits, 8) // 8))

    @property
    def bucket_bytes(self) -> int:
        return self.bucket_slots * self.entry_bytes

    @property
    def walk_steps(self) -> int:
        """Operations of a snapshot's walk: one for each entry of the position map, and one at its end."""
        return self.buckets * self.bucket_slots + 1

    @property
    def freed_frames(self) -> int:
        """Frames that an operation frees, at most: those of two pages' items, and its own."""
        return 2 * self.slots + 1

    @property
    def bucket_beats(self) -> int:
        return self.bucket_bytes // self.bus_bytes

    @property
    def record_bytes(self) -> int:
        """What is known of a bin: counter of its page, load, items that wait and their frames."""
        bits = 64 + 2 * self.load_bits + self.slots * self.frame_bits
        return max(self.bus_bytes, power_of_two(_up(bits, 8) // 8))

    @property
    def record_beats(self) -> int:
        return self.record_bytes // self.bus_bytes

    @property
    def frame_bytes(self) -> int:
        """The stride of a frame."""
        return max(self.bus_bytes, power_of_two(self.slot_blocks * BLOCK))

    @property
    def frame_beats(self) -> int:
        """Bus words of a frame that are moved."""
        return _up(self.slot_blocks * BLOCK, self.bus_bytes) // self.bus_bytes

    @property
    def records_at(self) -> int:
        return _up(self.buckets * self.bucket_bytes, _REGION)

    @property
    def tables_bytes(self) -> int:
        """Bytes of the position map and of records."""
        return self.records_at + _up(self.bins * self.record_bytes, _REGION)

    @property
    def frames_bytes(self) -> int:
        """Bytes of all frames, in address spaces of their own."""
        return _up(self.frames * self.frame_bytes, _REGION)

    @property
    def hbm_bytes(self) -> int:
        return self.tables_bytes + self.frames_bytes

    @property
    def channel_bytes(self) -> int:
        """Bytes of the fullest channel of a port; where channels are joined, of those of a word together."""
        records = self.tables_bytes - self.records_at
        parts = (
            (self.records_at, self.access.dealt),
            (records, self.access.dealt),
            (self.frames_bytes, self.access.frames_dealt),
        )
        return max(_up(-(-size // n), _REGION) for size, n in parts)

    @property
    def channels(self) -> tuple[int, ...]:
        """Bytes of HBM by address space, from 1 on: channels of the position map and records, then of frames."""
        parts = (
            (self.tables_bytes, self.access.dealt),
            (self.frames_bytes, self.access.frames_dealt),
        )
        return tuple(_up(-(-size // n), _REGION) for size, n in parts for _ in range(n))

    @property
    def zeros(self) -> tuple[tuple[int, int], ...]:
        """First byte and bytes of the regions that are zero at first, by the port that clears them."""
        return (0, self.records_at), (self.records_at, self.tables_bytes - self.records_at)

    # the host

    @property
    def host_bytes(self) -> int:
        return _up(self.host_bins * self.page_bytes, _REGION)

    @property
    def bytes_per_operation(self) -> float:
        """Mean bytes that an operation moves over the host's port each way, without its request."""
        return 2 * (1 - self.alpha) * self.page_bytes

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data. Fields of its parts stand beside its own."""
        data = asdict(self)
        for part in ("cores", "access"):
            data |= data.pop(part)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OmapConfig:
        """Return the map of plain data, as `to_json` has them; what has a default may be missing."""
        data = dict(data)
        return cls(cores=part_of(Cores, data), access=part_of(Access, data), **data)
