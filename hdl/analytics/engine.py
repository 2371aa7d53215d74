"""The analytics engine behind the shell: memory ports with their Striders, conductor and core."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.data import StructLayout, View
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import AnalyticsPlan
from ...models.analytics.shell import (
    ROW_COUNTERS,
    address_bits,
    beats_bits,
    open_writes,
    register_map,
    result_beats_bits,
)
from ...models.errors import ErrorCode
from ...models.memory.burst_split import window_beats
from ...models.ring import Ring
from ...models.rows.errors import RowCode
from ...models.strider.config import PortConfig
from ..memory.axi import AXI4, shared_by
from ..memory.dealt import Dealt
from ..memory.joined import Joined
from ..memory.writer import BurstWriter
from ..modules import Parts
from ..rows.unit import RowUnit
from ..shell.engine_hardware import engine_members, restarted
from ..stream.passing import fields, passed_on
from ..strider.port import error_layout
from .beats import BeatWriter
from .boot import Boot, ResultWriter
from .conductor import Conductor
from .core import Core
from .port import MemoryPort
from .scores import ScoreWriter


class AnalyticsEngine(wiring.Component):
    """The engine of `plan`, for `hdl.shell.Shell`; its cycles are `models.analytics.cycles`.

    A run: read the boot image (program into the Striders, parameters into the core), train, write the models.

    * `plan`, `port`: what to compute, and how its memory ports are built.
    * `library`: takes the modules that are instantiated by name.
    """

    def __init__(self, plan: AnalyticsPlan, port: PortConfig, library: Parts, *, design: int = 0):
        self.plan, self.port, self.library = plan.core, port, library
        self.tables = plan.row_unit
        self.register_map = register_map(plan, design)
        self.open_writes = open_writes(plan)
        buses = [
            AXI4(address_width=address_bits(plan), data_bytes=plan.bus_bytes, write=q == 0)
            for q in range(plan.ports)
        ]
        if plan.rows.tables:
            rows = AXI4(address_width=address_bits(plan), data_bytes=plan.bus_bytes)
            buses += [rows] * plan.rows.deal.ports
        super().__init__(engine_members(self.register_map, buses))

    def elaborate(self, platform):
        return restarted(self._body())

    def _body(self) -> Module:
        m = self.m = Module()
        plan = self.plan
        m.submodules.core = self.core = Core(plan, self.library)
        m.submodules.boot = self.boot = Boot(plan)
        m.submodules.conductor = self.conductor = Conductor(plan)
        self.failing = Signal()
        self.ports: list[dict[str, Signal]] = []
        self.errors: list[View[StructLayout]] = []
        self.writer: BurstWriter | None = None  # none where all results are rows in memory
        self.unit: RowUnit | None = None
        if self.tables is not None:
            m.submodules.rows = self.unit = RowUnit(
                self.tables, address_width=address_bits(plan), beats_width=beats_bits(plan)
            )
        for q in range(plan.ports):
            self._port(q)
        if self.unit is not None:
            self._rows(self.unit)
        self._train()
        self._results() if plan.learns else self._scores()
        self._errors()
        return m

    def _port(self, q: int) -> None:
        m, plan, core = self.m, self.plan, self.core
        conductor, boot = self.conductor, self.boot
        bus = getattr(self, f"m{q}")
        channels = AXI4(address_width=address_bits(plan), data_bytes=plan.bus_bytes, write=False)
        answers = {
            f"bus__{name}": getattr(bus, name)
            for name, member in channels.members.items()
            if member.flow is In
        }
        command = Const(0, address_bits(plan) + beats_bits(plan))
        command_valid = Const(0)
        words_ready = Const(0)
        if q == 0:  # the boot image comes through the first port
            command, command_valid = boot.o_command.payload, boot.o_command.valid
            words_ready = boot.i.ready
        ends = self.library.instance(
            m,
            f"port{q}",
            "penstock_port",
            lambda: MemoryPort(plan, self.port, self.library),
            **answers,
            i_command__payload=command,
            i_command__valid=command_valid,
            o_words__ready=words_ready,
            booted=boot.done,
            i_program__payload=boot.o_program.payload,
            i_program__valid=boot.o_program.valid,
            begin=conductor.begin,
            stop=conductor.stop,
            address=self.registers[f"page_address{q}"],
            pages=self.registers[f"pages{q}"],
            epochs=self.registers.epochs,
            first_block=Const(q, 32),
            pop=conductor.start,
            advance=conductor.advance,
            release=core.release,
            discard=self.failing,
            **({"ready": self.registers[Ring(q).ready]} if plan.striders.ring else {}),
            **self._way_by_rows(),
        )
        self.ports.append(ends)
        self.errors.append(View(error_layout(), ends["error"]))
        m.d.comb += [
            getattr(bus, name).eq(ends[f"bus__{name}"])
            for name, member in channels.members.items()
            if member.flow is Out
        ]
        m.d.comb += self.monitors[f"tuples{q}"].eq(ends["tuples"])
        if q == 0:
            m.d.comb += [
                boot.o_command.ready.eq(ends["i_command__ready"]),
                boot.i.payload.eq(ends["o_words__payload"]),
                boot.i.valid.eq(ends["o_words__valid"]),
            ]
        for name in ("load", "load_slot", "load_beat", "load_data"):
            m.d.comb += getattr(core, f"{name}{q}").eq(ends[name])

    def _train(self) -> None:
        m, plan, core = self.m, self.plan, self.core
        conductor, boot = self.conductor, self.boot
        begun = Signal()
        m.d.sync += begun.eq(boot.done)
        per_port = plan.threads_per_port
        mask: list[Value] = []
        for port in self.ports:
            mask += [port["count"] > thread for thread in range(per_port)]
        m.d.comb += [
            boot.start.eq(self.start),
            boot.address.eq(self.registers.boot_address),
            core.parameter_restart.eq(self.start),
            core.parameter_write.eq(boot.write),
            core.parameter_data.eq(boot.code),
            conductor.begin.eq(boot.done & ~begun),
            conductor.epochs.eq(self.registers.epochs),
            conductor.flag.eq(core.flag),
            conductor.available.eq(Cat(port["available"] for port in self.ports)),
            conductor.ended.eq(Cat(port["ended"] for port in self.ports)),
            conductor.final.eq(Cat(port["final"] for port in self.ports)),
            conductor.halt.eq(self.failing),
            conductor.hold.eq(core.hold),
            core.start.eq(conductor.start),
            core.first.eq(conductor.first),
            core.mask.eq(Cat(mask)),
            core.batch_start.eq(conductor.batch_start),
            core.epoch_start.eq(conductor.epoch_start),
        ]
        if boot.loader is not None:
            m.d.comb += fields(core, **{n: getattr(boot, n) for n in boot.loader.models()})
        counters = self.counters
        tuples: Value = Const(0)
        for port in self.ports:
            tuples = tuples + port["count"]
        steps = {
            "tuples": Mux(conductor.start, tuples, 0),
            "groups": conductor.start,
            "batches": conductor.batch_start,
            "epochs": conductor.advance,
            "starved": conductor.starved,
            "converged": conductor.converged,
        }
        if plan.striders.ring:
            steps |= {Ring(q).done: port["done"] for q, port in enumerate(self.ports)}
        if self.unit is not None:
            names = ("lookup", "hit", "fetch", "write_back")
            steps |= {c: getattr(self.unit, n) for c, n in zip(ROW_COUNTERS, names, strict=True)}
        m.d.comb += [
            counters[counter.name].eq(steps[counter.name]) for counter in self.register_map.counters
        ]

    def _way_by_rows(self) -> dict[str, Value]:
        """Return what a port, which is the only one, has of the row unit: it takes tuples, and gives them back."""
        if self.unit is None:
            return {}
        return {
            "i_tuples__payload": Value.cast(self.unit.o.payload),
            "i_tuples__valid": self.unit.o.valid,
            "o_tuples__ready": self.unit.i.ready,
        }

    def _rows(self, unit: RowUnit) -> None:
        """Put the row unit between the port's Striders and its loader."""
        m, core, conductor = self.m, self.core, self.conductor
        port = self.ports[0]
        self._deal(unit)
        m.d.comb += [
            unit.i.payload.eq(port["o_tuples__payload"]),
            unit.i.valid.eq(port["o_tuples__valid"]),
            unit.o.ready.eq(port["i_tuples__ready"]),
            unit.closed.eq(conductor.batch_start),
            unit.settled.eq(conductor.settled),
            unit.settled_before.eq(conductor.settled_before),
            unit.busy.eq(core.row_busy),
            unit.discard.eq(self.failing),
            unit.stop.eq(conductor.stop),
            unit.flush.eq(conductor.finish),
            core.row_line.eq(unit.line),
            core.row_beat.eq(unit.beat),
            core.row_read_line.eq(unit.read_line),
            core.row_read_beat.eq(unit.read_beat),
        ]
        for t in range(len(unit.config.tables)):
            m.d.comb += getattr(unit, f"base{t}").eq(self.registers[f"row_address{t}"])
        for k in range(len(unit.write)):
            m.d.comb += getattr(core, f"row_write{k}").eq(unit.write[k])
            m.d.comb += getattr(core, f"row_data{k}").eq(getattr(unit, f"data{k}"))
            m.d.comb += getattr(unit, f"read{k}").eq(getattr(core, f"row_read{k}"))

    def _deal(self, unit: RowUnit) -> None:
        """Give the row unit its memory ports."""
        m, plan, channels = self.m, self.plan, [unit.bus]
        ports = [getattr(self, f"m{plan.ports + k}") for k in range(plan.rows.deal.ports)]
        if plan.rows.deal.channels > 1:
            config = unit.config
            window = window_beats(config.bus_bytes)
            bursts = max(-(-config.words(t) // window) for t in range(len(config.tables)))
            opened = max(config.commands, config.writes) * bursts + 2
            m.submodules.dealt = dealt = Dealt(unit.bus.signature, plan.rows.deal.channels, opened)
            shared_by(m, dealt.master, unit.bus)
            channels = [getattr(dealt, f"bus{k}") for k in range(plan.rows.deal.channels)]
        if plan.rows.deal.joined > 1:
            narrow = []
            for k, channel in enumerate(channels):
                m.submodules[f"joined{k}"] = joined = Joined(
                    unit.bus.signature, plan.rows.deal.joined
                )
                shared_by(m, joined.master, channel)
                narrow += [getattr(joined, f"bus{n}") for n in range(plan.rows.deal.joined)]
            channels = narrow
        for port, channel in zip(ports, channels, strict=True):
            shared_by(m, port, channel)

    def _writer(self, results: BeatWriter | ResultWriter | ScoreWriter) -> None:
        """Let results leave through a writer on the first port."""
        m, plan = self.m, self.plan
        m.submodules.results = results
        m.submodules.writer = self.writer = writer = BurstWriter(
            bus_bytes=plan.bus_bytes,
            address_width=address_bits(plan),
            beats_width=result_beats_bits(plan),
            ahead=self.open_writes,
        )
        shared_by(m, self.m0, writer.bus)
        m.d.comb += [
            results.address.eq(self.registers.result_address),
            *passed_on(results.o_command, writer.i),
            *passed_on(results.o, writer.i_data),
            results.idle.eq(writer.idle),
        ]
        self._done(results.done)

    def _done(self, results: Value) -> None:
        """End the run when results have left, and rows have been written back."""
        m = self.m
        if self.unit is None:
            m.d.comb += self.done.eq(results)
            return
        ends = Cat(results, self.unit.done)
        through = Signal(2)
        m.d.sync += through.eq(through | ends)
        m.d.comb += self.done.eq((through | ends).all())

    def _scores(self) -> None:
        m, core, conductor = self.m, self.core, self.conductor
        results = ScoreWriter(self.plan)
        self._writer(results)
        m.d.comb += [
            results.start.eq(conductor.start),
            results.count.eq(self.ports[0]["count"]),
            conductor.room.eq(results.room),
            results.valid.eq(core.score),
            results.mask.eq(core.score_mask),
            results.codes.eq(core.scores),
            results.finish.eq(conductor.finish),
            core.parameter_step.eq(self.boot.write),
        ]

    def _results(self) -> None:
        m, core, conductor = self.m, self.core, self.conductor
        if self.plan.by_rows:
            m.d.comb += core.parameter_step.eq(self.boot.write)
            self._beats()
            return
        results = ResultWriter(self.plan)
        self._writer(results)
        m.d.comb += [
            results.start.eq(conductor.finish),
            results.code.eq(core.parameter_code),
            core.parameter_models.eq(results.models),
            core.parameter_step.eq(results.step | self.boot.write),
        ]

    def _beats(self) -> None:
        """Let models come and go beat by beat; all their rows may lie in memory."""
        m, core, conductor = self.m, self.core, self.conductor
        if not self.plan.roles.models:
            self._done(conductor.finish)
            return
        results = BeatWriter(self.plan)
        self._writer(results)
        m.d.comb += [
            results.start.eq(conductor.finish),
            core.model_read_at.eq(results.at),
            core.model_hold.eq(results.hold),
        ]
        for k in range(len(results.placed)):
            m.d.comb += getattr(results, f"read{k}").eq(getattr(core, f"model_read{k}"))

    def _errors(self) -> None:
        """End the run with the error of the lowest page: every port is first followed to its own error or the end of its epoch."""
        m = self.m
        wrong = Cat(error.valid for error in self.errors)
        with m.If(wrong.any()):
            m.d.sync += self.failing.eq(1)
        through = Cat(
            error.valid | port["ended"] for error, port in zip(self.errors, self.ports, strict=True)
        ).all()
        first = self.errors[0]
        any_error, names = first.valid, ("code", "block", "line", "item")
        worst = {name: getattr(first, name) for name in names}
        for error in self.errors[1:]:
            better = Signal()
            m.d.comb += better.eq(error.valid & (~any_error | (error.block < worst["block"])))
            worst = {name: Mux(better, getattr(error, name), worst[name]) for name in names}
            any_error = any_error | error.valid
        if self.plan.watches:
            with m.If(self.done & self.core.beyond):
                m.d.comb += [self.error.eq(1), self.report.code.eq(RowCode.ROW_OVERFLOW.value)]
        with m.If(self.failing & through):
            m.d.comb += self.error.eq(1)
            m.d.comb += [getattr(self.report, name).eq(worst[name]) for name in names]
        reads = [port["bus_error"] for port in self.ports]
        writes = [] if self.writer is None else [self.writer.error]
        block: Value = Const(0)
        item: Value = Const(0)
        if (unit := self.unit) is not None:
            reads, writes = [*reads, unit.bad_read], [*writes, unit.bad_write]
            of_row = unit.bad_read | unit.bad_write
            block, item = Mux(of_row, unit.bad.table, 0), Mux(of_row, unit.bad.row + 1, 0)
        for bad, reason in (
            (Cat(reads).any(), ErrorCode.BUS_READ),
            (Cat(writes).any(), ErrorCode.BUS_WRITE),
        ):
            with m.If(bad):
                m.d.comb += [
                    self.error.eq(1),
                    self.report.code.eq(reason.value),
                    self.report.block.eq(block),
                    self.report.line.eq(0),
                    self.report.item.eq(item),
                ]
