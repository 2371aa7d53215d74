# amaranth: UnusedElaboratable=no
"""T1 to T8 on what the host sees of a map in hardware: sessions of three roles, a snapshot that is restored, one that
is taken between requests, the log.
Of hardware that uses DRAM when it answers T8 says so."""

from __future__ import annotations

import random

import pytest
from harness import Defect, planted

from penstock.models.memory import parse_memory
from penstock.models.omap.boundary import Header
from penstock.models.omap.kept_device import KeptDevice
from penstock.models.omap.planner import plan
from penstock.models.omap.session_stages import walked
from penstock.models.omap.sessions import Asked
from penstock.models.omap.state import HEAD, Record, Told
from penstock.targets import target_named
from testbench.kept_maps import ROOT, SHAPE, Both, compiled
from testbench.obliviousness import (
    Trace,
    ciphertexts,
    classifier,
    independence,
    same_gaps,
    same_histogram,
    same_times,
    shape,
    uniformity,
)
from testbench.omap import config
from testbench.omap_workloads import WORKLOADS, workload
from testbench.session_clients import by_another_library

_PART = target_named("u55c")
_HBM = parse_memory(_PART.dram, _PART.clock_mhz)
_RUNS = 16  # of a workload, in which a snapshot is taken
_MESSAGES, _LOG, _SNAPSHOT = 1, 6, 7  # ports
_WIDE = config(
    capacity=512,
    bins=128,
    hbm_bins=26,
    buckets=64,
    bucket_slots=32,
    frames=400,
    deadline=plan(512, 8, memory=_HBM).access.deadline,
    request_openers=2,
    responders=2,
)


class _Seen:
    """What the host sees of a workload, run by run: pages, and cycles of its ports from each arrival on. A
    snapshot's steps come one upon another, so what one waits for all behind it do: of a run's steps the pace is
    one sample. The map is there from a snapshot that a golden device made. `interval`: cycles between arrivals, in
    which an operation is answered."""

    def __init__(self, library, name, count, of=_WIDE, interval=1500, **given):
        self.of, self.interval, self.read, self.written = of, interval, [], []
        self.waits, self.pages, self.paces, self.texts, self.places = [], [], [], [], []
        first, made = workload(name, of.capacity, count)
        self.draw = random.Random(name)
        with pytest.MonkeyPatch.context() as patch, Both(library, 1, of, **given) as self.both:
            by_another_library(patch)
            for port in (0, _MESSAGES, _LOG, _SNAPSHOT):
                self.both.rig.machine.trace(port)
            self._restore(made[:first])
            each = count // _RUNS
            self.whole = sum(
                self._run(made[at : at + each]) for at in range(first, len(made), each)
            )
        self.trace = Trace(of.bins, of.hbm_bins, tuple(self.read), tuple(self.written))

    def _restore(self, made):
        both, size = self.both, Record.size(self.of)
        old = KeptDevice(self.of, ROOT, bytes(32))
        old.begin()
        for request in made:
            old.device.step(request)
        text = old.carry([], walk=self.of.buckets).snapshot
        both.take([], (Header(0, 0, 0).pack() + text[:HEAD]).ljust(self._opening, b"\0"))
        records = [
            both.frames.pack(Header(0, 0, k), both.frames.answer_blocks, text[at : at + size])
            for k, at in enumerate(range(HEAD, len(text), size), 1)
        ]
        told = both.golden.take(records)
        ended, found = both.rig.run(records, file=True, interval=self.interval)
        assert ended.error is None and found == told
        assert Header.unpack(told[-1]).code == Told.END
        self._look(len(records))
        both.begin()

    @property
    def _opening(self):
        return self.both.frames.opening_beats * self.both.frames.bus_bytes

    def _client(self, operation):
        """A reader asks for some of what is read, and a keeper for what is refused."""
        writer, reader, keeper = self.both.clients
        kind = self.draw.random()
        if kind < 0.02:
            return keeper
        return reader if kind < 0.5 and operation == Asked.GET else writer

    def _run(self, made):
        """Requests, then a part of a snapshot; return whether it is whole."""
        both, buckets = self.both, max(self.of.buckets // _RUNS, 1)
        asked = [(self._client(request.operation), request) for request in made]
        frames = [who.ask(r.operation, r.key, r.value) for who, r in asked]
        begin = walked(self.of, buckets, both.golden._snapshot is None)
        told = both.golden.carry(frames, walk=buckets)
        ended, answers = both.rig.run(frames, interval=self.interval, walk=buckets)
        assert ended.error is None and answers == told.answers
        for (who, _), answer in zip(asked, answers, strict=True):
            assert who.hear(answer) is not None
        self._look(len(made), begin)
        return bool(told.fresh)

    def _look(self, asked, begin=0):
        """Note what the last run shows, whose operations arrive from a cycle on; those of a snapshot are behind them."""
        machine, size = self.both.rig.machine, self.of.page_bytes
        owners = [k for k, step in enumerate(self.both.steps) for _ in step.opened]
        count = len(self.both.steps)
        for channel, all_ in (("read", self.read), ("write", self.written)):
            pages, at, noted = [[] for _ in range(count)], -1, []
            for seen in machine.trace(0):
                if seen.channel == channel:
                    if seen.address % size == 0:  # a page's first burst
                        at += 1
                        pages[owners[at]].append(seen.address // size)
                    noted.append((owners[at], seen.cycle - begin))
                    if channel == "write":
                        self.texts.append(seen.digest)
            all_ += map(tuple, pages)
            self.pages += self._times(noted, asked)
        for port in (_MESSAGES, _LOG, _SNAPSHOT):
            seen = machine.trace(port)
            self.places += [(port, t.channel, t.address, t.beats) for t in seen]
            written = [t for t in seen if t.channel == "write"]
            self.waits += self._times([(k, t.cycle - begin) for k, t in enumerate(written)], asked)
            self.texts += [t.digest for t in written]
        self.both.steps.clear()

    def _times(self, noted, asked):
        """Of (operation, cycle)s."""
        steps = [cycle for k, cycle in noted if k >= asked]
        if steps:
            self.paces.append((steps[-1] - steps[0]) / len(steps))
        return [cycle - k * self.interval for k, cycle in noted if k < asked]


def _told(one, other):
    """What all tests say of a workload beside another one."""
    pair = one.trace, other.trace
    return [
        *(finding for seen in pair for finding in shape(seen)),
        uniformity(one.trace),
        independence(one.trace),
        same_histogram(*pair),
        same_gaps(*pair),
        classifier(*pair),
        ciphertexts((k, 0, text) for k, text in enumerate(one.texts)),
        *same_times(one.waits, other.waits),
        *same_times(one.pages, other.pages),
        *same_times(one.paces, other.paces),
    ]


def _equal(one, other):
    assert one.whole and other.whole
    findings = _told(one, other)
    assert [finding for finding in findings if not finding.passes] == []
    assert one.places == other.places  # T6


@pytest.mark.long
def test_the_host_of_a_small_map_learns_nothing():
    library = compiled(SHAPE)
    one, other = (_Seen(library, name, 400, SHAPE, 800) for name in ("hot key", "sweep"))
    _equal(one, other)


@pytest.fixture(scope="module")
def library():
    return compiled(_WIDE, optimise="-O1")


@pytest.fixture(scope="module")
def sweep(library):
    return _Seen(library, "sweep", 4000, hbm=_HBM)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "sweep"])
def test_the_host_learns_nothing(library, sweep, name):
    _equal(_Seen(library, name, 4000, hbm=_HBM), sweep)


_LEAKS = {
    "a request waits for the one before, if both have the same key": Defect(
        "hdl.omap.front",
        "pause = Signal(range(schedule.interval)) m.d.comb += [ self.idle.eq(timeline.idle), "
        "begin.eq(self.i.valid & self.i_pairs.valid & (pause == 0)),",
        """pause, last, held = Signal(range(schedule.interval)), Signal(64), Signal(7)
        same, begun = self.i.p.key == last, self.i.valid & self.i_pairs.valid & (pause == 0)
        with m.If(begin):
            m.d.sync += [last.eq(self.i.p.key), held.eq(0)]
        with m.Elif(begun):
            m.d.sync += held.eq(held + 1)
        m.d.comb += [ self.idle.eq(timeline.idle),
            begin.eq(begun & (~same | (held == 64))),""",
    ),
    "what HBM reads is used when it is there": Defect(
        "hdl.omap.front",
        "m.submodules.entries = entries = Entries(config)",
        """m.submodules.entries = entries = Entries(config)
        got, line, bus = Signal(8), timeline._line, port.bus
        a, e, some = schedule.hashed + 2, schedule.scan - 2, Signal()
        # of an operation that is alone there: no request is upon another, as a snapshot's steps are
        m.d.comb += some.eq(line[a:e].any() & ~(line[a:e] & (line[a:e] - 1)).any())
        with m.If(some & (got == 2 * config.bucket_beats)):
            m.d.sync += got.eq(got + 1)
            m.d.sync += line.eq(Cat(begin, line[: a - 1], Const(0, e - a), Const(1, 1), line[e:-1]))
        with m.Elif(~line[:e].any()):
            m.d.sync += got.eq(0)
        with m.Else():
            m.d.sync += got.eq(got + (bus.rvalid & bus.rready & ~got.all()))""",
    ),
    "a hit is answered earlier than a miss": Defect(
        "hdl.omap.completion",
        "with m.If(self.ends): m.d.sync += [self.answer.eq(1), self.at.eq(0), self.stage.eq(self.i)]",
        """late, waits = Signal(4), Signal()
        with m.If(self.ends):
            m.d.sync += [self.answer.eq(self.i.op.hit), waits.eq(~self.i.op.hit)]
            m.d.sync += [late.eq(0), self.at.eq(0), self.stage.eq(self.i)]
        with m.Elif(waits):
            # fewer cycles than operations are apart
            m.d.sync += [late.eq(late + 1), self.answer.eq(late == 9), waits.eq(late != 9)]""",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("leak", _LEAKS)
def test_a_leak_in_hardware_is_seen(leak):
    with planted(_LEAKS[leak]):
        leaking = compiled(_WIDE, note=repr(_LEAKS[leak]), optimise="-O1")
    name = "misses" if "hit" in leak else "hot key"
    one, other = (_Seen(leaking, workload, 400, hbm=_HBM) for workload in ("sweep", name))
    findings = [*same_times(one.waits, other.waits), *same_times(one.pages, other.pages)]
    assert not all(finding.passes for finding in findings), findings
