"""Two banks with what serves them: their memory, registers, units and results."""

from typing import Any

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from ...models.pim import rate
from ...models.pim.config import COLUMNS, PimConfig
from ...models.pim.device import REGISTERS
from ...models.pim.program import MODES
from ...models.pim.timing import HELD
from ..arith.pipeline import Pipeline
from .float16 import Float16Lane, Float16Results, normalised
from .mx import MX8, MxLane, MxResults, floored


class Pair(wiring.Component):
    """An upper and a bottom bank.

    Time goes on only where `tick` is high: cycles without are not there for anything but `o_data` and
    `o_result`, which stay. A sub-chunk that COMP reads in slot s is written `PimConfig.lag` slots later. Registers are
    rates, k, q, v0, v1 and, of the pair, the seed (`models.pim.device.REGISTERS`).
    """

    def __init__(self, config: PimConfig) -> None:
        self.config = config
        self.results: Any = MxResults if config.format == "mx8" else Float16Results
        if config.too_fast:
            raise ValueError(config.too_fast)
        # `close`: PRECHARGES, beside block RAM: keeps the results of the round
        super().__init__(
            ({"close": In(1)} if config.chip else {})
            | {
                "tick": In(1),
                "round_": In(1),  # ROUND
                "mode": In(3),  # holds until the next ROUND
                "comp": In(1),  # COMP
                "slot": In(9),  # its number in the round
                "row": In(range(max(2, config.rows))),  # the row that is open
                # WRITE (`put`) and READ (`get`) of a column, or of a register (`store`) of any of
                # the banks
                "put": In(1),
                "get": In(1),
                "store": In(2),
                "bank": In(1),
                "column": In(5),
                "register": In(3),
                "data": In(256),
                "o_data": Out(256),  # what READ read, in the next cycle
                "o_result": Out(256 * self.results.reads),  # results as they are
                # groups (numbers in float16) of the new state that saturate in this cycle
                "o_saturated": Out(7),
                "o_lost": Out(6),  # of the results as they are
            }
        )

    def elaborate(self, platform: Any) -> Module:
        outer, m = Module(), Module()
        outer.submodules.inner = EnableInserter(self.tick)(m)
        config, design = self.config, self.config.design
        units = 2 // design.banks
        mode = Signal(3)
        with m.If(self.round_):
            m.d.sync += mode.eq(self.mode)
        update, self._score, attend = (mode == MODES.index(name) for name in MODES[:3])
        self._update, self._attend = update, attend
        # which unit begins which column in this slot; attention takes a column in each
        launch, bank, column = Signal(), Signal(), Signal(5)
        number = Signal(9)
        step = (design.spacing - 1).bit_length()
        begins = (self.slot[:step] == 0) if step else 1
        m.d.comb += [
            number.eq(self.slot >> step),
            launch.eq(self.comp & begins & (number < COLUMNS * design.banks)),
            bank.eq(number[0] if units == 1 else 0),
            column.eq(number >> (2 - units)),
        ]
        wrote, wrote_bank, wrote_column = self._later(m, (launch, bank, column))
        registers = self._registers(m)
        lanes = [self._lane(m, n, registers, launch, bank, column) for n in range(units)]
        ready = self._waiting(m, lanes)
        reads = []
        for b in (0, 1):
            m.submodules[f"bank{b}"] = cells = memory.Memory(
                shape=256, depth=config.rows * COLUMNS, init=[]
            )
            read, write = cells.read_port(), cells.write_port()
            mine = 1 if units == 2 else (bank == b)
            wrote_mine = 1 if units == 2 else (wrote_bank == b)
            write_back = Signal(name=f"back{b}")
            m.d.comb += [
                write_back.eq(self.comp & wrote & wrote_mine & update),
                read.en.eq((launch & mine) | self.get),
                read.addr.eq(Cat(Mux(self.get, self.column, column)[:5], self.row)),
                write.en.eq(write_back | (self.put & (self.bank == b))),
                write.addr.eq(Cat(Mux(self.put, self.column, wrote_column)[:5], self.row)),
                write.data.eq(Mux(self.put, self.data, ready[b if units == 2 else 0][-1])),
            ]
            reads.append(read.data)
        read_bank = Signal()
        with m.If(self.get):
            m.d.sync += read_bank.eq(self.bank)
        m.d.comb += self.o_data.eq(Mux(read_bank, reads[1], reads[0]))
        for n, lane in enumerate(lanes):
            which = registers["bank"] if units == 1 else n
            gone = [self._gone(registers, b) & update.replicate(256) for b in (0, 1)]
            m.d.comb += lane.i_data.eq(Mux(which, reads[1] & ~gone[1], reads[0] & ~gone[0]))
        self._join(m, lanes, [chain[0] for chain in ready])
        return outer

    def _later(self, m: Module, begun: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """What began `lag` slots ago, and is written now."""
        later: list[tuple[Any, Any, Any]] = [begun]
        for _ in range(self.config.lag):
            kept = Signal(), Signal(), Signal(5)
            with m.If(self.comp):
                m.d.sync += [k.eq(v) for k, v in zip(kept, later[-1], strict=True)]
            with m.If(self.round_):  # attention leaves columns behind that nothing writes
                m.d.sync += kept[0].eq(0)
            later.append(kept)
        return later[-1]

    def _waiting(self, m: Module, lanes: list[Any]) -> list[list[Signal]]:
        """The latest results of each unit, as many as wait for their slot, the newest first."""
        config = self.config
        ready: list[list[Signal]] = []
        for n, lane in enumerate(lanes):
            apart = config.interval * config.design.spacing
            depth = (config.lag * config.interval - lane.depth - 2) // apart
            chain = [Signal(256, name=f"ready{n}_{k}") for k in range(depth + 1)]
            come: Any = lane.o_valid
            for k, held in enumerate(chain):
                with m.If(come):
                    m.d.sync += held.eq(chain[k - 1] if k else lane.o_code)
                for _ in range(apart if k < depth else 0):  # as long as the one before holds it
                    late = Signal()
                    m.d.sync += late.eq(come)
                    come = late
            ready.append(chain)
        return ready

    def _registers(self, m: Module) -> dict[str, Any]:
        """The registers of both banks; ROUND of a score sets those that change nothing."""
        registers: dict[str, Any] = {}
        score = self.round_ & (self.mode == MODES.index("score"))
        wide = self.config.format == "float16"
        ones = Signal()  # rates that leave nothing of the old state
        m.d.comb += ones.eq(self.data == sum(rate.ONE << 16 * n for n in range(16)))
        rates: Any = self.data
        if wide:
            pipe = Pipeline(m)
            rates = Cat(*(normalised(pipe, self.data.word_select(n, 16)) for n in range(16)))
        for name in ("c0", "v1" if wide else "c1", "k", "q", "v0"):
            data = rates if name[0] == "c" else self.data
            written = self.store & (self.register == REGISTERS.index(name)).replicate(2)
            if name == "c1":  # what goes to c0 goes to both
                written |= self.store & (self.register == REGISTERS.index("c0")).replicate(2)
            both = [Signal(len(data), name=f"{name}_{b}") for b in (0, 1)]
            for b, register in enumerate(both):
                with m.If(written[b]):
                    m.d.sync += register.eq(data)
                if name != "q":
                    with m.If(score):
                        m.d.sync += register.eq(0)
            registers[name] = self._taken(m, both)
            if name[0] == "c":
                flags = [Signal(name=f"gone_{name}_{b}") for b in (0, 1)]
                for b, flag in enumerate(flags):
                    with m.If(written[b]):
                        m.d.sync += flag.eq(ones)
                    with m.If(score):
                        m.d.sync += flag.eq(0)
                registers[f"gone_{name}"] = self._taken(m, flags)
        return registers

    def _taken(self, m: Module, came: list[Signal]) -> list[Signal]:
        """Registers as units see them: beside block RAM a round's are what came until its ROUND, or what that made of them."""
        if not self.config.chip:
            return came
        copies, late = [Signal.like(one, name=f"{one.name}_now") for one in came], Signal()
        m.d.sync += late.eq(self.round_)
        with m.If(late):
            m.d.sync += [now.eq(one) for now, one in zip(copies, came, strict=True)]
        return copies

    @staticmethod
    def _gone(registers: dict[str, Any], bank: int) -> Value:
        """256 bits, set where a sub-chunk of a bank counts as zeros."""
        low = registers["gone_c0"][bank]
        high = registers.get("gone_c1", registers["gone_c0"])[bank]
        return Cat(low.replicate(128), high.replicate(128))

    def _lane(
        self,
        m: Module,
        n: int,
        registers: dict[str, Any],
        launch: Any,
        bank: Any,
        column: Any,
    ) -> Any:
        units = 2 // self.config.design.banks
        apart = self.config.interval * self.config.design.spacing
        lane: Any = MxLane(apart) if self.config.format == "mx8" else Float16Lane()
        m.submodules[f"lane{n}"] = lane
        valid, at, number = Signal(), Signal(), Signal(5)
        first = Signal()
        m.d.sync += valid.eq(launch)
        with m.If(launch):
            m.d.sync += [
                at.eq(bank),
                number.eq(column),
                first.eq((column == 0) & (bank == 0)),
            ]
        # which bank's q, when the output's products are taken
        late = at
        for _ in range(lane.depth + lane.wait):
            kept = Signal()
            m.d.sync += kept.eq(late)
            late = kept
        which = at if units == 1 else n
        registers["bank"] = at  # of the sub-chunk that is read now
        pick = lambda name, index: Mux(index, registers[name][1], registers[name][0])
        score = self._score
        m.d.comb += [
            lane.i_valid.eq(valid),
            lane.i_c.eq(Cat(*(pick(name, which) for name in ("c0", "c1") if name in registers))),
            lane.i_k.eq(pick("k", which)),
            lane.i_attend.eq(self._attend),
            lane.i_score.eq(score),
            lane.i_first.eq(first),
            lane.i_stochastic.eq(self._update & int(self.config.stochastic)),
        ]
        soon = score & int(self.config.format == "float16")
        m.d.comb += lane.i_q.eq(pick("q", Mux(soon, at, late) if units == 1 else n))
        v = Cat(pick("v0", which), *([pick("v1", which)] if "v1" in registers else []))
        if self.config.format == "float16":
            m.d.comb += lane.i_v.eq(v.word_select(number, 16))
        else:
            half = v.word_select(number[4], 128)
            wide = 1 + MX8.magnitude_bits
            value = half[16:].word_select(number[:4], wide)
            micro = half[8:16].bit_select(number[1:4], 1)
            m.d.comb += lane.i_v.eq(Cat(value, micro, half[:8]))
            if self.config.stochastic:
                self._random(m, lane, n)
        return lane

    def _random(self, m: Module, lane: Any, n: int) -> None:
        """Four words of 64 bits for each iteration (`models.numerics.lfsr`)."""
        state = [Signal(64, name=f"random{n}_{k}") for k in (0, 1)]
        words: list[Any] = list(state)
        for _ in range(4):
            old, new = words[-2:]
            word = Signal(64, name="word")
            m.d.comb += word.eq(new ^ (old >> 1) ^ (new << 63)[:64])
            words.append(word)
        m.d.comb += lane.i_random.eq(Cat(*words[2:]))
        with m.If(lane.o_draw & self._update):
            m.d.sync += [state[0].eq(words[-2]), state[1].eq(words[-1])]
        seed: Value = self.data.word_select(n, 128)
        comes = self.store.any() & (self.register == REGISTERS.index("seed"))
        if self.config.chip:
            came, fresh = Signal(128, name=f"seed{n}"), Signal(name=f"seeded{n}")
            if self.config.design.banks == 2:
                seed = Mux(self.store[1], self.data[128:], seed)
            with m.If(comes):
                m.d.sync += came.eq(seed)
            m.d.sync += fresh.eq(comes | (fresh & ~self.round_))
            seed, comes = came, fresh & self.round_
        with m.If(comes):
            m.d.sync += [state[0].eq(seed[:64]), state[1].eq(seed[64:])]

    def _join(self, m: Module, lanes: list[Any], sums: list[Any]) -> None:
        """The sums of both banks together, and what is lost on the way."""
        update, attend = self._update, self._attend
        m.submodules.results = results = self.results()
        bank, column = Signal(), Signal(5)
        number = Signal(6)  # of sums in this round: upper and bottom alternate
        with m.If(self.round_):
            m.d.sync += number.eq(0)
        if len(lanes) == 1:
            [lane] = lanes
            upper, upper_exponent = Signal(lane.sum_shape), Signal(len(lane.o_exponent))
            m.d.comb += [bank.eq(number[0]), column.eq(number >> 1)]
            with m.If(lane.o_sum_valid):
                m.d.sync += number.eq(number + 1)
                with m.If(~bank):
                    m.d.sync += [upper.eq(lane.o_sum), upper_exponent.eq(lane.o_exponent)]
            a, b = (upper, upper_exponent), (lane.o_sum, lane.o_exponent)
            valid = lane.o_sum_valid & bank
        else:
            m.d.comb += column.eq(number)
            with m.If(lanes[0].o_sum_valid):
                m.d.sync += number.eq(number + 1)
            a, b = ((lane.o_sum, lane.o_exponent) for lane in lanes)
            valid = lanes[0].o_sum_valid
        big = Signal()
        m.d.comb += big.eq(a[1] >= b[1])
        near, far = Mux(big, a[0], b[0]), Mux(big, b[0], a[0])
        distance = Mux(big, a[1] - b[1], b[1] - a[1])[: len(a[1])]
        m.d.sync += [
            results.i_sum.eq(near + floored(Pipeline(m), far, distance)),
            results.i_exponent.eq(Mux(big, a[1], b[1])),
            results.i_column.eq(column),
            results.i_valid.eq(valid & ~attend),
        ]
        lost = sum(Mux(lane.o_valid & update, lane.o_saturated, 0) for lane in lanes)
        held = Signal(len(lanes[0].o_saturated))
        with m.If(lanes[0].o_valid):
            m.d.sync += held.eq(lanes[0].o_saturated)
        m.d.comb += self.o_saturated.eq(lost)
        attended = Signal() if self.config.chip else attend
        statements = [
            self.o_lost.eq(Mux(attended, held, results.o_saturated)),
            self.o_result.eq(Mux(attended, sums[0], results.o_code)),
        ]
        if not self.config.chip:
            m.d.comb += statements
            return
        with m.If(self.close):  # the next ROUND changes the mode
            m.d.sync += attended.eq(attend)
        over: Value = self.close
        for _ in range(HELD):
            late = Signal()
            m.d.sync += late.eq(over)
            over = late
        with m.If(over):
            m.d.sync += statements
