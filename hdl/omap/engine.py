"""The oblivious map behind its boundary, as an engine: its ports are those of `models.omap.shell.ports`."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Mux, Signal
from amaranth.lib import wiring

from ...models.errors import ErrorCode
from ...models.omap.back import BackSchedule
from ...models.omap.config import OmapConfig
from ...models.omap.errors import MapError
from ...models.omap.front_schedule import FrontSchedule
from ...models.omap.shell import Handshake, port_bytes, ports, register_map
from ...models.omap.state import Told
from ..memory import AXI4, Dealt
from ..memory.axi import lent_to, shared_by
from ..named import named
from ..shell import engine_members
from ..stream.passing import fields, joined
from .answers import Answers
from .back import Back
from .clear import Clear
from .closing import PageClosing, ticket_layout
from .completion import record_members
from .door import ANSWER_PORTS, FILE_PORTS, REQUEST_PORTS, Door
from .front import Front
from .journal import Journal
from .opening import PageOpening
from .opening_frames import OpeningFrames
from .pairs import PairGenerators
from .past import Past
from .requests import Requests, judge_members

#: what the door has from the vault
_VAULT = ("valid", "root", "entropy", "generation")


@dataclass(frozen=True)
class _Parts:
    """The components of the engine, as requests pass them. Where the map does not outlive the device there is no past and no journal."""

    door: Any
    frames: OpeningFrames
    requests: Requests
    pairs: PairGenerators
    front: Front
    opening: PageOpening
    back: Back
    closing: PageClosing
    answers: Answers
    clears: list[Clear]  # of the buckets, and of the bins' records
    past: Any
    journal: Any


@dataclass(frozen=True)
class _Run:
    """What is known of the run that is under way, and of those before it."""

    begin: Signal  # cycle 0 of the operations
    active: Signal  # they have begun
    stopped: Signal  # a run has begun that did not end
    number: Signal  # operations before this run
    retired: Signal  # operations of this run that have ended
    fetching: Signal  # the frame that begins a session, or a file, is read
    records: Signal  # the requests are records of a file
    opened: Signal  # what the frame asked for is done
    refused: Signal  # an earlier run left the map's memory half changed
    ended: Signal  # the operations have ended, and their log


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
        # no reset reaches keys, sessions, handshakes and the past
        m.domains.steady = ClockDomain("steady", local=True, reset_less=True)
        m.d.comb += ClockSignal("steady").eq(ClockSignal("sync"))
        self.parts = parts = self._parts(m)
        self.run = run = named(
            _Run,
            stopped=Signal(name="stopped", reset_less=True),
            number=Signal(64, name="number", reset_less=True),
            retired=33,
        )
        m.d.comb += fields(parts.door, **{name: self.vault[name] for name in _VAULT})
        m.d.comb += fields(parts.pairs, start=run.begin, number=run.number, key=parts.door.pairs)
        m.d.comb += fields(parts.front, clear=run.begin, key=parts.door.hash)
        wiring.connect(m, parts.pairs.o, parts.front.i_pairs)
        failures = self._messages(m, parts, run)
        self._openings(m, parts, run)
        if self.state:
            self._open_files(m, parts, run)
            failures += self._journal(m, parts, run)
        failures += self._prepare(m, parts, run)
        failures += self._pages(m, parts, run)
        self._memories(m, parts, run)
        self._end(m, parts, run)
        self._report(m, parts, run, failures)
        return m

    def _parts(self, m):
        config = self.config
        m.submodules.door = DomainRenamer("steady")(self.door)
        m.submodules.pairs = pairs = PairGenerators(config)
        m.submodules.front = front = Front(config)
        m.submodules.back = back = Back(config, ticket_layout(config))
        m.submodules.requests = requests = Requests(config, slots=self.slots, state=self.state)
        m.submodules.answers = answers = Answers(config, slots=self.slots)
        m.submodules.opening_frames = frames = OpeningFrames(config)
        past = journal = None
        if self.state:
            m.submodules.past = past = DomainRenamer("steady")(Past(config))
            m.submodules.journal = journal = Journal(config)
        clears = [Clear(bus_bytes=config.bus_bytes, at=at, size=size) for at, size in config.zeros]
        for k, clear in enumerate(clears):
            m.submodules[f"clear{k}"] = clear
        m.submodules.opening = opening = PageOpening(config)
        m.submodules.closing = closing = PageClosing(config)
        return _Parts(
            self.door, frames, requests, pairs, front, opening, back, closing, answers, clears, past, journal,
        )  # fmt: skip

    def _messages(self, m, parts, run):
        """Requests, answers and frames around the door. Return what may fail, as all parts do: a condition and its code."""
        registers, door, frames = self.registers, parts.door, parts.frames
        requests, answers = parts.requests, parts.answers
        wiring.connect(m, requests.ruled, answers.ruled)
        m.d.comb += [
            *fields(requests, start=run.begin, active=run.active, retired=run.retired),
            *fields(requests, address=registers.requests, count=registers.count),
            requests.interval.eq(registers.interval),
            *fields(answers, start=run.begin, serial=door.serial, base=registers.responses),
            *fields(frames, address=registers.opening, to=registers.welcome),
            *joined(requests, door, REQUEST_PORTS),
            *joined(answers, door, ANSWER_PORTS),
            *joined(frames, door, ("slot", "asked", "first")),
        ]
        return [
            (requests.bus_error | frames.read_error, ErrorCode.BUS_READ),
            (frames.write_error, ErrorCode.BUS_WRITE),
        ]

    def _openings(self, m, parts, run):
        """The door has the frames that a run has beside its operations."""
        door, frames = parts.door, parts.frames
        m.d.comb += run.opened.eq(frames.taken)
        m.d.comb += joined(frames, door, ("start", "commit", "idle", "ready", "told_slot"))
        m.d.comb += joined(frames, door, ("refusal", "message"))
        if not self.state:
            wiring.connect(m, parts.requests.head, parts.front.i)
            m.d.comb += door.serial.eq(run.number)

    def _open_files(self, m, parts, run):
        """The past has keys and requests, and in a run of records the frames in place of the door."""
        door, past = parts.door, parts.past
        frames, requests = parts.frames, parts.requests
        judged = [
            name for name in judge_members(self.config) if name not in ("records", "file_key")
        ]
        m.d.comb += [
            *joined(past, requests, judged),
            *joined(past, door, FILE_PORTS),
            *fields(past, generation=self.vault["generation"], start=run.begin, head=frames.first),
            *fields(past, role=door.role, records=run.records),
            *fields(requests, records=run.records, file_key=door.file_key),
            door.serial.eq(past.serial),
        ]
        with m.If(run.records):
            m.d.comb += [
                *fields(door, start=0, commit=0),
                *fields(past, open=frames.start, begin=frames.collect),
                run.opened.eq(past.ready),
                *fields(frames, idle=0, ready=past.there, told_slot=0),
                frames.refusal.eq(Mux(past.refused, Told.STRAY.value, 0)),
                frames.message.eq(Mux(past.refused, 0, past.own_head)),
            ]

    def _journal(self, m, parts, run):
        """The journal to keys and operations. Its walks have the front before requests."""
        past, journal, registers = parts.past, parts.journal, self.registers
        front, head, steps = parts.front.i, parts.requests.head, parts.journal.o
        walked = ("walks", "since", "log_key", "fresh_log", "fresh_snapshot")
        written = ("begun", "passed", "answered", "sealed", *record_members(self.config))
        m.d.comb += [
            *fields(journal, start=run.begin, count=registers.count, buckets=registers.walk),
            # what a file's records do is in that file
            journal.logs.eq(past.logs & ~run.records),
            *fields(journal, log_base=registers.log, snapshot_base=registers.snapshot),
            *fields(journal, snapshot_key=parts.door.file_key, there=past.walk_there),
            *joined(journal, past, walked),
            *joined(journal, parts.back, written),
            *fields(past, walk=journal.key, step=steps.valid & steps.ready),
            journal.offered.eq(front.valid & front.ready),
            front.valid.eq(head.valid | steps.valid),
            front.p.eq(Mux(steps.valid, steps.p, head.p)),
            head.ready.eq(front.ready & ~steps.valid),
            steps.ready.eq(front.ready),
        ]
        shared_by(m, self._port("log"), journal.log_bus)
        shared_by(m, self._port("snapshot"), journal.snapshot_bus)
        return [
            (journal.late, MapError.DEADLINE),
            (journal.read_error, ErrorCode.BUS_READ),
            (journal.write_error, ErrorCode.BUS_WRITE),
        ]

    def _prepare(self, m, parts, run):
        """What comes before the first operation of a run: keys and cleared HBM, once, and a frame that
        opens a session."""
        door, frames, journal = parts.door, parts.frames, parts.journal
        cleared = Signal(reset_less=True)
        waiting, go, prepared = Signal(), Signal(), Signal()
        handshake = self.registers.handshake
        take = (handshake & Handshake.TAKE) != 0
        busy = Cat(clear.busy for clear in parts.clears).any()
        settled = parts.past.settled if self.state else 1
        m.d.comb += [
            *(clear.start.eq(self.start & ~cleared) for clear in parts.clears),
            go.eq(Mux(self.start, cleared, waiting & ~busy & door.there) & settled),
            prepared.eq(go),
            frames.take.eq(prepared & take),
            run.begin.eq((prepared & ~take) | run.opened),
        ]
        if self.state:
            walks = parts.past.logs & (self.registers.walk != 0) & ~handshake[2]
            m.d.comb += journal.prepare.eq(go & walks)
            with m.If(walks):
                m.d.comb += prepared.eq(journal.ready & cleared)
        with m.If(self.start):
            m.d.sync += waiting.eq(1)
        with m.If(go):
            m.d.sync += [waiting.eq(0), cleared.eq(1), run.fetching.eq(take)]
            m.d.sync += run.records.eq((handshake & Handshake.FILE) != 0)
        with m.If(frames.taken):
            m.d.sync += run.fetching.eq(0)
        return [(clear.error, ErrorCode.BUS_WRITE) for clear in parts.clears]

    def _pages(self, m, parts, run):
        """Pages to the back and from it. An operation begins there when its pages are open, and where
        it writes is room."""
        front, back, journal = parts.front, parts.back, parts.journal
        requests, answers = parts.requests, parts.answers
        opening, closing = parts.opening, parts.closing
        wiring.connect(m, front.o, back.i)
        wiring.connect(m, front.o_pages, opening.i)
        wiring.connect(m, front.o_counters, opening.i_counter)
        slot, room = Signal(range(self.config.window)), answers.room
        #: the operation that begins, passes, is answered, is a request's
        asked = passes = may_answer = Const(1, 1)
        if self.state:
            asked, passes, may_answer = journal.begins, journal.passes, journal.answers
            room = (room | ~asked) & journal.room
        m.d.comb += [
            *fields(back, go=opening.open & closing.room & room, ticket=closing.ticket),
            *fields(requests, slot=slot, row=back.message),
            back.request.eq(requests.data),
            *fields(opening, row=back.row, released=closing.released),
            *joined(closing, back, ("merging", "closing", "sealed")),
            *fields(answers, put=back.answer & may_answer, taken=back.begun & asked),
            *fields(answers, block=back.answer_block, data=back.answer_data),
            answers.given.eq(back.answered & may_answer),
            *(back.page[k].eq(opening.page[k]) for k in range(2)),
        ]
        for stage in (opening, closing):
            m.d.comb += joined(stage, back, ("host0", "host1"))
            m.d.comb += fields(
                stage, key=parts.door.page, base=self.registers.pages, taken=back.begun
            )
        for name in ("put", "put_row", "put_data", "hosts", "pages", "counters", "used"):
            for into, out in zip(getattr(closing, name), getattr(back, name), strict=True):
                m.d.comb += into.eq(out)
        with m.If(back.passed & passes):
            m.d.sync += slot.eq(slot + 1)
        return [
            (opening.forged, MapError.PAGE_TAG),
            (opening.bus_error, ErrorCode.BUS_READ),
            (closing.bus_error | answers.bus_error, ErrorCode.BUS_WRITE),
        ]

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

    def _memories(self, m, parts, run):
        """Who has which port, and when."""
        schedule, of_back = FrontSchedule.of(self.config), BackSchedule.of(self.config)
        scans, asks = schedule.within(0, schedule.end), schedule.within(schedule.ask, schedule.end)
        fetches = self.config.slots * (of_back.due // of_back.fetch + 2)
        front, back, (buckets, records) = parts.front, parts.back, parts.clears
        readers = [(parts.journal.bucket_bus, parts.journal.busy)] if self.state else []
        to_buckets = self._to_hbm(m, "buckets", 2 * scans)
        to_records = self._to_hbm(m, "records", 4 * asks)
        lent_to(m, to_buckets, front.bucket_bus, (buckets.bus, buckets.busy), *readers)
        lent_to(m, to_records, front.record_bus, (records.bus, records.busy))
        shared_by(m, self._to_hbm(m, "frames0", fetches), back.bus0)
        shared_by(m, self._to_hbm(m, "frames1", fetches), back.bus1)
        shared_by(m, self.m0, parts.opening.bus, parts.closing.bus)
        lent_to(m, self.m1, parts.requests.bus, (parts.frames.reads, run.fetching))
        lent_to(m, self.m1, parts.answers.bus, (parts.frames.writes, run.ended))

    def _end(self, m, parts, run):
        """A run ends behind its last answer, page and record of the log, and behind the frame that ends it."""
        frames, requests, answers = parts.frames, parts.requests, parts.answers
        collect = (self.registers.handshake & Handshake.COLLECT) != 0
        logged, turned, total = Const(1, 1), Const(1, 1), self.registers.count
        quiet = Signal()
        if self.state:
            journal, total = parts.journal, parts.journal.total
            logged, turned = journal.ended, ~journal.over | parts.past.turned
            m.d.comb += parts.past.turn.eq(quiet & journal.over)
        answered = (answers.answered == self.registers.count) & answers.idle
        idle = parts.opening.empty & parts.front.idle & parts.back.idle
        m.d.comb += [
            quiet.eq(run.active & answered & idle & logged & ~run.refused),
            run.ended.eq(quiet & turned),
            # a slot never changes hands between a request and its answer
            frames.collect.eq(run.ended & collect & ~requests.head.valid & ~answers.pending),
            self.done.eq(run.ended & (~collect | frames.told) & ~self.error),
            self.counters.waits.eq(collect & run.ended & ~parts.door.idle),
        ]
        with m.If(parts.back.sealed):
            m.d.sync += run.retired.eq(run.retired + 1)
        with m.If(run.begin):
            m.d.sync += fields(run, active=1, refused=run.stopped, stopped=1, retired=0)
        with m.If(self.done):
            m.d.sync += fields(run, active=0, stopped=0, number=run.number + total)

    def _report(self, m, parts, run, failures):
        """Counters, and the first failure; of several at once the one that is first here."""
        front, back, (buckets, records) = parts.front, parts.back, parts.clears
        m.d.comb += fields(
            self.counters,
            operations=back.sealed,
            pages=parts.opening.sent,
            conflicts=parts.opening.waits,
            scanned=buckets.moved + records.moved,
        )
        failures = [
            (run.active & run.refused, MapError.STOPPED),
            *failures,
            (front.bus_error | back.bus_error, ErrorCode.BUS_READ),
        ]
        for part in (front, back):
            with m.If(part.error):
                m.d.comb += [self.error.eq(1), self.report.code.eq(part.code)]
        for condition, code in reversed(failures):
            with m.If(condition):
                m.d.comb += [self.error.eq(1), self.report.code.eq(code.value)]
