# amaranth: UnusedElaboratable=no
"""Shell around any engine: start, stop, reset, errors, interrupt; from every reachable state RESET
leads to rest.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from harness import Bench, Defect, Proof
from harness.environment import ReadMemory, WriteMemory

from penstock.hdl.memory import AXI4
from penstock.hdl.shell import Shell, engine_members, report_shape
from penstock.hdl.stream import observe
from penstock.models.errors import ErrorCode
from penstock.models.shell import (
    Control,
    Counter,
    EngineRegister,
    Interrupt,
    Monitor,
    RegisterMap,
    Status,
)

_PORT = AXI4(address_width=12, data_bytes=4)


#: what an engine may do at each of its ports
_FREE = (("rready", 1), ("bready", 1), ("ar", 1), ("aw", 1), ("w", 1))
_PAYLOADS = (("araddr", 2), ("awaddr", 2), ("wdata", 2))


#: where a run failed, by field
_REPORT = {
    f"report.{name}": lambda engine, name=name: engine.report[name] for name, _ in report_shape
}


class AnyEngine(wiring.Component):
    """Asks, gives and takes what it likes, in bursts of two beats, by AXI's rules; says that it ends,
    well or not, when it likes, also where no run is under way.

    `dirty` is high where it is not in its reset state, `fresh` in the cycle after one of its reset. `ports`: each reads and writes.
    """

    def __init__(self, bench: Bench, register_map: RegisterMap, *, ports: int = 1) -> None:
        self.bench, self.settling, self.open_writes = bench, 3, 1
        self.dirty, self.fresh = Signal(), Signal(init=1)
        self.free = {
            name: bench.free(f"engine.{name}", width)
            for name, width in (
                ("done", 1),
                ("error", 1),
                ("event", 1),
                ("queue.valid", 1),
                ("queue.ready", 1),
                ("queue.level", 2),
                *((name, 2) for name in _REPORT),
                *(
                    (f"m{k}.{name}", width)
                    for k in range(ports)
                    for name, width in _FREE + _PAYLOADS
                ),
            )
        }
        super().__init__(engine_members(register_map, [_PORT] * ports))
        self.buses = [getattr(self, f"m{k}") for k in range(ports)]

    def elaborate(self, platform):
        m = Module()
        free, running = self.free, Signal()
        with m.If(self.start):
            m.d.sync += running.eq(1)
        m.d.comb += [
            self.done.eq(free["done"]),
            self.error.eq(free["error"]),
            *(field(self).eq(free[name]) for name, field in _REPORT.items()),
        ]
        dirty = [running]
        for k, bus in enumerate(self.buses):
            second = Signal(name=f"m{k}_second")
            dirty.append(second)
            m.d.comb += [
                bus.rready.eq(free[f"m{k}.rready"]),
                bus.bready.eq(free[f"m{k}.bready"]),
                bus.arlen.eq(1),
                bus.awlen.eq(1),
                bus.wstrb.eq(15),
                bus.wlast.eq(second),
            ]
            for channel, name in (("ar", "araddr"), ("aw", "awaddr"), ("w", "wdata")):
                on = Signal(name=f"m{k}_{channel}_on")
                payload = Signal(2, name=f"m{k}_{channel}_payload")
                dirty.append(on)
                m.d.comb += [getattr(bus, f"{channel}valid").eq(on), getattr(bus, name).eq(payload)]
                with m.If(~on | getattr(bus, f"{channel}ready")):
                    m.d.sync += [
                        on.eq(free[f"m{k}.{channel}"] & (running | self.start)),
                        payload.eq(free[f"m{k}.{name}"]),
                    ]
            with m.If(bus.wvalid & bus.wready):
                m.d.sync += second.eq(~second)
        m.d.comb += self.dirty.eq(Cat(dirty).any())
        m.d.sync += self.fresh.eq(0)
        if hasattr(self, "counters"):
            m.d.comb += self.counters.event.eq(free["event"])
            queue = stream.Signature(1).create()
            m.d.comb += [
                queue.valid.eq(free["queue.valid"]),
                queue.ready.eq(free["queue.ready"]),
                *observe(self.monitors.queue, queue, free["queue.level"]),
            ]
        return m


class _Bus:
    """The flat names of a port as a bus."""

    def __init__(self, dut, prefix: str, members=_PORT.members) -> None:
        for name in members:
            setattr(self, name, getattr(dut, f"{prefix}_{name}"))


def protocol() -> Bench:
    """Two ports: all of both has come to rest where the shell says so."""
    b = Bench()
    register_map = RegisterMap(cycle_bits=2)
    engine = AnyEngine(b, register_map, ports=2)
    dut = b.m.submodules.dut = Shell(engine, register_map)
    for name, width in (
        ("awvalid", 1),
        ("awaddr", len(dut.s_axil_awaddr)),
        ("wvalid", 1),
        ("wdata", 8),
        ("wstrb", 1),
        ("bready", 1),
        ("arvalid", 1),
        ("araddr", len(dut.s_axil_araddr)),
        ("rready", 1),
    ):
        b.d.comb += getattr(dut, f"s_axil_{name}").eq(b.free(f"host.{name}", width))
    for channel, payload in (
        ("aw", dut.s_axil_awaddr),
        ("w", Cat(dut.s_axil_wdata[:8], dut.s_axil_wstrb)),
        ("ar", dut.s_axil_araddr),
    ):
        b.steady(
            b.assume,
            f"host.{channel.upper()} (given)",
            getattr(dut, f"s_axil_{channel}valid"),
            getattr(dut, f"s_axil_{channel}ready"),
            payload,
        )
    buses = [_Bus(dut, f"m{k}_axi") for k in range(2)]
    reads = [ReadMemory(b, bus, f"memory{k}", opened=2) for k, bus in enumerate(buses)]
    writes = [WriteMemory(b, bus, f"memory{k}", opened=2) for k, bus in enumerate(buses)]
    for name, value in (("busy", dut.busy), ("irq", dut.irq), ("start", engine.start)):
        b.show(name, value)
    still = [
        (Cat(read.open, write.open, write.owed) == 0) & ~Cat(bus.arvalid, bus.awvalid).any()
        for bus, read, write in zip(buses, reads, writes, strict=True)
    ]
    rest = Signal()
    b.d.comb += rest.eq(Cat(still).all())
    ran = Signal()
    with b.m.If(engine.start):
        b.d.sync += ran.eq(1)
    b.steady(b.check, "host.B", dut.s_axil_bvalid, dut.s_axil_bready, dut.s_axil_bresp)
    b.steady(b.check, "host.R", dut.s_axil_rvalid, dut.s_axil_rready, dut.s_axil_rresp)
    for k, (bus, write) in enumerate(zip(buses, writes, strict=True)):
        name, data = f"memory{k}", (bus.wdata[:2], bus.wlast, bus.wstrb)
        b.steady(b.check, f"{name}.AR", bus.arvalid, bus.arready, bus.araddr[:2])
        b.steady(b.check, f"{name}.AW", bus.awvalid, bus.awready, bus.awaddr[:2])
        b.steady(b.check, f"{name}.W", bus.wvalid, bus.wready, *data)
        b.check(
            f"{name}: W never comes before its AW was offered, WLAST marks the last beat",
            ~bus.wvalid | ((write.owed != 0) & (bus.wlast == write.due)),
        )
    b.check(
        "a run starts at rest, with the engine in its reset state",
        ~engine.start | (rest & ~engine.dirty & ~dut.busy),
    )
    b.check(
        "`busy` is low only at rest, with the engine in its reset state, or where a port is dead",
        dut.busy | dut.dead | (rest & ~engine.dirty),
    )
    b.check("a port that is dead stays so", ~b.past(dut.dead) | dut.dead)
    b.check("the shell is busy from `start` on", ~b.past(engine.start) | dut.busy)
    b.check("the interrupt comes only after a run", ~dut.irq | ran)
    b.cover("the interrupt is raised", dut.irq)
    b.cover(
        "a run ends with a write burst open",
        ran & ~dut.busy & b.past(dut.busy) & (b.past(b.past(b.past(b.past(buses[0].wstrb)))) == 0),
    )
    b.cover("a run ends", ran & ~dut.busy)
    b.cover(
        "a port is dead that offers an address, a word and takes an answer",
        dut.dead & Cat(buses[0].arvalid, buses[0].wvalid, buses[0].bready).all(),
    )
    b.cover(
        "the second port has bursts open in both directions when the first is at rest",
        ran & (reads[1].open != 0) & (writes[1].owed != 0) & still[0],
    )
    return b


class _Run:
    """What the contract says of the run under way: whether it goes on, how it ended, what is to be
    read of it. Registers are written one at a time, two bits of data each.
    """

    def __init__(
        self,
        b: Bench,
        *,
        bound: int | None,
        ports: int = 1,
        registers: tuple[EngineRegister, ...] = (),
    ) -> None:
        self.map = RegisterMap(
            registers, [Counter("event", bits=2)], [Monitor("queue", 2)], cycle_bits=2
        )
        self.engine = engine = AnyEngine(b, self.map, ports=ports)
        self.shell = dut = b.m.submodules.dut = Shell(engine, self.map)
        self.place = {register.name: register.offset // 4 for register in self.map.registers}
        self.host = _Bus(dut, "s_axil", dut.control.members)
        fair = None if bound is None else 1
        self.buses = [_Bus(dut, f"m{k}_axi") for k in range(ports)]
        self.reads, self.writes = [], []
        for k, bus in enumerate(self.buses):
            self.reads.append(ReadMemory(b, bus, f"memory{k}", opened=1, fair=fair))
            self.writes.append(WriteMemory(b, bus, f"memory{k}", opened=2, fair=fair))
        self.acts, self.reset = Signal(), Signal(name="reset_written")
        self.refused = Signal(name="start_refused")
        self.watchdog, self.barks = Signal(2, name="watchdog_written"), Signal()
        self.runs, self.ended, self.calm = Signal(), Signal(), Signal(3)
        self._written(b)
        self._goes(b)
        for name, value in (
            ("busy", dut.busy),
            ("start", engine.start),
            ("a run is under way", self.runs),
            ("cycles without a transfer or event", self.calm),
            ("RESET", self.reset),
            ("the watchdog ends the run", self.barks),
        ):
            b.show(name, value)

    def _written(self, b: Bench) -> None:
        host, place = self.host, self.place
        for name, value in (
            ("awvalid", b.free("host.awvalid")),
            ("awaddr", b.free("host.place", max(place.values()).bit_length()) << 2),
            ("wvalid", b.free("host.wvalid")),
            ("wdata", b.free("host.wdata", 2)),
            ("wstrb", b.free("host.wstrb")),
            ("bready", 1),
        ):
            b.d.comb += getattr(host, name).eq(value)
        data = Cat(host.wdata[:2], host.wstrb[0])
        b.steady(b.assume, "host.AW (given)", host.awvalid, host.awready, host.awaddr)
        b.steady(b.assume, "host.W (given)", host.wvalid, host.wready, data)
        self.to, self.taken = Signal(max(place.values()).bit_length()), Signal(name="written")
        with b.m.If(host.awvalid & host.awready):
            b.d.sync += self.to.eq(host.awaddr >> 2)
        set_watchdog = self.taken & (self.to == place["watchdog"])
        b.d.comb += [
            self.taken.eq(host.wvalid & host.wready & host.wstrb[0]),
            self.acts.eq(self.taken & (self.to == place["control"])),
            self.reset.eq(self.acts & ((host.wdata & Control.RESET) != 0)),
            self.refused.eq(
                self.acts & (host.wdata[:2] == Control.START) & ~self.shell.busy & self.shell.dead
            ),
        ]
        with b.m.If(set_watchdog):
            b.d.sync += self.watchdog.eq(host.wdata)
        # it counts in 32 bits, which have an end
        b.assume(
            "the watchdog is not switched on in the midst of a run",
            ~(set_watchdog & (self.runs | self.engine.start) & (self.watchdog == 0)),
        )

    def _goes(self, b: Bench) -> None:
        engine = self.engine
        moves = [signal for read in self.reads for signal in (read.begun, read.beat)]
        for write in self.writes:
            moves += [write.begun, write.beat, write.answered]
        self.moved = Cat(*moves, engine.counters.event).any()
        due = (self.watchdog != 0) & (self.calm >= self.watchdog)
        by_itself = engine.error | engine.done
        b.d.comb += [
            self.barks.eq(self.runs & due & ~(self.reset | by_itself)),
            self.ended.eq(Mux(engine.start, by_itself, self.runs & (self.reset | by_itself | due))),
        ]
        with b.m.If(engine.start):
            b.d.sync += [self.runs.eq(~by_itself), self.calm.eq(0)]
        with b.m.If(self.runs):
            b.d.sync += [
                self.calm.eq(Mux(self.moved, 0, Mux(self.calm == 7, 7, self.calm + 1))),
                self.runs.eq(~self.ended),
            ]


def rest(bound: int = 20) -> Bench:
    """From every reachable state the shell comes to rest, whatever ends the run."""
    b = Bench()
    run = _Run(b, bound=bound, ports=2)
    busy, waited, asked = run.shell.busy, Signal(range(bound + 2)), Signal()
    with b.m.If(run.ended | run.reset):
        b.d.sync += [asked.eq(1), waited.eq(0)]
    with b.m.Elif(~busy):
        b.d.sync += [asked.eq(0), waited.eq(0)]
    with b.m.Elif(asked & (waited != bound)):
        b.d.sync += waited.eq(waited + 1)
    b.check(
        f"the shell is at rest within {bound} cycles of RESET, `done`, `error`, or the watchdog",
        ~(asked & busy & (waited == bound)),
    )
    b.check("the shell is busy while the run is under way", ~run.runs | busy)
    small = (run.watchdog == 1) | (run.watchdog == 2)
    b.check(
        "no port of a fair memory is dead, but where the watchdog waits for fewer than 3 cycles",
        ~run.shell.dead | b.past(run.shell.dead) | small | b.past(small),
    )
    b.cover("RESET is written while a run is under way", run.reset & run.runs)
    b.cover(
        "the watchdog ends a run with a write burst open", run.barks & (run.writes[0].owed != 0)
    )
    b.cover(
        "the watchdog ends a run with a write burst of the second port alone open",
        run.barks & (run.writes[1].owed != 0) & (run.writes[0].open == 0),
    )
    b.cover("the watchdog ends a run after three cycles", run.barks & (run.watchdog == 3))
    b.cover(f"it takes {bound // 2} cycles", waited == bound // 2)
    b.cover("a run ends", b.past(busy) & ~busy & b.past(asked))
    return b


def status() -> Bench:
    """What the host reads of a run: as it ended, once the shell is idle."""
    b = Bench()
    run = _Run(b, bound=None)
    engine, host, place, busy = run.engine, run.host, run.place, run.shell.busy
    bits = max(place.values()).bit_length()
    for name, value in (
        ("arvalid", b.free("host.arvalid")),
        ("araddr", b.free("host.read place", bits) << 2),
        ("rready", 1),
    ):
        b.d.comb += getattr(host, name).eq(value)
    b.steady(b.assume, "host.AR (given)", host.arvalid, host.arready, host.araddr)
    done, failed, cycles, events = Signal(), Signal(), Signal(2), Signal(2)
    report, monitor = Signal(report_shape), Signal(18)
    queue = Cat(
        *(engine.free[f"queue.{name}"] for name in ("valid", "ready")),
        Const(0, 14),
        engine.free["queue.level"],
    )
    with b.m.If(run.runs):
        b.d.sync += [
            cycles.eq(cycles + 1),
            events.eq(events + engine.counters.event),
            monitor.eq(queue),
        ]
    with b.m.If(engine.start):
        b.d.sync += [cycles.eq(0), events.eq(0)]
    with b.m.If(run.reset):
        b.d.sync += [done.eq(0), failed.eq(0), report.eq(0)]
    with b.m.Elif(run.refused):
        b.d.sync += [done.eq(0), failed.eq(1), report.eq(0), cycles.eq(0)]
        b.d.sync += report.code.eq(ErrorCode.DEAD_PORT.value)
    with b.m.Elif(run.ended):
        b.d.sync += [
            failed.eq(engine.error | run.barks),
            done.eq(engine.done & ~engine.error),
            report.eq(Mux(engine.error, engine.report, 0)),
        ]
        with b.m.If(run.barks):
            b.d.sync += report.code.eq(ErrorCode.WATCHDOG.value)
    with b.m.Elif(engine.start):
        b.d.sync += [done.eq(0), failed.eq(0), report.eq(0)]
    resets = Signal(2, name="cycles_of_reset")
    with b.m.If(engine.start):
        b.d.sync += resets.eq(0)
    with b.m.Elif(engine.fresh & (resets != 3)):
        b.d.sync += resets.eq(resets + 1)
    b.check(
        "an engine that was not done is reset for as many cycles as it needs to settle",
        ~(b.past(busy) & ~busy)
        | done
        | run.shell.dead
        | b.past(run.reset)
        | (resets >= engine.settling),
    )
    # a read sees the cycle after that of its address
    at, took, idle = Signal(bits), Signal(), Signal()
    seen = {
        "status": Cat(~busy, busy, done, failed, run.shell.dead),
        **{f"error_{name}": Value.cast(report[name]) for name, _ in report_shape},
        "cycles": cycles,
        "count_event": events,
        "monitor_queue": monitor,
    }
    kept = {name: Signal(len(value), name=f"kept_{name}") for name, value in seen.items()}
    with b.m.If(host.arvalid & host.arready):
        b.d.sync += at.eq(host.araddr >> 2)
    b.d.sync += took.eq(host.arvalid & host.arready)
    with b.m.If(took):
        b.d.sync += [idle.eq(~busy), *(kept[name].eq(value) for name, value in seen.items())]
    b.show("host.rvalid", host.rvalid)
    b.show("host.rdata", host.rdata[:8])
    for name, value in kept.items():
        text = "`status` is right" if name == "status" else f"`{name}` is that of the run"
        here = host.rvalid & (at == place[name])
        b.check(f"{text}, once the shell is idle", ~(here & idle) | (host.rdata == value))
        b.check(f"`{name}` is there", ~here | (host.rresp == 0))
    here = host.rvalid & (at == place["status"]) & ~idle
    b.check("`status`: busy, not idle", ~here | (host.rdata[:2] == Status.BUSY))
    b.check(
        "`status` shows no end of a run that has not ended so",
        ~here | ((host.rdata[2:4] & ~kept["status"][2:4]) == 0),
    )
    for name in ("done", "error"):
        bit = Status[name.upper()]
        b.cover(
            f"`{name}` is read",
            host.rvalid & idle & (at == place["status"]) & ((host.rdata & bit) != 0),
        )
    b.cover(
        "RESET is written in the last cycles of a run that is `done`",
        run.reset & done & busy & b.past(b.past(b.past(done))),
    )
    b.cover("the watchdog ends a run", run.barks)
    b.cover(
        "a start is refused", ~busy & b.past(busy) & failed & (report.code == ErrorCode.DEAD_PORT)
    )
    b.cover("a run fails in cycle 0", engine.start & engine.error)
    b.cover("a run is done in cycle 0", engine.start & engine.done & ~engine.error)
    return b


def interrupts() -> Bench:
    """START begins a run, RESET none, and the interrupt comes with the end of a run that was not
    stopped.
    """
    b = Bench()
    run = _Run(b, bound=None)
    host, dut, reset, busy = run.host, run.shell, run.reset, run.shell.busy
    to_interrupt = run.taken & (run.to == run.place["interrupt"])
    start = run.acts & ((host.wdata & Control.START) != 0) & ~busy & ~reset
    b.check(
        "START begins a run while the shell is idle and no port is dead, and nothing else does",
        run.engine.start == (start & ~dut.dead),
    )
    b.check("RESET ends in rest, not in a run", ~b.past(reset) | ~run.engine.start)
    # how the run under way has ended: nothing yet, by RESET, or to be told
    told, stopped, enabled = (Signal(name=name) for name in ("told", "stopped", "enabled"))
    with b.m.If(start):
        b.d.sync += stopped.eq(0)
    with b.m.Elif(reset & run.runs):
        b.d.sync += stopped.eq(1)
    with b.m.If(reset):
        b.d.sync += told.eq(0)
    with b.m.Elif(run.ended | start):
        b.d.sync += told.eq(run.ended | run.refused)
    with b.m.If(to_interrupt):
        b.d.sync += enabled.eq((host.wdata & Interrupt.ENABLE) != 0)
    for name, value in (("irq", dut.irq), ("the run's end is to be told", told)):
        b.show(name, value)
    ending = b.past(busy) & ~busy
    b.check("the interrupt is low while it is not enabled", enabled | ~dut.irq)
    b.check(
        "an interrupt that is raised stays until it is cleared or disabled",
        ~b.past(dut.irq & ~to_interrupt) | dut.irq,
    )
    # the host may have written the register while the run ended
    touched = [to_interrupt]
    for _ in range(3):
        touched.append(b.past(touched[-1]))
    alone = ~Cat(touched[1:]).any()
    b.check(
        "a run that ended by itself raises the interrupt",
        ~(ending & told & enabled & alone) | dut.irq,
    )
    raised = dut.irq & ~b.past(dut.irq) & ~b.past(to_interrupt)
    b.check("a run that RESET stopped raises none", ~raised | told)
    b.cover("a run raises the interrupt", ending & told & dut.irq)
    b.cover("the watchdog's end raises the interrupt", dut.irq & b.past(b.past(b.past(run.barks))))
    b.cover("a run is stopped by RESET", ending & stopped)
    return b


_SHELL, _REGISTERS = "hdl.shell.shell", "hdl.shell.registers"

PROOFS = [
    Proof(
        "hdl.shell.Shell",
        "AXI's rules on both of two ports, which read and write; a run starts with both at rest and the "
        "engine in its reset state; `busy`",
        protocol,
        Defect(_SHELL, "m.Elif(Cat(self.idle).all())", "m.Elif(Cat(self.idle).any())"),
    ),
    Proof(
        "hdl.shell.Shell",
        "rest within 20 cycles of RESET, `done`, `error` or the watchdog (1 to 3 cycles), from "
        "every reachable state; 2 ports that read and write, memories fair within 1",
        rest,
        Defect(
            "hdl.memory.guard",
            "held.eq(bus.wvalid & ~bus.wready & ~fill)",
            "held.eq(bus.wvalid & ~bus.wready)",
        ),
    ),
    Proof(
        "hdl.shell.Shell",
        "`status`, where it failed, `cycles`, a counter and a monitor are those of the run, whatever ended "
        "it from cycle 0 on (the watchdog after 1 to 3 cycles without a transfer or event); an engine "
        "that was not done is reset for as long as it needs",
        status,
        Defect(
            _SHELL,
            "& (self.silence.quiet >= self.registers.watchdog)",
            "& (self.silence.quiet == 1)",
        ),
    ),
    Proof(
        "hdl.shell.Shell",
        "START, RESET and the interrupt",
        interrupts,
        Defect(
            _SHELL,
            "self.begun.eq(self.registers.start & ~self.registers.reset & ~self.dead)",
            "self.begun.eq(self.registers.start & ~self.dead)",
        ),
    ),
]
