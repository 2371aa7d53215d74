"""The map's protocol: what every operation answers, and which pages it opens and writes.

Both bins in which an item may lie are stored with its key, and an access opens both of them,
whichever holds it. So the pair that an access shows was drawn at the access before, uniformly, and
has been used for nothing that anyone sees. Items that come to a page wait in HBM until it is opened.

GET, PUT and DELETE take the same steps.

1. The key's SipHash-2-4 names two buckets of the position map, one in each half (its bits from 0 and from 32 on). An entry has the key, the two bins
   that were drawn for the item, which of them holds it, and its frame in HBM. Without an entry, a stand-in pair is used. A new entry takes the first
   empty slot of the bucket that has fewer.
2. Both bins are opened. A bin in the host's memory is a page: it is always read, opened and later written back. A bin in HBM costs no traffic.
3. The item is taken out. Items that wait in HBM for one of the two pages join it.
4. A fresh pair of distinct uniform bins is drawn. The item goes into a frame of HBM, labelled with the bin that has fewer items. If that bin is a
   page, the item waits until the page is opened.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..crypto.siphash import siphash
from .config import OmapConfig
from .errors import MapError
from .messages import Keys, Operation, Request, Response, Status
from .pairs import PairSource


class Item(NamedTuple):
    key: int
    value: bytes


class Opened(NamedTuple):
    """A page that an access reads and writes: its number, how often it was written before, its items
    then, and now."""

    page: int
    counter: int
    before: tuple[Item, ...]
    after: tuple[Item, ...]


class Step(NamedTuple):
    """An operation."""

    response: Response
    opened: tuple[Opened, ...]  #: its pages, in their order
    first_host: bool  #: the first bin of its pair is a page
    pair_blocks: int  #: blocks that the generator draws for its pairs


class Overflow(Exception):
    """A bound of the map is exceeded, which has the probability of the failure budget."""

    def __init__(self, code: MapError) -> None:
        super().__init__(code.meaning)
        self.code = code


@dataclass(slots=True)
class Place:
    """The pair of an item, which of the two bins holds it, and where its entry lies."""

    pair: tuple[int, int]
    second: bool  # which of the two bins holds the item
    bucket: int
    slot: int


def buckets_of(config: OmapConfig, key: int, number: int) -> tuple[int, int]:
    """Return the two buckets in which an entry may lie, one in each half of the position map: they are
    never the same one. `key`: of the hash; `number`: the item's key."""
    half = config.buckets // 2
    hashed = siphash(key, number.to_bytes(config.key_bytes, "little"))
    return hashed & half - 1, half | hashed >> 32 & half - 1


class Map:
    """An oblivious map. `first`: the number of the session's first request."""

    def __init__(self, config: OmapConfig, keys: Keys, first: int = 0) -> None:
        self.config, self.keys, self.number = config, keys, first
        self._pairs = iter(PairSource(config, keys.pairs, first))
        self._places: dict[int, Place] = {}
        self._buckets: dict[int, dict[int, int]] = defaultdict(dict)  # keys by their slots
        self._loads = [0] * config.bins
        self._waiting: list[list[int]] = [[] for _ in range(config.bins)]
        self._pages: list[list[Item]] = [[] for _ in range(config.host_bins)]
        self._counters = [0] * config.host_bins
        self._framed: dict[int, bytes] = {}  # items in HBM

    def __len__(self) -> int:
        return len(self._places)

    def items(self) -> Iterator[Item]:
        """Yield all items, page by page, then those in HBM."""
        for page in self._pages:
            yield from page
        yield from self.framed()

    def framed(self) -> Iterator[Item]:
        for key, value in self._framed.items():
            yield Item(key, value)

    def page(self, number: int) -> tuple[int, tuple[Item, ...]]:
        """Return how often a page was written, and its items."""
        return self._counters[number], tuple(self._pages[number])

    def bucket(self, number: int) -> list[int | None]:
        """Return the keys of a bucket's entries, slot by slot."""
        return [self._buckets[number].get(slot) for slot in range(self.config.bucket_slots)]

    def bin(self, number: int) -> tuple[int, tuple[int, ...]]:
        """Return the load of a bin, and the keys that wait for its page."""
        return self._loads[number], tuple(self._waiting[number])

    def run(self, requests: Iterable[Request]) -> Iterator[Step]:
        """Carry out requests, one after another. Raises Overflow."""
        for request in requests:
            yield self.step(request)

    def step(self, request: Request) -> Step:
        """Carry out one request. Raises Overflow."""
        config = self.config
        operation, key = request.operation, request.key
        fresh, stand_in, blocks = next(self._pairs)
        self.number += 1
        known = operation in (Operation.GET, Operation.PUT, Operation.DELETE)
        place = self._places.get(key) if known else None
        inserts = (
            place is None and operation == Operation.PUT and len(self._places) < config.capacity
        )
        if inserts:
            bucket = self._bucket(key)
        shown = place.pair if place is not None else stand_in

        # 1: take the items that wait, and the one that is asked for
        taken = [self._take(number) for number in shown]
        value: bytes | None = None
        if place is not None:
            self._loads[place.pair[place.second]] -= 1
            value = self._framed.pop(key, None)
        opened = []
        for number, moved in zip(shown, taken, strict=True):
            if number < config.hbm_bins:
                continue
            page = number - config.hbm_bins
            before = self._pages[page]
            if place is not None and value is None:
                value = next((item.value for item in before if item.key == key), None)
            after = [item for item in before if item.key != key] if place else list(before)
            after += [Item(k, self._framed.pop(k)) for k in moved if place is None or k != key]
            opened.append(Opened(page, self._counters[page], tuple(before), tuple(after)))
            self._pages[page] = after
            self._counters[page] += 1

        # 2: put the item where fewer are
        if inserts or (place is not None and operation != Operation.DELETE):
            if place is None:
                held = self._buckets[bucket]
                entry = bucket, next(k for k in range(config.bucket_slots) if k not in held)
                held[entry[1]] = key
            else:
                entry = place.bucket, place.slot
            self._put(request, fresh, entry, value)
        elif place is not None:
            del self._places[key]
            del self._buckets[place.bucket][place.slot]

        full = operation == Operation.PUT and not inserts
        missing = (Status.FULL if full else Status.MISSING) if known else Status.UNKNOWN
        status = Status.FOUND if place is not None else missing
        answer = value if value is not None else bytes(config.value_bytes)
        first = shown[0] >= config.hbm_bins
        return Step(Response(status, key, answer), tuple(opened), first, blocks)

    def _take(self, number: int) -> list[int]:
        moved, self._waiting[number] = self._waiting[number], []
        return moved

    def _bucket(self, key: int) -> int:
        """Return the bucket of a new key: of two the one with fewer entries, the first if equal."""
        first, second = buckets_of(self.config, self.keys.hash, key)
        loads = [len(self._buckets[number]) for number in (first, second)]
        bucket = second if loads[1] < loads[0] else first
        if min(loads) >= self.config.bucket_slots:
            raise Overflow(MapError.BUCKET_FULL)
        return bucket

    def _put(
        self, request: Request, pair: tuple[int, int], entry: tuple[int, int], value: bytes | None
    ) -> None:
        config = self.config
        second = self._loads[pair[1]] < self._loads[pair[0]]
        number = pair[second]
        if number >= config.hbm_bins:
            if self._loads[number] >= config.slots:
                raise Overflow(MapError.PAGE_FULL)
            self._waiting[number].append(request.key)
        if len(self._framed) >= config.frames - 1:
            raise Overflow(MapError.FRAMES)
        self._loads[number] += 1
        new = request.value if request.operation == Operation.PUT else value
        assert new is not None
        self._framed[request.key] = new
        self._places[request.key] = Place(pair, second, *entry)
