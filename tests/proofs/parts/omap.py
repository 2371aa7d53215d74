# amaranth: UnusedElaboratable=no
"""The oblivious map: two runs with equal arrivals that show equal bins look the same from outside,
whatever their keys, values, operations and HBM are.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import Bench, Defect, Proof, two_runs
from harness.small import made
from harness.substitute import Cut, replaced

from penstock.hdl.omap import engine
from penstock.hdl.omap import pairs as pair_generator
from penstock.hdl.omap.door import door_members
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.shell import register_map

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
    openers=2,
    sealers=2,
    responders=1,
    request_openers=2,
    rounds=4,
    deadline=4,
    bus_bytes=16,
    host_bus_bytes=16,
)

#: registers that the host may know, and how many of their bits are free
_PUBLIC = {
    **dict.fromkeys(("requests", "responses", "opening", "welcome", "pages"), 14),
    "handshake": 2,
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

    def common(self, name: str, bits: int) -> Value:
        name = self._numbered(name)
        narrow = bits if bits < _WIDE else _FEW
        free = self._bench.inputs[name] if self._number else self._bench.free(name, narrow)
        return Cat(free, Const(0, bits - narrow)) if narrow < bits else free

    def own(self, name: str, bits: int) -> Value:
        return self._bench.free(f"{self._numbered(name)} ({self._number})", bits)


class Run(wiring.Component):
    """An engine without its shell, with registers as ports of their own, and with these cuts:

    * the pairs that are shown (`Shown`) are the same in both runs;
    * pairs are made at the same times, and are any;
    * headers of requests are the same in both; what is opened of them is any;
    * the door opens the same sessions at the same times: what it is told is checked to be the same;
    * HBM is cleared in the same time;
    * ciphers are ideal: what is sealed is anything, the same in both runs; what is opened is
      anything; tags fit at the same time. Their latency is the ciphers' own;
    * the front and the back fail at the same time: when HBM misses its deadline, or a bound of the
      failure budget is exceeded.
    """

    def __init__(self, config: OmapConfig, free: Free) -> None:
        self.engine = engine.MapEngine(config, door=_Door(free))
        members: dict[str, Any] = {}
        for name, member in self.engine.signature.members.items():
            if name == "registers":
                members |= {r.name: In(_PUBLIC.get(r.name, r.bits)) for r in register_map(0).engine}
            else:
                members[name] = member
        super().__init__(members)
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
            return (free.own if own else free.common)(f"{label}.{name}", bits)

        kinds = {
            "hdl.omap.front": {"Shown": cut("bin0", "bin1")},
            "hdl.omap.sealing": {"Sponge": cut("result", "tag")},
            "hdl.omap.opening": {"Opener": cut("fits")},
            "hdl.omap.requests": {
                "FrameOpener": lambda kind: (
                    lambda *args, **shape: _Opened(kind(*args, **shape), free)
                )
            },
            "hdl.omap.envelopes": {"Gcm": cut("result", "tag")},
            "hdl.omap.engine": {
                "Clear": cut("busy", "moved", "error"),
                "Front": cut("error", "bus_error", "code"),
                "Back": cut("error", "bus_error", "code"),
                "PairGenerators": lambda _: lambda config: _Pairs(config, free),
            },
        }
        with replaced(kinds):
            return made(self.engine)

    def elaborate(self, platform):
        m = Module()
        m.submodules.engine = self._made
        for name in self.engine.signature.members:
            if name == "registers":
                for register in register_map(0).engine:
                    mine = getattr(self, register.name)
                    m.d.comb += self.engine.registers[register.name].eq(mine)
        theirs = {path: value for path, _, value in self.engine.signature.flatten(self.engine)}
        for path, member, value in self.signature.flatten(self):
            if path in theirs:
                mine, other = Value.cast(value), Value.cast(theirs[path])
                m.d.comb += other.eq(mine) if member.flow is In else mine.eq(other)
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
                made = self._free.common(f"Door.{name}", len(getattr(self, name)))
                m.d.comb += getattr(self, name).eq(made)
        return m


class _Opened(wiring.Component):
    """An opener whose requests have the same headers in both runs, and fit at the same times; all else of
    them is any."""

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
        for name in ("slot", "number", "fits", "key", "operation"):
            mine = self.o.p[name]
            make = free.own if name in ("key", "operation") else free.common
            m.d.comb += mine.eq(make(f"FrameOpener.{name}", len(mine)))
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


def traffic() -> Bench:
    """Two engines with keys, requests, pages and HBM of their own."""
    b = Bench()
    hosts = ("m0", "m1")
    answers = ("arready", "rvalid", "rlast", "rresp", "rid", "awready", "wready", "bvalid", "bresp")
    equal = [f"{host}__{name}" for host in hosts for name in (*answers, "bid")]
    runs = iter(range(2))
    (one, first), (two, second) = two_runs(
        b, lambda: Run(SMALL, Free(b, next(runs))), ["start", *_PUBLIC, *equal]
    )
    for name in first:
        if name.startswith(hosts) or name in ("done", "error", "report", "counters"):
            b.check(f"{name} is the same in both", first[name] == second[name])
    for name in ("start", "commit", "judge_slot", "used", "seal_slot"):
        told = (getattr(run.engine.door, name) for run in (one, two))
        b.check(f"the door's {name} is the same in both", next(told) == next(told))
    _covers(b, one)
    b.looked_at = (first, second)
    for name in ("m0__arvalid", "m0__awvalid", "m0__wvalid", "m1__wvalid"):
        for number, values in enumerate((first, second)):
            b.show(f"{name} ({number})", values[name])
    return b


def _covers(b: Bench, run: Run) -> None:
    """What one of the runs does between the front and the back."""
    found = run.engine.front.o
    moved, was, key = Signal(), Signal(), Signal.like(found.p.key)
    flying = Signal(range(SMALL.window + 1))
    b.d.comb += moved.eq(found.valid & found.ready)
    b.d.sync += flying.eq(flying + moved - run.engine.back.sealed)
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


class Requests:
    """A directed run: two engines that have different requests, and HBM that keeps what is written.

    The host's memory answers both as it answers the first one: until a check fails, both ask for the
    same. Each block that is opened is a random small number, be it a key or an operation, so that keys
    come again.
    """

    def __init__(self, bench: Bench, seed: int) -> None:
        self._draw, self._cycle = random.Random(seed), 0
        first, second = bench.looked_at
        self._inputs = bench.inputs
        self._memories = [_Memory(f"m{k}", first, "") for k in range(2)] + [
            _Memory(f"m{k}", outputs, f" ({n})")
            for n, outputs in enumerate((first, second))
            for k in range(2, 6)
        ]

    def give(self) -> dict[str, int]:
        draw, given = self._draw, {}
        bins = draw.sample(range(SMALL.bins), 2)
        for name in self._inputs:
            if name in ("pairs.valid0", "Door.there0", "Door.live0", "Door.idle0"):
                given[name] = 1
            elif ".fits" in name or name == "Door.role0":  # a writer's
                given[name] = 1
            elif name.startswith(("Sponge.result", "FrameOpener.key", "FrameOpener.operation")):
                given[name] = draw.randrange(1, 3)
            elif name.startswith("pairs.payload"):
                given[name] = sum(n << 2 * k for k, n in enumerate(draw.sample(range(4), 4)))
        given |= {"Shown.bin00": bins[0], "Shown.bin10": bins[1]}
        given |= {"start": self._cycle == 0, "count": 7, "responses": 0x1000, "pages": 0x2000}
        for memory in self._memories:
            given |= memory.give()
        self._cycle += 1
        return given

    def see(self, get: Callable[[Value], int]) -> None:
        for memory in self._memories:
            memory.see(get)


class _Memory:
    """A memory that answers in the next cycle. Addresses are those of its words' bytes."""

    def __init__(self, port: str, outputs: dict[str, Value], run: str) -> None:
        self._port, self._run = port, run
        self._outputs = {
            name.removeprefix(f"{port}__"): value
            for name, value in outputs.items()
            if name.startswith(f"{port}__")
        }
        self._words: dict[int, int] = {}
        self._reads: list[list[int]] = []  # word, words left
        self._writes: list[int] = []  # the next word of each
        self._data: list[tuple[int, int, bool]] = []
        self._done = 0

    def give(self) -> dict[str, int]:
        named = {"arready": 1, "awready": 1, "wready": 1, "bvalid": self._done > 0}
        read = {}
        if self._reads:
            word, left = self._reads[0]
            named |= {"rvalid": 1, "rlast": left == 1}
            read = {"rdata": self._words.get(word, 0)}
        own = {f"{self._port}__{name}{self._run}": int(v) for name, v in (named | read).items()}
        if not self._run:  # what the host's memory holds is each run's own
            own |= {f"{self._port}__rdata ({n})": v for n in range(2) for v in read.values()}
        return own

    def see(self, get: Callable[[Value], int]) -> None:
        out = {name: get(value) for name, value in self._outputs.items()}
        if self._reads and out["rready"]:
            self._reads[0][0] += 1
            self._reads[0][1] -= 1
            if not self._reads[0][1]:
                del self._reads[0]
        if self._done and out.get("bready"):
            self._done -= 1
        if out["arvalid"]:
            self._reads.append([out["araddr"] // SMALL.bus_bytes, out["arlen"] + 1])
        if out.get("awvalid"):
            self._writes.append(out["awaddr"] // SMALL.bus_bytes)
        if out.get("wvalid"):
            self._data.append((out["wdata"], out["wstrb"], bool(out["wlast"])))
        while self._writes and self._data:
            value, strobe, last = self._data.pop(0)
            mask = sum(0xFF << 8 * k for k in range(SMALL.bus_bytes) if strobe >> k & 1)
            word = self._writes[0]
            self._words[word] = self._words.get(word, 0) & ~mask | value & mask
            self._writes[0] += 1
            if last:
                del self._writes[0]
                self._done += 1


PROOFS = [
    Proof(
        "hdl.omap.engine.MapEngine",
        "two runs with equal arrivals that show equal bins are the same at the host's ports in every "
        "cycle (addresses, lengths, times, sealed data), whatever keys, values, operations, HBM's "
        "content and times are",
        traffic,
        (
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
            Defect(  # a page is written back only if it has items
                "hdl.omap.closing",
                "writes.i.valid.eq((self.sealed & self.hosts[0]) | later)",
                "writes.i.valid.eq((self.sealed & self.hosts[0] & (self.used[0] != 0)) | later)",
            ),
        ),
        player=Requests,
        search=500,
        long="a minute",
    )
]
