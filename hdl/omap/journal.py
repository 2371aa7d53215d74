"""What a map that outlives its device says of its operations. Specification: `models.omap.kept_device`."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...models.omap.shell import WALK_BITS
from ..memory import AXI4
from .answers import Log
from .completion import record_members
from .layout import head_layout
from .walker import Walker

__all__ = ["Journal"]

#: events of operations, and what tells that the next one is a request's
_EVENTS = {"offered": "of_request", "begun": "begins", "passed": "passes", "answered": "answers"}


class Journal(wiring.Component):
    """Records of operations, in a log and in a snapshot, and the operations of the snapshot's walk, which come
    behind the requests of a run.

    Members
    -------
    start : In(1), count : In(32), total : Out(33)
        A run begins; its requests, and from the next cycle on all its operations.
    logs, walks : In(1)
        Operations are logged; a snapshot is under way.
    since : In(64), log_base, snapshot_base : In(40), log_key, snapshot_key : In(256), fresh_log, fresh_snapshot : In(1)
        Of the files (`answers.Log`).
    prepare : In(1), buckets : In(4), ready, busy : Out(1), key : Out(1), there : In(1), over : Out(1)
        Of the walk (`walker.Walker`).
    o : Out(stream of {operation, key})
        Its operations, when all requests are under way.
    offered, begun, passed, answered, sealed : In(1)
        Of an operation in the front and the back.
    begins, passes, answers : Out(1)
        The next operation with that event is a request's.
    room : Out(1)
        There is room for one more record.
    record, … : In, of `back.Back`
    ended : Out(1)
        All records of the run have left.
    late, read_error, write_error : Out(1)
    bucket_bus : Out(AXI4(write=False)), log_bus, snapshot_bus : Out(AXI4(read=False))
    """

    def __init__(self, config):
        self.config = config
        writes = AXI4(data_bytes=config.host_bus_bytes, read=False)
        records = {name: member.flip() for name, member in record_members(config).items()}
        super().__init__(
            {
                **dict.fromkeys(("start", "logs", "walks", "prepare", "there"), In(1)),
                **dict.fromkeys(("fresh_log", "fresh_snapshot"), In(1)),
                "count": In(32),
                "total": Out(33),
                "since": In(64),
                **dict.fromkeys(("log_base", "snapshot_base"), In(40)),
                **dict.fromkeys(("log_key", "snapshot_key"), In(256)),
                "buckets": In(WALK_BITS),
                **dict.fromkeys(("ready", "busy", "key", "over"), Out(1)),
                "o": Out(stream.Signature(head_layout(config))),
                **dict.fromkeys((*_EVENTS, "sealed"), In(1)),
                **dict.fromkeys(("begins", "passes", "answers", "room", "ended"), Out(1)),
                **records,
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
            walker.start.eq(self.prepare),
            walker.buckets.eq(self.buckets),
            walker.there.eq(self.there),
            walker.begin.eq(self.start),
            walker.go.eq(~of_request & (flying != self.config.window)),
            *(getattr(self, name).eq(getattr(walker, name)) for name in ("ready", "busy", "key")),
            self.over.eq(walker.over),
            self.late.eq(walker.late),
            self.read_error.eq(walker.error),
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
                file.start.eq(self.start),
                file.since.eq(self.since),
                file.taken.eq(self.begun & open_),
                file.put.eq(self.record & open_),
                file.block.eq(self.record_block),
                file.data.eq(self.record_data),
                file.given.eq(self.recorded & open_),
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
