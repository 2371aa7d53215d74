"""The engine of fits over numeric columns behind the shell: rows from Striders, exact sums, a solver, new sums and weights in memory."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring

from ...models.errors import ErrorCode
from ...models.numerics.limbs import LIMB
from ...models.qr.columns import ROWS_MAX
from ...models.qr.schedule import CONVERT, settling
from ...models.qr.shell import ADDRESS_BITS, FitError, table_register_map
from ...models.qr.stages import TABLE
from ...models.qr.table_config import AHEAD, UNIT_BYTES, TableFitPlan
from ...models.ring import Ring
from ..arith.pipeline import Pipeline
from ..index import index
from ..memory.axi import AXI4, shared_by
from ..memory.reader import BurstReader
from ..memory.writer import BurstWriter
from ..modules import Parts
from ..ram import ram
from ..shell.engine_hardware import engine_members, restarted
from ..stream.monitor import observe
from ..stream.passing import fields, passed_on
from ..stream.queue import Queue
from ..strider.port import AccessPort
from ..strider.sequencer import PageSequencer
from .control import Control
from .numbers import NOTHING, as_float32
from .solver import Solver
from .table_sums import TableSums

_BITS = 8 * UNIT_BYTES
_RING = Ring(0)


class TableFitEngine(wiring.Component):
    """The engine of `config`, for `hdl.shell.Shell`; its cycles are `models.qr.table_cycles.run`.

    A run: totals are read, the pages with rows that come are walked, then those with rows that go; then sums are read out once: into the new totals, and
    rounded to float32 into the solver. An error of a page or the bus ends the run, or rows that are missing, and no answer is complete.

    * `config`: `models.qr.table_config.TableFitPlan`.
    * `library`: takes the modules that are instantiated by name.
    """

    def __init__(self, config: TableFitPlan, library: Parts, *, design: int = 0):
        self.config, self.library, self.settling = config, library, settling(config.solver.n_max)
        self.register_map = table_register_map(config, design)
        port = AXI4(address_width=ADDRESS_BITS, data_bytes=config.bus_bytes)
        super().__init__(engine_members(self.register_map, [port]))

    def elaborate(self, platform):
        return restarted(self._body())

    def _body(self) -> Module:
        m = self.m = Module()
        config = self.config
        bus = {"bus_bytes": config.bus_bytes, "address_width": ADDRESS_BITS}
        m.submodules.reader = self.reader = BurstReader(**bus)
        m.submodules.writer = self.writer = BurstWriter(**bus)
        m.submodules.sequencer = self.sequencer = PageSequencer(
            page_size=config.walk.schema.page_size,
            credits=config.port.credits,
            ring=config.ring,
            **bus,
        )
        m.submodules.access = self.access = AccessPort(config.port, self.library)
        self.sums = TableSums(m, config.columns)
        m.submodules.solver = self.solver = Solver(config.solver, self.library)
        self.segment = Signal(2)
        # what stands before the sums: it goes to the Striders, and into the answer as it came
        self.head = ram(m, "head", _BITS, config.head)
        shared_by(m, self.m0, self.reader.bus, self.writer.bus)
        self._control()
        self._load()
        self._walk()
        self._write()
        return m

    def _control(self) -> None:
        m, reader, sequencer = self.m, self.reader, self.sequencer
        asked, registers = Signal(), self.registers
        self.loaded, self.through = Signal(), Signal()
        second = self.segment[0]
        pages = Mux(second, registers.go_pages, registers.come_pages)
        base = Mux(second, registers.go_address, registers.come_address)
        conditions = {
            "start": self.start,
            "loaded": self.loaded,
            "ends": self.segment == 2,
            "pages": pages != 0,
            "through": self.through,
        }
        control = Control(m, TABLE, conditions)
        self.now = now = control.now
        loading = now["LOAD"]
        m.d.comb += [
            sequencer.start.eq(control.goes["WALK"]),
            reader.i.valid.eq(Mux(loading, ~asked, sequencer.o.valid)),
            reader.i.p.address.eq(Mux(loading, registers.totals, sequencer.o.p.address)),
            reader.i.p.beats.eq(Mux(loading, self.config.totals_words, sequencer.o.p.beats)),
            sequencer.o.ready.eq(reader.i.ready & ~loading),
            *fields(sequencer, base=base, pages=pages, epochs=1, free=self.access.free),
            sequencer.stride.eq(self.config.walk.schema.page_size),
            *fields(self.access, pages=pages, block_stride=1, flush=now["FLUSH"]),
            self.access.first_block.eq(Mux(second, registers.go_block, registers.come_block)),
        ]
        if self.config.ring:  # pages of rows that go lie behind those of rows that come
            anew = ~second | (registers.come_pages == 0)
            m.d.comb += fields(sequencer, ready=registers[_RING.ready], anew=anew)
        with m.If(loading & reader.i.ready):
            m.d.sync += asked.eq(1)
        with m.If(now["FLUSH"] | (now["BEGIN"] & control.goes["BEGIN"])):
            m.d.sync += self.segment.eq(self.segment + 1)

    def _load(self) -> None:
        """Words into numbers, one a cycle: offsets, units, then sums, then whatever fills the last lanes."""
        m, config = self.m, self.config
        reader, sums = self.reader, self.sums
        n, products, units = config.columns.n, config.columns.products, config.units
        head = config.head
        count = head + config.columns.slots * config.columns.gram_lanes
        unit_port, (write, _) = self.access.units, self.head
        self.rows, self.too_many = Signal(range(2 * ROWS_MAX)), Signal()  # the first sum is 1 × 1
        have, held = Signal(), Signal(8 * config.bus_bytes, reset_less=True)
        place, number = index(units, name="place"), index(count, name="number")
        gives = Signal()
        last = Signal()
        filler = Signal()
        loading = self.now["LOAD"]
        m.d.comb += [
            filler.eq(number >= head + products),
            gives.eq(loading & (have | filler)),
            last.eq(place == units - 1),
            self.loaded.eq(gives & (number == count - 1)),
            *fields(sums, load=gives & (number >= head), sum=held[:_BITS]),
            *fields(write, en=gives & (number < head), addr=number, data=held[:_BITS]),
            *fields(unit_port, write=write.en, kind=number >= n, number=held[:_BITS]),
            unit_port.place.eq(Mux(unit_port.kind, number - n, number)),
        ]
        with m.If(gives & (number == head)):
            m.d.sync += fields(self, rows=held, too_many=held[len(self.rows) : _BITS].any())
        with m.If(gives):
            m.d.sync += [
                number.eq(number + 1),
                place.eq(Mux(last, 0, place + 1)),
                held.eq(held >> _BITS),
            ]
            with m.If(last):
                m.d.sync += have.eq(0)
        with m.If(loading & reader.o.valid & reader.o.ready):
            m.d.sync += [have.eq(1), held.eq(reader.o.p.data)]
        m.d.comb += reader.o.ready.eq(~loading | ~have | last)

    def _walk(self) -> None:
        m, access = self.m, self.access
        reader, sums, registers = self.reader, self.sums, self.registers
        second, walking = self.segment[0], self.now["WALK"]
        before, over = Signal(32), Signal()
        self.left = left = Signal(32)  # rows that are asked for and have not come
        tuple_, takes, passes = Signal(), Signal(), Signal()
        # pages that were asked for and have not come: what is behind the last row need not be walked, but it must not come later
        coming, asks, comes = Signal(range(reader.commands + 1)), Signal(), Signal()
        m.d.comb += asks.eq(self.sequencer.o.valid & self.sequencer.o.ready)
        m.d.comb += comes.eq(walking & reader.o.valid & reader.o.p.last)
        m.d.sync += coming.eq(coming + asks - comes)
        if self.config.ring:
            m.d.comb += self.counters[_RING.done].eq(comes)
        m.d.comb += [
            *fields(access.i, payload=reader.o.p.data, valid=walking & reader.o.valid),
            access.o.ready.eq(sums.i.ready & walking),
            tuple_.eq(access.o.valid & ~access.o.p.end),
            takes.eq((before == 0) & (left != 0)),
            sums.i.valid.eq(walking & tuple_ & takes),
            sums.i.p.minus.eq(second),
            passes.eq(access.o.ready & tuple_),
            self.through.eq(
                sums.i.ready
                & (
                    (access.o.valid & access.o.p.end)
                    | (over & ~self.sequencer.busy & (coming == 0))
                )
            ),
        ]
        limbs = self.config.columns.limbs
        for at, (column, limb) in enumerate(self.config.columns.operands):
            part = access.o.p.lanes[column][LIMB * limb :]
            top = limb == limbs[column] - 1
            value = part[: LIMB + 1].as_signed() if top else part[:LIMB]
            m.d.comb += sums.i.p.values[at].eq(value)
        with m.If(self.now["BEGIN"]):
            m.d.sync += [
                before.eq(Mux(second, registers.go_skip, registers.come_skip)),
                left.eq(Mux(second, registers.go_rows, registers.come_rows)),
                over.eq(0),
            ]
        with m.If(passes):
            with m.If(before != 0):
                m.d.sync += before.eq(before - 1)
            with m.Elif(left != 0):
                m.d.sync += [left.eq(left - 1), over.eq(left == 1)]
        m.d.comb += [
            *fields(self.counters, summed=passes & takes, left=passes & ~takes),
            self.counters.held.eq(access.o.valid & walking & ~sums.i.ready),
            *observe(self.monitors.tuples, access.o),
        ]
        self._faults()

    def _faults(self) -> None:
        """What is wrong with a page, or with the bus, ends a run; the last one named here counts."""
        m, access, reader = self.m, self.access, self.reader
        names = ("code", "block", "line", "item")
        # the segment that has ended is the one before; with none of its pages, too
        registers, lacks = self.registers, self.now["BEGIN"] & (self.left != 0)
        block = Mux(self.segment[0], registers.come_block, registers.go_block)
        after = self.rows + registers.come_rows
        many, code = self.too_many | (after > ROWS_MAX), FitError.QR_ROWS.value
        few = ~many & (after < registers.go_rows)
        what_ends = [
            (self.loaded & many, [code, registers.come_block, 0, 1]),
            (self.loaded & few, [code, registers.go_block, 0, 2]),
            (lacks, [FitError.QR_SHORT.value, block, 0, self.segment]),
            (access.error.valid, [access.error[name] for name in names]),
            (reader.error, [ErrorCode.BUS_READ.value, 0, 0, 0]),
            (self.writer.error, [ErrorCode.BUS_WRITE.value, 0, 0, 0]),
        ]
        for bad, values in what_ends:
            with m.If(bad):
                m.d.comb += self.error.eq(1)
                m.d.comb += [self.report[n].eq(of) for n, of in zip(names, values, strict=True)]

    def _write(self) -> None:
        """Numbers of the answer, a word's in as many cycles without a pause; sums go to the solver on their way."""
        m, config, writer = self.m, self.config, self.writer
        units, totals, words = config.units, config.totals_words, config.answer_words
        m.submodules.queue = queue = Queue(8 * config.bus_bytes, AHEAD)
        writing, asked, solved = self.now["WRITE"], Signal(), Signal()
        word, place = index(words + 1, name="word"), index(units, name="unit")
        number, going = index(words * units + 1, name="chosen"), Signal()
        room, gone = Signal(range(AHEAD + 1), init=AHEAD), index(words + 1, name="gone")
        popped, begins = Signal(), Signal()
        m.d.comb += [
            writer.i.valid.eq(writing & ~asked),
            *fields(writer.i.p, address=self.registers.answer, beats=words),
            *passed_on(queue.o, writer.i_data),
            popped.eq(queue.o.valid & queue.o.ready),
            *observe(self.monitors.words, queue.o),
            begins.eq(writing & (word != words) & (room != 0) & ((word < totals) | solved)),
            going.eq(Mux(place == 0, begins, 1)),
            self.done.eq((gone == words) & writer.idle),
        ]
        with m.If(writing & writer.i.ready):
            m.d.sync += asked.eq(1)
        m.d.sync += room.eq(room + popped - (going & (place == 0)))
        with m.If(popped):
            m.d.sync += gone.eq(gone + 1)
        with m.If(going):
            m.d.sync += [place.eq(Mux(place == units - 1, 0, place + 1)), number.eq(number + 1)]
            with m.If(place == units - 1):
                m.d.sync += word.eq(word + 1)
        with m.If(self.solver.o_valid):
            m.d.sync += solved.eq(1)
        self._numbers(queue, number, going, going & (place == units - 1))

    def _numbers(self, queue, number, going, ends) -> None:
        """A number is chosen, it is there a cycle later, then it goes into a word and, one of the sums, into the converter."""
        m, config, solver = self.m, self.config, self.solver
        pipe = Pipeline(m)
        n, products, head = config.columns.n, config.columns.products, config.head
        behind = config.totals_words * config.units
        of_sums, of_solver, (_, read) = Signal(), Signal(), self.head
        m.d.comb += [
            of_sums.eq(going & (number >= head) & (number < head + products)),
            of_solver.eq(of_sums & (number < head + config.columns.solved)),
            self.sums.read.eq(of_sums),
            read.addr.eq(number),
        ]
        mask = Signal(n, reset_less=True)
        weights = [Signal(32, name=f"weight{k}", reset_less=True) for k in range(n)]
        with m.If(solver.o_valid):
            m.d.sync += [
                mask.eq(solver.o.mask),
                *(weight.eq(solver.o.weights[k]) for k, weight in enumerate(weights)),
            ]
        late = pipe.delay(number, 1, name="which")
        last = pipe.delay(ends, 2, name="ends")
        pairs = [Cat(weights[k : k + 2]) for k in range(0, n, 2)]
        others = {behind: mask, **{behind + 1 + k: pair for k, pair in enumerate(pairs)}}
        number_now, chosen = Signal(signed(_BITS)), Signal(_BITS, reset_less=True)
        with m.If(late < head):
            m.d.comb += number_now.eq(read.data)
        with m.Elif(late < head + products):
            m.d.comb += number_now.eq(self.sums.o)
        for which, value in others.items():
            with m.If(late == which):
                m.d.comb += number_now.eq(value)
        gathered = Signal(8 * config.bus_bytes, reset_less=True)
        m.d.sync += [
            chosen.eq(number_now),
            gathered.eq(Cat(gathered, chosen)[_BITS:]),
            queue.i.valid.eq(last),
        ]
        m.d.comb += queue.i.payload.eq(gathered)
        self._rows(chosen, pipe.delay(of_solver, 2, name="a_sum"))

    def _rows(self, chosen, comes) -> None:
        """Sums rounded to float32, a column of the triangle at a time into the solver."""
        m, solver = self.m, self.solver
        pipe = Pipeline(m)
        n = self.config.columns.n
        code = as_float32(self.library, m, "entry", chosen.as_signed())
        valid, complete = pipe.delay(comes, CONVERT, name="entry_comes"), Signal()
        row, column = index(n + 1, name="entry_row"), index(n + 1, name="entry_column")
        values = [
            Signal(32, name=f"value{k}", reset_less=True) for k in range(self.config.solver.n_max)
        ]
        of = Signal.like(column)
        last = Signal()
        m.d.comb += last.eq(Mux(column == n, row == n - 1, row == column))
        m.d.sync += [complete.eq(valid & last), of.eq(column)]
        with m.If(valid):
            m.d.sync += [row.eq(row + 1)]
            with m.If(row == column):
                m.d.sync += [row.eq(0), column.eq(column + 1)]
            for k, value in enumerate(values[:n]):
                with m.If(row == k):
                    m.d.sync += value.eq(code)
        m.d.comb += [
            solver.i.valid.eq(complete),
            *fields(solver.i.p, columns=n, row=of, side=of == n, h=NOTHING),
            *(solver.i.p.values[k].eq(value) for k, value in enumerate(values)),
        ]
