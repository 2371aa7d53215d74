"""The analytics engine's plan: data that golden model, cycle model and hardware all read.

A plan holds a *program*: operations on whole arrays, each with a unit to run on and a start cycle. Arrays lie in buffers as beats of `lanes`
codes, row by row, every row on a fresh beat. An operation walks three nested loops (i, c, j), j innermost, one step a cycle:

* elementwise on vectors of lanes: i = row, c = beat of the row;
* elementwise, one element a cycle (`vector` false): i = row, c = column;
* changes of rows by a bag whose places may be one row, unless `Schedule.by_row`: j waits until the place before is written;
* reductions: j runs over what is reduced; with `lane_reduce` the lanes of each beat are first added up in a balanced tree, then
  the beats of one (i, c) in a balanced tree over time (pairs in order of arrival, a missing partner replaced by the identity).

An elementwise operation whose only reader is a reduction or a merge is fused with it.

See `models.analytics.timing` for the cycles and docs/explanation/analytics.md for the pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from ..fields import part_of
from ..heap.schema import Schema
from ..memory.dealt import Deal
from ..numerics.formats import Format, parse_format
from ..numerics.policy import InputPolicy
from ..rows.golden import CHANGES
from ..rows.unit import MOST_UNDER_WAY, UNDER_WAY, Place, RowTable, RowUnitConfig
from ..strider.config import PortConfig, WalkConfig
from ..strider.isa import encode
from ..strider.layout import TupleLayout
from ..strider.program import generate, port_config

#: cycles from an operand's address to the unit's input: memory read, lane choice
FETCH = 2


def depth(n: int) -> int:
    """Return the number of levels of a balanced tree over n leaves."""
    return math.ceil(math.log2(n)) if n > 1 else 0


@dataclass(frozen=True)
class Buffer:
    """Storage of one array of `rows` × `cols` codes."""

    name: str
    #: "input" (a tuple field), "index" (integers of one), "model", "run" (metas and constants,
    #: fixed for a run), "temp" or "acc" (a merge's accumulator)
    kind: str
    home: str  #: "thread" (one copy a thread) or "core" (one copy, seen by all)
    rows: int
    cols: int
    slots: int = 1  #: copies in time, so that consecutive groups may overlap
    integer: bool = False  #: it holds integers, not codes: those of an index in the bits of a code
    #: of computed integers, which hold each that there can be; 0 where that is not known
    bits: int = 0

    def row_beats(self, lanes: int) -> int:
        return -(-self.cols // lanes)

    def beats(self, lanes: int) -> int:
        return self.rows * self.row_beats(lanes)

    def width(self, lanes: int) -> int:
        """Lanes that are really stored: narrow arrays do not pay for the rest."""
        return min(self.cols, lanes)


@dataclass(frozen=True)
class Operand:
    """How an operation reads a buffer."""

    buffer: int  #: its number
    row: str  #: the loop that steps the row; "" where it stands still
    col: str  #: the loop that steps the column; "" where it stands still
    element: bool  #: columns are elements, of which one goes to all lanes; else they are beats


@dataclass(frozen=True)
class Op:
    """One array operation.

    With rows of models, "rows" reads rows of its first operand that its second names, "at add" and its like change rows of `dest`: operands
    are the table, which is `dest`, the integers and the values.
    """

    name: str
    fn: str
    operands: tuple[Operand, ...]
    extents: tuple[int, int, int]  #: the loops (i, c, j)
    vector: bool
    reduce: str | None
    lane_reduce: bool
    merge: str | None  #: the result goes through the merge tree into the accumulator `dest`
    dest: int
    #: "group" (every group of tuples), "batch" (after a batch's last group) or "epoch"
    #: (convergence)
    region: str
    home: str  #: as for buffers
    columns: int = 0  #: with `lane_reduce`, how many columns are added up
    line: int = 0  #: the kernel's source line, for profiles
    unit: int = -1
    merge_unit: int = -1
    start: int = -1
    #: what else an operation is told: seed and bytes of a hash, rows of a table
    detail: tuple[int, ...] = ()

    @cached_property
    def changes_rows(self) -> bool:
        return self.fn.startswith("at ")

    @cached_property
    def touches_rows(self) -> bool:
        return self.fn == "rows" or self.changes_rows

    @cached_property
    def unit_fn(self) -> str:
        """What the operation's unit computes; for integers with what it is told: `models.rows.units`."""
        if self.changes_rows:
            return CHANGES[self.fn.removeprefix("at ")] or "pass"
        if self.fn.startswith(("integer", "hash", "number")):
            return " ".join([self.fn, *map(str, self.detail)])
        return "pass" if self.fn == "rows" else self.fn

    @cached_property
    def to_unit(self) -> tuple[int, ...]:
        """Which operands go to the unit: the integers that name rows do not."""
        if self.changes_rows:
            return (2,) if self.unit_fn == "pass" else (0, 2)
        return (0,) if self.fn == "rows" else tuple(range(len(self.operands)))

    @cached_property
    def fetch(self) -> int:
        """Cycles from the first operand's address to the unit's input: which row it is, is read first."""
        return FETCH + self.touches_rows

    @cached_property
    def beats(self) -> int:
        i, c, j = self.extents
        return i * c * j

    @property
    def element_dest(self) -> bool:
        """Whether results are written one element at a time."""
        return not self.vector or self.lane_reduce


@dataclass(frozen=True)
class Index:
    """An index of a kernel: integers from 0 to `counts` − 1, behind the codes of a tuple."""

    name: str
    counts: int
    places: int  #: how many
    bag: bool  #: its array may be shorter
    #: for each column in order its attribute index, what is added to its integers, and how far they
    #: count, which is `counts` for a single one
    columns: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Unit:
    """A pipelined functional unit, one copy in each thread or one in the core for a region."""

    #: what it computes; "merge-add" and its like are merge trees over all threads with the
    #: accumulating unit behind them
    fn: str
    lanes: int
    home: str  #: as in buffers
    region: str  #: as in operations


@dataclass(frozen=True)
class Schedule:
    """What the static schedule comes down to; all in cycles counted from the cycle after a group's start."""

    interval: int  #: initiation interval between groups of one batch
    #: from a start on, after so many cycles nothing of the group's own operations is still to be
    #: started
    drain: int
    #: least distance from the start of a batch's last group to the start of the next batch; half of
    #: `drain` at least
    batch: int
    release: int  #: the input slot is free again so many cycles after the start
    settle: int  #: after a batch's last start, all results of the batch operations are in place
    decide: int  #: from the start of the convergence test to its answer
    #: from the changes of rows of a tuple to those of the batch's next; `batch` and `settle` are
    #: for a batch of one, each further tuple is so much more. 0 where nothing waits for the batch's
    #: end
    change: int = 0
    #: a change waits for an earlier one of its row (`models.analytics.waits`): `change` is that of
    #: tuples whose rows are others
    by_row: bool = False


@dataclass(frozen=True)
class Roles:
    """Buffers that a run loads or reads, by their numbers."""

    models: tuple[int, ...]  #: in the kernel's order
    runs: tuple[int, ...]  #: of metas and constants, in load order
    until: int | None  #: of the convergence flag
    #: of the score of each tuple; the engine writes scores then, and learns nothing
    score: int | None


@dataclass(frozen=True)
class Striders:
    """How pages become tuples in the threads' input buffers, at each memory port. See `PortConfig`."""

    walkers: int  #: Striders of a port
    page_buffers: int
    tuple_slots: int  #: tuples between the Striders and the loader
    input_slots: int  #: tuples in a thread's input buffers
    visibility: str  #: which tuples are seen: `WalkConfig.visibility`
    window_latency: int  #: `PortConfig.latency`
    #: the program is built in, addresses have 26 bits, counters 32: for small parts; cycles and
    #: results are the same
    lean: bool
    #: of the memory that a lean plan's addresses reach, which then have just the bits for it; 0:
    #: not known
    memory_bytes: int = 0
    ring: int = 0  #: `PortConfig.ring`


@dataclass(frozen=True)
class IndexedRows:
    """Rows of models that indices name, on the chip or in memory."""

    on_index: str  #: what becomes of tuples whose index names no row
    on_unseen: str  #: what becomes of categories that the design does not know
    indices: tuple[Index, ...] = ()  #: in the order of their places behind a tuple's codes
    tables: tuple[RowTable, ...] = ()  #: models that lie in memory, of which the core has lines
    dedupe: bool = False  #: an index with the rows of the tuple before is not looked up
    deal: Deal = field(
        default_factory=Deal
    )  #: how tables lie behind the memory ports that they have
    #: from so many tuples of a batch the next one is chosen (`models.analytics.reorder`), 0 where
    #: they come in order
    reorder: int = 0


@dataclass(frozen=True)
class AnalyticsPlan:
    """One engine, ready to be built, run and timed."""

    kernel: str
    target: str
    format_name: str
    lanes: int
    threads: int
    ports: int
    bus_bytes: int
    merge_count: int  #: positions a batch (0: the whole epoch)
    epochs: int
    layout: TupleLayout
    schema: Schema
    #: it is in the Striders' program, so that the hardware is the same but for a lean plan and one
    #: that `watches`
    policy: InputPolicy
    buffers: tuple[Buffer, ...]
    units: tuple[Unit, ...]
    ops: tuple[Op, ...]
    schedule: Schedule
    roles: Roles
    striders: Striders
    rows: IndexedRows
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def learns(self) -> bool:
        """Whether models are learned; else the score of each tuple is written."""
        return self.roles.score is None

    @cached_property
    def by_rows(self) -> bool:
        """Whether rows of models are read or changed by an index. Such plans may have no units and no schedule: golden results alone."""
        return bool(self.rows.indices) or any(op.touches_rows for op in self.ops)

    @cached_property
    def watches(self) -> bool:
        """Whether a change of a row that leaves the format's range is an error: a sum in a fixed format."""
        sums = any(op.changes_rows and op.unit_fn in ("add", "sub") for op in self.ops)
        return sums and not self.policy.saturates and not self.format.is_float

    @cached_property
    def format(self) -> Format:
        return parse_format(self.format_name)

    @cached_property
    def walk(self) -> WalkConfig:
        """What the Striders are asked to do."""
        visibility = self.striders.visibility
        return WalkConfig(self.schema, self.layout, self.format, visibility, self.policy)

    @cached_property
    def port(self) -> PortConfig:
        """How each memory port's Striders are built."""
        return port_config(
            self.walk,
            self.bus_bytes,
            striders=self.striders.walkers,
            buffers=self.striders.page_buffers,
            slots=self.striders.tuple_slots,
            lean=self.striders.lean,
            latency=self.striders.window_latency,
            ring=self.striders.ring,
        )

    @cached_property
    def program(self) -> tuple[int, ...]:
        """The Strider program, 32-bit words."""
        return tuple(int(word) for word in encode(generate(self.walk)))

    @property
    def page_size(self) -> int:
        return self.schema.page_size

    @property
    def threads_per_port(self) -> int:
        return self.threads // self.ports

    def inputs(self) -> list[int]:
        """Buffer indices of the tuple's fields, in layout order."""
        by_name = {b.name: n for n, b in enumerate(self.buffers) if b.kind in ("input", "index")}
        return [by_name[f.name] for f in self.layout.fields if f.name in by_name]

    def index_of(self, buffer: int) -> str:
        """Return the name of the index whose integers a buffer has, or may have copies of."""
        copied = {op.dest: op.operands[0].buffer for op in self.ops if op.fn == "pass"}
        return self.buffers[copied.get(buffer, buffer)].name

    @cached_property
    def row_unit(self) -> RowUnitConfig | None:
        """What brings rows of models in memory into lines of the core; None where there are none."""
        if not self.rows.tables:
            return None
        places = tuple(self._row_places())
        positions = {place.position for place in places}
        named = [i for i in self.rows.indices if self.layout.field(i.name).position in positions]
        return RowUnitConfig(
            self.rows.tables,
            places,
            self.lanes,
            self.format.width,
            self.layout.beats,
            self.merge_count,
            self.format.container,
            self.bus_bytes * self.rows.deal.joined,
            min(UNDER_WAY * self.rows.deal.channels, MOST_UNDER_WAY),
            bags=tuple(index.places for index in named) if self.rows.dedupe else (),
        )

    def _row_places(self) -> Iterator[Place]:
        """Yield the places of indices that name rows in memory, in their order."""
        owner = {name: t for t, table in enumerate(self.rows.tables) for name in table.models}
        asked: dict[str, tuple[int, bool]] = {}
        for op in self.ops:
            if op.touches_rows and (name := self.buffers[op.operands[0].buffer].name) in owner:
                by = self.index_of(op.operands[1].buffer)
                changes = op.changes_rows or asked.get(by, (0, False))[1]
                asked[by] = owner[name], changes
        for index in self.rows.indices:
            for k in range(index.places if index.name in asked else 0):
                begin = index.columns[min(k, len(index.columns) - 1)][1]
                position = self.layout.field(index.name).position + k
                yield Place(position, asked[index.name][0], begin, asked[index.name][1])

    @cached_property
    def core(self) -> AnalyticsPlan:
        """The plan as the core has it: lines in place of rows in memory, whose indices are numbers of lines."""
        if self.row_unit is None:
            return self
        lines = {name: table.lines for table in self.rows.tables for name in table.models}
        buffers = tuple(
            replace(b, rows=lines[b.name]) if b.kind == "model" and b.name in lines else b
            for b in self.buffers
        )
        models = tuple(n for n in self.roles.models if self.buffers[n].name not in lines)
        positions = {place.position for place in self.row_unit.places}
        indices = tuple(
            replace(i, columns=tuple((c, 0, most) for c, _, most in i.columns))
            if self.layout.field(i.name).position in positions
            else i
            for i in self.rows.indices
        )
        return replace(
            self,
            buffers=buffers,
            roles=replace(self.roles, models=models),
            rows=replace(self.rows, indices=indices),
        )

    def begins(self, buffer: int) -> tuple[int, ...]:
        """Return what is added to each integer of an index: those of its columns count one behind the other. () for other integers."""
        name = self.index_of(buffer)
        return next(
            (tuple(c[1] for c in i.columns) for i in self.rows.indices if i.name == name), ()
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data. Fields of its parts stand beside its own."""
        data = {**asdict(self), "schema": self.schema.to_json()}
        for part in ("policy", "roles", "striders", "rows", "deal"):
            data |= data.pop(part)
        return data

    def structure(self) -> dict[str, Any]:
        """Return `to_json` without what no hardware depends on: the table's name, lines of the
        kernel's source, bounds, and, where the program comes from memory, the policy for input."""
        data, rows, lean = self.to_json(), self.rows, self.striders.lean
        absent = {
            "score": self.learns,
            "tables": not rows.tables,
            "dedupe": not rows.dedupe,
            "channels": rows.deal.channels == 1,
            "joined": rows.deal.joined == 1,
            "reorder": not rows.reorder,
            "ring": not self.striders.ring,
            **dict.fromkeys(("indices", "on_index", "on_unseen"), not rows.indices),
            "on_nan": not lean,
            "on_overflow": not (lean or self.watches),
        }
        for table in data["tables"]:
            for name in ("pinned", "keeping"):
                if not table[name]:
                    del table[name]
        data = {name: value for name, value in data.items() if not absent.get(name)}
        if not rows.indices:
            del data["layout"]["integers"]
        data["notes"] = {k: v for k, v in self.notes.items() if k not in ("interval", "machine")}
        for name in ("change", "by_row"):
            if not getattr(self.schedule, name):
                del data["schedule"][name]
        ops = [{k: v for k, v in op.items() if k != "line"} for op in data["ops"]]
        buffers = data["buffers"]
        if not self.by_rows:
            buffers = [
                {k: v for k, v in b.items() if k not in ("integer", "bits")} for b in buffers
            ]
            ops = [{k: v for k, v in op.items() if k != "detail"} for op in ops]
        return {**data, "buffers": buffers, "ops": ops, "schema": self.schema.structure()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> AnalyticsPlan:
        data = dict(data)
        data["layout"] = TupleLayout.from_json(data["layout"])
        data["buffers"] = tuple(Buffer(**b) for b in data["buffers"])
        data["units"] = tuple(Unit(**u) for u in data["units"])
        data["ops"] = tuple(
            Op(
                **{
                    **o,
                    "operands": tuple(Operand(**a) for a in o["operands"]),
                    "extents": tuple(o["extents"]),
                    "detail": tuple(o["detail"]),
                }
            )
            for o in data["ops"]
        )
        data["schedule"] = Schedule(**data["schedule"])
        data["indices"] = tuple(
            Index(**{**index, "columns": tuple(map(tuple, index["columns"]))})
            for index in data["indices"]
        )
        data["tables"] = tuple(
            RowTable(**{**table, **{n: tuple(v) for n, v in table.items() if isinstance(v, list)}})
            for table in data.get("tables", ())
        )
        data["schema"] = Schema.from_json(data["schema"])
        for key in ("models", "runs"):
            data[key] = tuple(data[key])
        data["policy"], data["deal"] = part_of(InputPolicy, data), part_of(Deal, data)
        data["roles"], data["striders"] = part_of(Roles, data), part_of(Striders, data)
        data["rows"] = part_of(IndexedRows, data)
        return cls(**data)
