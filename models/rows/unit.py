"""The row unit: tables of rows in memory, behind lines on the chip that an engine takes for whole tables.

Of each tuple that goes by, each index that names a row is replaced by the line that holds the row; where none does, the tuple waits until the
row is fetched into one, while further ones are looked up. So the engine reads and changes lines as it would rows, and knows of no memory.

* **Lines.** Any line takes any row: a directory has a line for each row, an owner a row for each line, and a row is held where the two agree.
  So nothing is cleared at the start, and no two rows of a batch can be in each other's way.
* **Who gives way.** The next line in turn that no tuple of this batch or the one before asked for. One row in 8 that comes goes to other lines, where
  those give way that were not asked for again: each time that a turn passes one it is asked for once less, of 3 times at most.
* **Equal bags.** With `bags`, an index with the same rows as that of the tuple before it in its batch is not looked up: its lines are known, and stay.
* **Hot rows.** Those that a profile names have lines of their own, behind the others: once there, they stay to the end.
* **When.** A batch's changes come at its end, before which its lines stay. So a row is fetched when all batches before the last one are through:
  neither a line is lost nor an old row read, for rows that the last one changes are held; into an empty line it is fetched at once. Meanwhile further
  rows are looked up. A beat of a line waits while a change is written to the same model. A row whose writing is not answered yet is fetched when it is.
* **The end.** Lines whose rows may have changed are written back, in order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..mapping import DISTRIBUTED_BITS, Storage, map_storage
from ..numerics.formats import Codes
from ..numerics.latency import Cost
from .config import row_bytes
from .store import SEED, Counts, next_random

#: bits of the number of a batch, and of a count of fetches of which few are under way; batches further back are told as one so far back, which are through
BATCH_BITS, TICKET_BITS, PAST = 32, 16, 96
#: rows written back that are not answered yet, at most, a power of two, for few channels
WRITES = 32
#: tuples that wait to be looked up, and rows that wait to be asked for, at most
TUPLES, MISSES = 2, 16
#: tuples that are held, at least and at most
LEAST_AHEAD, MOST_AHEAD = 32, 256
#: rows that are fetched at once of a channel of memory, and of all, at most
UNDER_WAY, MOST_UNDER_WAY = 32, 128
#: a row that comes is kept where these bits of the shift register are 0
RARELY = 0x4880


def leaving_rows(row_bytes: int) -> int:
    """Return how many rows are read to be written back and have not left, at most, where the longest has so many bytes: as many as need no RAM block."""
    return min(max(DISTRIBUTED_BITS // (8 * row_bytes), 1), 4)


@dataclass(frozen=True)
class RowTable:
    """Models whose rows the same indices name: their rows lie one behind the other in one row of memory."""

    models: tuple[str, ...]  #: names
    columns: tuple[int, ...]  #: codes of a row of each
    rows: int
    lines: int  #: rows that are held on the chip, no more than there are
    #: rows, in order, that keep their lines once they have them, the last ones
    pinned: tuple[int, ...] = ()
    keeping: int = 0  #: lines before those where rows stay that are asked for again

    @property
    def passing(self) -> int:
        """Lines where the next one in turn gives way."""
        return self.lines - len(self.pinned) - self.keeping


#: kinds of regions
PASSING, KEEPING, PINNED = 0, 1, 2


@dataclass(frozen=True)
class Region:
    """Lines of a table that are filled one after the other: the first one, how many there are, which kind."""

    table: int
    begin: int
    lines: int
    kind: int


@dataclass(frozen=True)
class Place:
    """An index in a tuple: at which code it lies, which table's row it names, behind how many others; whether the row may be changed."""

    position: int
    table: int
    begin: int
    changes: bool


@dataclass(frozen=True)
class Slice:
    """A beat of one model's row: the model, counted over all tables, the beat of its row, and its codes in the table's row."""

    model: int
    beat: int
    first: int
    codes: int


@dataclass(frozen=True)
class RowUnitConfig:
    tables: tuple[RowTable, ...]
    places: tuple[Place, ...]
    lanes: int  #: codes of a beat of a tuple
    width: int  #: bits of a code
    beats: int  #: of a tuple
    batch: int  #: tuples of a batch
    container: int  #: bytes of a code in memory
    bus_bytes: int  #: of a word of the port
    commands: int = UNDER_WAY  #: rows fetched at once
    #: places of each index in turn, () where equal ones are looked up as well
    bags: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for number, table in enumerate(self.tables):
            asked = 2 * self.batch * sum(place.table == number for place in self.places)
            if table.passing < min(asked, table.rows - len(table.pinned)):
                raise ValueError(
                    f"{table.passing} lines for two batches that may ask for {asked} of {table.rows} rows"
                )

    @property
    def ahead(self) -> int:
        """Tuples that are held, at most: a batch, so that its rows are looked up while the last one's are changed."""
        return min(
            max(LEAST_AHEAD, self.batch),
            MOST_AHEAD,
            (1 << TICKET_BITS - 2) // (len(self.places) or 1),
        )

    @property
    def writes(self) -> int:
        """Rows written back that are not answered yet, at most, a power of two: over several channels half of those that may be fetched at once."""
        return max(WRITES, self.commands // 2)

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """Places that are looked up or left out together, without `bags` each by itself."""
        sizes = self.bags or (1,) * len(self.places)
        ends = np.cumsum((0, *sizes)).tolist()
        return tuple(range(begin, begin + size) for begin, size in zip(ends, sizes, strict=False))

    def repeated(self, asked: np.ndarray) -> np.ndarray:
        """Return for tuples of an epoch (tuples, places) which groups are not looked up (tuples, groups)."""
        repeats = np.zeros((len(asked), len(self.groups)), bool)
        if self.bags:
            same = asked[1:] == asked[:-1]
            same &= (np.arange(1, len(asked)) % self.batch != 0)[:, None]
            repeats[1:] = np.stack([same[:, group].all(axis=1) for group in self.groups], axis=1)
        return repeats

    def row_bytes(self, table: int) -> int:
        """Return the bytes of a row in memory: the next power of two, at least a bus word."""
        return max(self.bus_bytes, row_bytes(self.tables[table].columns, self.container))

    def words(self, table: int) -> int:
        """Return the bus words of a row."""
        return self.row_bytes(table) // self.bus_bytes

    @cached_property
    def slices(self) -> tuple[tuple[Slice, ...], ...]:
        """Of each table the beats of its models' rows, in order."""
        slices, model = [], 0
        for table in self.tables:
            first, beats = 0, list[Slice]()
            for columns in table.columns:
                for beat, at in enumerate(range(0, columns, self.lanes)):
                    beats.append(Slice(model, beat, first + at, min(self.lanes, columns - at)))
                first, model = first + columns, model + 1
            slices.append(tuple(beats))
        return tuple(slices)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """All tables' regions, in the order in which they are written back."""
        regions = []
        for t, table in enumerate(self.tables):
            begin = 0
            for kind, lines in enumerate((table.passing, table.keeping, len(table.pinned))):
                if lines or not kind:
                    regions.append(Region(t, begin, lines, kind))
                begin += lines
        return tuple(regions)

    @cached_property
    def pins(self) -> np.ndarray:
        """A bit for each row of all tables, one table's behind the other's, in words of 32: whether it is pinned. Empty where none is."""
        bits = np.zeros(-(-self.rows // 32) * 32 * any(t.pinned for t in self.tables), np.uint8)
        for t, table in enumerate(self.tables):
            bits[self.begins(t)[0] + np.array(table.pinned, np.int64)] = 1
        return np.packbits(bits, bitorder="little").view("<u4")

    @property
    def models(self) -> int:
        return sum(len(table.models) for table in self.tables)

    @cached_property
    def beats_of(self) -> tuple[int, ...]:
        """Of each table the beats of a line: those of the longest row of its models, whose beats are read or written together."""
        return tuple(max(part.beat for part in slices) + 1 for slices in self.slices)

    @property
    def beat_bits(self) -> list[int]:
        """Bits of a beat of each model's row."""
        columns = [n for table in self.tables for n in table.columns]
        return [min(n, self.lanes) * self.width for n in columns]

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    @property
    def lines(self) -> int:
        return sum(table.lines for table in self.tables)

    def begins(self, table: int) -> tuple[int, int]:
        """Return how many rows and how many lines the tables before this one have."""
        before = self.tables[:table]
        return sum(t.rows for t in before), sum(t.lines for t in before)

    @property
    def row_bits(self) -> int:
        return max(1, max(table.rows - 1 for table in self.tables).bit_length())

    @property
    def line_bits(self) -> int:
        return max(1, max(table.lines for table in self.tables).bit_length())

    def memories(self) -> Iterator[tuple[int, Storage]]:
        """Yield (copies, memory) of what the unit has beside the lines."""
        yield 1, Storage(self.line_bits, self.rows, 1, 1, transparent=True)
        yield 1, Storage(self.row_bits + BATCH_BITS + 3, self.lines, 1, 1, transparent=True)
        if len(self.pins):
            yield 1, Storage(32, len(self.pins), 1)
        name = len(self.places) * self.line_bits + TICKET_BITS + 1
        for width, depth in (self.lanes * self.width, self.beats * self.ahead), (name, self.ahead):
            yield 1, Storage(width, depth, 1, 1, width * depth > DISTRIBUTED_BITS, True)

    @property
    def cost(self) -> Cost:
        """Return about what the unit takes beside block RAM. Fitted to units synthesised alone for an ECP5: `python benchmarks/rows.py area`."""
        bits = 8 * max(self.row_bytes(t) for t in range(len(self.tables)))
        codes = self.width * max(sum(table.columns) for table in self.tables)
        names, places = self.writes * (self.row_bits + 2), len(self.places)
        sizes = [(memory.width, map_storage(memory, "ecp5").cells) for _, memory in self.memories()]
        held = sum(width + 4 * cells for width, cells in sizes if cells)
        luts = 1350 + 350 * len(self.tables) + 65 * places + 2 * names + 2 * bits + 3 * codes
        return Cost(luts + held, 600 + names + bits + 4 * codes // 3 + 25 * places)

    # images

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Of each table the bytes of a row in memory, and its rows."""
        return [(self.row_bytes(t), table.rows) for t, table in enumerate(self.tables)]

    def image(self, table: int, models: Mapping[str, Codes]) -> np.ndarray:
        """Return the bytes of a table in memory, of its models' codes (rows, columns)."""
        of = self.tables[table]
        codes = np.zeros((of.rows, self.row_bytes(table) // self.container), np.int64)
        parts = [np.asarray(models[name], np.int64) for name in of.models]
        codes[:, : sum(of.columns)] = np.concatenate(parts, axis=1)
        return codes.astype(f"<u{self.container}").view(np.uint8).ravel()

    def unpacked(self, table: int, image: np.ndarray) -> dict[str, Codes]:
        """Return the codes of a table's models from its bytes in memory."""
        of, codes = self.tables[table], image.view(f"<u{self.container}").astype(np.int64)
        parts = np.split(codes.reshape(of.rows, -1), np.cumsum(of.columns), axis=1)
        return dict(zip(of.models, parts, strict=False))


@dataclass(frozen=True)
class Found:
    """What a tuple's index comes to."""

    line: int
    hit: bool  #: its row is in the line
    looked: int = 0  #: lines that were looked at for one that gives way, 0 where one was empty
    written: int = -1  #: the row that is written back, −1 for none
    batch: int = 0  #: the last batch that asked for the row there (`PAST`)


class Directory:
    """Which line holds which row of one table."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self.pinned = {*table.pinned}
        self.where: dict[int, int] = {}
        self.owner: dict[int, int] = {}  # of each line that was ever filled, its row
        self.asked: dict[int, int] = {}  # the batch that asked for it last
        self.again: dict[int, int] = {}  # how often it was asked for since, 3 at most
        self.changed: dict[int, bool] = {}
        self.begins = [0, table.passing, table.passing + table.keeping, table.lines]
        self.filled, self.hands = self.begins[:3], self.begins[:2]
        self.random = SEED
        self.counts = Counts()

    def find(self, row: int, batch: int, changes: bool) -> Found:
        """Look a row up for a tuple of a batch, and give it a line where it has none."""
        self.counts.lookups += 1
        line = self.where.get(row)
        if line is not None:
            self.counts.hits += 1
            self.asked[line], self.again[line] = batch, min(self.again[line] + 1, 3)
            self.changed[line] |= changes
            return Found(line, True)
        self.counts.fetched += 1
        kinds = (PINNED,) if row in self.pinned else (KEEPING, PASSING)
        kind = next((k for k in kinds if self.filled[k] < self.begins[k + 1]), None)
        if kind is not None:
            lookup = Found(self.filled[kind], False)
            self.filled[kind] += 1
        else:
            lookup = self._instead(batch)
            del self.where[self.owner[lookup.line]]
        self.where[row], self.owner[lookup.line] = lookup.line, row
        self.asked[lookup.line], self.again[lookup.line] = batch, 0
        self.changed[lookup.line] = changes
        return lookup

    def _instead(self, batch: int) -> Found:
        """Return the next line in turn that no tuple of this batch or the one before asked for, and that has aged."""
        self.random = next_random(self.random)
        kind = KEEPING if self.table.keeping and not self.random & RARELY else PASSING
        looked, line = 0, -1
        while line < 0:
            line, looked = self.hands[kind], looked + 1
            turned = line + 1 == self.begins[kind + 1]
            self.hands[kind] = self.begins[kind] if turned else line + 1
            if self.asked[line] >= batch - 1:
                line = -1
            elif kind == KEEPING and self.again[line]:
                self.again[line] -= 1
                line = -1
        written = self.owner[line] if self.changed[line] else -1
        self.counts.written += written >= 0
        return Found(line, False, looked, written, max(self.asked[line], batch - PAST))

    def flush(self) -> list[dict[int, int]]:
        """Return for each region, by line that was ever filled, the row that is written back at the end, −1 for none."""
        regions = [
            {n: self.owner[n] if self.changed[n] else -1 for n in range(begin, filled)}
            for begin, filled, end in zip(self.begins, self.filled, self.begins[1:], strict=False)
            if begin < end or not begin
        ]
        self.counts.written += sum(row >= 0 for region in regions for row in region.values())
        return regions
