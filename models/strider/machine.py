"""A Strider as a machine: runs a program on a page, instruction by instruction, with the cycle of everything it does.

The hardware (`hdl.strider.pipeline`) is this machine. It issues in order, at most one window (a bus word's bytes at any byte address) a
cycle. An issue in cycle t forms its address in t + 1, the window is decoded in t + L - 1, and what it says is seen by an issue in cycle t + L, where L is
`PortConfig.latency`. Addresses (the running position P, an array's place A) live where they are formed: what a window says about them serves an issue in
t + L - 1 already; an issue that decides by their alignment sees what one in cycle t makes of them in t + 2.

Issues that each thing takes:

* page: ⌈12 / bus⌉ + 4 cycles, then the first line pointer; 1 at the end
* line pointers: one window of bus / 4 pointers whenever they run out; a pointer that is passed over, 1
* tuple (`bentr`): ⌈7 / bus⌉, the header of the next tuple; at least 4 (4-byte bus: 5) from tuple to tuple, as much for one that is left out
* `run`: one for each min(bus / size, lanes) values (8-byte values on a 4-byte bus: two each)
* `arr`: ⌈24 / bus⌉, 1 more where its place is not aligned; arrays that may have a 1-byte header (≤ 26 float4, ≤ 13 float8): then 4 more instead, and
  their elements follow ≥ 3 cycles after the header's first window; on base P or A it comes ≥ 2 cycles after what moved that
* `att`: 1 an attribute
* `extrBi`: 5 (1 without bitmap)
* `var`: 3; where its place is not aligned 5 or, after padding, 7
* `cln`, `ins`, `bexit`: 1

So a 272-byte tuple (id, y, float4[54] with a 4-byte header) takes 7 1/16 cycles on a 64-byte bus with 16 lanes and 32 1/2 on an 8-byte bus; a bus
word a cycle would be 4 1/4 and 34. Costly layouts are alternating types, tuples with a null bitmap, and text before a used column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import ErrorCode, HardwareCode
from ..heap import page as p
from ..heap.schema import TYPES
from ..numerics.policy import InputPolicy, Unfit
from . import landing
from .config import PortConfig
from .errors import PageError
from .golden import PageBytes, Stop, array_header, check_header, line_pointer, lines
from .isa import BITMAP_GROUP, FIXED_TYPES, Base, Instruction, Op, short_possible
from .judge import CODES, verdict

#: cycles from an issue to the first one that sees how its own address is aligned
SETTLED = 2
#: (first, count) of the bytes that are read of the page header (pd_flags to pd_pagesize_version are wanted) and of a tuple header (t_infomask2 to
#: t_hoff); from multiples of 8 on, so that windows of whole bus words hold them
PAGE_FIELDS, TUPLE_FIELDS = (8, 12), (16, 7)
ARRAY_HEADER = 24


@dataclass
class Event:
    """What a loop start leads to."""

    #: "tuple"; "null": a tuple left out because of a NULL; "void": one because of a NaN, when all
    #: of it was read; "end" of the page; "error"
    kind: str
    #: cycles from the last event's loop start (the first event: from the page's start) to this
    #: one's, if a slot is free
    wait: int
    #: cycles from this loop start to the issue that completes the tuple (or is in error)
    issue: int
    code: HardwareCode = ErrorCode.OK
    line: int = 0
    item: int = 0


@dataclass
class Walk:
    """One page walked: events in order, the last one "end" or "error", and the tuples' codes."""

    events: list[Event] = field(default_factory=list)
    tuples: list[NDArray[np.int64]] = field(default_factory=list)
    skipped: int = 0  #: tuples left out, invisible ones included


class _Leave(Exception):
    """A NULL leaves the tuple out."""


class _Failed(Exception):
    def __init__(self, code: HardwareCode, cycle: int, item: int = 0) -> None:
        super().__init__(code, cycle)
        self.code = code
        self.cycle = cycle
        self.item = item


@dataclass
class _Front:
    """How far a page's line pointers are taken."""

    shows_all: bool  #: all tuples are visible
    kind: str = ""  #: of the event that comes next, but for what a tuple's header says
    code: HardwareCode = ErrorCode.OK
    tuple: tuple[int, int] = (0, 0)  #: offset and length of the next one
    count: int = 0  #: line pointers of the page
    line: int = 0  #: the latest line pointer taken
    queue: int = 0  #: line pointers at hand
    slow: int = 0  #: the first cycle in which nothing of the front is under way


@dataclass(frozen=True)
class _Header:
    """A tuple's header."""

    start: int
    end: int  #: of the tuple
    natts: int
    nulls: bool
    size: int
    seen: bool  #: the tuple is visible
    fault: HardwareCode


@dataclass
class _Body:
    """The tuple under way, and how far its attributes are taken."""

    header: _Header
    places: dict[Base, int]
    #: first cycle whose issue may use a base
    ready: dict[Base, int] = field(default_factory=lambda: {Base.P: 0, Base.D: 0, Base.A: 0})
    settled: int = 0  #: … whose issue may decide by how P or A is aligned
    group: int = 0
    #: how the values fit, in the order of delivery, and their positions
    fits: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)


class StriderMachine:
    """Runs `program` on pages, as one Strider of a port with this configuration. Values are converted only if `deliver`."""

    def __init__(
        self, config: PortConfig, program: Sequence[Instruction], deliver: bool = True
    ) -> None:
        self.deliver = deliver
        self.config = config
        self.program = program
        # cycles from an issue to the first issue that sees its result, and to the first one whose address its result can be part of
        self.latency, self.formed = config.latency, config.latency - 1
        self.parts = [-(-count // config.bus_bytes) for _, count in (PAGE_FIELDS, TUPLE_FIELDS)]
        self.array_parts = -(-ARRAY_HEADER // config.bus_bytes)
        self.types = [FIXED_TYPES.index(name) for name in config.types]
        setup = program[0]
        self.policy = InputPolicy(
            "saturate" if setup.keep else "error",
            "skip" if setup.test else "pass" if setup.use else "error",
        )
        self.judges = landing.may_end(config.types, config.format, config.integers)

    # -- the front: line pointers and tuple headers --------------------------------------------------------------------

    def walk(self, page: NDArray[np.uint8], *, alike: bool = False) -> Walk:
        """Walk one page.

        `alike`: the page is known to be regular (`table.Regular`), so that all its tuples' bodies take as long as the first; without delivery only that
        one is walked.
        """
        self.page = PageBytes(page)
        out = Walk()
        self.now = 0
        self.front = front = _Front(bool(self.program[0].flag))
        if self._op(0) != Op.READB:
            return Walk([Event("error", 0, 0, PageError.PROGRAM)])
        self._page_header()
        origin = 0  # the last event's loop start, or the page's
        took = 0  # cycles of the last body
        while True:
            cycle = max(self.now, front.slow)
            if self._op(1) != Op.BENTR:
                out.events.append(Event("error", cycle - origin, 0, PageError.PROGRAM))
                return out
            if front.kind != "tuple":
                line = front.line if front.code else 0
                out.events.append(Event(front.kind, cycle - origin, 0, front.code, line))
                return out
            header, line = self._header(), front.line
            if header.fault:
                out.events.append(Event("error", cycle - origin, 0, header.fault, line))
                return out
            self.now = cycle
            self._scan()
            if not header.seen:
                out.skipped += 1
                continue
            wait, origin = cycle - origin, cycle
            if alike and not self.deliver and out.tuples:
                self.now += took
                out.events.append(Event("tuple", wait, self.now - 1 - cycle))
                continue
            took = -self.now
            try:
                values = self._body(header)
                took += self.now
                left = self._judge_values()
                if left:
                    out.skipped += 1
                else:
                    out.tuples.append(values)
                out.events.append(Event("void" if left else "tuple", wait, self.now - 1 - cycle))
            except _Leave:
                out.skipped += 1
                out.events.append(Event("null", wait, self.now - 1 - cycle))
            except _Failed as failed:
                out.events.append(
                    Event("error", wait, failed.cycle - cycle, failed.code, line, failed.item)
                )
                return out

    def _op(self, pc: int) -> int:
        return self.program[pc].op if pc < len(self.program) else 0

    def _page_header(self) -> None:
        front = self.front
        self.now = self.parts[0] + self.latency
        try:
            front.count = lines(self.page, self.config.page_size, self.program[0].offset)
        except Stop as stop:
            front.kind, front.code = "error", stop.code
            return
        front.queue = self.config.bus_bytes // p.LP_SIZE
        front.shows_all |= bool(self.page.word(10, 2) & p.PD_ALL_VISIBLE)
        if not front.count:
            front.kind = "end"
            return
        self._scan()

    def _scan(self) -> None:
        """Find the next NORMAL line pointer from `now` on and issue the read of its tuple's header."""
        front = self.front
        while True:
            cycle = self.now
            if front.line == front.count:
                front.kind, self.now = "end", cycle + 1
                return
            if not front.queue:
                front.queue = self.config.bus_bytes // p.LP_SIZE
                front.slow = cycle + self.latency
                self.now = cycle + self.latency
                continue
            front.queue -= 1
            front.line += 1
            self.now = cycle + 1
            try:
                offset, flags, length = line_pointer(self.page, front.line, front.count)
            except Stop as stop:
                front.kind, front.code = "error", stop.code
                return
            if flags == p.LP_NORMAL:
                break
        front.kind, front.tuple = "tuple", (offset, length)
        self.now = cycle + self.parts[1]
        front.slow = self.now - 1 + self.latency
        if not front.queue and front.line < front.count:
            front.queue, front.slow = self.config.bus_bytes // p.LP_SIZE, self.now + self.latency
            self.now += 1

    def _header(self) -> _Header:
        """Return the header that was read."""
        offset, length = self.front.tuple
        natts, infomask, size = (
            self.page.word(offset + at, count) for at, count in ((18, 2), (20, 2), (22, 1))
        )
        natts &= p.HEAP_NATTS_MASK
        nulls = bool(infomask & p.HEAP_HASNULL)
        seen = self.front.shows_all or p.visible_by_hints(infomask)
        fault: HardwareCode = ErrorCode.OK
        if seen is None:
            fault = PageError.TUPLE_VISIBILITY
        elif seen:
            fault = check_header(self.program[0].attr, natts, nulls, size, length)
        return _Header(offset, offset + length, natts, nulls, size, bool(seen), fault)

    # -- the body: one tuple's attributes ------------------------------------------------------------------------------

    def _body(self, header: _Header) -> NDArray[np.int64]:
        self.body = _Body(
            header, dict.fromkeys((Base.P, Base.D, Base.A), header.start + header.size)
        )
        values = np.zeros(self.config.beats * self.config.lanes, dtype=np.int64)
        whole = not header.nulls and header.natts >= self.program[0].count
        pc = 2 if whole else self.program[1].offset
        run: dict[int, Callable[[Instruction, NDArray[np.int64]], None]] = {
            Op.BEXIT: self._bexit,
            Op.RUN: self._run,
            Op.CLN: self._cln,
            Op.ARR: self._arr,
            Op.ATT: self._att,
            Op.VAR: self._var,
            Op.EXTRBI: self._extrbi,
            Op.INS: self._ins,
        }
        while True:
            step = run.get(self._op(pc))
            if step is None or not self._legal(self.program[pc]):
                raise _Failed(PageError.PROGRAM, self.now)
            step(self.program[pc], values)
            if self.program[pc].bexit:
                return values
            pc += 1

    def _legal(self, i: Instruction) -> bool:
        if i.op in (Op.RUN, Op.ATT) and (i.op == Op.RUN or i.use) and i.type not in self.types:
            return False
        if (i.op in (Op.RUN, Op.CLN, Op.ARR) and i.base == 3) or (
            i.op == Op.ARR and i.type not in [FIXED_TYPES.index(n) for n in self.config.arrays]
        ):
            return False
        return i.op in (Op.BEXIT, Op.INS, Op.EXTRBI) or i.type < len(FIXED_TYPES)

    def _fit(self, end: int, cycle: int) -> None:
        if end > self.body.header.end:
            raise _Failed(PageError.TUPLE_LENGTH, cycle)

    def _present(self, index: int) -> bool:
        if index >= self.body.header.natts:
            return False
        return not self.body.header.nulls or bool(
            self.page.word(self.body.header.start + p.TUPLE_BITMAP + index // 8, 1) >> index % 8 & 1
        )

    def _base(self, i: Instruction, alignment: int = 1) -> int:
        """Wait until the base is known; return the address. An array's elements lie where they lie: base A is not aligned."""
        self.now = max(self.now, self.body.ready[Base(i.base)])
        return p.align(
            self.body.places[Base(i.base)] + i.offset, 1 if i.base == Base.A else alignment
        )

    def _move(self, place: int) -> None:
        """P is set by what is issued now."""
        self.body.places[Base.P], self.body.ready[Base.P] = place, 0
        self.body.settled = max(self.body.settled, self.now + SETTLED)

    def _emit(
        self, name: str, at: int, count: int, position: int, values: NDArray[np.int64]
    ) -> None:
        if not (self.deliver or self.judges):
            return
        size = TYPES[name].length
        raw = np.frombuffer(self.page.bytes(at, count * size), f"<u{size}")
        places = np.arange(position, position + count)
        how = name, raw, self.config.format, places, self.config.integers
        if self.judges:
            self.body.fits += landing.fits(*how).tolist()
            self.body.delivered += places.tolist()
        if self.deliver:
            values[places] = landing.codes(*how)

    def _judge_values(self) -> bool:
        """Whether a value leaves the tuple out; raises where a value is an error."""
        left, first = verdict(np.array(self.body.fits, np.uint8), self.policy)
        if first >= 0:
            code = CODES[Unfit(self.body.fits[first])]
            raise _Failed(code, self.now - 1, self.body.delivered[first] + 1)
        return left

    def _bexit(self, i: Instruction, values: NDArray[np.int64]) -> None:
        self.now += 1

    def _run(self, i: Instruction, values: NDArray[np.int64]) -> None:
        if i.test and not self._present(i.attr):
            self.now += 1
            return
        name = FIXED_TYPES[i.type]
        size = TYPES[name].length
        at = self._base(i, size)
        self._fit(at + i.count * size, self.now)
        self._emit(name, at, i.count, i.beat * self.config.lanes + i.lane, values)
        if i.base == Base.P and not i.keep:
            self._move(at + i.count * size)
        self.now += max(1, -(-i.count // self.config.elements(name)) * self.config.windows(name))

    def _cln(self, i: Instruction, values: NDArray[np.int64]) -> None:
        if i.test and not self._present(i.attr):
            self.now += 1
            return
        size = TYPES[FIXED_TYPES[i.type]].length
        self.now = max(self.now, self.body.ready[Base.P])
        end = self._base(i, size) + i.count * size
        self._fit(end, self.now)
        self._move(end)
        self.now += 1

    def _absent(self, i: Instruction, index: int) -> bool:
        """Whether the used attribute is not there; raises where that ends the tuple."""
        if self._present(index):
            return False
        if not (i.missing and index >= self.body.header.natts):
            if i.flag:
                self.now += 1
                raise _Leave
            raise _Failed(PageError.TUPLE_NULL, self.now)
        self.now += 1
        return True

    def _arr(self, i: Instruction, values: NDArray[np.int64]) -> None:
        """Judge an array's header, and place bases A and P at the array's first element and after its last."""
        if i.test and self._absent(i, i.attr):
            return
        name = FIXED_TYPES[i.type]
        size = TYPES[name].length
        self.now = max(self.now, self.body.ready[Base.A])
        at = self._base(i)
        if i.base != Base.D:
            self.now = max(self.now, self.body.settled)
        small = short_possible(name, i.count)
        self._fit(at + 1, self.now)
        first = self.page.word(at, 1)
        if at % size:
            if not first & 1:
                if first:
                    raise _Failed(PageError.ARRAY_SHAPE, self.now)
            elif not small:
                self._fit(at + 21 if first > 1 else at, self.now)
                code = PageError.TUPLE_EXTERNAL if first == 1 else PageError.ARRAY_SHAPE
                raise _Failed(code, self.now)
            self.now += self.latency if small else 1
            at = at if first & 1 else p.align(at, size)
            self._fit(at + 1, self.now)
            first = self.page.word(at, 1)
        if first == 1 or first & 3 == 2:
            raise _Failed(PageError.TUPLE_EXTERNAL, self.now)
        expected = array_header(name, i.count, bool(first & 1))
        self._fit(at + len(expected), self.now)
        pairs = zip(self.page.bytes(at, len(expected)), expected, strict=True)
        wrong = [k for k, (a, b) in enumerate(pairs) if a != b]
        if first & 1 and not small:
            wrong.insert(0, 0)
        if wrong:
            raise _Failed(PageError.ARRAY_SHAPE, self.now + wrong[0] // self.config.bus_bytes)
        start, issued = at + len(expected), self.now
        self.now += self.array_parts
        self._fit(start + i.count * size, self.now - 1)
        self.body.places |= {Base.A: start, Base.P: start + i.count * size}
        self.body.ready |= dict.fromkeys((Base.A, Base.P), issued + self.formed if small else 0)
        self.body.settled = max(self.body.settled, issued + (self.latency if small else SETTLED))

    def _att(self, i: Instruction, values: NDArray[np.int64]) -> None:
        self.now = max(self.now, self.body.ready[Base.P])
        name = FIXED_TYPES[i.type]
        size = TYPES[name].length
        if not i.count:
            self.now += 1
        for k in range(i.count):
            index = i.attr + k
            if i.use and self._absent(i, index):
                continue
            if not i.use and not self._present(index):
                self.now += 1
                continue
            at = p.align(self.body.places[Base.P], size)
            self._fit(at + size, self.now)
            if not i.keep:
                self._move(at + size)
            if i.use:
                self._emit(name, at, 1, i.beat * self.config.lanes + i.lane + k, values)
            self.now += self.config.windows(name) if i.use else 1

    def _var(self, i: Instruction, values: NDArray[np.int64]) -> None:
        if i.test and not self._present(i.attr):
            self.now += 1
            return
        at = self._base(i)
        alignment = TYPES[FIXED_TYPES[i.type]].length
        self._fit(at + 1, self.now)
        first = self.page.word(at, 1)
        if at % alignment and not first & 1:
            if first:
                raise _Failed(PageError.TUPLE_LENGTH, self.now)
            at, self.now = p.align(at, alignment), self.now + self.latency
            self._fit(at + 1, self.now)
            first = self.page.word(at, 1)
        if first == 1:
            self._fit(at + 2, self.now)
            if self.page.word(at + 1, 1) != 18:
                raise _Failed(PageError.TUPLE_EXTERNAL, self.now)
            length = p.VARATT_EXTERNAL_SIZE
        elif first & 1:
            length = first >> 1
        else:
            self._fit(at + 4, self.now)
            length = self.page.word(at, 4) >> 2
            if length < 4:
                raise _Failed(PageError.TUPLE_LENGTH, self.now)
        self._fit(at + length, self.now)
        self.body.places[Base.P], self.body.ready[Base.P] = at + length, 0
        self.body.settled = self.now + self.latency
        self.now += self.latency + 1 if at % alignment else self.formed

    def _extrbi(self, i: Instruction, values: NDArray[np.int64]) -> None:
        self.body.group = i.attr // BITMAP_GROUP
        self.now += self.latency + 1 if self.body.header.nulls else 1

    def _ins(self, i: Instruction, values: NDArray[np.int64]) -> None:
        if i.attr >= self.body.header.natts:
            at = i.beat * self.config.lanes + i.lane
            values[at] = i.value & (1 << self.config.format.width) - 1
            integer = any(at == one.position for one in self.config.integers)
            nan, over = (Unfit.LEFT_INDEX, Unfit.INDEX) if integer else (Unfit.NAN, Unfit.OVERFLOW)
            self.body.fits.append(nan if i.use else over if i.keep else Unfit.FITS)
            self.body.delivered.append(at)
        self.now += 1
