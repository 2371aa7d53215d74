"""The engine's core: schedule, loop counters, merge trees, everything that all threads share, and the threads themselves."""

from functools import cached_property

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...models.analytics.config import FETCH, AnalyticsPlan, Op, depth
from ...models.analytics.storages import copied
from ...models.analytics.timing import REDUCE_FN, latency, result_delay
from ...models.analytics.waits import in_unit
from ...models.numerics.formats import Float
from ..index import index, index_range
from ..modules import Parts, module_name
from ..rows.same_place import Pending
from .beats import beat_members, beat_ports
from .control import Delay, Destination, Loops
from .datapath import Control, Datapath, Reduction, Write
from .merge import MergeLane
from .parameters import ParameterAccess
from .row_access import RowAccess, row_members, row_ports
from .store import Store
from .thread import Thread, ThreadPorts


class Core(wiring.Component):
    """Datapath of `plan`: all threads, merge trees, models. It never stalls; whoever starts it keeps the distances of `plan.schedule`.

    Operations with start cycle x present their first address x + 1 cycles after their region's start pulse.
    """

    def __init__(self, plan: AnalyticsPlan, library: Parts):
        self.plan, self.library = plan, library
        width, per_port = plan.format.width, plan.threads_per_port
        members = {
            # a group starts with tuples in the threads of `mask`; it is the first of its batch
            "start": In(1),
            "mask": In(plan.threads),
            "first": In(1),
            # the group started in this cycle (or earlier) was the batch's last: run the batch
            # operations
            "batch_start": In(1),
            "epoch_start": In(1),  # run the convergence test
            # the oldest started group's input slot may be written again from the next cycle on
            "release": Out(1),
            "hold": Out(1),  # changes wait in this cycle for others of their rows
            "flag": Out(1),  # the convergence flag
            "parameter_restart": In(1),  # go to the first run constant
            "parameter_models": In(1),  # go to the first model
            "parameter_step": In(1),  # advance by one code
            "parameter_write": In(1),  # store `parameter_data` at the place
            "parameter_data": In(width),
            "parameter_code": Out(width),  # at the place one cycle before
        }
        if not plan.learns:
            # a group's scores are there, of which threads, and the scores side by side
            members |= {
                "score": Out(1),
                "score_mask": Out(plan.threads),
                "scores": Out(plan.threads * width),
            }
        if plan.watches:
            # a change of a row has left the format's range, in one of the cycles before
            members["beyond"] = Out(1)
        members |= row_members(plan) | beat_members(plan)
        for q in range(plan.ports):
            members |= {
                f"load{q}": In(per_port),  # the threads (one bit each) that take a beat
                f"load_slot{q}": In(
                    index_range(plan.striders.input_slots)
                ),  # into which input slot
                # which beat of the tuple it is
                f"load_beat{q}": In(index_range(plan.layout.beats)),
                f"load_data{q}": In(plan.lanes * width),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = self.m = Module()
        plan = self.plan
        self.delay = Delay(m)
        self.width = plan.format.width
        self.stores = {
            n: Store(m, f"buffer{n}", b, plan.lanes, b.bits or self.width, copied(plan, n))
            for n, b in enumerate(plan.buffers)
            if b.home == "core"
        }
        self._pulses()
        free = Const(0)
        self.loops = [
            Loops(m, op, plan, self.go(op), op.name, self.hold if op.changes_rows else free)
            for op in plan.ops
        ]
        self.rows = RowAccess(m, plan, self.loops, self.stores, self.hold)
        self._pending()
        control = self._control("core")
        datapath = Datapath(m, self.library, plan, "core", control, self._source)
        datapath.write_back(self.stores)
        self._watch(control, datapath)
        threads = self._threads()
        self._merges(threads)
        self._scores(threads)
        ParameterAccess(self, m, plan, self.stores)
        beat_ports(self, m, plan, self.stores)
        row_ports(self, m, plan, self.stores, control)
        if plan.roles.until is not None:
            code = self.stores[plan.roles.until].value
            fmt = plan.format
            m.d.comb += self.flag.eq(
                code[fmt.fraction_bits : fmt.width - 1].any()
                if isinstance(fmt, Float)
                else code.any()
            )
        return m

    # when operations start

    def _pulses(self) -> None:
        """Build the modulo counter of the groups in flight and the timers of the other two regions."""
        m, schedule = self.m, self.plan.schedule
        last = max(
            [schedule.release - 1, *(op.start for op in self.plan.ops if op.region == "group")]
        )
        starts: list[Value] = [self.start]
        if schedule.batch < schedule.drain and self.plan.learns:  # two batches are in flight
            before, turn = Signal(name="turn_before"), Signal(name="turn")
            m.d.comb += turn.eq(before ^ (self.start & self.first))
            m.d.sync += before.eq(turn)
            starts = [self.start & ~turn, self.start & turn]
        self.flights = [self._flight(n, start, last) for n, start in enumerate(starts)]
        self.timers = {
            region: self._timer(region, start)
            for region, start in (("batch", self.batch_start), ("epoch", self.epoch_start))
        }
        m.d.comb += self.release.eq(self._at("group", schedule.release - 1))

    def _flight(self, number: int, start: Value, last: int) -> tuple[Signal, Signal]:
        """Return which groups are in flight, those of a batch or of all, by intervals since their starts, and the cycle of the interval."""
        m, interval = self.m, self.plan.schedule.interval
        stages = Signal(last // interval + 1, name=f"stages{number}")
        phase = index(interval, name=f"phase{number}")
        wrap = phase == interval - 1
        m.d.sync += phase.eq(Mux(wrap, 0, phase + 1))
        with m.If(start):
            m.d.sync += [phase.eq(0), stages.eq(Mux(wrap, stages << 1, 0) | 1)]
        with m.Elif(wrap):
            m.d.sync += stages.eq(stages << 1)
        return stages, phase

    def _timer(self, region: str, start: Signal) -> tuple[Signal, Signal]:
        m = self.m
        last = max([0, *(op.start for op in self.plan.ops if op.region == region)])
        running = Signal(name=f"{region}_running")
        time = index(last + 1, name=f"{region}_time")
        with m.If(running):
            m.d.sync += time.eq(time + 1)
            with m.If(time == last):
                m.d.sync += running.eq(0)
        with m.If(start):
            m.d.sync += [running.eq(1), time.eq(0)]
        return running, time

    def _at(self, region: str, cycle: int) -> Value:
        if region == "group":
            turn, rest = divmod(cycle, self.plan.schedule.interval)
            return Cat(s[turn] & (phase == rest) for s, phase in self.flights).any()
        running, time = self.timers[region]
        return running & (time == cycle)

    def go(self, op: Op) -> Value:
        if not (op.changes_rows and self.plan.schedule.change):
            return self._at(op.region, op.start)
        going = self._going
        while len(going) <= op.start - self._first_change:
            going.append(Signal(name=f"changes_{len(going)}"))
            with self.m.If(~self.hold):
                self.m.d.sync += going[-1].eq(going[-2])
        return going[op.start - self._first_change]

    def _pending(self) -> None:
        """Hold changes of rows that are being changed. `taken`: the operations' beats, in the cycle behind their addresses."""
        m, ops, ages = self.m, self.plan.ops, in_unit(self.plan)
        self.taken: dict[int, Signal] = {}
        if not ages:
            return
        numbers = [n for n, op in enumerate(ops) if op.changes_rows]
        at = {n: k for k, n in enumerate(numbers)}
        late = {n: latency(ops[n].unit_fn, self.plan.format) for n in numbers}
        pairs = {(at[b], at[a]): (least, late[a]) for (b, a), least in ages.items()}
        addresses = [self.rows.address(n) for n in numbers]
        m.submodules.pending = pending = Pending([*map(len, addresses)], pairs)
        m.d.comb += self.hold.eq(pending.hold)
        for k, n in enumerate(numbers):
            valid = Signal(name=f"{ops[n].name}_there")
            self.taken[n] = Signal(name=f"{ops[n].name}_taken")
            self.rows.step(n, valid, self.loops[n].complete)
            m.d.comb += [
                getattr(pending, f"there{k}").eq(valid),
                getattr(pending, f"address{k}").eq(addresses[k]),
                self.taken[n].eq(valid & ~self.hold),
            ]

    def _late(self, n: int, lane: Value | None) -> Value | None:
        """Return the lane of an operand that operation n reads, in the cycle behind its address."""
        if lane is None or n not in self.taken:
            return None if lane is None else self.delay(lane, 1)
        late = Signal.like(lane, name=f"{self.plan.ops[n].name}_late_lane")
        self.rows.step(n, late, lane)
        return late

    @cached_property
    def _first_change(self) -> int:
        return min(op.start for op in self.plan.ops if op.changes_rows)

    @cached_property
    def _going(self) -> list[Signal]:
        """When the changes of a tuple begin that waited for their batch's end: `change` cycles behind those of the tuple before."""
        m, change = self.m, self.plan.schedule.change
        count, left = (
            index(self.plan.merge_count + 1, name=f"change_{n}") for n in ("count", "left")
        )
        phase, begin = index(change, name="change_phase"), Signal(name="change_begin")
        go = Signal(name="change_go")
        with m.If(self.start):
            m.d.sync += count.eq(Mux(self.first, 1, count + 1))
        m.d.comb += [
            begin.eq(self._at("batch", self._first_change)),
            go.eq(begin | ((left != 0) & (phase == change - 1))),
        ]
        with m.If(~self.hold):
            m.d.sync += phase.eq(Mux(go, 0, phase + 1))
        with m.If(begin):
            m.d.sync += left.eq(count - 1)
        with m.Elif(go & ~self.hold):
            m.d.sync += left.eq(left - 1)
        return [go]

    # control of both homes

    def _leave(self, op: Op) -> int:
        """Return the cycles from an address to the unit's result."""
        return op.fetch + latency(op.unit_fn, self.plan.format)

    def _control(self, home: str) -> Control:
        plan, delay = self.plan, self.delay
        control = Control()
        for n, op in enumerate(plan.ops):
            if op.home != home:
                continue
            loops = self.loops[n]
            taken = self.taken.get(n)
            control.select[n] = (
                delay(loops.active, op.fetch - 1) if taken is None else delay(taken, op.fetch - 2)
            )
            reduction = Datapath.reduction(op)
            if reduction is not None:
                self._steer(control, reduction, n)
            if op.merge is None:
                cycles = result_delay(op, plan.format, plan.lanes, plan.threads)
                enable = (
                    delay(loops.complete, cycles) if taken is None else delay(taken, cycles - 1)
                )
                if op.changes_rows:
                    address = delay(self.rows.address(n), cycles - 1)
                    control.write[n] = Write(enable, address, None)
                    continue
                place = Destination(self.m, op, plan, enable, f"{op.name}_result")
                if op.dest == plan.roles.score:
                    self.score_write = enable
                control.write[n] = Write(enable, place.address, place.lane)
        return control

    def _steer(self, control: Control, reduction: Reduction, n: int) -> None:
        """Add operation n to those that send beats into `reduction`."""
        op, loops = self.plan.ops[n], self.loops[n]
        delay, lanes = self.delay, self.plan.lanes
        cycles = self._leave(op)
        active, complete = delay(loops.active, cycles), delay(loops.complete, cycles)
        full = Const((1 << lanes) - 1, lanes)
        keep: Value = full
        if op.lane_reduce and op.columns % lanes:
            edge = Signal(name=f"{op.name}_edge")
            self.m.d.comb += edge.eq(loops.active & loops.last_col)
            keep = Mux(delay(edge, cycles), Const((1 << op.columns % lanes) - 1, lanes), full)
        control.valid[reduction] = control.valid.get(reduction, Const(0)) | active
        control.last[reduction] = control.last.get(reduction, Const(0)) | complete
        control.keep[reduction] = Mux(active, keep, control.keep.get(reduction, full))

    def _watch(self, control: Control, datapath: Datapath) -> None:
        """Note sums of rows that leave the format's range. Lanes behind a row's end do not count."""
        m, plan = self.m, self.plan
        for n, op in enumerate(plan.ops):
            if not (plan.watches and op.changes_rows and op.unit_fn in ("add", "sub")):
                continue
            rest = plan.buffers[op.dest].cols % plan.lanes
            judged, late = (Signal(name=f"{op.name}_{name}") for name in ("judged", "late_edge"))
            self.rows.step(n, late, self.loops[n].last_col)
            edge = self.delay(late, 2)
            m.d.sync += judged.eq(control.select[n])
            for lane, left in enumerate(datapath.beyond(n)):
                with m.If(judged & left & (~edge if 0 < rest <= lane else 1)):
                    m.d.sync += self.beyond.eq(1)

    def _source(self, n: int, k: int) -> Value:
        """Return an operand that lies in the core, in the cycle after its address."""
        op = self.plan.ops[n]
        if op.touches_rows and k == 0:
            return self.rows.row(n)
        if op.changes_rows:
            exported = self.rows.exported.get((n, k))
            return self.rows.late(n, self._read(n, k) if exported is None else exported)
        return self._read(n, k)

    def _read(self, n: int, k: int) -> Value:
        operand = self.plan.ops[n].operands[k]
        loops, store = self.loops[n], self.stores[operand.buffer]
        data = store.read(loops.addresses[k], self.hold if n in self.taken else None)
        if not operand.element:
            return data
        return store.code(data, self._late(n, loops.lanes[k]))

    # threads

    def _threads(self) -> list[dict[str, Signal]]:
        m, plan, delay = self.m, self.plan, self.delay
        ports = ThreadPorts(plan)
        control = self._control("thread")
        shared: dict[str, Value] = {}
        for n in ports.ops:
            op, loops = plan.ops[n], self.loops[n]
            shared[f"select{n}"] = control.select[n]
            for k in range(len(op.operands)):
                if ports.is_local(n, k):
                    lane = loops.lanes[k]
                    shared[f"address{n}_{k}"] = loops.addresses[k]
                    shared[f"lane{n}_{k}"] = delay(lane, 1) if lane is not None else Const(0)
                else:
                    shared[f"operand{n}_{k}"] = self._source(n, k)
            if op.merge is None:
                write = control.write[n]
                shared[f"write{n}"], shared[f"write_address{n}"] = write.enable, write.address
                shared[f"write_lane{n}"] = write.lane if write.lane is not None else Const(0)
        for n, k in ports.exports:
            shared[f"address{n}_{k}"] = self.loops[n].addresses[k]
            lane = self._late(n, self.loops[n].lanes[k])
            shared[f"lane{n}_{k}"] = lane if lane is not None else Const(0)
        if ports.held:
            shared["hold"] = self.hold
        for r, reduction in enumerate(ports.reductions):
            shared[f"valid{r}"], shared[f"last{r}"] = (
                control.valid[reduction],
                control.last[reduction],
            )
            shared[f"keep{r}"] = control.keep[reduction]
        widths = ports.members()
        wires = {}
        for name, value in shared.items():
            wires[name] = Signal(widths[name], name=f"thread_{name}")
            m.d.comb += wires[name].eq(value)
        threads = [self._thread(t, wires, widths, ports) for t in range(plan.threads)]
        for n, k in ports.exports:
            m.d.comb += self.rows.exported[n, k].eq(threads[0][f"export{n}_{k}"])
        return threads

    def _thread(
        self, t: int, wires: dict[str, Signal], widths: dict[str, int], ports: ThreadPorts
    ) -> dict[str, Signal]:
        m, plan = self.m, self.plan
        q, local = divmod(t, plan.threads_per_port)
        inputs: dict[str, Value] = dict(wires)
        inputs["load_data"] = getattr(self, f"load_data{q}")
        take = getattr(self, f"load{q}")[local]
        slot = getattr(self, f"load_slot{q}")
        beat = getattr(self, f"load_beat{q}")
        for number in ports.inputs:
            place, buffer = plan.layout.field(plan.buffers[number].name), plan.buffers[number]
            begin, beats = place.position // plan.lanes, buffer.beats(plan.lanes)
            address = Signal(widths[f"load_address{number}"], name=f"load{t}_{number}")
            # the slots' places as a table: a product by a number that is no power of two would take a multiplier block
            m.d.comb += address.eq(
                Array(k * beats for k in range(plan.striders.input_slots))[slot] + (beat - begin)
            )
            here: Value = take
            if begin:
                here = here & (beat >= begin)
            if begin + beats < plan.layout.beats:
                here = here & (beat < begin + beats)
            inputs[f"load{number}"] = here
            inputs[f"load_address{number}"] = address
        return self.library.instance(
            m, f"thread{t}", "penstock_thread", lambda: Thread(plan, self.library), **inputs
        )

    def _scores(self, threads: list[dict[str, Signal]]) -> None:
        """Give out the scores of a group in the cycle in which the threads write them."""
        plan = self.plan
        if plan.learns:
            return
        [n] = [n for n, op in enumerate(plan.ops) if op.dest == plan.roles.score]
        write, begin = self.score_write, plan.ops[n].start
        mask, _ = self._group_entry(n, write, begin + FETCH, plan.schedule.settle)
        self.m.d.comb += [
            self.score.eq(write),
            self.score_mask.eq(mask),
            self.scores.eq(Cat(thread["score"] for thread in threads)),
        ]

    # merging

    def _merges(self, threads: list[dict[str, Signal]]) -> None:
        for number, unit in enumerate(self.plan.units):
            users = [
                n
                for n, op in enumerate(self.plan.ops)
                if op.merge is not None and op.merge_unit == number
            ]
            if users:
                self._merge(number, unit.lanes, users, threads)

    def _merge(
        self, number: int, lanes: int, users: list[int], threads: list[dict[str, Signal]]
    ) -> None:
        """Build one merge tree over the threads with its accumulator, shared by the operations `users`."""
        m, plan = self.m, self.plan
        delay, width = self.delay, self.width
        merge = plan.ops[users[0]].merge
        assert merge is not None
        fn = REDUCE_FN[merge]
        across, step = depth(plan.threads) * latency(fn, plan.format), latency(fn, plan.format)
        beat: list[Value] = [thread[f"merge{plan.ops[users[0]].unit}"] for thread in threads]
        shared = any(plan.ops[n].unit != plan.ops[users[0]].unit for n in users)
        if shared:
            beat = [
                Signal(lanes * width, name=f"merge{number}_thread{t}") for t in range(plan.threads)
            ]
        mask = Signal(plan.threads, name=f"merge{number}_mask")
        first = Signal(name=f"merge{number}_first")
        previous = Signal(lanes * width, name=f"merge{number}_previous")
        total = Signal(lanes * width, name=f"merge{number}_total")
        for n in users:
            op, loops = plan.ops[n], self.loops[n]
            leave = self._leave(op)
            entry_mask, entry_first = self._group_entry(
                n, delay(loops.done, leave), op.start + leave, op.beats
            )
            with m.If(delay(loops.active, leave)):
                m.d.comb += [mask.eq(entry_mask), first.eq(entry_first)]
                if shared:
                    m.d.comb += [
                        b.eq(t[f"merge{op.unit}"]) for b, t in zip(beat, threads, strict=True)
                    ]
            store = self.stores[op.dest]
            read_place = self._count(
                delay(loops.active, leave + across - 1), store.depth, f"merge{n}_read"
            )
            value = store.read(read_place)
            with m.If(delay(loops.active, leave + across)):
                m.d.comb += previous.eq(value)
            write = delay(loops.active, leave + across + step)
            store.write(
                write,
                self._count(write, store.depth, f"merge{n}_write"),
                total[: store.lanes * width],
            )
        held_first = delay(first, across)
        for lane in range(lanes):
            codes = {f"code{t}": beat[t].word_select(lane, width) for t in range(plan.threads)}
            after = self.library.instance(
                m,
                f"merge{number}_lane{lane}",
                module_name("penstock_merge", fn),
                lambda: MergeLane(plan, fn, self.library),
                mask=mask,
                first=held_first,
                previous=previous.word_select(lane, width),
                **codes,
            )
            m.d.comb += total.word_select(lane, width).eq(after["total"])

    def _count(self, step: Signal, size: int, name: str) -> Signal:
        count = index(size, name=name)
        with self.m.If(step):
            self.m.d.sync += count.eq(Mux(count == size - 1, 0, count + 1))
        return count

    def _group_entry(self, n: int, done: Signal, begin: int, beats: int) -> tuple[Value, Value]:
        """Return (mask, first) of the group whose beats operation n is merging: a ring written at group starts, read by own pointer.

        `begin`: cycles from the group's start to its first beat, at least 2: time enough for a register behind the ring.
        """
        m, plan = self.m, self.plan
        size = (begin + beats) // plan.schedule.interval + 2
        entries = Array(Signal(plan.threads + 1, name=f"group{n}_{k}") for k in range(size))
        write, read = index(size, name=f"group{n}_write"), index(size, name=f"group{n}_read")
        with m.If(self.start):
            m.d.sync += [
                entries[write].eq(Cat(self.mask, self.first)),
                write.eq(Mux(write == size - 1, 0, write + 1)),
            ]
        following = Signal.like(read, name=f"group{n}_following")
        m.d.comb += following.eq(Mux(done, Mux(read == size - 1, 0, read + 1), read))
        entry = Signal(plan.threads + 1, name=f"group{n}_entry")
        m.d.sync += [read.eq(following), entry.eq(entries[following])]
        return entry[: plan.threads], entry[plan.threads]
