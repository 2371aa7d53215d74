"""The oblivious map behind its boundary, as an engine: its ports are those of `models.omap.shell.ports`."""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ...models.errors import ErrorCode
from ...models.omap.back import BackSchedule
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError
from ...models.omap.front_schedule import FrontSchedule
from ...models.omap.shell import Handshake, port_bytes, ports, register_map
from ...models.omap.state import Told
from ..memory import AXI4, Dealt
from ..memory.axi import lent_to, shared_by
from ..shell import engine_members
from .answers import Answers
from .back import Back
from .clear import Clear
from .closing import PageClosing, ticket_layout
from .completion import record_members
from .door import FILE_PORTS, TABLE_PORTS, Door
from .front import Front
from .journal import Journal
from .opening import PageOpening
from .opening_frames import OpeningFrames
from .pairs import PairGenerators
from .past import Past
from .requests import Requests, judge_members

#: what the door has from the vault
_VAULT = ("valid", "root", "entropy", "generation")


class MapEngine(wiring.Component):
    """Answers `count` frames of sessions, in their order, and handshakes beside them.

    Requests pass one after another through `Requests`, the front (`Front`), the page readers
    with their openers, the back (`Back`), and the page sealers with their writer. Each of these takes
    a time that depends on nothing but arrivals and on which pages are opened. HBM is cleared behind the
    first start; no register of the host's bus has a key. Timing: `models.omap.cycles`.

    * `digest`: 32 bytes that name the map's configuration.
    * `slots`: of the table of sessions.
    * `state`: the map outlives the device: records leave by a port of their own, and come back (`past.Past`).
    * `door`: in place of the usual one, in tests and proofs: where sessions begin.
    """

    def __init__(
        self,
        config: OmapConfig,
        design: int = 0,
        *,
        digest: bytes = b"",
        slots: int = 64,
        state: bool = False,
        door: wiring.Component | None = None,
    ):
        self.config, self.register_map = config, register_map(config, design, state)
        self.slots, self.state = slots, state
        self.door = Door(digest=digest, slots=slots) if door is None else door
        buses = [AXI4(data_bytes=size) for size in port_bytes(config, state)]
        self.numbers = {name: k for k, name in enumerate(ports(config, state))}
        super().__init__(engine_members(self.register_map, buses))

    def elaborate(self, platform):
        m = Module()
        config, door = self.config, self.door
        self.failures = []
        self.active, self.stopped = Signal(), Signal(reset_less=True)
        self.number, self.retired = Signal(64, reset_less=True), Signal(33)
        self.begin = Signal()  # cycle 0 of the operations
        # no reset reaches keys, sessions and handshakes
        m.domains.steady = ClockDomain("steady", local=True, reset_less=True)
        m.d.comb += ClockSignal("steady").eq(ClockSignal("sync"))
        m.submodules.door = DomainRenamer("steady")(door)
        m.submodules.pairs = pairs = PairGenerators(config)
        m.submodules.front = self.front = Front(config)
        m.submodules.back = self.back = Back(config, ticket_layout(config))
        wiring.connect(m, pairs.o, self.front.i_pairs)
        m.d.comb += [
            *(getattr(door, name).eq(self.vault[name]) for name in _VAULT),
            pairs.start.eq(self.begin),
            pairs.number.eq(self.number),
            pairs.key.eq(door.pairs),
            self.front.clear.eq(self.begin),
            self.front.key.eq(door.hash),
        ]
        self._messages(m)
        self._openings(m)
        buckets, records = self._prepare(m)
        readers = [(self.journal.bucket_bus, self.journal.busy)] if self.state else []
        front, back, fetches = FrontSchedule.of(config), BackSchedule.of(config), config.slots
        scans, asks = front.within(0, front.end), front.within(front.ask, front.end)
        fetches *= back.due // back.fetch + 2
        to_buckets = self._to_hbm(m, "buckets", 2 * scans)
        to_records = self._to_hbm(m, "records", 4 * asks)
        lent_to(m, to_buckets, self.front.bucket_bus, (buckets.bus, buckets.busy), *readers)
        lent_to(m, to_records, self.front.record_bus, (records.bus, records.busy))
        shared_by(m, self._to_hbm(m, "frames0", fetches), self.back.bus0)
        shared_by(m, self._to_hbm(m, "frames1", fetches), self.back.bus1)
        self._join(m, door.page)
        self._end_runs(m, buckets, records)
        lent_to(m, self.m1, self.requests.bus, (self.opening_frames.reads, self.fetching))
        lent_to(m, self.m1, self.answers.bus, (self.opening_frames.writes, self.ended))
        return m

    def _port(self, name):
        return getattr(self, f"m{self.numbers[name]}")

    def _to_hbm(self, m, name, opened):
        """The channels of a port as one; `opened`: of its bursts that may be under way."""
        frames = name.startswith("frames")
        channels = self.config.access.frames_dealt if frames else self.config.access.dealt
        if channels == 1:
            return self._port(name)
        bus = AXI4(data_bytes=self.config.bus_bytes)
        dealt = m.submodules[f"dealt_{name}"] = Dealt(bus, channels, opened)
        for k in range(channels):
            shared_by(m, self._port(f"{name}.{k}"), getattr(dealt, f"bus{k}"))
        return dealt.master

    def _messages(self, m):
        """Requests, answers and handshakes around the door."""
        config, registers, door = self.config, self.registers, self.door
        m.submodules.requests = requests = self.requests = Requests(
            config, slots=self.slots, state=self.state
        )
        m.submodules.answers = answers = self.answers = Answers(config, slots=self.slots)
        m.submodules.opening_frames = frames = self.opening_frames = OpeningFrames(config)
        wiring.connect(m, requests.ruled, answers.ruled)
        m.d.comb += [
            requests.start.eq(self.begin),
            requests.active.eq(self.active),
            requests.address.eq(registers.requests),
            requests.interval.eq(registers.interval),
            requests.count.eq(registers.count),
            requests.retired.eq(self.retired),
            answers.start.eq(self.begin),
            answers.serial.eq(door.serial),
            answers.base.eq(registers.responses),
            frames.address.eq(registers.opening),
            frames.to.eq(registers.welcome),
        ]
        for name in ("slot", "asked", "first"):
            m.d.comb += getattr(door, name).eq(getattr(frames, name))
        for name in TABLE_PORTS:
            unit = answers if name in ("seal_slot", "send") else requests
            ours, theirs = getattr(unit, name), getattr(door, name)
            reads = unit.signature.members[name].flow is In
            m.d.comb += ours.eq(theirs) if reads else theirs.eq(ours)
        self.failures += [
            (requests.bus_error | frames.read_error, ErrorCode.BUS_READ),
            (frames.write_error, ErrorCode.BUS_WRITE),
        ]

    def _openings(self, m):
        """Who has the frames that a run has beside its operations: the door, or in a run of records the past."""
        door, frames = self.door, self.opening_frames
        #: the run is one of records; what its frame began is there
        self.records, self.opened = Signal(), Signal()
        m.d.comb += self.opened.eq(frames.taken)
        m.d.comb += [door.start.eq(frames.start), door.commit.eq(frames.commit)]
        for name in ("idle", "ready", "told_slot", "refusal", "message"):
            m.d.comb += getattr(frames, name).eq(getattr(door, name))
        if not self.state:
            wiring.connect(m, self.requests.head, self.front.i)
            m.d.comb += door.serial.eq(self.number)
            return
        m.submodules.past = past = DomainRenamer("steady")(Past(self.config))
        m.d.comb += past.generation.eq(self.vault["generation"])
        self._join_past(m, past)
        with m.If(self.records):
            m.d.comb += [
                door.start.eq(0),
                door.commit.eq(0),
                past.open.eq(frames.start),
                self.opened.eq(past.ready),
                past.begin.eq(frames.collect),
                frames.idle.eq(0),
                frames.ready.eq(past.there),
                frames.told_slot.eq(0),
                frames.refusal.eq(Mux(past.refused, Told.STRAY.value, 0)),
                frames.message.eq(Mux(past.refused, 0, past.own_head)),
            ]

    def _join_past(self, m, past):
        door, requests, self.past = self.door, self.requests, past
        self._journal(m, past)
        judged = [
            name for name in judge_members(self.config) if name not in ("records", "file_key")
        ]
        for unit, names in ((requests, judged), (door, FILE_PORTS)):
            for name in names:
                ours, theirs = getattr(past, name), getattr(unit, name)
                reads = past.signature.members[name].flow is In
                m.d.comb += ours.eq(theirs) if reads else theirs.eq(ours)
        m.d.comb += [
            past.start.eq(self.begin),
            past.head.eq(self.opening_frames.first),
            past.role.eq(door.role),
            past.records.eq(self.records),
            requests.records.eq(self.records),
            requests.file_key.eq(door.file_key),
            door.serial.eq(past.serial),
        ]

    def _journal(self, m, past):
        """The journal to keys and operations, and who has the front."""
        m.submodules.journal = journal = self.journal = Journal(self.config)
        registers, head = self.registers, self.requests.head
        back, front = self.back, self.front
        m.d.comb += [
            journal.start.eq(self.begin),
            journal.count.eq(registers.count),
            journal.buckets.eq(registers.walk),
            # what a file's records do is in that file
            journal.logs.eq(past.logs & ~self.records),
            journal.snapshot_key.eq(self.door.file_key),
            journal.log_base.eq(registers.log),
            journal.snapshot_base.eq(registers.snapshot),
            journal.there.eq(past.walk_there),
            past.walk.eq(journal.key),
            past.step.eq(journal.o.valid & journal.o.ready),
            journal.offered.eq(front.i.valid & front.i.ready),
            front.i.valid.eq(head.valid | journal.o.valid),
            front.i.p.eq(Mux(journal.o.valid, journal.o.p, head.p)),
            head.ready.eq(front.i.ready & ~journal.o.valid),
            journal.o.ready.eq(front.i.ready),
        ]
        for name in ("walks", "since", "log_key", "fresh_log", "fresh_snapshot"):
            m.d.comb += getattr(journal, name).eq(getattr(past, name))
        for name in ("begun", "passed", "answered", "sealed", *record_members(self.config)):
            m.d.comb += getattr(journal, name).eq(getattr(back, name))
        self.failures += [
            (journal.late, MapError.DEADLINE),
            (journal.read_error, ErrorCode.BUS_READ),
            (journal.write_error, ErrorCode.BUS_WRITE),
        ]
        shared_by(m, self._port("log"), journal.log_bus)
        shared_by(m, self._port("snapshot"), journal.snapshot_bus)

    def _prepare(self, m):
        """What comes before the first operation of a run: keys and cleared HBM, once, and a frame that
        opens a session. Returns the writers of HBM, by port."""
        config, door, frames = self.config, self.door, self.opening_frames
        cleared = Signal(reset_less=True)
        waiting, go, prepared = Signal(), Signal(), Signal()
        self.fetching = Signal()
        settled, walks = Const(1, 1), Const(0, 1)
        if self.state:
            settled = self.past.settled
            walks = self.past.logs & (self.registers.walk != 0) & ~self.registers.handshake[2]
            m.d.comb += self.journal.prepare.eq(go & walks)
        take = (self.registers.handshake & Handshake.TAKE) != 0
        clears = [Clear(bus_bytes=config.bus_bytes, at=at, size=size) for at, size in config.zeros]
        for k, clear in enumerate(clears):
            m.submodules[f"clear{k}"] = clear
            m.d.comb += clear.start.eq(self.start & ~cleared)
            self.failures.append((clear.error, ErrorCode.BUS_WRITE))
        busy = Cat(clear.busy for clear in clears).any()
        m.d.comb += [
            go.eq(Mux(self.start, cleared, waiting & ~busy & door.there) & settled),
            prepared.eq(Mux(walks, self.journal.ready & cleared, go) if self.state else go),
            frames.take.eq(prepared & take),
            self.begin.eq((prepared & ~take) | self.opened),
        ]
        with m.If(self.start):
            m.d.sync += waiting.eq(1)
        with m.If(go):
            m.d.sync += [waiting.eq(0), cleared.eq(1), self.fetching.eq(take)]
            m.d.sync += self.records.eq((self.registers.handshake & Handshake.FILE) != 0)
        with m.If(frames.taken):
            m.d.sync += self.fetching.eq(0)
        return clears

    def _join(self, m, page_key):
        """Pages to the back and from it. An operation begins there when its pages are open, and where
        it writes is room."""
        config, registers = self.config, self.registers
        front, back, answers = self.front, self.back, self.answers
        m.submodules.opening = self.opening = opening = PageOpening(config)
        m.submodules.closing = self.closing = closing = PageClosing(config)
        wiring.connect(m, front.o, back.i)
        wiring.connect(m, front.o_pages, opening.i)
        wiring.connect(m, front.o_counters, opening.i_counter)
        shared_by(m, self.m0, opening.bus, closing.bus)
        slot, room = Signal(range(config.window)), answers.room
        #: the operation that begins, passes, is answered, is a request's
        asked = passes = may_answer = Const(1, 1)
        if self.state:
            asked, passes, may_answer = (
                getattr(self.journal, n) for n in ("begins", "passes", "answers")
            )
            room = (room | ~asked) & self.journal.room
        m.d.comb += [
            back.go.eq(opening.open & closing.room & room),
            back.ticket.eq(closing.ticket),
            self.requests.slot.eq(slot),
            self.requests.row.eq(back.message),
            back.request.eq(self.requests.data),
            opening.row.eq(back.row),
            opening.released.eq(closing.released),
            closing.merging.eq(back.merging),
            closing.closing.eq(back.closing),
            answers.put.eq(back.answer & may_answer),
            answers.block.eq(back.answer_block),
            answers.data.eq(back.answer_data),
            answers.given.eq(back.answered & may_answer),
            *(back.page[k].eq(opening.page[k]) for k in range(2)),
        ]
        for stage in (opening, closing):
            m.d.comb += [
                stage.key.eq(page_key),
                stage.base.eq(registers.pages),
                stage.host0.eq(back.host0),
                stage.host1.eq(back.host1),
            ]
        for stage in (opening, closing):
            m.d.comb += stage.taken.eq(back.begun)
        m.d.comb += answers.taken.eq(back.begun & asked)
        for name in ("put", "put_row", "put_data", "hosts", "pages", "counters", "used"):
            for into, out in zip(getattr(closing, name), getattr(back, name), strict=True):
                m.d.comb += into.eq(out)
        m.d.comb += closing.sealed.eq(back.sealed)
        with m.If(back.passed & passes):
            m.d.sync += slot.eq(slot + 1)
        with m.If(back.sealed):
            m.d.sync += self.retired.eq(self.retired + 1)
        self.failures += [
            (opening.forged, MapError.PAGE_TAG),
            (opening.bus_error, ErrorCode.BUS_READ),
            (closing.bus_error | answers.bus_error, ErrorCode.BUS_WRITE),
        ]

    def _end_runs(self, m, buckets, records):
        refused = Signal()  # an earlier run left the map's memory half changed
        with m.If(self.begin):
            m.d.sync += [
                self.active.eq(1),
                refused.eq(self.stopped),
                self.stopped.eq(1),
                self.retired.eq(0),
            ]
        front, back, frames = self.front, self.back, self.opening_frames
        failures = [
            (self.active & refused, MapError.STOPPED),
            *self.failures,
            (front.bus_error | back.bus_error, ErrorCode.BUS_READ),
        ]
        collect = (self.registers.handshake & Handshake.COLLECT) != 0
        quiet, self.ended = Signal(), Signal()
        logged, turned, total = Const(1, 1), Const(1, 1), self.registers.count
        if self.state:
            journal, total = self.journal, self.journal.total
            logged, turned = journal.ended, ~journal.over | self.past.turned
            m.d.comb += self.past.turn.eq(quiet & journal.over)
        m.d.comb += [
            self.counters.operations.eq(back.sealed),
            self.counters.pages.eq(self.opening.sent),
            self.counters.conflicts.eq(self.opening.waits),
            self.counters.scanned.eq(buckets.moved + records.moved),
            self.counters.waits.eq(collect & self.ended & ~self.door.idle),
            self.ended.eq(quiet & turned),
            quiet.eq(
                self.active
                & (self.answers.answered == self.registers.count)
                & self.answers.idle
                & self.opening.empty
                & front.idle
                & back.idle
                & logged
                & ~refused
            ),
            # a slot never changes hands between a request and its answer
            frames.collect.eq(
                self.ended & collect & ~self.requests.head.valid & ~self.answers.pending
            ),
            self.done.eq(self.ended & (~collect | frames.told) & ~self.error),
        ]
        with m.If(front.error):
            m.d.comb += [self.error.eq(1), self.report.code.eq(front.code)]
        with m.If(back.error):
            m.d.comb += [self.error.eq(1), self.report.code.eq(back.code)]
        for condition, code in reversed(failures):
            with m.If(condition):
                m.d.comb += [self.error.eq(1), self.report.code.eq(code.value)]
        with m.If(self.done):
            m.d.sync += [
                self.active.eq(0),
                self.stopped.eq(0),
                self.number.eq(self.number + total),
            ]
