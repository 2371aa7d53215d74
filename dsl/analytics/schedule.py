"""Scheduling: units and start cycles for a lowered program.

Operations of the group region are modulo-scheduled: started every `interval` cycles without two of them ever meeting on a unit. Batch and
epoch operations run once and are list-scheduled. Everything the engine has to obey at run time comes down to the constants of `Schedule`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...models.analytics.config import FETCH, Buffer, Op, Schedule, Unit
from ...models.numerics.formats import Format
from ...models.numerics.latency import latency
from .lower import Program
from .times import NEVER, Times, least_interval

__all__ = ["Key", "Scheduled", "blocking", "schedule"]

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
) -> Scheduled:
    """Schedule `program` for `threads` threads, with as many units as an interval of about `target_interval` cycles takes, and `more` of some classes."""
    return _Scheduler(program, fmt, threads).run(max(1, target_interval), more or {})


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


class _Table:
    """One unit's reservations as bits: modulo an interval, or along one timeline (interval 0)."""

    def __init__(self, interval: int):
        self.interval = interval
        self.busy = 0

    def _bits(self, start: int, beats: int) -> int:
        run = (1 << beats) - 1
        if not self.interval:
            return run << start
        bits = run << start % self.interval
        return (bits | bits >> self.interval) & ((1 << self.interval) - 1)

    def take(self, start: int, beats: int) -> None:
        self.busy |= self._bits(start, beats)

    def starts(self, beats: int) -> int:
        """Return as bits at which cycles of an interval so many beats in a row are free."""
        if beats > self.interval:
            return 0
        found, have = ~self.busy & ((1 << self.interval) - 1), 1
        while have < beats:  # runs of twice the length, from two that touch
            more = min(have, beats - have)
            found, have = found & _turned(found, more, self.interval), have + more
        return found

    def next_free(self, start: int, beats: int) -> int:
        """Return the first free start from `start` on, along a timeline."""
        while clash := self.busy & self._bits(start, beats):
            start = clash.bit_length()  # behind the last bit in the way
        return start


def _turned(bits: int, by: int, interval: int) -> int:
    """Return the bits of an interval as seen from its cycle `by`."""
    by %= interval
    return (bits >> by | bits << interval - by) & ((1 << interval) - 1)


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

    def classes(self, op: Op) -> list[Key]:
        """Return the classes of units that an operation takes."""
        return [self._class(op)] + ([self._merge_class(op)] if op.merge is not None else [])

    def _class(self, op: Op) -> Key:
        return op.fn, self._width(op) > 1, op.home, "group" if op.region == "group" else "once"

    def _merge_class(self, op: Op) -> Key:
        return f"merge-{op.merge}", self._width(op) > 1, "core", "group"

    def run(self, target: int, more: Mapping[Key, int]) -> Scheduled:
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
        while (placed := self._place_group(group, count, interval)) is None:
            interval += 1 + interval // 64
        starts, unit_of, merge_unit_of, classes = placed
        self._place_once("batch", starts, unit_of, classes, more)
        self._place_once("epoch", starts, unit_of, classes, {})
        return self._finish(starts, unit_of, merge_unit_of, classes, interval)

    # placing

    def earliest(self, number: int, starts: dict[int, int], region: str) -> int:
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

    def _place_group(self, group: list[int], count: dict, interval: int):
        tables: dict[tuple, list[_Table]] = {
            key: [_Table(interval) for _ in range(n)] for key, n in count.items()
        }
        starts: dict[int, int] = {}
        unit_of: dict[int, tuple] = {}
        merge_unit_of: dict[int, tuple] = {}
        for number in group:
            op = self.program.ops[number]
            earliest = self.earliest(number, starts, "group")
            offset = FETCH + latency(op.fn, self.fmt)
            best = None
            for choice, table in enumerate(tables[self._class(op)]):
                mergers = (
                    list(enumerate(tables[self._merge_class(op)]))
                    if op.merge is not None
                    else [(-1, None)]
                )
                own = table.starts(op.beats)
                for merge_choice, merger in mergers:
                    both = (
                        own
                        if merger is None
                        else own & _turned(merger.starts(op.beats), offset, interval)
                    )
                    after = _turned(both, earliest, interval)
                    start = earliest + (after & -after).bit_length() - 1
                    if after and (best is None or start < best[0]):
                        best = (start, choice, merge_choice)
            if best is None:
                return None
            starts[number], choice, merge_choice = best
            tables[self._class(op)][choice].take(best[0], op.beats)
            unit_of[number] = (*self._class(op), choice)
            if op.merge is not None:
                tables[self._merge_class(op)][merge_choice].take(best[0] + offset, op.beats)
                merge_unit_of[number] = (*self._merge_class(op), merge_choice)
        classes = [(*key, n) for key, tables_ in tables.items() for n in range(len(tables_))]
        return starts, unit_of, merge_unit_of, classes

    def _place_once(
        self,
        region: str,
        starts: dict[int, int],
        unit_of: dict[int, tuple],
        classes: list[tuple],
        more: Mapping[Key, int],
    ) -> None:
        """List-schedule the operations of one timeline on one unit of each kind and `more` (shared by batch and epoch operations)."""
        tables: dict[tuple, _Table] = defaultdict(lambda: _Table(0))
        numbers = [n for n, op in enumerate(self.program.ops) if op.region == region]
        models = set(self.program.models)
        numbers.sort(
            key=lambda n: self.program.ops[n].dest in models
        )  # new models last: stable, so still in dependence order
        for number in numbers:
            op = self.program.ops[number]
            start = self.earliest(number, starts, region)
            if op.dest in models:
                start = max(start, self._after_readers(number, starts))
            own = self._class(op)
            start, key = min(
                (tables[own, n].next_free(start, op.beats), (*own, n))
                for n in range(1 + more.get(own, 0))
            )
            tables[own, key[-1]].take(start, op.beats)
            starts[number], unit_of[number] = start, key
            if key not in classes:
                classes.append(key)

    def _after_readers(self, number: int, starts: dict[int, int]) -> int:
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

    def _finish(
        self,
        starts: dict[int, int],
        unit_of: dict,
        merge_unit_of: dict,
        classes: list[tuple],
        interval: int,
    ) -> Scheduled:
        ops = self.program.ops
        used = {*unit_of.values(), *merge_unit_of.values()}
        classes = [key for key in classes if key in used]
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

    def _batch_distances(self, starts: dict[int, int]) -> list[int]:
        """Return what the distance to the next batch must be at least: models written before they are read, nothing overwritten early."""
        ops = self.program.ops
        distances = [0]
        for number, op in enumerate(ops):
            if op.region != "batch":
                continue
            if self.buffers[op.dest].kind == "model":
                written = self.writes[number][1]
                for (reader, buffer), (first, _) in self.reads.items():
                    if (
                        buffer == op.dest and ops[reader].region != "epoch"
                    ):  # a batch operation's next turn may come just as soon
                        used = first != NEVER
                        distances.append(
                            starts[number]
                            + int((written[used] + 1 - first[used]).max())
                            - starts[reader]
                        )
            for buffer in {o.buffer for o in op.operands}:
                if buffer not in self.writer:
                    continue
                source = self.writer[buffer]  # its next writing must come after this reading
                last = self.reads[number, buffer][1]
                used = last >= 0
                first_write = self.writes[source][0]
                distances.append(
                    starts[number]
                    + int((last[used] + 1 - first_write[used]).max())
                    - starts[source]
                )
        return distances


def _span(uses: Iterable[tuple[tuple, int, int]]) -> int:
    """Return the longest time between first and last use of any unit: (unit, start, beats) of each use."""
    begin: dict[tuple, int] = {}
    end: dict[tuple, int] = {}
    for unit, start, beats in uses:
        begin[unit] = min(begin.get(unit, start), start)
        end[unit] = max(end.get(unit, 0), start + beats)
    return max((end[unit] - begin[unit] for unit in begin), default=0)
