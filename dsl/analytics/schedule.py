"""Scheduling: units and start cycles for a lowered program.

Operations of the group region are modulo-scheduled: started every `interval` cycles without two of them ever meeting on a unit. Batch and
epoch operations run once and are list-scheduled. Everything the engine has to obey at run time comes down to the constants of `Schedule`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush

from ...models.analytics.config import FETCH, Buffer, Op, Schedule, Unit
from ...models.numerics.formats import Format
from ...models.numerics.latency import latency
from .lower import Program
from .placing import Placement, Use
from .times import Times, least_interval, way

__all__ = ["Key", "Scheduled", "blocking", "schedule"]

#: how often operations are moved until a distance from batch to batch is kept, at most
_REPAIRS = 24
#: how often one order of placing is followed by another
_BOOSTS = 8
#: a class of units: what they compute, whether on several lanes, their home, and "group" or "once"
Key = tuple[str, bool, str, str]


@dataclass
class Scheduled:
    """A program with units and times. `work` holds for each group unit the beats it is busy in an interval."""

    buffers: tuple[Buffer, ...]
    units: tuple[Unit, ...]
    ops: tuple[Op, ...]
    schedule: Schedule
    work: dict[int, int]


def schedule(
    program: Program,
    fmt: Format,
    threads: int,
    target_interval: int,
    more: Mapping[Key, int] | None = None,
    thorough: bool = True,
) -> Scheduled:
    """Schedule `program` for `threads` threads, with as many units as an interval of about `target_interval` cycles takes, and `more` of some classes.

    Not `thorough`: what is placed first is placed best; the distance from batch to batch may be less.
    """
    return _Scheduler(program, fmt, threads).run(max(1, target_interval), more or {}, thorough)


def blocking(program: Program, fmt: Format, threads: int, scheduled: Scheduled) -> list[Key]:
    """Return the classes of which a further unit may shorten the batch or the interval, those that critical operations wait for longest first.

    An operation is critical whose mobility, ALAP - ASAP among the operations as they are placed, is 0: were it later, so were a new model.
    """
    scheduler = _Scheduler(program, fmt, threads)
    starts = {n: op.start for n, op in enumerate(scheduled.ops) if op.region != "epoch"}
    latest: dict[int, int] = {}
    for n in reversed(starts):
        op = program.ops[n]
        if op.dest in program.models:
            latest[n] = starts[n]
        for buffer in {o.buffer for o in op.operands}:
            source = scheduler.writer.get(buffer)
            step = None if source is None else scheduler.times.behind(source, n, buffer)
            if source in starts and step is not None and n in latest:
                latest[source] = min(latest.get(source, latest[n]), latest[n] - step)
    drained = scheduled.schedule.batch == scheduled.schedule.drain
    waits: dict[Key, int] = defaultdict(int)
    work: dict[Key, list[int]] = defaultdict(list)
    for n, start in starts.items():
        op = program.ops[n]
        wait = start - scheduler.earliest(n, starts, op.region)
        for key in scheduler.classes(op):
            if op.region == "group":
                work[key].append(op.beats)
            if wait > 0 and (latest.get(n) == start or (drained and op.region == "group")):
                waits[key] += wait
    units = Counter((unit.fn, unit.home, unit.region) for unit in scheduled.units)
    slowest = max(
        (key for key, beats in work.items() if len(beats) > 1),
        key=lambda key: sum(work[key]) / max(units[key[0], key[2], key[3]], 1),
        default=None,
    )
    found = sorted(waits, key=lambda key: -waits[key])
    return found if slowest is None or slowest in found else [*found, slowest]


class _Scheduler:
    def __init__(self, program: Program, fmt: Format, threads: int):
        self.program, self.fmt, self.threads, self.lanes = program, fmt, threads, program.lanes
        self.buffers = program.buffers
        self.times = times = Times(program, fmt, threads)
        self.writes, self.reads, self.writer = times.writes, times.reads, times.writer

    # classes of units

    def _width(self, op: Op) -> int:
        if op.lane_reduce:
            return self.lanes
        return self.buffers[op.dest].width(self.lanes) if op.vector else 1

    @cached_property
    def _classes(self) -> dict[Key, None]:
        """The classes of units, in the order of their first use."""
        return dict.fromkeys(
            key for n in self._order() for key in self.classes(self.program.ops[n])
        )

    def classes(self, op: Op) -> list[Key]:
        """Return the classes of units that an operation takes."""
        return [self._class(op)] + ([self._merge_class(op)] if op.merge is not None else [])

    def _class(self, op: Op) -> Key:
        return op.fn, self._width(op) > 1, op.home, "group" if op.region == "group" else "once"

    def _merge_class(self, op: Op) -> Key:
        return f"merge-{op.merge}", self._width(op) > 1, "core", "group"

    def run(self, target: int, more: Mapping[Key, int], thorough: bool) -> Scheduled:
        group = [n for n, op in enumerate(self.program.ops) if op.region == "group"]
        load: dict[Key, list[int]] = defaultdict(list)
        for n in group:
            for key in self.classes(self.program.ops[n]):
                load[key].append(self.program.ops[n].beats)
        count = {
            key: min(len(beats), -(-sum(beats) // target) + more.get(key, 0))
            for key, beats in load.items()
        }
        interval = max(
            [
                least_interval(self.program, self.fmt),
                *(max(beats) for beats in load.values()),
                *(-(-sum(beats) // count[key]) for key, beats in load.items()),
            ]
        )
        count |= {key: 1 + units for key, units in more.items() if key[3] == "once"}
        while (placed := self._placed(count, interval)) is None:
            interval += 1 + interval // 64
        best = self._finish(placed)
        high = best.schedule.batch
        tried = low = self._free(interval, high) if thorough else high
        while low < high:
            found = self._tried(count, interval, tried)
            best = min([best, *found], key=lambda f: (f.schedule.batch, f.schedule.settle))
            if best.schedule.batch <= tried:
                high = tried
            else:
                low, high = tried + 1, min(high, best.schedule.batch)
            tried = (low + high) // 2
        return best

    def _tried(self, count: Mapping[Key, int], interval: int, batch: int) -> list[Scheduled]:
        """Return what came of aiming at a distance of `batch`: in several orders, in which what came too late last time comes first with what it needs."""
        lows = self._lows(batch)
        if lows is None:
            return []
        slack = {n: lows[n] - self._ahead[n] for n in lows}
        keys = ({n: -self._ahead[n] for n in lows}, lows, slack)
        for order in (self._order(), *map(self._ordered, keys)):
            for _ in range(_BOOSTS):
                placed = self._aimed(count, interval, batch, order, lows)
                if isinstance(placed, Placement):
                    return [self._finish(placed)]
                first = self._needed(placed)
                if order[: len(first)] == first:
                    break
                order = [*first, *(n for n in order if n not in set(first))]
        return []

    def _needed(self, number: int) -> list[int]:
        """Return an operation behind all that it depends on."""
        found, left = {number}, [number]
        while left:
            for operand in self.program.ops[left.pop()].operands:
                source = self.writer.get(operand.buffer)
                if source is not None and source not in found:
                    found.add(source)
                    left.append(source)
        return [n for n in self._order() if n in found]

    # placing

    def earliest(self, number: int, starts: Mapping[int, int], region: str) -> int:
        """Return the first cycle at which the operation finds its operands (values of earlier regions count as there for `epoch`)."""
        op = self.program.ops[number]
        earliest = 0
        for buffer in {o.buffer for o in op.operands}:
            source = self.writer.get(buffer)
            if source is None or (region == "epoch" and self.program.ops[source].region != "epoch"):
                continue
            step = self.times.behind(source, number, buffer)
            if step is not None:
                earliest = max(earliest, starts[source] + step)
        return earliest

    def _uses(self, number: int) -> list[Use]:
        op = self.program.ops[number]
        late = FETCH + latency(op.fn, self.fmt)
        return [(key, n * late, op.beats) for n, key in enumerate(self.classes(op))]

    def _order(self) -> list[int]:
        """Return operations in an order in which they can be placed: regions one after the other, new models last."""
        ops, models = self.program.ops, set(self.program.models)
        rank = {"group": 0, "batch": 1, "epoch": 2}
        return sorted(range(len(ops)), key=lambda n: (rank[ops[n].region], ops[n].dest in models))

    def _placed(self, count: Mapping[Key, int], interval: int) -> Placement | None:
        """Return the operations of groups and batches placed, each as early as it goes; None where the interval is too short."""
        order = [n for n in self._order() if self.program.ops[n].region != "epoch"]
        placement = Placement({n: self._uses(n) for n in order}, count, interval)
        for n in order:
            if not placement.put(n, self._low(n, placement.starts)):
                return None
        return placement

    def _low(self, number: int, starts: Mapping[int, int]) -> int:
        op = self.program.ops[number]
        low = self.earliest(number, starts, op.region)
        return (
            max(low, self._after_readers(number, starts)) if op.dest in self.program.models else low
        )

    def _with_epoch(self, placement: Placement) -> tuple[dict[int, int], dict[int, list[tuple]]]:
        """Return starts and units of all operations, those after an epoch's last batch on a timeline of their own."""
        rest = [n for n in self._order() if self.program.ops[n].region == "epoch"]
        after = Placement({n: self._uses(n) for n in rest}, {}, placement.interval)
        for n in rest:
            after.put(n, self.earliest(n, after.starts, "epoch"))
        units = {
            n: [(*use[0], unit) for use, unit in zip(part.uses[n], part.units[n], strict=True)]
            for part in (placement, after)
            for n in part.uses
        }
        return {**placement.starts, **after.starts}, units

    def _aimed(
        self,
        count: Mapping[Key, int],
        interval: int,
        batch: int,
        order: Sequence[int],
        lows: Mapping[int, int],
    ) -> Placement | int:
        """Return a placement with a distance of `batch` from batch to batch, or what operation came too late for it."""
        order = [n for n in order if n in lows]
        placement = Placement({n: self._uses(n) for n in order}, count, interval)
        starts = placement.starts
        for n in order:
            if not placement.put(n, max(lows[n], self._low(n, starts))):
                return n
        for _ in range(_REPAIRS):
            late = [n for n in order if self._moved(n, placement, batch)]
            if not late:
                return placement
            if wrong := [n for n in late if n not in starts or starts[n] > batch + self._spare[n]]:
                return wrong[0]
        return late[0]

    def _moved(self, number: int, placement: Placement, batch: int) -> bool:
        """Move an operation behind what it must come behind; say whether it had to be."""
        starts = placement.starts
        low = max(
            self._low(number, starts),
            self._held(number, starts, batch),
            placement.held(number, batch),
        )
        late = starts[number] > batch + self._spare[number]
        if low > starts[number]:
            placement.remove(number)
            return placement.put(number, low) or True
        return late

    def _lows(self, batch: int) -> dict[int, int] | None:
        """Return when operations can start at the earliest with units without number; None where such a distance cannot be."""
        order = [n for n in self._order() if self.program.ops[n].region != "epoch"]
        starts = dict.fromkeys(order, 0)
        for _ in range(len(order) + 1):
            moved = False
            for n in order:
                low = max(self._low(n, starts), self._held(n, starts, batch))
                if low > starts[n]:
                    starts[n], moved = low, True
                    if low > batch + self._spare[n]:
                        return None
            if not moved:
                return starts
        return None

    def _free(self, interval: int, batch: int) -> int:
        """Return the least distance up to `batch` with units without number."""
        least = max([interval, *(way(self.times, model) for model in self.program.models)])
        low, high = min(least, batch), batch
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._lows(middle) else (middle + 1, high)
        return low

    def _held(self, number: int, starts: Mapping[int, int], batch: int) -> int:
        """Return when an operation may start at the earliest so that what it does for the next batch, `batch` later, comes behind what is done for this."""
        return max((starts[n] + step - batch for n, step in self._behind[number]), default=0)

    @cached_property
    def _behind(self) -> dict[int, list[tuple[int, int]]]:
        """By operation, what must come before its next turn, and by how much: a reading before the next writing, a model's writing before its reading."""
        found: dict[int, list[tuple[int, int]]] = {n: [] for n in range(len(self.program.ops))}
        for number, other, step in self._turns():
            found[number].append((other, step))
        return found

    def _turns(self) -> Iterator[tuple[int, int, int]]:
        """Yield (operation, what its next turn must come behind, distance of the starts less that of the batches)."""
        ops = self.program.ops
        for number, op in enumerate(ops):
            if op.region != "batch":
                continue
            if self.buffers[op.dest].kind == "model":
                for reader, buffer in self.reads:
                    # a batch operation's next turn may come just as soon
                    if buffer == op.dest and ops[reader].region != "epoch":
                        yield reader, number, self.times.behind(number, reader, buffer) or 0
            for buffer in {o.buffer for o in op.operands} & self.writer.keys():
                source = self.writer[buffer]
                last = self.reads[number, buffer][1]
                used, first = last >= 0, self.writes[source][0]
                yield source, number, int((last[used] + 1 - first[used]).max())

    @cached_property
    def _spare(self) -> dict[int, int]:
        """By operation, how much later than a batch it may start: it has started, and an input's slot is free, when the next one begins."""
        found = {}
        for n, op in enumerate(self.program.ops):
            ends = [
                int(self.reads[n, o.buffer][1].max())
                for o in op.operands
                if self.buffers[o.buffer].kind == "input"
            ]
            found[n] = -1 - max(ends, default=0) if op.region == "group" else -1
        return found

    @cached_property
    def _ahead(self) -> dict[int, int]:
        """The longest way from each operation's start to that of any that depends on it."""
        ahead = dict.fromkeys(range(len(self.program.ops)), 0)
        for n in reversed(self._order()):
            for source, buffer in self._sources[n]:
                step = self.times.behind(source, n, buffer) or 0
                ahead[source] = max(ahead[source], ahead[n] + step)
        return ahead

    @cached_property
    def _sources(self) -> dict[int, set[tuple[int, int]]]:
        """Whose results each operation reads, in which buffer."""
        return {
            n: {(self.writer[o.buffer], o.buffer) for o in op.operands if o.buffer in self.writer}
            for n, op in enumerate(self.program.ops)
        }

    def _ordered(self, key: Mapping[int, int]) -> list[int]:
        """Return operations in an order in which they can be placed, of those that can be next the one with the least key; new models last."""
        waits = {n: {source for source, _ in self._sources[n]} & key.keys() for n in key}
        then: dict[int, list[int]] = defaultdict(list)
        for n, sources in waits.items():
            for source in sources:
                then[source].append(n)
        models, found = set(self.program.models), []
        rank = lambda n: (self.program.ops[n].dest in models, key[n], n)
        ready = [rank(n) for n, sources in waits.items() if not sources]
        heapify(ready)
        while ready:
            chosen = heappop(ready)[-1]
            found.append(chosen)
            for n in then[chosen]:
                waits[n].discard(chosen)
                if not waits[n]:
                    heappush(ready, rank(n))
        return found

    def _after_readers(self, number: int, starts: Mapping[int, int]) -> int:
        """Return the first start at which a new model overwrites nothing that is still to be read."""
        dest = self.program.ops[number].dest
        first_write = self.writes[number][0]
        earliest = 0
        for (reader, buffer), (_, last) in self.reads.items():
            if (
                buffer == dest
                and reader != number
                and reader in starts
                and self.program.ops[reader].region != "epoch"
            ):
                used = last >= 0
                earliest = max(
                    earliest, starts[reader] + int((last[used] - first_write[used]).max())
                )
        return earliest

    # what follows from the times

    def _finish(self, placement: Placement) -> Scheduled:
        ops, interval = self.program.ops, placement.interval
        starts, units_of = self._with_epoch(placement)
        unit_of = {n: keys[0] for n, keys in units_of.items()}
        merge_unit_of = {n: keys[1] for n, keys in units_of.items() if len(keys) > 1}
        classes = sorted(
            {key for keys in units_of.values() for key in keys},
            key=lambda key: (list(self._classes).index(key[:-1]), key[-1]),
        )
        numbering = {key: n for n, key in enumerate(classes)}
        lanes: dict[tuple, int] = defaultdict(int)
        for assigned in (unit_of, merge_unit_of):
            for n, key in assigned.items():
                lanes[key] = max(lanes[key], self._width(ops[n]))
        units = tuple(Unit(key[0], lanes[key], key[2], key[3]) for key in classes)
        placed = tuple(
            replace(
                op,
                start=starts[n],
                unit=numbering[unit_of[n]],
                merge_unit=numbering[merge_unit_of[n]] if n in merge_unit_of else -1,
            )
            for n, op in enumerate(ops)
        )
        buffers = list(self.buffers)
        release = 1
        for (reader, buffer), (_, last) in self.reads.items():
            if ops[reader].region != "group":
                continue
            end = starts[reader] + int(last.max())
            if buffers[buffer].kind == "input":
                release = max(release, end + 1)
            elif buffers[buffer].kind == "temp":
                begin = starts[self.writer[buffer]] + int(self.writes[self.writer[buffer]][0].min())
                buffers[buffer] = replace(
                    buffers[buffer], slots=max(buffers[buffer].slots, (end - begin) // interval + 1)
                )
        group = [n for n, op in enumerate(ops) if op.region == "group"]
        drain = max(
            [
                interval,
                release,
                *(starts[n] + 1 for n in group),
                _span((unit_of[n], starts[n], ops[n].beats) for n in group),
                _span(
                    (key, starts[n] + FETCH + latency(ops[n].fn, self.fmt), ops[n].beats)
                    for n, key in merge_unit_of.items()
                ),
            ]
        )
        once = [n for n, op in enumerate(ops) if op.region == "batch"]
        batch = max(
            [
                drain,
                _span((unit_of[n], starts[n], ops[n].beats) for n in once),
                *(starts[n] + 1 for n in once),
                *self._batch_distances(starts),
            ]
        )
        written = lambda n: starts[n] + int(self.writes[n][1].max())
        epoch = [n for n, op in enumerate(ops) if op.region == "epoch"]
        settle = 1 + max(map(written, (*once, *group)), default=0)
        decide = 1 + max(map(written, epoch), default=0)
        work: dict[int, int] = defaultdict(int)
        for assigned in (unit_of, merge_unit_of):
            for n, key in assigned.items():
                if ops[n].region == "group":
                    work[numbering[key]] += ops[n].beats
        return Scheduled(
            tuple(buffers),
            units,
            placed,
            Schedule(interval, drain, batch, release, settle, decide),
            dict(work),
        )

    def _batch_distances(self, starts: Mapping[int, int]) -> list[int]:
        """Return what the distance to the next batch must be at least: models written before they are read, nothing overwritten early."""
        return [starts[late] + step - starts[n] for n, late, step in self._turns()]


def _span(uses: Iterable[tuple[tuple, int, int]]) -> int:
    """Return the longest time between first and last use of any unit: (unit, start, beats) of each use."""
    begin: dict[tuple, int] = {}
    end: dict[tuple, int] = {}
    for unit, start, beats in uses:
        begin[unit] = min(begin.get(unit, start), start)
        end[unit] = max(end.get(unit, 0), start + beats)
    return max((end[unit] - begin[unit] for unit in begin), default=0)
