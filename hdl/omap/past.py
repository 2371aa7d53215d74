"""What a device knows of its map from files of state, and which receipts are of it. Specification:
`models.omap.state.Past`, `models.omap.kept_device.KeptDevice`."""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.messages import Status
from ...models.omap.sessions import ROLES
from ...models.omap.state import HEAD, Head, Kind, Told, What
from ...models.omap.vault import GENERATION_BITS, Role
from ..named import named
from ..stream.passing import fields
from .door import FILE_PORTS, door_members
from .requests import judge_members


def _others(ports, names):
    """Ports as the other side has them."""
    return {name: ports[name].flip() for name in names}


#: a file's head, as `models.omap.state.Head` packs it
_HEAD = data.StructLayout(
    {"magic": 32, "kind": 8, "generation": 24, "serial": 64, "incarnation": 128, "previous": 128}
)


@dataclass(frozen=True)
class _Known:
    """What the device knows of the map."""

    current: Signal  # the incarnation that carried out the last operation, this device's own once it logs
    closed: Signal  # an operation was carried out: no file is of the past any more
    wrong: Signal  # a file was not of the past
    whole: Signal  # no snapshot has begun that did not end
    owed: Signal  # according to files of links there were so many operations at least
    ends: Signal  # the current incarnation ends
    end: Signal  # behind this serial


@dataclass(frozen=True)
class _File:
    """The file that is read, or was begun."""

    head: Any
    valid: Signal  # it has a key
    known: Signal  # a record opened
    torn: Signal  # a record did not
    number: Signal  # of records


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
        whole = Signal(init=1, name="whole")
        self.past = past = named(_Known, current=128, whole=whole, owed=64, end=64)
        file = named(_File, head=_HEAD, number=64)
        link, head = self._links(m, past), file.head
        m.d.comb += [
            self.file.eq(Cat(head.generation, Const(0, 40), head.as_value()[64:], head.kind[0])),
            self.own_head.eq(head),
            *fields(self.ordinal, there=self.logs, number=past.current[:8]),
        ]
        with m.If(self.start):
            m.d.sync += self.since.eq(self.serial)
        with m.If((self.judging & ~self.records) | self.step):
            m.d.sync += self.serial.eq(self.serial + 1)
            m.d.sync += past.closed.eq(1)
        self._judge(m, past, file)
        self._receipts(m, past, link)
        self._files(m, past, file)
        return m

    def _links(self, m, past):
        """The incarnations before this one, by the first byte of their names: what is looked up is of the
        cycle before."""
        shape = data.StructLayout({"there": 1, "incarnation": 128, "serial": 64})
        m.submodules.links = links = memory.Memory(shape=shape, depth=256, init=[])
        write, read = links.write_port(), links.read_port()
        m.d.comb += [
            *fields(write, addr=past.current[:8], en=past.ends & past.current.any()),
            *fields(write.data, there=1, incarnation=past.current, serial=past.end),
            read.addr.eq(self.opened.name[:8]),
        ]
        return read.data

    def _judge(self, m, past, file):
        head, record = file.head, self.opened
        is_current, after, fits = Signal(), Signal(), Signal()
        link, snapshot, follows = head.kind[1], head.kind[0], Signal()
        later = head.generation > self.generation
        m.d.comb += [
            is_current.eq(head.incarnation == past.current),
            after.eq(is_current | (head.previous == past.current)),
            fits.eq(record.fits & (record.number == file.number + 1)),
        ]
        first, empty = ~past.current.any(), self.serial == 0
        with m.If(link):
            m.d.comb += follows.eq(empty & (after | first))
        with m.Elif(snapshot):
            m.d.comb += follows.eq(empty & (is_current | first))
        with m.Else():
            m.d.comb += follows.eq(after & past.whole & (head.serial == self.serial))
        code = Signal(8)
        with m.If(past.closed | past.wrong | ~file.valid | later):
            m.d.comb += code.eq(Told.STRAY)
        with m.Elif(~fits):
            m.d.comb += code.eq(Told.TORN)
        with m.Elif(file.torn):
            m.d.comb += code.eq(
                Mux(record.since > self.serial, Told.CHANGED.value, Told.TORN.value)
            )
        with m.Elif(~file.known & ~follows):
            m.d.comb += code.eq(Told.STRAY)
        with m.Elif((record.operation == What.END) & ~link):
            m.d.comb += code.eq(Told.END)
        with m.Else():
            m.d.comb += code.eq(Told.APPLIED)
        applied = (code == Told.APPLIED) & ~link
        m.d.comb += [self.told.eq(code), self.makes.eq(Mux(applied, record.operation, 0))]
        with m.If(self.judging & self.records & ~past.closed):
            self._take(m, past, file, code, is_current)

    def _take(self, m, past, file, code, is_current):
        head = file.head
        link, snapshot = head.kind[1], head.kind[0] & ~head.kind[1]
        good = (code == Told.APPLIED) | (code == Told.END)
        fresh = good & ~file.known
        m.d.sync += [
            file.number.eq(file.number + 1),
            past.wrong.eq(past.wrong | (code == Told.CHANGED) | (code == Told.STRAY)),
            file.torn.eq(file.torn | (code == Told.TORN)),
            file.known.eq(file.known | good),
            self.serial.eq(Mux(fresh & snapshot, head.serial, self.serial) + (good & ~link)),
        ]
        with m.If(fresh & ~is_current):
            m.d.comb += fields(past, ends=1, end=head.serial)
            m.d.sync += past.current.eq(head.incarnation)
        with m.If(fresh & link & (past.owed < head.serial)):
            m.d.sync += past.owed.eq(head.serial)
        with m.If(code == Told.END):
            m.d.sync += past.whole.eq(1)
        with m.Elif(fresh & snapshot):
            m.d.sync += past.whole.eq(0)

    def _receipts(self, m, past, link):
        """A receipt: the key is the serial that it saw, the name its incarnation's."""
        is_of = lambda name: self.opened.name[: self.name] == name[: self.name]
        seen, is_current, fits = self.opened.key, Signal(), Signal()
        m.d.comb += is_current.eq(is_of(past.current))
        with m.If(is_current):
            m.d.comb += fits.eq(seen <= self.serial + 1)  # its own one is the next
        with m.Else():
            m.d.comb += fits.eq(link.there & is_of(link.incarnation) & (seen <= link.serial))
        status = Mux(fits, Status.FOUND.value, Status.MISSING.value)
        m.d.comb += self.status.eq(Mux(self.logs, status, Status.UNKNOWN.value))
        keeps = self.role == ROLES.index(Role.KEEPER)
        with m.If(self.judging & ~self.records & self.receipt & self.logs & fits & keeps):
            m.d.sync += self.confirmed.eq(1)

    def _files(self, m, past, file):
        """Heads, and the log's own one."""
        begins = Signal()
        first, previous = ~past.current.any(), Signal(8)
        m.d.comb += previous.eq(past.current[:8] + 1)
        incarnation = Cat(Mux(first, 0, previous), self.incarnation[8:])
        log = Head(Kind.LOG, 0, bytes(16), bytes(16)).pack()
        plain = Cat(Const(int.from_bytes(log[:5], "little"), 40), self.generation)
        head = Cat(plain, self.serial, incarnation, past.current)
        ended = past.closed | past.wrong | ~past.whole | (past.owed > self.serial)
        of_snapshot, walks, moved = Signal(), Signal(), Signal()
        m.d.comb += walks.eq(self.walk & self.logs & ~self.walks)
        # no two files of a kind begin at one serial, whoever asks
        m.d.comb += moved.eq(self.serial != file.head.serial)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.settled.eq(1), self.walk_there.eq(self.walks)]
                with m.If(self.open):
                    with m.If(~past.closed):
                        m.d.sync += [file.head.eq(self.head), file.valid.eq(0)]
                    m.next = "DRAW"
                    with m.If(past.closed):
                        m.next = "READY"
                with m.Elif(self.begin):
                    m.d.sync += self.refused.eq(ended)
                    m.next = "TOLD"
                    with m.If(~ended):
                        m.d.comb += fields(past, ends=1, end=self.serial)
                        m.d.sync += [file.head.eq(head), past.current.eq(incarnation)]
                        m.d.sync += [past.closed.eq(1), begins.eq(1)]
                        m.next = "DRAW"
                with m.Elif(walks | (self.turn & self.walks & moved)):
                    m.d.sync += [of_snapshot.eq(walks), begins.eq(~walks)]
                    m.d.sync += file.head.kind.eq(Mux(walks, Kind.SNAPSHOT.value, 0))
                    m.d.sync += file.head.serial.eq(self.serial)
                    with m.If(~walks):
                        m.d.sync += [self.walks.eq(0), self.snapshot.eq(self.serial)]
                    m.next = "DRAW"
            self._draw(m, file, begins, of_snapshot)

    def _draw(self, m, file, begins, of_snapshot):
        """The states in which a key is drawn, of a file that was said, of a log or a snapshot."""
        with m.State("DRAW"):
            m.d.comb += self.draw_file.eq(1)
            with m.If(self.file_free):
                m.next = "WAIT"
        with m.State("WAIT"), m.If(self.drawn):
            m.d.comb += [self.fresh_log.eq(begins), self.fresh_snapshot.eq(of_snapshot)]
            m.d.sync += [begins.eq(0), of_snapshot.eq(0)]
            m.d.sync += [self.logs.eq(self.logs | begins), file.valid.eq(~begins)]
            m.d.sync += [file.number.eq(0), file.torn.eq(0), file.known.eq(0)]
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
