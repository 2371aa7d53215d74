"""What an access port is built for (hardware parameters) and what it is asked to walk (table, tuple layout, policies)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ..heap.page import PAGE_SIZES
from ..heap.schema import TYPES, Schema
from ..numerics.convert import may_be_unfit
from ..numerics.formats import Format
from ..numerics.latency import convert_latency
from ..numerics.policy import ERRORS, InputPolicy
from .fixed import FixedProgram
from .isa import FIXED_TYPES
from .landing import Integers
from .layout import Source, TupleLayout

#: page buffers and tuple slots of a Strider, at most
MOST_BUFFERS, MOST_SLOTS = 16, 4096


def tuple_slots(striders: int, rows: int) -> int:
    """Return a Strider's tuple slots: several let a page's rows wait for those of the pages before. `rows`: of a page."""
    return 4 if striders == 1 else min(rows + 1, MOST_SLOTS)


@dataclass(frozen=True)
class WalkConfig:
    """A table and what a kernel wants of its tuples.

    Raises ValueError: a NaN is to pass in a format without one. A source reads a text or dropped column,
    elements outside an array, or positions outside the beats.
    """

    schema: Schema  #: columns in attribute order and the page size
    #: which column element goes to which flat position, and the policy for NULL in a used column
    layout: TupleLayout
    format: Format  #: the engine's number format; every value is converted to it
    #: "hints": decided tuple by tuple from the page alone, see `docs/explanation/striders.md`;
    #: "all": whoever prepared the pages vouches that every NORMAL tuple is visible
    visibility: str = "hints"
    policy: InputPolicy = ERRORS  #: what values do that the format does not hold

    def __post_init__(self) -> None:
        if self.policy.passes and not self.format.is_float:
            raise ValueError(f"{self.format} has no NaN that could pass")
        if self.visibility not in ("hints", "all"):
            raise ValueError(f"visibility must be 'hints' or 'all', not {self.visibility!r}")
        if self.layout.on_null not in ("error", "skip"):
            raise ValueError(f"on_null must be 'error' or 'skip', not {self.layout.on_null!r}")
        if self.schema.page_size not in PAGE_SIZES:
            raise ValueError(f"page_size must be one of {PAGE_SIZES}, not {self.schema.page_size}")
        taken: set[int] = set()
        integers = {integer.position for integer in self.layout.integers}
        for source in self.layout.sources:
            column = self.schema.columns[source.column]
            if not column.is_numeric and source.position not in integers:
                raise ValueError(f"column {column.name!r} holds no numbers that a kernel can use")
            count = self.array_length(source.column) if column.is_array else 1
            if source.first < 0 or source.count < 1 or source.first + source.count > count:
                raise ValueError(
                    f"column {column.name!r} has {count} elements; elements {source.first} to "
                    f"{source.first + source.count - 1} were asked for"
                )
            span = range(source.position, source.position + source.count)
            if span.start < 0 or span.stop > self.positions or not taken.isdisjoint(span):
                raise ValueError(
                    f"flat positions {span.start} to {span.stop - 1} are taken or outside the tuple's {self.positions}"
                )
            taken.update(span)

    def to_json(self) -> dict[str, Any]:
        """Return all but the format as plain data."""
        return {
            "schema": self.schema.to_json(),
            "layout": asdict(self.layout),
            "visibility": self.visibility,
            "policy": asdict(self.policy),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], format: Format) -> WalkConfig:
        """Return what `to_json` described; what older versions did not say is as it was."""
        schema, placed = Schema.from_json(data["schema"]), TupleLayout.from_json(data["layout"])
        policy = InputPolicy(**data.get("policy", {}))
        return cls(schema, placed, format, data.get("visibility", "hints"), policy)

    @property
    def positions(self) -> int:
        """Flat positions of a tuple, filled or not."""
        return self.layout.beats * self.layout.lanes

    @cached_property
    def used(self) -> tuple[int, ...]:
        """Attribute indices of the columns that some position takes, ascending."""
        return tuple(sorted({source.column for source in self.layout.sources}))

    @cached_property
    def needed(self) -> int:
        """Attributes up to and with the last used one: beyond it a tuple is not walked."""
        return self.used[-1] + 1 if self.used else 0

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Element types of the used columns, in the order of `FIXED_TYPES`: what the converters must know."""
        names = {self.element(index) for index in self.used}
        return tuple(name for name in FIXED_TYPES if name in names)

    @cached_property
    def judged(self) -> bool:
        """Whether some value can end the run, or leave its row out."""
        fits = [may_be_unfit(name, self.format) for name in self.types]
        overflow, nan = (any(fit[k] for fit in fits) for k in (0, 1))
        judged = (overflow and not self.policy.saturates) or (nan and not self.policy.passes)
        return judged or bool(self.layout.integers)

    @cached_property
    def in_order(self) -> tuple[Source, ...]:
        """The sources as values are delivered: by column, then by their first element."""
        return tuple(source for index in self.used for source in self.sources(index))

    def value_at(self, item: int) -> tuple[int, int] | None:
        """Return the column and the element of the value that an error's `item` names: its flat
        position, counted from 1. None where no source lands there."""
        for source in self.layout.sources:
            if 0 <= item - 1 - source.position < source.count:
                return source.column, source.first + item - 1 - source.position
        return None

    def element(self, index: int) -> str:
        """The type of one value of a column: its own, or its array elements'. A date is read as the integer that it is stored as."""
        storage = self.schema.columns[index].storage
        return storage.element or ("int4" if storage.name == "date" else storage.name)

    def array_length(self, index: int) -> int:
        """How many elements the array column `index` must hold: as the schema says, else as many as the sources reach."""
        length = self.schema.columns[index].length
        if length is not None:
            return length
        return max((s.first + s.count for s in self.layout.sources if s.column == index), default=0)

    def sources(self, index: int) -> tuple[Source, ...]:
        """The sources that read column `index`, by their first element."""
        return self._by_column.get(index, ())

    @cached_property
    def _by_column(self) -> dict[int, tuple[Source, ...]]:
        by_column: dict[int, list[Source]] = {}
        for source in self.layout.sources:
            by_column.setdefault(source.column, []).append(source)
        return {
            index: tuple(sorted(sources, key=lambda s: (s.first, s.position)))
            for index, sources in by_column.items()
        }


@dataclass(frozen=True)
class PortConfig:
    """Parameters of one `AccessPort`: all that the hardware is generic over. A port serves any schema whose program fits."""

    page_size: int  #: bytes of a page, 1024 … 32768, a power of two
    bus_bytes: int  #: bytes of a bus word: 4, 8, 16, 32 or 64
    #: a tuple is `beats` beats of `lanes` codes
    lanes: int
    beats: int
    format: Format  #: the codes' format
    types: tuple[str, ...]  #: PostgreSQL types that the converters understand
    striders: int = 1  #: Strider w takes pages w, w + striders, …
    #: page buffers a Strider, at least 2; the port holds `credits` = striders × buffers pages
    buffers: int = 2
    #: whole-tuple slots of a Strider's tuple buffer, at least 2. With several Striders about one
    #: page's tuples (plus one) let them work side by side, for the collector takes the tuples page
    #: by page.
    slots: int = 4
    program_depth: int = 64  #: instructions that the program memory holds
    #: the words of the one program that the port is to run: then it is part of the hardware, which
    #: has nothing that this program does not use, and what arrives as a program is forgotten.
    #: Cycles and results are the same.
    program: tuple[int, ...] | None = None
    #: cycles from a window's issue to the first issue that sees what it says: 4, or 5 with a
    #: register behind the page buffers' block RAMs, for parts where these take a large share of a
    #: cycle
    latency: int = 4
    integers: Integers = ()  #: as of `TupleLayout`
    #: page slots in memory, which the host fills in turn (`models.ring`); 0: the table lies there
    #: whole
    ring: int = 0

    @property
    def arrays(self) -> tuple[str, ...]:
        """Element types of the arrays whose headers are known: whole numbers where integers are asked for."""
        return ("float4", "float8", *(("int4", "int8") if self.integers else ()))

    def __post_init__(self) -> None:
        if self.page_size not in PAGE_SIZES:
            raise ValueError(f"page_size must be one of {PAGE_SIZES}, not {self.page_size}")
        if self.bus_bytes not in (4, 8, 16, 32, 64):
            raise ValueError(f"bus_bytes must be 4, 8, 16, 32 or 64, not {self.bus_bytes}")
        for name, low, high in (
            ("lanes", 1, 128),
            ("beats", 1, 1 << 16),
            ("striders", 1, 64),
            ("buffers", 2, MOST_BUFFERS),
            ("slots", 2, MOST_SLOTS),
            ("program_depth", 4, 1 << 14),
            ("latency", 4, 5),
            ("ring", 0, 1 << 20),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be from {low} to {high}, not {getattr(self, name)}")
        if not self.types or any(name not in FIXED_TYPES for name in self.types):
            raise ValueError(f"types must be some of {FIXED_TYPES}, not {self.types}")

    @cached_property
    def fixed(self) -> FixedProgram | None:
        """What the hardware may rely on where it has its program built in."""
        return None if self.program is None else FixedProgram.of(self)

    @cached_property
    def credits(self) -> int:
        """Page buffers of the port."""
        return self.striders * self.buffers

    @cached_property
    def words_per_page(self) -> int:
        return self.page_size // self.bus_bytes

    @cached_property
    def depth(self) -> int:
        """Depth of the converters, in cycles."""
        return convert_latency(self.types, self.format)

    def elements(self, pgtype: str) -> int:
        """Elements of a type that one window delivers: as many as fit in a bus word and in the lanes, at least one."""
        return max(1, min(self.bus_bytes // TYPES[pgtype].length, self.lanes))

    def windows(self, pgtype: str) -> int:
        """Windows that one delivery takes: 2 for 8-byte types on a 4-byte bus, else 1."""
        return max(1, TYPES[pgtype].length // self.bus_bytes)
