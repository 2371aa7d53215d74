"""Frames of HBM on their way to the operations in flight."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.back import BackSchedule
from ..memory import AXI4, BurstReader
from ..stream.passing import fields
from ..stream.queue import Queue
from .deadlines import Deadline
from .layout import fetch_layout


def found_layout(config):
    """Where a frame's item is. `late`: it may not be in HBM yet, and is the `item` of that number
    among those that are kept."""
    items = BackSchedule.of(config).items
    return data.StructLayout({"late": 1, "item": (items - 1).bit_length()})


def frame_address(config, frame):
    """Where a frame lies in its space of HBM."""
    shift = (config.frame_bytes - 1).bit_length()
    return (frame << shift)[:40]


class _Recent(wiring.Component):
    """Which frames the latest operations put their items into. `wanted`: two frames to look up, of
    which `found` says in the same cycle where their items are.

    Operations come in their order: `begin` forgets the oldest one, whose number is `number`; `added`
    adds `latest`, which puts its item into `frame` if it has one (`keep`). An item that was there before
    is forgotten then: a frame has at most one.
    """

    def __init__(self, config):
        self.config = config
        self.depth = BackSchedule.of(config).items
        super().__init__(
            {
                "begin": In(1),
                "added": In(1),
                "keep": In(1),
                "number": In(range(self.depth)),
                "latest": In(range(self.depth)),
                "frame": In(config.frame_bits),
                "wanted": In(config.frame_bits).array(2),
                "found": Out(found_layout(config)).array(2),
            }
        )

    def elaborate(self, platform):
        m = Module()
        numbers = range(self.depth)
        width = self.config.frame_bits
        frames = [Signal(width, name=f"frame{k}", reset_less=True) for k in numbers]
        valid = [Signal(name=f"valid{k}") for k in numbers]
        sames = [Signal(self.depth, name=f"same{side}") for side in range(3)]
        wanted = (*self.wanted, self.frame)
        for side, (same, frame) in enumerate(zip(sames, wanted, strict=True)):
            hits = [Signal(name=f"hit{side}_{k}") for k in numbers]
            m.d.comb += [hits[k].eq(valid[k] & (frames[k] == frame)) for k in numbers]
            m.d.comb += same.eq(Cat(hits))
        for side, same in enumerate(sames[:2]):
            bits = len(self.found[side].item)
            m.d.comb += [
                self.found[side].late.eq(same.any()),
                self.found[side].item.eq(
                    Cat(Cat(same[k] for k in numbers if k >> bit & 1).any() for bit in range(bits))
                ),
            ]
        for k in numbers:
            with m.If(self.begin & (self.number == k)):
                m.d.sync += valid[k].eq(0)
            with m.If(self.added):
                with m.If(self.latest == k):
                    m.d.sync += [frames[k].eq(self.frame), valid[k].eq(self.keep)]
                with m.Elif(self.keep & sames[2][k]):
                    m.d.sync += valid[k].eq(0)
        return m


class Frames(wiring.Component):
    """Fetches the frames of operations as they come, a side on each port, into RAM with room for
    all operations in flight: `models.omap.back.BackSchedule`. Only those that hold items are read; how many
    these are changes no cycle that anyone sees.
    """

    def __init__(self, config):
        self.config = config
        words = range(max(config.slots * config.frame_beats, 2))
        port = AXI4(data_bytes=config.bus_bytes, write=False)
        super().__init__(
            {
                # fetches; it has room for all operations in flight
                "i": In(stream.Signature(fetch_layout(config))),
                # number of the operation that is read, modulo the window
                "operation": In(range(config.window)),
                # read ports of its sides: the bus word among all of its frames, and the frame that
                # the word belongs to; `data` and `found` come in the next cycle
                "word": In(words).array(2),
                "index": In(range(max(config.slots, 2))).array(2),
                "data": Out(8 * config.bus_bytes).array(2),
                "found": Out(found_layout(config)).array(2),
                "due": Out(1),  # the oldest operation's frames can be read from the next cycle on
                "late": Out(1),
                "bus_error": Out(1),
                "idle": Out(1),
                "bus0": Out(port),
                "bus1": Out(port),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        schedule = BackSchedule.of(config)
        m.submodules.queue = queue = Queue(self.i.p.shape(), config.window)
        m.submodules.recent = self.recent = recent = _Recent(config)
        wiring.connect(m, wiring.flipped(self.i), queue.i)
        op, slots = queue.o.p, config.slots
        # the operation stays at the queue's head for its interval
        step = Signal(range(schedule.fetch))
        number = Signal(range(schedule.items))
        self.counts = (op.count0, op.count1)
        self.frame = [Signal(config.frame_bits, name=f"frame{side}") for side in range(2)]
        begin, end = Signal(), Signal()
        m.d.comb += [
            begin.eq(queue.o.valid & (step == 0)),
            end.eq(step == schedule.fetch - 1),
            queue.o.ready.eq(end),
            recent.begin.eq(begin),
            recent.number.eq(number),
        ]
        # an operation's item counts for those behind it
        m.d.sync += fields(
            recent, added=queue.o.valid & end, latest=number, frame=op.frame, keep=op.keep
        )
        with m.If(queue.o.valid):
            m.d.sync += step.eq(Mux(end, 0, step + 1))
            with m.If(end):
                m.d.sync += number.eq(number + 1)
        valid = queue.o.valid & (step < slots)
        buses = (op.frames0, self.bus0), (op.frames1, self.bus1)
        sides = []
        for side, (frames, bus) in enumerate(buses):
            m.d.comb += self.frame[side].eq(Array(frames)[step])
            sides.append(self._fetch(m, side, queue.o.valid, step, begin, bus))
            self._look_up(m, side, self.frame[side], valid, number, step)
        deadlines, readers = zip(*sides, strict=True)
        m.d.comb += [
            self.due.eq(deadlines[0].due),
            self.late.eq(Cat(deadline.late for deadline in deadlines).any()),
            self.bus_error.eq(Cat(reader.error for reader in readers).any()),
            self.idle.eq(Cat(deadline.idle for deadline in deadlines).all() & ~queue.o.valid),
        ]
        return m

    def _fetch(self, m, side, valid, step, begin, bus):
        """A side's reader; returns its deadline and the reader. `valid`, `step`: an operation is asked for, in this
        cycle of it."""
        config, schedule = self.config, BackSchedule.of(self.config)
        count = self.counts[side]
        depth = schedule.due // schedule.fetch + 2
        m.submodules[f"reader{side}"] = reader = BurstReader(
            bus_bytes=config.bus_bytes, commands=config.slots * depth
        )
        m.submodules[f"reads{side}"] = reads = Queue(reader.i.p.shape(), 2 * config.slots)
        m.submodules[f"asked{side}"] = asked = Queue(config.slots.bit_length(), depth)
        m.submodules[f"deadline{side}"] = deadline = Deadline(schedule.due, depth)
        wiring.connect(m, reads.o, reader.i)
        wiring.connect(m, reader.bus, wiring.flipped(bus))
        m.d.comb += [
            asked.i.valid.eq(begin),
            asked.i.payload.eq(count),
            reads.i.valid.eq(valid & (step < count)),
            reads.i.p.address.eq(frame_address(config, self.frame[side])),
            reads.i.p.beats.eq(config.frame_beats),
            deadline.begun.eq(begin),
            deadline.met.eq(self._store(m, side, reader.o, asked.o)),
        ]
        return deadline, reader

    def _look_up(self, m, side, frame, valid, number, step):
        """Where each frame's item is, a cycle after the frame is asked for."""
        config, recent = self.config, self.recent
        stride = 1 << (max(config.slots, 2) - 1).bit_length()
        m.submodules[f"places{side}"] = places = memory.Memory(
            shape=found_layout(config), depth=config.window * stride, init=[]
        )
        write, read = places.write_port(), places.read_port()
        operation, index = Signal(range(config.window)), Signal(range(stride))
        enable = Signal()
        m.d.sync += [
            recent.wanted[side].eq(frame),
            operation.eq(number),
            index.eq(step),
            enable.eq(valid),
        ]
        m.d.comb += [
            *fields(write, en=enable, addr=Cat(index, operation), data=recent.found[side]),
            read.addr.eq(Cat(self.index[side], self.operation)),
            self.found[side].eq(read.data),
        ]

    def _store(self, m, side, beats, asked):
        """Bus words into RAM; returns whether the last one of an operation is here. `asked`: how many frames each
        operation asked for."""
        config = self.config
        words = config.slots * config.frame_beats
        stride = 1 << (max(words, 2) - 1).bit_length()
        m.submodules[f"words{side}"] = store = memory.Memory(
            shape=8 * config.bus_bytes, depth=config.window * stride, init=[]
        )
        write, read = store.write_port(), store.read_port()
        operation, beat = Signal(range(config.window)), Signal(range(stride))
        complete, some = Signal(name=f"complete{side}"), Signal(name=f"some{side}")
        last = asked.payload * config.frame_beats - 1
        m.d.comb += [
            some.eq(asked.valid & (asked.payload != 0)),
            # an operation that asked for none is passed in a cycle of its own
            complete.eq(
                asked.valid & Mux(some, beats.valid & (beat == last), 1),
            ),
            asked.ready.eq(complete),
            beats.ready.eq(some),
            *fields(write, en=beats.valid & some, addr=Cat(beat, operation), data=beats.p.data),
            read.addr.eq(Cat(self.word[side], self.operation)),
            self.data[side].eq(read.data),
        ]
        with m.If(complete):
            m.d.sync += [beat.eq(0), operation.eq(operation + 1)]
        with m.Elif(write.en):
            m.d.sync += beat.eq(beat + 1)
        return complete
