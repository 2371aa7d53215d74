"""The outside of every engine: control registers, guarded memory ports, one interrupt."""

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from ...models.errors import ErrorCode
from ...models.shell import PATIENCE
from ..memory.axi import AXI4, AXI4Lite, flat
from ..memory.guard import Guard
from .engine_hardware import EngineHardware, engine_members, report_shape
from .registers import ControlRegisters

#: the first byte, and how many
Window = tuple[int, int]


class Outcome:
    """How a run ended: `next_done`, `next_failed` from its end on, `done` and `failed`, which the host reads, from the engine's reset on."""

    def __init__(self):
        self.done = Signal()
        self.failed = Signal()
        self.report = Signal(report_shape)
        self.next_done = Signal()
        self.next_failed = Signal()

    def forget(self):
        """What the host may read of the last run."""
        return [self.done.eq(0), self.failed.eq(0), self.report.eq(0)]

    def reopen(self):
        """The run has not ended, or nobody wants to know how."""
        return [self.next_done.eq(0), self.next_failed.eq(0)]

    def take(self, engine):
        """The run ends as the engine says in this cycle."""
        return [
            self.report.eq(Mux(engine.error, engine.report, 0)),
            self.next_failed.eq(engine.error),
            self.next_done.eq(~engine.error),
        ]

    def fail(self, code):
        """The run ends with an error that is not the engine's."""
        return [
            self.report.eq(0),
            self.report.code.eq(code.value),
            self.next_failed.eq(1),
            self.next_done.eq(0),
        ]

    def show(self):
        return [self.done.eq(self.next_done), self.failed.eq(self.next_failed)]


class Silence:
    """Cycles without a transfer or event: none after one that was not `still`, else `quiet`."""

    def __init__(self):
        self.quiet = Signal(32)
        self.still = Signal()

    def count(self, active, events=()):
        return [
            self.still.eq(~Cat(active, events).any()),
            self.quiet.eq(Mux(self.still, self.quiet + 1, 1)),
        ]


class Shell(wiring.Component):
    """The top of a design: an engine behind an AXI4-Lite subordinate and AXI4 managers with the names that Verilog users expect.

    A run: a write of `START` to `control` pulses the engine's `start` (cycle 0). It ends with the engine's `done` or `error`, which count from
    cycle 0 on, a soft reset, or the watchdog; and in cycle 0, without a pulse, where a register's value is not legal. Then the shell brings the
    memory ports to rest (`hdl.memory.guard.Guard`), resets the engine (for one cycle after `done`, else for as many as its `settling`), and only
    then shows `done` or `error` in `status` and raises the interrupt.
    A port that is brought to rest and makes no transfer for as long as the watchdog waits, or `models.shell.PATIENCE` cycles without one, is dead until
    the hard reset: the run ends as it is, `status` says so, what is offered stays, and a start ends with `DEAD_PORT`.
    `cycles` counts from the start to the end of the run, without that. Counters and monitors keep their last values until the next start.

    * `engine`: a component with the members of `engine_members(register_map, ports)` and the attributes of
      `EngineHardware`.
    * `register_map`: `models.shell.RegisterMap`.
    * `windows`: of each memory port, where its addresses lie on a bus that all share: the first byte and how
      many, a power of two that divides it; None, or nothing: all of the bus.
    """

    def __init__(self, engine, register_map, windows=()):
        self.engine = engine
        self.windows = dict(enumerate(windows))
        self.register_map = register_map
        self.ports: list[AXI4] = []
        while f"m{len(self.ports)}" in engine.signature.members:
            self.ports.append(engine.signature.members[f"m{len(self.ports)}"].signature)
        expected = engine_members(register_map, self.ports)
        actual = dict(engine.signature.members.items())
        if expected != actual:
            different = sorted(
                name
                for name in expected.keys() | actual.keys()
                if expected.get(name) != actual.get(name)
            )
            raise TypeError(
                f"the engine's members do not fit its register map: {', '.join(different)}"
            )
        self.control = AXI4Lite(address_width=register_map.address_width)
        members = flat("s_axil", self.control.flip())
        for k, port in enumerate(self.ports):
            members |= flat(f"m{k}_axi", port)
        # what the engine has of the vault (`models.shell.VaultValue`): tied to what keeps it, never
        # to the host's bus
        vault = {f"vault_{value.name}": In(value.bits) for value in register_map.vault}
        if vault:
            vault |= {"vault_valid": In(1)}
        super().__init__(members | vault | {"irq": Out(1)})
        # a run is under way, a port is dead; no ports: for who builds around the shell
        self.busy, self.dead = Signal(), Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = self.registers = ControlRegisters(self.register_map)
        self.clear = Signal()  # resets the engine
        self.settling = getattr(self.engine, "settling", EngineHardware.settling)
        self.cleared = Signal(range(max(self.settling, 2)))
        m.submodules.engine = ResetInserter(self.clear)(self.engine)
        self._join(m, "s_axil", self.registers.axil, self.control.flip())

        self._guards(m)
        self.outcome, self.silence = Outcome(), Silence()
        self.cycles = Signal(self.register_map.cycle_bits)
        self.running = Signal()
        self.begun = Signal()  # a run begins, or fails to
        m.d.comb += [
            self.registers.busy.eq(self.busy),
            self.registers.dead.eq(self.dead),
            self.begun.eq(self.registers.start & ~self.registers.reset & ~self.dead),
            self.engine.start.eq(self.begun & ~self.registers.illegal),
        ]
        if self.register_map.engine:
            m.d.comb += self.engine.registers.eq(self.registers.registers)
        if self.register_map.vault:
            for name in ("valid", *(value.name for value in self.register_map.vault)):
                m.d.comb += self.engine.vault[name].eq(getattr(self, f"vault_{name}"))

        # `stop` is high in the last three states: a register, because the guards' streams begin with it
        with m.FSM(name="run") as run:
            m.d.comb += [self.running.eq(run.ongoing("RUN")), self.busy.eq(~run.ongoing("IDLE"))]
            self._run_states(m)
        self._values(m)
        return m

    def _guards(self, m):
        self.stop = Signal()
        self.idle = []
        self.active = []
        for k, port in enumerate(self.ports):
            m.submodules[f"guard{k}"] = guard = Guard(
                port, writes=getattr(self.engine, "open_writes", EngineHardware.open_writes)
            )
            connect(m, getattr(self.engine, f"m{k}"), guard.master)
            self._join(m, f"m{k}_axi", guard.bus, port, self.windows.get(k))
            m.d.comb += guard.stop.eq(self.stop)
            self.idle.append(guard.idle)
            self.active.append(guard.active)

    def _begin(self, m):
        """What the host asks for while no run is under way."""
        with m.If(self.registers.reset):
            m.d.sync += [*self.outcome.forget(), *self.outcome.reopen()]
            self._drain(m)
        with m.Elif(self.registers.start):
            m.d.sync += [*self.outcome.forget(), self.cycles.eq(0), self.silence.still.eq(0)]
            m.next = "RUN"
            self._told(m)
            with m.If(self.registers.illegal):
                self._fail(m, ErrorCode.REGISTER)
                m.d.sync += self.outcome.report.item.eq(self.registers.place)
            with m.If(self.dead):
                self._fail(m, ErrorCode.DEAD_PORT)

    def _run_states(self, m):
        """From start to rest: a run, its end, and the engine's reset."""
        with m.State("IDLE"):
            self._begin(m)
        with m.State("RUN"):
            m.d.sync += [
                self.cycles.eq(self.cycles + 1),
                *self.silence.count(self.active, self._events(self.engine)),
                *self.outcome.reopen(),
            ]
            with m.If(self.registers.reset):
                self._drain(m)
            with m.Elif(self.engine.error | self.engine.done):
                self._told(m)
            with m.Elif(
                (self.registers.watchdog != 0)
                & self.silence.still
                & (self.silence.quiet >= self.registers.watchdog)
            ):
                self._fail(m, ErrorCode.WATCHDOG)
        with m.State("DRAIN"):
            limit = Mux(self.registers.watchdog != 0, self.registers.watchdog, PATIENCE)
            m.d.sync += self.silence.count(self.active)
            with m.If(self.registers.reset):  # while it ends: the host no longer wants to know how
                m.d.sync += [*self.outcome.reopen(), self.outcome.report.eq(0)]
            with m.Elif(Cat(self.idle).all()):
                m.next = "CLEAR"
            # the engine stays as it is, and so does what it offers: the protocol demands it
            with m.Elif(self.dead | (self.silence.still & (self.silence.quiet >= limit))):
                self._end(m)
                m.d.sync += self.dead.eq(1)
                m.next = "IDLE"
        with m.State("CLEAR"):
            m.d.comb += self.clear.eq(1)
            with m.If(self.registers.reset):
                m.d.sync += [*self.outcome.reopen(), self.outcome.report.eq(0)]
            # a run that did not come to its end leaves things in pipelines
            with m.Elif(self.outcome.next_done | (self.cleared == self.settling - 1)):
                self._end(m)
                m.d.sync += self.cleared.eq(0)
                m.next = "REST"
            with m.Else():
                m.d.sync += self.cleared.eq(self.cleared + 1)
        # an engine may hand the reset on to a domain of its own, a cycle late
        with m.State("REST"):
            m.d.sync += self.stop.eq(0)
            with m.If(self.registers.reset):  # all is done but for what the host may read
                m.d.sync += self.outcome.forget()
            m.next = "IDLE"

    def _drain(self, m):
        """Bring the ports to rest, from the next cycle on."""
        m.d.sync += [self.stop.eq(1), self.silence.still.eq(0)]
        m.next = "DRAIN"

    def _fail(self, m, code):
        """End a run with an error that is not the engine's."""
        m.d.sync += self.outcome.fail(code)
        self._drain(m)

    def _end(self, m):
        """Show the run's end, and raise the interrupt."""
        outcome = self.outcome
        m.d.comb += self.registers.ended.eq(outcome.next_done | outcome.next_failed)
        m.d.sync += outcome.show()

    def _told(self, m):
        """The run's end, if the engine says it in this cycle."""
        with m.If(self.engine.error | self.engine.done):
            m.d.sync += self.outcome.take(self.engine)
            self._drain(m)

    def _values(self, m):
        """What is read in registers."""
        values, outcome = self.registers.values, self.outcome
        report = outcome.report
        m.d.comb += [
            values.status.eq(Cat(~self.busy, self.busy, outcome.done, outcome.failed, self.dead)),
            values.error_code.eq(report.code),
            values.error_block.eq(report.block),
            values.error_line.eq(report.line),
            values.error_item.eq(report.item),
            values.cycles.eq(self.cycles),
            self.irq.eq(self.registers.irq),
        ]
        for counter in self.register_map.counters:
            total = Signal(counter.bits, name=f"count_{counter.name}")
            # counted a cycle later
            latest = Signal.like(self.engine.counters[counter.name], name=f"latest_{counter.name}")
            m.d.sync += latest.eq(Mux(self.running, self.engine.counters[counter.name], 0))
            with m.If(self.begun):
                m.d.sync += total.eq(0)
            with m.Else():
                m.d.sync += total.eq(total + latest)
            m.d.comb += values[f"count_{counter.name}"].eq(total)
        for monitor in self.register_map.monitors:
            state = Signal.like(
                self.engine.monitors[monitor.name].as_value(), name=f"monitor_{monitor.name}"
            )
            with m.If(self.running):
                m.d.sync += state.eq(self.engine.monitors[monitor.name])
            m.d.comb += values[f"monitor_{monitor.name}"].eq(
                Cat(state[:2], Const(0, 14), state[2:])
            )

    def _events(self, engine):
        return [
            engine.counters[counter.name]
            for counter in self.register_map.counters
            if counter.progress
        ]

    def _join(self, m, prefix, interface, signature, window=None):
        """Tie the flat ports named after `prefix` to an interface, whose addresses lie in a window."""
        for name, member in signature.members.items():
            inner, outer = getattr(interface, name), getattr(self, f"{prefix}_{name}")
            if window is not None and name in ("araddr", "awaddr"):
                begin, size = window
                inner = inner[: size.bit_length() - 1] | begin
            m.d.comb += outer.eq(inner) if member.flow is Out else inner.eq(outer)
