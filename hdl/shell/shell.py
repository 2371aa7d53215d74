"""The outside of every engine: control registers, guarded memory ports, one interrupt."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect

from ...models.errors import ErrorCode
from ...models.memory import Writer
from ..memory.axi import AXI4, AXI4Lite, flat
from ..memory.guard import Guard
from .engine import engine_members, report_shape
from .registers import ControlRegisters

__all__ = ["Shell"]


class Shell(wiring.Component):
    """The top of a design: an engine behind an AXI4-Lite subordinate and AXI4 managers with the names that Verilog users expect.

    A run: a write of `START` to `control` pulses the engine's `start` (cycle 0). It ends with the engine's `done` or `error`, a
    soft reset, or the watchdog. Then the shell brings the memory ports to rest (`hdl.memory.Guard`), resets the engine (for one cycle
    after `done`, else for as many as its `settling`), and only then shows `done` or `error` in `status` and raises the interrupt.
    `cycles` counts from the start to the end of the run, without that. Counters and monitors keep their last values until the next start.

    Parameters
    ----------
    engine
        A component with the members of `engine_members(register_map, ports)`. Its attribute `open_writes`, if it has one, says how many write bursts
        of a port may lack data, else `models.memory.Writer.AHEAD`.
    register_map
        `models.shell.RegisterMap`.

    Members
    -------
    s_axil_* : In(AXI4Lite)
    m0_axi_*, m1_axi_*, … : Out(AXI4)
    irq : Out(1)
    """

    def __init__(self, engine, register_map, *, src_loc_at=0):
        self.engine = engine
        self.register_map = register_map
        self.ports: list[AXI4] = []
        while f"m{len(self.ports)}" in engine.signature.members:
            self.ports.append(engine.signature.members[f"m{len(self.ports)}"].signature)
        expected = engine_members(register_map, self.ports)
        actual = dict(engine.signature.members.items())
        if expected != actual:
            different = sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))
            raise TypeError(f"the engine's members do not fit its register map: {', '.join(different)}")
        self.control = AXI4Lite(address_width=register_map.address_width)
        members = flat("s_axil", self.control.flip())
        for k, port in enumerate(self.ports):
            members |= flat(f"m{k}_axi", port)
        super().__init__(members | {"irq": Out(1)}, src_loc_at=1 + src_loc_at)
        self.busy = Signal()                               # a run is under way; not a port: for who builds around the shell

    def elaborate(self, platform):
        m = Module()
        rmap = self.register_map
        m.submodules.control = control = ControlRegisters(rmap)
        clear = Signal()                                   # resets the engine
        settling = getattr(self.engine, "settling", 1)
        cleared = Signal(range(max(settling, 2)))
        m.submodules.engine = ResetInserter(clear)(self.engine)
        engine = self.engine
        self._join(m, "s_axil", control.axil, self.control.flip())

        stop = Signal()
        idle = []
        active = []
        for k, port in enumerate(self.ports):
            m.submodules[f"guard{k}"] = guard = Guard(port, writes=getattr(engine, "open_writes", Writer.AHEAD))
            connect(m, getattr(engine, f"m{k}"), guard.master)
            self._join(m, f"m{k}_axi", guard.bus, port)
            m.d.comb += guard.stop.eq(stop)
            idle.append(guard.idle)
            active.append(guard.active)

        busy = self.busy
        done = Signal()
        failed = Signal()
        report = Signal(report_shape)
        cycles = Signal(rmap.cycle_bits)
        # cycles without a transfer or event: none after one that was not `still`, else `quiet`
        quiet, still = Signal(32), Signal()
        running = Signal()
        next_done = Signal()
        next_failed = Signal()
        m.d.comb += [control.busy.eq(busy), engine.start.eq(control.start & ~control.reset)]
        if rmap.engine:
            m.d.comb += engine.registers.eq(control.registers)

        # `stop` is high in the last three states: a register, because the guards' streams begin with it
        with m.FSM(name="run") as run:
            m.d.comb += [running.eq(run.ongoing("RUN")), busy.eq(~run.ongoing("IDLE"))]
            with m.State("IDLE"):
                with m.If(control.reset):
                    m.d.sync += [next_done.eq(0), next_failed.eq(0), done.eq(0), failed.eq(0), report.eq(0), stop.eq(1)]
                    m.next = "DRAIN"
                with m.Elif(control.start):
                    m.d.sync += [done.eq(0), failed.eq(0), report.eq(0), cycles.eq(0), still.eq(0)]
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += [cycles.eq(cycles + 1), still.eq(~Cat(active, self._events(engine)).any()), quiet.eq(Mux(still, quiet + 1, 1)),
                             next_done.eq(0), next_failed.eq(0)]
                with m.If(control.reset):
                    m.d.sync += stop.eq(1)
                    m.next = "DRAIN"
                with m.Elif(engine.error):
                    m.d.sync += [report.eq(engine.report), next_failed.eq(1), stop.eq(1)]
                    m.next = "DRAIN"
                with m.Elif(engine.done):
                    m.d.sync += [next_done.eq(1), stop.eq(1)]
                    m.next = "DRAIN"
                with m.Elif((control.watchdog != 0) & still & (quiet >= control.watchdog)):
                    m.d.sync += [report.code.eq(ErrorCode.WATCHDOG.value), next_failed.eq(1), stop.eq(1)]
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                with m.If(control.reset):                  # while it ends: the host no longer wants to know how
                    m.d.sync += [next_done.eq(0), next_failed.eq(0), report.eq(0)]
                with m.Elif(Cat(idle).all()):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += clear.eq(1)
                with m.If(control.reset):
                    m.d.sync += [next_done.eq(0), next_failed.eq(0), report.eq(0)]
                # a run that did not come to its end leaves things in pipelines
                with m.Elif(next_done | (cleared == settling - 1)):
                    m.d.comb += control.ended.eq(next_done | next_failed)
                    m.d.sync += [done.eq(next_done), failed.eq(next_failed), cleared.eq(0)]
                    m.next = "REST"
                with m.Else():
                    m.d.sync += cleared.eq(cleared + 1)
            with m.State("REST"):                          # an engine may hand the reset on to a domain of its own, a cycle late
                m.d.sync += stop.eq(0)
                m.next = "IDLE"

        values = control.values
        m.d.comb += [values.status.eq(Cat(~busy, busy, done, failed)), values.error_code.eq(report.code),
                     values.error_block.eq(report.block), values.error_line.eq(report.line), values.cycles.eq(cycles),
                     self.irq.eq(control.irq)]
        for counter in rmap.counters:
            total = Signal(counter.bits, name=f"count_{counter.name}")
            latest = Signal.like(engine.counters[counter.name], name=f"latest_{counter.name}")     # counted a cycle later
            m.d.sync += latest.eq(Mux(running, engine.counters[counter.name], 0))
            with m.If(engine.start):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq(total + latest)
            m.d.comb += values[f"count_{counter.name}"].eq(total)
        for monitor in rmap.monitors:
            state = Signal.like(engine.monitors[monitor.name].as_value(), name=f"monitor_{monitor.name}")
            with m.If(running):
                m.d.sync += state.eq(engine.monitors[monitor.name])
            m.d.comb += values[f"monitor_{monitor.name}"].eq(Cat(state[:2], Const(0, 14), state[2:]))
        return m

    def _events(self, engine):
        return [engine.counters[counter.name] for counter in self.register_map.counters if counter.progress]

    def _join(self, m, prefix, interface, signature):
        """Tie the flat ports named after `prefix` to an interface."""
        for name, member in signature.members.items():
            inner, outer = getattr(interface, name), getattr(self, f"{prefix}_{name}")
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
