# amaranth: UnusedElaboratable=no
"""The oblivious map, which keeps its state: two runs with equal arrivals that show equal bins look the same
from outside, whatever their keys, values, operations, records and HBM are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import Bench, Defect, Proof, two_runs
from harness.small import made
from harness.substitute import Cut, replaced
from map_host import MapHost

from penstock.hdl.omap import engine
from penstock.hdl.omap import pairs as pair_generator
from penstock.hdl.omap.door import door_members
from penstock.models.omap.config import Access, Cores, OmapConfig
from penstock.models.omap.shell import ports
from penstock.models.omap.state import Told, What
from penstock.models.omap.vault import GENERATION_BITS

#: a map of two items in four bins, one of them in HBM
SMALL = OmapConfig(
    capacity=2,
    value_bytes=8,
    bins=4,
    hbm_bins=1,
    slots=2,
    buckets=2,
    bucket_slots=1,
    frames=4,
    window=2,
    cores=Cores(openers=2, sealers=2, responders=1, request_openers=2, rounds=4),
    access=Access(deadline=4),
    bus_bytes=16,
    host_bus_bytes=16,
)

#: what the map is, and what else it may be
SHAPES = {
    "": SMALL,
    "two blocks a cycle, pages in two pieces": replace(
        SMALL, merge_blocks=2, chunks=2, bus_bytes=32, bucket_slots=2
    ),
    "four openers": replace(
        SMALL,
        cores=replace(SMALL.cores, openers=4, sealers=4, request_openers=4),
        window=4,
    ),
}


class Given(NamedTuple):
    """Outputs of all components of a kind that are not theirs: any, the same in both runs."""

    module: str
    kind: str
    outputs: tuple[str, ...]
    words: str


#: what the proof cuts; where a cipher opens, what it opens is each run's own
GIVEN = (
    Given("hdl.omap.front", "Shown", ("bin0", "bin1"), "bins that are shown are equal"),
    Given(
        "hdl.omap.sealing",
        "Sponge",
        ("result", "tag"),
        "ciphers are ideal: what is sealed is equal, what is opened is any",
    ),
    Given("hdl.omap.envelopes", "Gcm", ("result", "tag"), ""),
    Given("hdl.omap.opening", "Opener", ("fits",), "tags fit at equal times"),
    Given(
        "hdl.omap.engine", "OpeningFrames", ("slot", "asked", "first"), "heads of files are equal"
    ),
    Given("hdl.omap.engine", "Clear", ("busy", "moved", "error"), "HBM is cleared in equal time"),
    Given(
        "hdl.omap.engine",
        "Front",
        ("error", "bus_error", "code"),
        "front, back and walker fail at equal times",
    ),
    Given("hdl.omap.engine", "Back", ("error", "bus_error", "code"), ""),
    Given("hdl.omap.journal", "Walker", ("error", "late"), ""),
)
CUTS = (
    *(cut.words for cut in GIVEN if cut.words),
    "pairs of bins come at equal times",
    "requests and records have equal headers; which record ends a snapshot, and behind which serial it was written, is equal",
    "the door opens equal sessions, and derives keys, at equal times",
    "keys are of equal generations",
)

#: registers that the host may know, and how many of their bits are free
_PUBLIC = {
    **dict.fromkeys(
        ("requests", "responses", "opening", "welcome", "pages", "log", "snapshot"), 14
    ),
    "walk": 2,
    "handshake": 3,
    "count": 3,
    "interval": 6,
}
#: of a cipher's block so many bits are free, the others 0: nothing looks at its content
_WIDE, _FEW = 128, 2


class Free:
    """Free signals of a run. Those of `common` are the same in both runs: of the same kind, made in
    the same order."""

    def __init__(self, bench: Bench, number: int) -> None:
        self._bench, self._number = bench, number
        self._made: dict[str, int] = {}

    def _numbered(self, name: str) -> str:
        self._made[name] = self._made.get(name, -1) + 1
        return f"{name}{self._made[name]}"

    def common(self, name: str, bits: int, whole: bool = False) -> Value:
        name = self._numbered(name)
        narrow = bits if bits < _WIDE or whole else _FEW
        free = self._bench.inputs[name] if self._number else self._bench.free(name, narrow)
        return Cat(free, Const(0, bits - narrow)) if narrow < bits else free

    def own(self, name: str, bits: int) -> Value:
        return self._bench.free(f"{self._numbered(name)} ({self._number})", bits)


class Run(wiring.Component):
    """An engine without its shell, with registers as ports of their own, and `reset`, the soft one; with `CUTS`."""

    def __init__(self, config: OmapConfig, free: Free) -> None:
        self.engine = engine.MapEngine(config, door=_Door(free), state=True)
        members: dict[str, Any] = {"reset": In(1)}
        for name, member in self.engine.signature.members.items():
            if name == "registers":
                members |= {
                    r.name: In(_PUBLIC.get(r.name, r.bits)) for r in self.engine.register_map.engine
                }
            else:
                members[name] = member
        super().__init__(members)
        self._generation = free.common("generation", GENERATION_BITS)
        self._made = self._elaborated(free)

    def _elaborated(self, free: Free) -> Elaboratable:
        def cut(*names):
            def of(kind):
                def make(*args, **shape):
                    own = shape.get("opening", False)
                    return Cut(kind(*args, **shape), names, partial(give, kind.__name__, own))

                return make

            return of

        def give(label, own, name, bits):
            label = f"{label}.{name}"
            return (
                free.own(label, bits) if own else free.common(label, bits, label.endswith("first"))
            )

        kinds: dict[str, dict[str, Any]] = {}
        for place in GIVEN:
            kinds.setdefault(place.module, {})[place.kind] = cut(*place.outputs)
        kinds["hdl.omap.requests"] = {
            "FrameOpener": lambda kind: lambda *args, **shape: _Opened(kind(*args, **shape), free)
        }
        kinds["hdl.omap.engine"]["PairGenerators"] = lambda _: lambda config: _Pairs(config, free)
        with replaced(kinds):
            return made(self.engine)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = ResetInserter(self.reset)(self._made)
        for name in self.engine.signature.members:
            if name == "registers":
                for register in self.engine.register_map.engine:
                    mine = getattr(self, register.name)
                    m.d.comb += self.engine.registers[register.name].eq(mine)
        theirs = {path: value for path, _, value in self.engine.signature.flatten(self.engine)}
        for path, member, value in self.signature.flatten(self):
            if path in theirs:
                mine, other = Value.cast(value), Value.cast(theirs[path])
                m.d.comb += other.eq(mine) if member.flow is In else mine.eq(other)
        m.d.comb += self.engine.vault["generation"].eq(self._generation)
        return m


class _Door(wiring.Component):
    """Any sessions and handshakes, the same in both runs; keys are no matter where ciphers are ideal."""

    def __init__(self, free: Free) -> None:
        self._free = free
        super().__init__(door_members(64))

    def elaborate(self, platform):
        m = Module()
        for name, member in self.signature.members.items():
            if member.flow is Out and name not in ("page", "receive", "send"):
                made = self._free.common(
                    f"Door.{name}", len(getattr(self, name)), name == "incarnation"
                )
                m.d.comb += getattr(self, name).eq(made)
        return m


class _Opened(wiring.Component):
    """An opener whose texts have the same headers in both runs, and fit at the same times, as END of a
    snapshot and a record's `since` are; all else of them is any."""

    def __init__(self, inner: wiring.Component, free: Free) -> None:
        self._inner, self._free = inner, free
        super().__init__(inner.signature)

    def elaborate(self, platform):
        m = Module()
        inner, free = self._inner, self._free
        m.submodules.inner = inner
        for name in ("i", "i_data"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(inner, name))
        m.d.comb += [
            self.o.valid.eq(inner.o.valid),
            inner.o.ready.eq(self.o.ready),
            inner.slot.eq(self.slot),
            inner.row.eq(self.row),
            self.data.eq(free.own("FrameOpener.data", len(self.data))),
        ]
        m.d.comb += inner.records.eq(self.records)
        for name in ("slot", "number", "fits", "since", "key", "name"):
            mine = self.o.p[name]
            make = free.own if name in ("key", "name") else free.common
            m.d.comb += mine.eq(make(f"FrameOpener.{name}", len(mine)))
        operation, end = free.own("FrameOpener.operation", 8), free.common("FrameOpener.end", 1)
        changes = Mux(operation == What.END, What.NOTHING.value, operation)
        record = Mux(end, What.END.value, changes)
        m.d.comb += self.o.p.operation.eq(Mux(self.records, record, operation))
        return m


class _Pairs(wiring.Component):
    """Any pairs, at times that are the same in both runs."""

    def __init__(self, config: OmapConfig, free: Free) -> None:
        self._free = free
        super().__init__(pair_generator.PairGenerators(config).signature)

    def elaborate(self, platform):
        m = Module()
        bits = Value.cast(self.o.payload)
        m.d.comb += [
            self.o.valid.eq(self._free.common("pairs.valid", 1)),
            bits.eq(self._free.own("pairs.payload", len(bits))),
        ]
        return m


def traffic(config: OmapConfig) -> Bench:
    """Two engines with keys, requests, records, pages and HBM of their own."""
    b = Bench()
    hosts = tuple(f"m{k}" for k, hbm in enumerate(ports(config, True).values()) if not hbm)
    answers = (
        "arready",
        "rvalid",
        "rlast",
        "rresp",
        "rid",
        "awready",
        "wready",
        "bvalid",
        "bresp",
        "bid",
    )
    equal = [f"{host}__{name}" for host in hosts for name in (*answers, "bid")]
    equal = [
        name for name in equal if not name.startswith(("m6__r", "m6__ar", "m7__r", "m7__ar"))
    ]  # they write alone
    runs = iter(range(2))
    (one, first), (two, second) = two_runs(
        b, lambda: Run(config, Free(b, next(runs))), ["start", "reset", *_PUBLIC, *equal]
    )
    for name in first:
        if name.startswith(hosts) or name in ("done", "error", "report", "counters"):
            b.check(f"{name} is the same in both", first[name] == second[name])
    for name in ("start", "commit", "judge_slot", "used", "seal_slot", "draw_file", "file"):
        told = (getattr(run.engine.door, name) for run in (one, two))
        b.check(f"the door's {name} is the same in both", next(told) == next(told))
    _covers(b, one)
    b.looked_at = (config, first, second)
    for name in ("m0__arvalid", "m0__awvalid", "m0__wvalid", "m1__wvalid", "m6__wvalid"):
        for number, values in enumerate((first, second)):
            b.show(f"{name} ({number})", values[name])
    return b


def _covers(b: Bench, run: Run) -> None:
    """What one of the runs does between the front and the back."""
    found = run.engine.parts.front.o
    moved, was, key = Signal(), Signal(), Signal.like(found.p.key)
    flying = Signal(range(run.engine.config.window + 1))
    b.d.comb += moved.eq(found.valid & found.ready)
    b.d.sync += flying.eq(flying + moved - run.engine.parts.back.sealed)
    with b.m.If(moved):
        b.d.sync += [was.eq(1), key.eq(found.p.key)]
    b.cover("a key has an item", moved & found.p.hit)
    b.cover("a key has none", moved & ~found.p.hit)
    b.cover(
        "the same key is found twice in flight",
        moved & was & (flying != 0) & (found.p.key == key) & found.p.hit,
    )
    b.cover("a response is written", run.m1.wvalid & run.m1.wlast)
    b.cover("a page is written", run.m0.wvalid & run.m0.wlast)
    b.cover("a record of the log is written", run.m6.wvalid & run.m6.wlast)
    b.cover("a record of a snapshot is written", run.m7.wvalid & run.m7.wlast)
    step = run.engine.parts.journal.o
    for words, gets in (("an entry", step.p.operation.any()), ("none", ~step.p.operation.any())):
        b.cover(f"a walk finds {words}", step.valid & step.ready & gets)
    requests = run.engine.parts.requests
    b.cover(
        "a record of a file is applied",
        requests.records & requests.judging & (requests.told == Told.APPLIED),
    )
    b.cover("a request is refused", ~requests.records & requests.judging & ~requests.used)


_LEAKS = (
    Defect(  # a key that has an item opens one bin
        "hdl.omap.records",
        "m.d.sync += bins.eq(self.i.p.bins)",
        "m.d.sync += Cat(bins[0], bins[1]).eq("
        "Mux(self.i.p.found, self.i.p.bins[0], Cat(self.i.p.bins[0], self.i.p.bins[1])))",
    ),
    Defect(  # a key that has an item is answered a cycle early
        "hdl.omap.completion",
        "self.answered.eq(self.answer & last)",
        "self.answered.eq(self.answer & Mux(self.stage.op.hit, self.answer_block == 0, last))",
    ),
    Defect(  # a walk skips empty entries
        "hdl.omap.walker",
        "step.eq(self.o.valid & self.o.ready)",
        "step.eq(self.o.valid & (self.o.ready | ~self.o.p.operation.any()))",
    ),
    Defect(  # a page is written back only if it has items
        "hdl.omap.closing",
        "writes.i.valid.eq((self.sealed & self.hosts[0]) | later)",
        "writes.i.valid.eq((self.sealed & self.hosts[0] & (self.used[0] != 0)) | later)",
    ),
)

PROOFS = [
    Proof(
        "hdl.omap.engine.MapEngine",
        "two runs with equal arrivals that show equal bins are the same at the host's ports in every "
        "cycle (addresses, lengths, times, sealed data), whatever keys, values, operations, HBM's "
        "content and times are; loads, restores, the log, snapshots, refused messages and soft resets inside"
        + (f"; {words}" if words else ""),
        partial(traffic, config),
        _LEAKS if config is SMALL else _LEAKS[1:2],
        method="registers",
        cuts=CUTS,
        player=MapHost,
        search=1100,
        seconds=900,
        long="five minutes",
    )
    for words, config in SHAPES.items()
]
