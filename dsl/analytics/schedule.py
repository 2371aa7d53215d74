"""Scheduling: units and start cycles for a lowered program.

Operations of the group region are modulo-scheduled: started every `interval` cycles without two of them ever meeting on a unit. Batch and
epoch operations run once and are list-scheduled. Everything the engine has to obey at run time comes down to the constants of `Schedule`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...models.analytics.config import FETCH, Buffer, Op, Schedule, Unit
from ...models.analytics.timing import latency
from ...models.numerics.formats import Format
from .distances import Distances
from .lower import Program
from .reservations import Placement, Use
from .search import search
from .times import Times, least_interval

#: a class of units: what they compute, whether on several lanes, their home, and "group", "once" or "change"
Key = tuple[str, bool, str, str]


@dataclass
class Scheduled:
    """A program with units and times."""

    buffers: tuple[Buffer, ...]
    units: tuple[Unit, ...]
    ops: tuple[Op, ...]
    schedule: Schedule


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
        if program.ops[n].dest in program.models:
            latest[n] = starts[n]
        for d in scheduler.distances.behind[n]:
            if n in latest and not d.turns:
                latest[d.first] = min(latest.get(d.first, latest[n]), latest[n] - d.step)
    drained = scheduled.schedule.batch == scheduled.schedule.drain
    waits: dict[Key, int] = defaultdict(int)
    work: dict[Key, list[int]] = defaultdict(list)
    for n, start in starts.items():
        op = program.ops[n]
        wait = start - scheduler.distances.low(n, starts)
        for key in scheduler.classes(n):
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
    classes = sorted(waits, key=lambda key: -waits[key])
    return classes if slowest is None or slowest in classes else [*classes, slowest]


def _width(op: Op, stored: Sequence[int], lanes: int) -> int:
    """Return on how many lanes an operation works; `stored`: the lanes of each buffer."""
    if op.lane_reduce:
        return lanes
    return stored[op.dest] if op.vector else 1


def _uses(op: Op, lanes: int, fmt: Format, waits: bool) -> list[Use]:
    """Return what an operation takes: its unit, then that of its merge; `waits`: as of `Program`."""
    several, where = lanes > 1, "group" if op.region == "group" else "once"
    if op.changes_rows and waits:  # once for each tuple of a batch
        where = "change"
    keys: list[Key] = [(op.unit_fn, several, op.home, where)]
    if op.merge is not None:
        keys.append((f"merge-{op.merge}", several, "core", "group"))
    late, first = FETCH + latency(op.unit_fn, fmt), op.fetch - FETCH
    return [(key, first + n * late, op.beats) for n, key in enumerate(keys)]


class _Scheduler:
    def __init__(self, program: Program, fmt: Format, threads: int):
        self.program, self.fmt = program, fmt
        self.threads, self.lanes = threads, program.lanes
        self.buffers = program.buffers
        self.times = times = Times(program, fmt, threads)
        self.writes, self.reads, self.writer = times.writes, times.reads, times.writer
        known = program.known
        if "uses" not in known:
            stored = [buffer.width(program.lanes) for buffer in program.buffers]
            known["widths"] = widths = [_width(op, stored, program.lanes) for op in program.ops]
            pairs = zip(program.ops, widths, strict=True)
            known["uses"] = [_uses(op, lanes, fmt, program.waits) for op, lanes in pairs]
        self.widths: list[int] = known["widths"]
        #: what each operation takes of units: classes, from when on, and for how long
        self.uses: list[list[Use]] = known["uses"]
        self.beats = [op.beats for op in program.ops]

    @cached_property
    def distances(self) -> Distances:
        return Distances(self.program, self.times)

    # classes of units

    @cached_property
    def _classes(self) -> dict[Key, None]:
        """The classes of units, in the order of their first use."""
        return dict.fromkeys(key for n in self._order() for key in self.classes(n))

    def classes(self, number: int) -> list[Key]:
        """Return the classes of units that an operation takes."""
        return [key for key, _, _ in self.uses[number]]

    def run(self, target: int, more: Mapping[Key, int], thorough: bool) -> Scheduled:
        group = [n for n, op in enumerate(self.program.ops) if op.region == "group"]
        load: dict[Key, list[int]] = defaultdict(list)
        for n in group:
            for key in self.classes(n):
                load[key].append(self.beats[n])
        count = {
            key: min(len(beats), -(-sum(beats) // target) + more.get(key, 0))
            for key, beats in load.items()
        }
        interval = max(
            [
                least_interval(self.program, self.fmt),
                self.threads if self.program.score is not None else 1,  # scores leave one a cycle
                *(max(beats) for beats in load.values()),
                *(-(-sum(beats) // count[key]) for key, beats in load.items()),
            ]
        )
        count |= {key: 1 + units for key, units in more.items() if key[3] != "group"}
        changes = Counter(uses[0][0] for uses in self.uses)
        count |= {key: most for key, most in changes.items() if key[3] == "change"}
        while (placed := self._placed(self.distances, count, interval)) is None:
            interval += 1 + interval // 64
        best = self._finish(placed)
        high = best.schedule.batch
        thorough = thorough and bool(self.program.models)
        tried = low = self._free(interval, high) if thorough else high
        while low < high:
            placement = search(self._empty(self.distances, count, interval), self.distances, tried)
            if placement is not None:
                other = self._finish(placement)
                best = min(best, other, key=lambda f: (f.schedule.batch, f.schedule.settle))
            if best.schedule.batch <= tried:
                high = tried
            else:
                low, high = tried + 1, min(high, best.schedule.batch)
            tried = (low + high) // 2
        return best

    # placing

    def _order(self) -> list[int]:
        """Return operations in an order in which they can be placed: regions one after the other, new models last."""
        ops, models = self.program.ops, set(self.program.models)
        rank = {"group": 0, "batch": 1, "epoch": 2}
        return sorted(range(len(ops)), key=lambda n: (rank[ops[n].region], ops[n].dest in models))

    def _empty(self, of: Distances, count: Mapping[Key, int], interval: int) -> Placement:
        order = [n for n in self._order() if n in of.behind]
        return Placement({n: self.uses[n] for n in order}, count, interval)

    def _placed(self, of: Distances, count: Mapping[Key, int], interval: int) -> Placement | None:
        """Return the operations placed, each as early as it goes; None where the interval is too short."""
        placement = self._empty(of, count, interval)
        placed = (placement.put(n, of.low(n, placement.starts)) for n in placement.uses)
        return placement if all(placed) else None

    def _with_epoch(self, placement: Placement) -> tuple[dict[int, int], dict[int, list[tuple]]]:
        """Return starts and units of all operations, those after an epoch's last batch on a timeline of their own."""
        after = self._placed(Distances(self.program, self.times, True), {}, placement.interval)
        assert after is not None  # on a timeline there is always room
        units = {
            n: [(*use[0], unit) for use, unit in zip(part.uses[n], part.units[n], strict=True)]
            for part in (placement, after)
            for n in part.uses
        }
        return {**placement.starts, **after.starts}, units

    def _free(self, interval: int, batch: int) -> int:
        """Return the least distance up to `batch` with units without number."""
        low, high = min(interval, batch), batch
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.distances.windows(middle) else (middle + 1, high)
        return low

    # what follows from the times

    def _finish(self, placement: Placement) -> Scheduled:
        ops = self.program.ops
        starts, units_of = self._with_epoch(placement)
        classes = sorted(
            {key for keys in units_of.values() for key in keys},
            key=lambda key: (list(self._classes).index(key[:-1]), key[-1]),
        )
        numbering = {key: n for n, key in enumerate(classes)}
        lanes: dict[tuple, int] = defaultdict(int)
        for n, keys in units_of.items():
            for key in keys:
                lanes[key] = max(lanes[key], self.widths[n])
        placed = [
            replace(op, start=starts[n], unit=numbering[units_of[n][0]]) for n, op in enumerate(ops)
        ]
        for n, keys in units_of.items():
            if len(keys) > 1:
                placed[n] = replace(placed[n], merge_unit=numbering[keys[1]])
        buffers, release = self._held(starts, placement.interval)
        return Scheduled(
            tuple(buffers),
            tuple(Unit(key[0], lanes[key], key[2], key[3]) for key in classes),
            tuple(placed),
            self._constants(starts, units_of, placement.interval, release),
        )

    def _held(self, starts: Mapping[int, int], interval: int) -> tuple[list[Buffer], int]:
        """Return the buffers with slots for all groups whose values they hold at once, and from when on a group's inputs are read no more."""
        ops, buffers, release = self.program.ops, list(self.buffers), 1
        for (reader, buffer), (_, last) in self.reads.items():
            held, end = buffers[buffer], starts[reader] + int(last.max())
            if held.kind in ("input", "index"):
                release = max(release, end + 1)
            elif held.kind == "temp" and ops[reader].region == "group":
                source = self.writer[buffer]
                begin = starts[source] + int(self.writes[source][0].min())
                slots = max(held.slots, (end - begin) // interval + 1)
                buffers[buffer] = replace(held, slots=slots)
        return buffers, release

    def _constants(
        self,
        starts: Mapping[int, int],
        units_of: Mapping[int, list[tuple]],
        interval: int,
        release: int,
    ) -> Schedule:
        ops = self.program.ops
        regions: dict[str, list[int]] = {"group": [], "batch": [], "epoch": []}
        for n, op in enumerate(ops):
            regions[op.region].append(n)
        group, once = regions["group"], regions["batch"]

        def span(numbers: Iterable[int]) -> int:
            """Return the longest time between first and last use of any unit."""
            begin: dict[tuple, int] = {}
            end: dict[tuple, int] = {}
            for n in numbers:
                for unit, (_, late, beats) in zip(units_of[n], self.uses[n], strict=True):
                    begin[unit] = min(begin.get(unit, starts[n] + late), starts[n] + late)
                    end[unit] = max(end.get(unit, 0), starts[n] + late + beats)
            return max((end[unit] - begin[unit] for unit in begin), default=0)

        def written(numbers: Iterable[int]) -> int:
            return 1 + max((starts[n] + int(self.writes[n][1].max()) for n in numbers), default=0)

        drain = max([interval, release, span(group), *(starts[n] + 1 for n in group)])
        distance = self.distances.batch(starts)
        floor = drain if not self.program.models else max(interval, span(group), -(-drain // 2))
        batch = max([floor, distance, span(once), *(starts[n] + 1 for n in once)])
        settle, decide = written((*once, *group)), written(regions["epoch"])
        change = self.distances.change(starts)
        if change:
            change = max(change, span(n for n in once if ops[n].changes_rows))
        by_row = self.program.by_row
        if by_row:  # a batch begins when none of the one before waits any more
            changes = (n for n in once if ops[n].changes_rows)
            batch = max([batch, *(starts[n] + ops[n].beats + 2 for n in changes)])
        return Schedule(interval, drain, batch, release, settle, decide, change, by_row)
