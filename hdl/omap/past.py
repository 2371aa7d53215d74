"""What a device knows of its map from files of state, and which receipts are of it. Specification:
`models.omap.state.Past`, `models.omap.kept_device.KeptDevice`."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.messages import Status
from ...models.omap.sessions import ROLES
from ...models.omap.state import HEAD, Head, Kind, Told, What
from ...models.omap.vault import GENERATION_BITS, Role
from .door import FILE_PORTS, door_members
from .requests import judge_members


def _others(ports, names):
    """Ports as the other side has them."""
    return {name: ports[name].flip() for name in names}


class _Head:
    def __init__(self, bits):
        self.kind, self.generation, self.serial = bits[32:40], bits[40:64], bits[64:128]
        self.incarnation, self.previous = bits[128:256], bits[256:384]


class Past(wiring.Component):
    """Judges records in their order, as requests are judged; begins the log and snapshots; judges receipts.
    Nothing in it may be reset but by the power.
    """

    def __init__(self, config):
        self.name = 8 * min(config.value_bytes, 16)
        judge = judge_members(config)
        super().__init__(
            {
                "start": In(1),  # a run begins
                "serial": Out(64),  # of the last operation that was judged
                "since": Out(64),  # of the last operation before the run
                "generation": In(GENERATION_BITS),  # of the keys
                "open": In(1),  # `head` is a file's
                "head": In(8 * HEAD),
                "ready": Out(1),  # its key is there, or the file comes too late
                "begin": In(1),  # from now on no request is under way: begin the log
                "there": Out(1),  # it has begun
                "refused": Out(1),  # it is refused
                "own_head": Out(8 * HEAD),  # its head
                "logs": Out(1),  # operations are logged
                "log_key": Out(256),
                "walk": In(1),  # begin a snapshot, if none is under way
                # no request is under way, and the snapshot is whole: begin the log that follows
                "turn": In(1),
                "step": In(1),  # an operation begins that no request asks for
                "walks": Out(1),  # a snapshot is under way
                # it is, and nothing else is done: `file_key` is its key
                "walk_there": Out(1),
                "turned": Out(1),  # the log that follows has begun
                "settled": Out(1),  # no key is drawn
                # its key is there from the next cycle, from this one on: none of its records is
                # sealed
                **dict.fromkeys(("fresh_log", "fresh_snapshot"), Out(1)),
                "role": In(2),  # of the request that is judged
                "records": In(1),
                # of `requests.Requests`
                **_others(judge, [name for name in judge if name not in ("records", "file_key")]),
                # of `door.Door`
                **_others(door_members(64), FILE_PORTS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        #: the incarnation that carried out the last operation, this device's own once it logs
        self.current, self.said = Signal(128), Signal(8 * HEAD)
        self.wrong, self.whole, self.owed = Signal(), Signal(init=1), Signal(64)
        self.closed = Signal()
        #: of a file: it has a key; a record opened; one did not; how many there were
        self.valid, self.known, self.torn = Signal(), Signal(), Signal()
        self.number = Signal(64)
        self.head_said = _Head(self.said)
        link, kind = self._links(m), self.head_said.kind
        m.d.comb += [
            self.file.eq(Cat(self.head_said.generation, Const(0, 40), self.said[64:], kind[0])),
            self.own_head.eq(self.said),
            self.ordinal.there.eq(self.logs),
            self.ordinal.number.eq(self.current[:8]),
        ]
        with m.If(self.start):
            m.d.sync += self.since.eq(self.serial)
        with m.If((self.judging & ~self.records) | self.step):
            m.d.sync += self.serial.eq(self.serial + 1)
            m.d.sync += self.closed.eq(1)
        self._judge(m)
        self._receipts(m, link)
        self._files(m)
        return m

    def _links(self, m):
        """The incarnations before this one, by the first byte of their names: what is looked up is of the
        cycle before."""
        shape = data.StructLayout({"there": 1, "incarnation": 128, "serial": 64})
        m.submodules.links = links = memory.Memory(shape=shape, depth=256, init=[])
        write, read = links.write_port(), links.read_port()
        #: the current one ends behind this serial
        self.push, self.pushed = Signal(), Signal(64)
        m.d.comb += [
            write.addr.eq(self.current[:8]),
            write.en.eq(self.push & self.current.any()),
            write.data.there.eq(1),
            write.data.incarnation.eq(self.current),
            write.data.serial.eq(self.pushed),
            read.addr.eq(self.opened.name[:8]),
        ]
        return read.data

    def _judge(self, m):
        head, record = self.head_said, self.opened
        is_current, after, fits = Signal(), Signal(), Signal()
        link, snapshot, follows = head.kind[1], head.kind[0], Signal()
        later = head.generation > self.generation
        m.d.comb += [
            is_current.eq(head.incarnation == self.current),
            after.eq(is_current | (head.previous == self.current)),
            fits.eq(record.fits & (record.number == self.number + 1)),
        ]
        first, empty = ~self.current.any(), self.serial == 0
        with m.If(link):
            m.d.comb += follows.eq(empty & (after | first))
        with m.Elif(snapshot):
            m.d.comb += follows.eq(empty & (is_current | first))
        with m.Else():
            m.d.comb += follows.eq(after & self.whole & (head.serial == self.serial))
        code = Signal(8)
        with m.If(self.closed | self.wrong | ~self.valid | later):
            m.d.comb += code.eq(Told.STRAY)
        with m.Elif(~fits):
            m.d.comb += code.eq(Told.TORN)
        with m.Elif(self.torn):
            m.d.comb += code.eq(
                Mux(record.since > self.serial, Told.CHANGED.value, Told.TORN.value)
            )
        with m.Elif(~self.known & ~follows):
            m.d.comb += code.eq(Told.STRAY)
        with m.Elif((record.operation == What.END) & ~link):
            m.d.comb += code.eq(Told.END)
        with m.Else():
            m.d.comb += code.eq(Told.APPLIED)
        applied = (code == Told.APPLIED) & ~link
        m.d.comb += [self.told.eq(code), self.makes.eq(Mux(applied, record.operation, 0))]
        with m.If(self.judging & self.records & ~self.closed):
            self._take(m, code, is_current)

    def _take(self, m, code, is_current):
        head = self.head_said
        link, snapshot = head.kind[1], head.kind[0] & ~head.kind[1]
        good = (code == Told.APPLIED) | (code == Told.END)
        fresh = good & ~self.known
        m.d.sync += [
            self.number.eq(self.number + 1),
            self.wrong.eq(self.wrong | (code == Told.CHANGED) | (code == Told.STRAY)),
            self.torn.eq(self.torn | (code == Told.TORN)),
            self.known.eq(self.known | good),
            self.serial.eq(Mux(fresh & snapshot, head.serial, self.serial) + (good & ~link)),
        ]
        with m.If(fresh & ~is_current):
            m.d.comb += [self.push.eq(1), self.pushed.eq(head.serial)]
            m.d.sync += self.current.eq(head.incarnation)
        with m.If(fresh & link & (self.owed < head.serial)):
            m.d.sync += self.owed.eq(head.serial)
        with m.If(code == Told.END):
            m.d.sync += self.whole.eq(1)
        with m.Elif(fresh & snapshot):
            m.d.sync += self.whole.eq(0)

    def _receipts(self, m, link):
        """A receipt: the key is the serial that it saw, the name its incarnation's."""
        is_of = lambda name: self.opened.name[: self.name] == name[: self.name]
        seen, is_current, fits = self.opened.key, Signal(), Signal()
        m.d.comb += is_current.eq(is_of(self.current))
        with m.If(is_current):
            m.d.comb += fits.eq(seen <= self.serial + 1)  # its own one is the next
        with m.Else():
            m.d.comb += fits.eq(link.there & is_of(link.incarnation) & (seen <= link.serial))
        status = Mux(fits, Status.FOUND.value, Status.MISSING.value)
        m.d.comb += self.status.eq(Mux(self.logs, status, Status.UNKNOWN.value))
        keeps = self.role == ROLES.index(Role.KEEPER)
        with m.If(self.judging & ~self.records & self.receipt & self.logs & fits & keeps):
            m.d.sync += self.confirmed.eq(1)

    def _files(self, m):
        """Heads, and the log's own one."""
        begins = Signal()
        first, previous = ~self.current.any(), Signal(8)
        m.d.comb += previous.eq(self.current[:8] + 1)
        incarnation = Cat(Mux(first, 0, previous), self.incarnation[8:])
        log = Head(Kind.LOG, 0, bytes(16), bytes(16)).pack()
        plain = Cat(Const(int.from_bytes(log[:5], "little"), 40), self.generation)
        head = Cat(plain, self.serial, incarnation, self.current)
        ended = self.closed | self.wrong | ~self.whole | (self.owed > self.serial)
        of_snapshot, walks, moved = Signal(), Signal(), Signal()
        m.d.comb += walks.eq(self.walk & self.logs & ~self.walks)
        # no two files of a kind begin at one serial, whoever asks
        m.d.comb += moved.eq(self.serial != self.said[64:128])
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.settled.eq(1), self.walk_there.eq(self.walks)]
                with m.If(self.open):
                    with m.If(~self.closed):
                        m.d.sync += [self.said.eq(self.head), self.valid.eq(0)]
                    m.next = "DRAW"
                    with m.If(self.closed):
                        m.next = "READY"
                with m.Elif(self.begin):
                    m.d.sync += self.refused.eq(ended)
                    m.next = "TOLD"
                    with m.If(~ended):
                        m.d.comb += [self.push.eq(1), self.pushed.eq(self.serial)]
                        m.d.sync += [self.said.eq(head), self.current.eq(incarnation)]
                        m.d.sync += [self.closed.eq(1), begins.eq(1)]
                        m.next = "DRAW"
                with m.Elif(walks | (self.turn & self.walks & moved)):
                    m.d.sync += [of_snapshot.eq(walks), begins.eq(~walks)]
                    m.d.sync += self.said[32:40].eq(Mux(walks, Kind.SNAPSHOT.value, 0))
                    m.d.sync += self.said[64:128].eq(self.serial)
                    with m.If(~walks):
                        m.d.sync += [self.walks.eq(0), self.snapshot.eq(self.serial)]
                    m.next = "DRAW"
            self._draw(m, begins, of_snapshot)

    def _draw(self, m, begins, of_snapshot):
        """The states in which a key is drawn, of a file that was said, of a log or a snapshot."""
        with m.State("DRAW"):
            m.d.comb += self.draw_file.eq(1)
            with m.If(self.file_free):
                m.next = "WAIT"
        with m.State("WAIT"), m.If(self.drawn):
            m.d.comb += [self.fresh_log.eq(begins), self.fresh_snapshot.eq(of_snapshot)]
            m.d.sync += [begins.eq(0), of_snapshot.eq(0)]
            m.d.sync += [self.logs.eq(self.logs | begins), self.valid.eq(~begins)]
            m.d.sync += [self.number.eq(0), self.torn.eq(0), self.known.eq(0)]
            m.next = "READY"
            with m.If(begins):
                m.d.sync += self.log_key.eq(self.file_key)
                m.next = "TOLD"
            with m.If(of_snapshot):
                m.d.sync += self.walks.eq(1)
                m.next = "IDLE"
        with m.State("READY"):
            m.d.comb += self.ready.eq(1)
            m.next = "IDLE"
        with m.State("TOLD"):
            m.d.comb += [self.there.eq(1), self.turned.eq(1)]
            with m.If(~self.begin & ~self.turn):
                m.next = "IDLE"
