"""The device: a stream of commands from memory, banks with their units, results to memory."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring

from ...models.errors import ErrorCode
from ...models.pim.config import PimConfig
from ...models.pim.errors import PimError
from ...models.pim.program import MODES, OPCODES, RESULTS_AHEAD, RESULTS_BURST, register_map
from ...models.pim.rounds import slots_of
from ...models.pim.rules import LIKE
from ..memory import AXI4, BurstWriter, Prefetcher
from ..modules import Parts, Submodules
from ..shell import engine_members
from ..stream import Queue
from .checker import TimingCheck
from .pair import Pair
from .softmax import SoftmaxUnit

_COMMAND = data.StructLayout(
    {
        "opcode": 4,
        "wait": 16,
        "groups": 8,
        "row": 16,
        "bank": 8,
        "column": 6,
        "mode": 3,
        "unused": 3,
        "data": 256,
    }
)


class PimEngine(wiring.Component):
    """Plays programs (`models.pim.program`). Latency is `models.pim.program.cycles_of`.

    * `config`: the device.
    * `design`: 32 bits that identify it.
    * `parts`: gives the modules of pairs of banks.
    """

    #: cycles in which what an aborted run left in the pairs' pipelines runs out: more than they have ranks
    settling = 64

    def __init__(self, config: PimConfig, design: int = 0, parts: Parts | None = None) -> None:
        self.config, self.parts = config, parts or Submodules()
        self.register_map = register_map(config, design)
        super().__init__(engine_members(self.register_map, [AXI4(data_bytes=self.config.bus)]))

    def elaborate(self, platform: Any) -> Module:
        m, config = Module(), self.config
        # the program and what the registers say of it contradict each other; results are missing, are too many
        self._contradicts, self._lacks, self._more = (
            Signal(name=n) for n in ("contradicts", "lacks", "more")
        )
        busy, ended = Signal(), Signal()
        with m.If(self.start):
            m.d.sync += [busy.eq(1), ended.eq(0)]
        with m.Elif(self.done | self.error):
            m.d.sync += busy.eq(0)
        commands, reader = self._commands(m)
        head = commands.payload
        # the device's time: it goes on while the next command is there, and its result has room
        gap = Signal(16)
        due = Signal()
        tick = Signal()
        issue = Signal()
        room = Signal()
        self._room = room
        is_read = _is(head, "RESULT_READ", "READ", "TOTAL")
        m.d.comb += [
            due.eq(gap + 1 == head.wait),
            tick.eq(busy & ~ended & commands.valid & ~(due & is_read & ~room)),
            issue.eq(tick & due),
            commands.ready.eq(issue),
        ]
        with m.If(tick):
            m.d.sync += gap.eq(Mux(due, 0, gap + 1))
        with m.If(issue & (head.opcode == OPCODES["END"])):
            m.d.sync += ended.eq(1)
        acts = self._acts(m, head, issue)
        softmax = self._softmax(m, head, issue)
        # between runs, what an aborted one left in the pairs' pipelines runs out
        runs = Signal()
        m.d.comb += runs.eq(tick | ~busy)
        slots = [self._runs(m, g, head, issue, tick, acts) for g in range(config.groups)]
        pairs = self._pairs(m, head, runs, slots, acts, softmax)
        counted = self._results(m, pairs, head, issue, issue & is_read, softmax)
        check = TimingCheck(config)
        m.submodules.check = check
        m.d.comb += check.tick.eq(tick)
        m.d.comb += [getattr(check, f"i_{n}").eq(acts[n]) for n in check.names if n in acts]
        m.d.comb += [
            self.counters.commands.eq(issue),
            self.counters.stalled.eq(busy & ~ended & ~tick),
            self.counters.saturated.eq(
                sum(Mux(tick, pair["o_saturated"], 0) for pair in pairs) + counted
            ),
        ]
        self._contradictions(m, busy & ~ended, commands, reader)
        self._errors(m, check, busy, reader, softmax)
        m.d.comb += self.done.eq(busy & ended & self._asked & self._writer.idle & ~self.error)
        return m

    def _acts(self, m: Module, head: Any, issue: Signal) -> dict[str, Signal]:
        """Which groups of banks a command reaches in this cycle, by its name."""
        groups = self.config.groups
        acts = {
            name: Signal(groups, name=f"at_{name}")
            for name in OPCODES
            if name not in ("END", "IDLE", *LIKE)
        }
        for name, reached in acts.items():
            if name != "COMP":
                hit = issue & _is(head, name, *(n for n, like in LIKE.items() if like == name))
                m.d.comb += reached.eq(Mux(hit, head.groups[:groups], 0))
        return acts

    def _softmax(self, m: Module, head: Any, issue: Any) -> Any:
        """The softmax unit, if there is one."""
        if not self.config.soft_items:
            return None
        unit = SoftmaxUnit(self.config)
        m.submodules.softmax = ResetInserter(self.start)(unit)
        m.d.comb += [
            unit.word.eq(head.row),
            unit.ask.eq(issue & _is(head, "WEIGH", "TOTAL")),
        ]
        # results are there one cycle after TAKE
        m.d.sync += [
            unit.take.eq(issue & _is(head, "TAKE") & head.column[1]),
            unit.place.eq(head.row),
            unit.ends.eq(head.column[2]),
            unit.keys.eq(Cat(head.column[3:], head.mode)),
        ]
        return unit

    def _pairs(
        self,
        m: Module,
        head: Any,
        runs: Signal,
        slots: list[Signal],
        acts: dict[str, Any],
        softmax: Any,
    ) -> list[dict[str, Any]]:
        """The pairs of banks, group by group; gives their outputs."""
        config = self.config
        pairs, put, takers = [], head.data, head.row
        if softmax is not None:
            takers = Mux(_is(head, "WEIGH"), 1 << head.bank[:4], head.row)
            put = Mux(_is(head, "WEIGH"), softmax.o_word, head.data)
        for g in range(config.groups):
            row = Signal(range(max(2, config.rows)), name=f"row{g}")
            with m.If(acts["ACT4"][g]):
                m.d.sync += row.eq(head.row)
            for p in range(config.banks // 2):
                mine = head.bank >> 1 == p
                close = {"close": acts["PRECHARGES"][g]} if config.chip else {}
                pair = self.parts.instance(
                    m,
                    f"pair{g}_{p}",
                    "pim_pair",
                    lambda: Pair(config),
                    tick=runs,
                    round_=acts["ROUND"][g],
                    mode=head.mode,
                    comp=acts["COMP"][g],
                    slot=slots[g],
                    row=row,
                    put=acts["WRITE"][g] & mine,
                    get=acts["READ"][g] & mine,
                    store=takers.word_select(p, 2) & acts["REG_WRITE"][g].replicate(2),
                    bank=head.bank[0],
                    column=head.column[:5],
                    register=head.column[:3],
                    data=put,
                    **close,
                )
                pairs.append(pair)
        return pairs

    def _commands(self, m: Module) -> tuple[Any, Any]:
        """Words from memory, put together to commands with their data."""
        bus = self.config.bus
        m.submodules.reader = reader = Prefetcher(bus_bytes=bus)
        m.d.comb += [
            reader.i.valid.eq(self.start),
            reader.i.p.address.eq(self.registers.program),
            reader.i.p.beats.eq(self.registers.words),
        ]
        if bus == 32:
            return self._packed(m, reader.o), reader
        m.submodules.commands = commands = Queue(_COMMAND, self.config.ahead)
        data_words = 32 // bus
        place = Signal(range(data_words + 1))  # of the next word: 0 is a command, then its data
        first = Signal(64)
        kept = [Signal(64, name=f"kept{k}") for k in range(data_words - 1)]
        word = reader.o.payload
        opcode = Mux(place == 0, word[:4], first[:4])
        with_data = (opcode == OPCODES["REG_WRITE"]) | (opcode == OPCODES["WRITE"])
        last = Mux(with_data, place == data_words, 1)
        m.d.comb += [
            commands.i.payload.eq(Cat(Mux(place == 0, word, first), *kept, word)),
            commands.i.valid.eq(reader.o.valid & last),
            reader.o.ready.eq(~last | commands.i.ready),
        ]
        with m.If(reader.o.valid & reader.o.ready):
            m.d.sync += place.eq(Mux(last, 0, place + 1))
            with m.If(place == 0):
                m.d.sync += first.eq(word)
            for k, register in enumerate(kept):
                with m.If(place == k + 1):
                    m.d.sync += register.eq(word)
        return commands.o, reader

    def _packed(self, m: Module, words: Any) -> Any:
        """Words of four commands, and then the data of each that has some, in a queue each; nothing follows END."""
        ahead = self.config.ahead
        m.submodules.heads = heads = Queue(256, ahead // 4)
        m.submodules.operands = operands = Queue(256, ahead)
        has = lambda word: (word[:4] == OPCODES["REG_WRITE"]) | (word[:4] == OPCODES["WRITE"])
        left, place = Signal(3), Signal(2)  # of the four: data to come; which is next
        for queue, mine in ((heads, left == 0), (operands, left != 0)):
            m.d.comb += [
                queue.i.payload.eq(words.payload),
                queue.i.valid.eq(words.valid & mine),
            ]
        m.d.comb += words.ready.eq(Mux(left == 0, heads.i.ready, operands.i.ready))
        with m.If(words.valid & words.ready):
            several = sum(has(words.payload.word_select(n, 64)) for n in range(4))
            m.d.sync += left.eq(Mux(left == 0, several, left - 1))
        commands = stream.Signature(_COMMAND).create()
        first = heads.o.payload.word_select(place, 64)
        last = (place == 3) | (first[:4] == OPCODES["END"])
        taken = commands.valid & commands.ready
        m.d.comb += [
            commands.payload.eq(Cat(first, operands.o.payload)),
            commands.valid.eq(heads.o.valid & (operands.o.valid | ~has(first))),
            heads.o.ready.eq(taken & last),
            operands.o.ready.eq(taken & has(first)),
        ]
        with m.If(taken):
            m.d.sync += place.eq(Mux(last, 0, place + 1))
        return commands

    def _runs(
        self,
        m: Module,
        g: int,
        head: Any,
        issue: Any,
        tick: Any,
        acts: dict[str, Any],
    ) -> Signal:
        """COMP runs of a bank group: one entry of the program is a COMP every interval."""
        config, mode = self.config, Signal(3, name=f"mode{g}")
        with m.If(acts["ROUND"][g]):
            m.d.sync += mode.eq(head.mode)
        begin = issue & (head.opcode == OPCODES["COMP"]) & head.groups[g]
        active, slot, wait = Signal(), Signal(9), Signal(range(config.interval + 1))
        again = active & (wait == 1)
        number = Signal(9, name=f"slot{g}")
        most = Mux(
            mode == MODES.index("update"), slots_of(config, "update"), slots_of(config, "score")
        )
        m.d.comb += [
            acts["COMP"][g].eq(tick & (begin | again)),
            number.eq(Mux(begin, 0, slot)),
        ]
        with m.If(tick):
            with m.If(begin | again):
                m.d.sync += [
                    active.eq(number + 1 != most),
                    slot.eq(number + 1),
                    wait.eq(config.interval),
                ]
            with m.Elif(active):
                m.d.sync += wait.eq(wait - 1)
        return number

    def _results(
        self,
        m: Module,
        pairs: list[Any],
        head: Any,
        issue: Any,
        read: Any,
        softmax: Any,
    ) -> Any:
        """What is read goes to memory, in order; gives how many results did not fit."""
        m.submodules.writer = self._writer = writer = BurstWriter(bus_bytes=self.config.bus)
        m.submodules.results = results = Queue(256, RESULTS_AHEAD)
        for ours, theirs in ((self.m0, writer.bus), (self.m0, m.submodules.reader.bus)):
            for name, member in theirs.signature.members.items():
                inner, outer = getattr(theirs, name), getattr(ours, name)
                m.d.comb += outer.eq(inner) if member.flow is wiring.Out else inner.eq(outer)
        pushed, chosen, lost = self._read(m, pairs, head, issue, read)
        if softmax is not None:
            m.d.comb += softmax.data.eq(chosen)
            soft_word, total = Signal(256), Signal()
            m.d.sync += [soft_word.eq(softmax.o_word), total.eq(_is(head, "TOTAL"))]
            chosen = Mux(total, soft_word, chosen)
        waiting = Signal(range(RESULTS_AHEAD + 1))
        bits = 8 * self.config.bus
        word, out = Signal(range(256 // bits)), results.o
        finished = out.valid & writer.i_data.ready & (word == 256 // bits - 1)
        m.d.comb += [
            results.i.payload.eq(chosen),
            results.i.valid.eq(pushed),
            writer.i_data.valid.eq(out.valid),
            writer.i_data.payload.eq(out.payload.word_select(word, bits)),
            out.ready.eq(finished),
            self._room.eq(waiting != RESULTS_AHEAD),
        ]
        owed = Signal(24)  # words of results that are still to come
        lacks = self._bursts(m, writer, pushed)
        m.d.comb += [self._more.eq((waiting != 0) & (owed == 0)), self._lacks.eq(lacks)]
        with m.If(self.start):
            m.d.sync += owed.eq(self.registers.result_words)
        with m.Elif(out.valid & writer.i_data.ready):
            m.d.sync += [word.eq(word + 1), owed.eq(owed - 1)]
        m.d.sync += waiting.eq(waiting + read - finished)
        return lost

    def _bursts(self, m: Module, writer: BurstWriter, pushed: Signal) -> Any:
        """Bursts of results whose words are all in the queue, into which one is `pushed`; gives whether the next lacks some.

        Memory may serve nothing else once it has a burst's address, and the program is read from it.
        """
        each = 32 // self.config.bus
        left = Signal(24)  # words of results that no burst has asked for
        fresh = Signal(range(RESULTS_AHEAD + 1))  # results in the queue that none has asked for
        address = Signal(40, reset_less=True)
        beats, sent = writer.i.p.beats, Signal()
        m.d.comb += [
            writer.i.valid.eq((left != 0) & (fresh * each >= beats)),
            writer.i.p.address.eq(address),
            beats.eq(Mux(left < RESULTS_BURST * each, left, RESULTS_BURST * each)),
            sent.eq(writer.i.valid & writer.i.ready),
        ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.registers.result_words), address.eq(self.registers.results)]
        with m.Elif(sent):
            m.d.sync += [left.eq(left - beats), address.eq(address + 32 * RESULTS_BURST)]
        results = (beats + each - 1) >> (each - 1).bit_length()
        m.d.sync += fresh.eq(fresh + pushed - Mux(sent, results, 0))
        self._asked = left == 0
        return ~self._asked & ~writer.i.valid

    def _read(
        self, m: Module, pairs: list[Any], head: Any, issue: Any, read: Any
    ) -> tuple[Signal, Signal, Any]:
        """Whether a READ's data are there, one cycle after it; the data; how many results of it did not fit."""
        config = self.config
        pushed = Signal()
        which = Signal(range(max(2, len(pairs))))
        half = Signal()
        sums = Signal()
        each = config.banks // 2
        group = Signal(range(max(2, config.groups)))
        for g in range(config.groups):
            with m.If(head.groups[g]):
                m.d.comb += group.eq(g)
        m.d.sync += [
            pushed.eq(read),
            which.eq(group * each + (head.bank >> 1)),
            half.eq(head.column[0]),
            sums.eq(issue & _is(head, "RESULT_READ", "TAKE")),
        ]
        chosen, lost = Signal(256), Signal(6)
        with m.Switch(which):
            for n, pair in enumerate(pairs):
                with m.Case(n):
                    m.d.comb += [
                        chosen.eq(
                            Mux(sums, pair["o_result"].word_select(half, 256), pair["o_data"])
                        ),
                        lost.eq(pair["o_lost"]),
                    ]
        return pushed, chosen, Mux(sums & (half == 0), lost, 0)

    def _contradictions(self, m: Module, waits: Any, commands: Any, reader: Any) -> None:
        """What the program and the registers say of it differ; `waits`: END has not come."""
        empty, missing = Signal(), Signal(3)  # nothing comes any more
        m.d.comb += empty.eq(waits & reader.idle & ~commands.valid)
        m.d.sync += missing.eq(Mux(empty, missing + ~missing.all(), 0))
        idles = commands.valid & (commands.p.wait == 0)
        of_program = Mux(waits, missing.all() | idles, self._lacks)
        m.d.comb += self._contradicts.eq(of_program | self._more)

    def _errors(
        self, m: Module, check: TimingCheck, busy: Signal, reader: Any, softmax: Any
    ) -> None:
        early = check.o_early if softmax is None else check.o_early | softmax.o_early
        m.d.comb += [
            self.error.eq(
                busy
                & (early | check.o_state | self._contradicts | reader.error | self._writer.error)
            ),
            self.report.code.eq(Mux(early, Const(PimError.PIM_TIMING, 8), PimError.PIM_STATE)),
            self.report.block.eq(0),
        ]
        with m.If(self._contradicts & ~early & ~check.o_state):
            m.d.comb += self.report.code.eq(PimError.PIM_PROGRAM.value)
        with m.If(reader.error):
            m.d.comb += self.report.code.eq(ErrorCode.BUS_READ.value)
        with m.Elif(self._writer.error):
            m.d.comb += self.report.code.eq(ErrorCode.BUS_WRITE.value)


def _is(head: Any, *names: str) -> Any:
    """Whether a command is one of these."""
    hit = head.opcode == OPCODES[names[0]]
    for name in names[1:]:
        hit |= head.opcode == OPCODES[name]
    return hit
