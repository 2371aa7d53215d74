"""What a map that outlives its device says of its operations. Specification: `models.omap.kept_device`."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.shell import WALK_BITS
from ..memory import AXI4
from ..stream.passing import fields
from .answers import Log
from .completion import record_members
from .layout import head_layout
from .walker import Walker

#: events of operations, and what tells that the next one is a request's
_EVENTS = {"offered": "of_request", "begun": "begins", "passed": "passes", "answered": "answers"}


class Journal(wiring.Component):
    """Records of operations, in a log and in a snapshot, and the operations of the snapshot's walk, which come
    behind the requests of a run.
    """

    def __init__(self, config):
        self.config = config
        writes = AXI4(data_bytes=config.host_bus_bytes, read=False)
        records = {name: member.flip() for name, member in record_members(config).items()}
        super().__init__(
            {
                "start": In(1),  # a run begins
                "logs": In(1),  # operations are logged
                "walks": In(1),  # a snapshot is under way
                **dict.fromkeys(("prepare", "there"), In(1)),  # of the walk (`walker.Walker`)
                # of the files (`answers.Log`), as `since`, the bases and the keys
                **dict.fromkeys(("fresh_log", "fresh_snapshot"), In(1)),
                "count": In(32),  # requests of the run
                "total": Out(33),  # all its operations, from the cycle after `start` on
                "since": In(64),
                **dict.fromkeys(("log_base", "snapshot_base"), In(40)),
                **dict.fromkeys(("log_key", "snapshot_key"), In(256)),
                # of the walk (`walker.Walker`), down to `over`
                "buckets": In(WALK_BITS),
                **dict.fromkeys(("ready", "busy", "key", "over"), Out(1)),
                # the walk's operations, when all requests are under way
                "o": Out(stream.Signature(head_layout(config))),
                # of an operation in the front and the back: offered, begun, passed, answered,
                # sealed
                **dict.fromkeys((*_EVENTS, "sealed"), In(1)),
                # the next operation with that event is a request's
                **dict.fromkeys(("begins", "passes", "answers"), Out(1)),
                "room": Out(1),  # there is room for one more record
                "ended": Out(1),  # all records of the run have left
                **records,  # of `back.Back`
                **dict.fromkeys(("late", "read_error", "write_error"), Out(1)),
                "bucket_bus": Out(AXI4(data_bytes=config.bus_bytes, write=False)),
                "log_bus": Out(writes),
                "snapshot_bus": Out(writes),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = Walker(self.config)
        of_request = Signal()
        for event, name in _EVENTS.items():
            left = Signal(32, name=f"{event}_left")
            m.d.comb += (of_request if name == "of_request" else getattr(self, name)).eq(left != 0)
            with m.If(self.start):
                m.d.sync += left.eq(self.count)
            with m.Elif(getattr(self, event) & (left != 0)):
                m.d.sync += left.eq(left - 1)
        flying, rest = Signal(range(self.config.window + 1)), Signal(33)
        all_ = self.count + Mux(walker.loaded, walker.steps, 0)
        with m.If(self.start):
            m.d.sync += [flying.eq(0), rest.eq(all_), self.total.eq(all_)]
        with m.Else():
            m.d.sync += [
                flying.eq(flying + self.offered - self.sealed),
                rest.eq(rest - self.begun),
            ]
        wiring.connect(m, walker.o, wiring.flipped(self.o))
        wiring.connect(m, walker.bus, wiring.flipped(self.bucket_bus))
        m.d.comb += [
            *fields(walker, start=self.prepare, buckets=self.buckets, there=self.there),
            *fields(walker, begin=self.start, go=~of_request & (flying != self.config.window)),
            *(getattr(self, name).eq(getattr(walker, name)) for name in ("ready", "busy", "key")),
            *fields(self, over=walker.over, late=walker.late, read_error=walker.error),
        ]
        self._files(m, walker.over & (rest == 1))
        return m

    def _files(self, m, ends):
        """Both files have all records, but for the last one of a snapshot."""
        m.submodules.log, m.submodules.snapshot = log, snapshot = Log(self.config), Log(self.config)
        written = []
        for file, name, open_ in (
            (log, "log", self.logs),
            (snapshot, "snapshot", self.logs & self.walks),
        ):
            m.d.comb += [
                *fields(file, start=self.start, since=self.since, taken=self.begun & open_),
                *fields(file, put=self.record & open_, block=self.record_block),
                *fields(file, data=self.record_data, given=self.recorded & open_),
                *(
                    getattr(file, port).eq(getattr(self, source))
                    for port, source in (
                        ("base", f"{name}_base"),
                        ("key", f"{name}_key"),
                        ("fresh", f"fresh_{name}"),
                    )
                ),
            ]
            wiring.connect(m, file.bus, wiring.flipped(getattr(self, f"{name}_bus")))
            written.append(~open_ | ((file.answered == self.total) & file.idle))
        m.d.comb += [
            snapshot.ends.eq(ends),
            self.room.eq((~self.logs | log.room) & (~(self.logs & self.walks) | snapshot.room)),
            self.ended.eq(written[0] & written[1]),
            self.write_error.eq(log.bus_error | snapshot.bus_error),
        ]
