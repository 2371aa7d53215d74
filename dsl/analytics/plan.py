"""Planning: threads, lanes, ports and units for a target.

DAnA chooses the smallest of the fastest likewise (PVLDB 11(11), section 6.1).

* **Candidates.** Threads (powers of two, or as many as share a batch evenly), ports, lanes (powers of two, or the fewest for a few beats of a row or
  of a tuple) and Striders are combined, each lowered and scheduled, with as many units as the rate of the tuples asks for and with four times as many.
* **Exact cycles.** The best eight that fit go through the cycle model, on 50,000 assumed rows, so that a table's size changes no hardware: but
  for tables of so few pages that ports would have none, which are run through as they are.
* **Growth.** The best grows by what holds it up: a unit of the class that critical operations wait for, half the interval, more threads, other lanes,
  fewer ports.
* **Choice.** Of all within 1 % of the fastest, the smallest is taken. `--prefer area` takes the smallest that needs at most twice the time, `--prefer
  energy` the least joules by the target's `power` (35 W idle and 160 W at most where it has none). `--threads`, `--lanes`, `--ports` and `--walkers`
  fix a choice.
* **Resources.** At most 80 % of a resource (`--fill`), by estimate (docs/howto/boards.md); more where no smaller plan fits: by time, as a fuller
  part's clock is slower.
* **Schedule.** Of 200 drawn graphs 95 % are as short as an integer program's optimum; the longest takes 1.066 times it
  (`tests/analytics/test_optimum.py`). One of 24 others, with four places of extremes, takes 8/7.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...models.analytics.config import AnalyticsPlan, Schedule
from ...models.energy import CARD, energy
from ...models.heap.schema import Schema
from ...models.memory.timing import FixedLatency, Memory
from ...models.numerics.formats import Format
from ...models.target import Target
from ..core.bind import Source as BoundSource
from ..core.bind_index import BoundIndex
from ..core.diagnostics import KernelError, Span, error
from ..core.graph import Graph
from .candidates import Candidate, Maker, Point, bound_indices
from .choices import Choices
from .in_memory import SHARES, check_hot, check_no_places, placed, placed_tables
from .lower import Program, lower
from .lower_rows import by_rows
from .on_chip import too_large, why_golden_alone
from .schedule import Scheduled, schedule
from .times import facts
from .unplanned import no_such_plan, none_fits
from .unscheduled import unscheduled, untimed
from .widths import lanes_of, powers, threads_of

#: exact cycles a tuple in the long run, by a plan
Measure = Callable[[AnalyticsPlan], float]

#: candidates within this factor of the fastest are as fast
TOLERANCE = 1.01
#: of candidates, how many are measured before the best one is grown, and after that
_MEASURED, _TRIED = 8, 16
#: with `--prefer area`, how much longer than the fastest a plan may take
_SLOWER = 2.0
#: of a resource so many times what there is: no more threads are tried
_HOPELESS = 2.0
#: an interval that one unit of each class keeps
_FEWEST = 1 << 30
#: threads beyond this many are not tried
MOST_THREADS = 256


@dataclass(frozen=True)
class Choice:
    """What the planner chose for a kernel: all that a plan follows from, step by step.

    `maker`: the kernel, its table, target and format, and the models that lie in memory; `indices`: what each index takes of the table; `golden`: the plan
    is for golden results alone, without units and times; `notes`: bounds of any plan, and why there is no hardware.
    """

    maker: Maker
    point: Point
    indices: Mapping[str, BoundIndex]
    golden: bool = False
    notes: dict[str, Any] = field(default_factory=dict)

    def lowered(self) -> Program:
        """Return the graph's operations on the lanes that were chosen."""
        return self.maker.program(self.point.lanes, self.point.interval)

    def scheduled(self, program: Program) -> Scheduled:
        """Return the operations of `lowered` with their units and start cycles."""
        return untimed(program) if self.golden else self.maker.scheduled(program, self.point)

    def assembled(self, program: Program, scheduled: Scheduled) -> AnalyticsPlan:
        """Return the plan of the operations of `scheduled`."""
        plan = self.maker.assemble(program, scheduled, self.point)
        if self.golden:
            indices = bound_indices(self.maker.graph, self.indices)
            plan = replace(plan, rows=replace(plan.rows, indices=indices))
        return replace(plan, notes={**plan.notes, **self.notes})


def choose(
    graph: Graph,
    columns: Mapping[str, Sequence[BoundSource]],
    schema: Schema,
    target: Target,
    fmt: Format,
    *,
    choices: Choices | None = None,
    memory: Memory | None = None,
    measure: Measure | None = None,
    indices: Mapping[str, BoundIndex] | None = None,
    rows: int | None = None,
    once: int | None = None,
) -> Choice:
    """Return what is best for `graph` on `target`.

    Parameters: `columns`: for each `Input` and `Output` where its values come from, in order (`Binding.fields`); `fmt`:
    the engine's number format; `memory`: the port's timing where it is not the target's own; `measure`: the exact cycle model, without which estimates
    decide; `indices`: what each index takes of the table; `rows`: of a small table; `once`: tuples of a run that may be of
    few. A kernel with rows of models has a plan for golden results alone.

    Raises KernelError (E601) where nothing fits, (E605) where there is no plan with the user's choices.
    """
    memory = memory or FixedLatency(target.latency, target.bytes_per_cycle)
    maker = Maker(
        graph, columns, schema, target, fmt, choices or Choices(), memory, known=rows, once=once
    )
    if not by_rows(graph):
        if not graph.score and (maker.choices.place or maker.choices.dedupe):
            check_no_places(graph, maker.choices)
        return replace(_planned(maker, measure), indices=indices or {})
    bound = indices or {}
    one = replace(maker, indices=bound, choices=replace(maker.choices, threads=1, ports=1))
    asked = placed(graph, maker.choices.place)
    check_hot(graph, maker.choices.hot)
    reason, code = why_golden_alone(graph, maker, bound), "E496"
    if not reason:
        options = {"--place": asked, "--hot": maker.choices.hot, "--dedupe": maker.choices.dedupe}
        if option := next((name for name, choice in options.items() if choice), ""):
            return _in_memory(one, asked or None, measure, option)
        reason, code = too_large(maker), "E601"
        try:
            if not reason:
                return _planned(one, measure)
        except KernelError as unfit:
            reason, code = unfit.diagnostic.message, unfit.diagnostic.code
        if not maker.choices.place:
            try:
                return _in_memory(one, None, measure, "--place")
            except KernelError:  # the models themselves are what is too large
                pass
    notes = {"golden_alone": reason, "refused": code}
    return Choice(maker, unscheduled(maker), bound, golden=True, notes=notes)


def _in_memory(
    maker: Maker, asked: Mapping[str, int | None] | None, measure: Measure | None, option: str
) -> Choice:
    """Return the choice with models in memory, which an option asks for: on the chip every row is at hand. Raises KernelError (E605, E601)."""
    for share in SHARES:
        tables = placed_tables(maker, maker.indices, asked, share)
        if isinstance(tables, str):
            hint = f"leave {option} out" + ", or write chip in place of memory" * bool(asked)
            what = f"no plan has rows in memory: {tables}"
            raise error("E605", what, Span.whole(option), hint=hint)
        try:
            return _planned(replace(maker, tables=tables), measure)
        except KernelError as unfit:
            if unfit.diagnostic.code != "E601" or share == SHARES[-1]:
                raise
    raise AssertionError("unreachable")


def _planned(maker: Maker, measure: Measure | None) -> Choice:
    """Return the planner's best. Raises KernelError (E601, E605)."""
    graph, fmt = maker.graph, maker.fmt
    planner = _Planner(maker, measure)
    best = planner.run()
    chosen = best.plan
    # the way from model to model with a unit for every operation, on these lanes
    free = schedule(
        lower(graph, chosen.lanes, serial_limit=1), fmt, chosen.threads, 1, thorough=False
    ).schedule
    learns = not graph.score
    bounds: dict[str, Any] = {
        "recurrence": min(free.batch, chosen.schedule.batch) if learns else 0,
        "interval": min(_apart(free), _apart(chosen.schedule)) if learns else 0,
        "machine": planner.facts,
    }
    if maker.choices.prefer == "energy":
        power = maker.target.power or CARD
        draw = f"{power.idle_w:g} W idle, {power.max_w:g} W at most ({power.source})"
        bounds["power"] = f"least energy at {draw}"
    return Choice(maker, best.point, maker.indices, notes=bounds)


def _apart(schedule: Schedule) -> int:
    """Return what a further tuple of a batch takes at least."""
    return schedule.interval + schedule.change


@dataclass
class _Planner:
    maker: Maker
    measure: Measure | None
    fill: float | None = field(init=False)  # None: all that can be filled
    left: int = _MEASURED + _TRIED

    def __post_init__(self) -> None:
        self.fill = self.maker.choices.fill

    @cached_property
    def facts(self) -> dict[str, Any]:
        return facts(self.maker.graph, self.maker.fmt)

    def run(self) -> Candidate:
        space = list(self._space())
        if not space:
            raise no_such_plan(self.maker)
        candidates = self._estimated(space)
        if not any(map(self._fits, candidates)):
            self.fill = None
            if not any(map(self._fits, candidates)):
                candidates += self._smallest(candidates)
            if not any(map(self._fits, candidates)):
                raise none_fits(self.maker, candidates)
        measured = self._exact(self._shortlist(candidates))
        if self.maker.choices.prefer == "time":
            measured += self._grown(min(measured, key=lambda c: c.time))
        best = self._best(measured)
        other = self.maker.make(replace(best.point, thorough=True))
        shorter = other.plan.schedule.batch < best.plan.schedule.batch
        better = shorter and self._fits(other) and other.slower <= best.slower
        return other if better else best

    # what is wanted

    def _fits(self, candidate: Candidate) -> bool:
        if self.fill is None:
            return candidate.resources.fits(self.maker.target) is None
        return candidate.share <= self.fill

    def _ranked(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return candidates in the order in which they are preferred, by the cycles that are known of them and the clock."""
        candidates = list(candidates)
        best = min(c.time for c in candidates)
        prefer = self.maker.choices.prefer
        if prefer == "energy":
            return sorted(candidates, key=_energy)
        limit = best * (_SLOWER if prefer == "area" else TOLERANCE)
        small = [c for c in candidates if c.time <= limit]
        rest = [c for c in candidates if c.time > limit]
        return sorted(small, key=lambda c: (c.area, c.time)) + sorted(rest, key=lambda c: c.time)

    def _best(self, candidates: Iterable[Candidate]) -> Candidate:
        return self._ranked(candidates)[0]

    # by estimate

    def _space(self) -> Iterator[tuple[int, int, int]]:
        """Yield (lanes, threads, ports) to be tried."""
        maker = self.maker
        chosen, batch, target = maker.choices, maker.graph.merge_count, maker.target
        learns = not maker.graph.score  # scores leave through one port, in row order
        most = min(batch or MOST_THREADS, MOST_THREADS)
        for threads in (
            [chosen.threads] if chosen.threads else threads_of(batch, most, target.ports)
        ):
            # several ports share a batch evenly; as many of them are used as threads and batch allow, or as the bound asks for
            possible = [
                n
                for n in powers(target.ports)
                if threads % n == 0 and (n == 1 or (learns and batch % threads == 0))
            ]
            if maker.pages is not None and not chosen.ports:  # no port is without a page
                possible = [n for n in possible if n <= maker.pages] or possible[:1]
            few = 1 if maker.pages is None else 2
            enough = [n for n in possible if maker.bus_cycles <= n * self._least]
            for ports in [chosen.ports] if chosen.ports else {*enough[:1], *possible[-few:]}:
                if ports in possible:
                    for lanes in self._lanes[0]:
                        yield lanes, threads, ports

    @cached_property
    def _lanes(self) -> tuple[list[int], list[int]]:
        return lanes_of(self.maker)

    def _estimated(self, space: Iterable[tuple[int, int, int]]) -> list[Candidate]:
        """Return candidates with the lanes, threads and ports in `space`. Left out are those that are hopelessly slow beside one that fits, have more
        threads than a candidate that is as fast as its stream and any plan, or are far too large."""
        maker, candidates, best = self.maker, [], float("inf")
        most_threads = set()  # lanes, ports and walkers that gain nothing from more threads
        slack = _SLOWER if maker.choices.prefer != "time" else TOLERANCE
        points = []
        for lanes, threads, ports in space:
            most, choice = maker.walkers(lanes), maker.choices.walkers
            for walkers in {most, -(-most // 2), 1} if choice is None else {choice}:
                stream = maker.stream(lanes, walkers)
                interval = max(1, int(stream * threads / ports))
                each = stream / ports * maker.idle(ports)
                points.append((each, Point(lanes, threads, ports, walkers, interval)))
        for stream, point in sorted(points, key=lambda pair: (pair[0], pair[1].threads)):
            if stream > slack * best:
                break
            alike = point.lanes, point.ports, point.walkers
            if alike in most_threads:
                continue
            for interval in dict.fromkeys((point.interval, max(1, point.interval // 4))):
                candidate = maker.make(replace(point, interval=interval))
                candidates.append(candidate)
                if candidate.cycles < best:
                    if self._fits(candidate):
                        best = candidate.cycles
                    elif candidate.share > _HOPELESS:
                        most_threads.add(alike)
                        break
                if candidate.cycles <= TOLERANCE * max(stream, self._least):
                    most_threads.add(alike)
                    break
        return candidates

    def _smallest(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return candidates with one unit of each class, on the fewest threads and ports."""
        points, walkers = [c.point for c in candidates], self.maker.choices.walkers or 1
        few = min((p.threads, p.ports) for p in points)
        lanes = {p.lanes for p in points if (p.threads, p.ports) == few}
        return [self.maker.make(Point(n, *few, walkers, _FEWEST)) for n in sorted(lanes)]

    def _shortlist(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return the best candidates that fit, by estimate."""
        if self.fill is None:  # shares are known, and clocks differ
            candidates = sorted(filter(self._fits, candidates), key=lambda c: c.time)
        else:
            candidates = sorted(candidates, key=lambda c: c.cycles)
        best = next(c.time for c in candidates if self._fits(c))
        slack = TOLERANCE if self.maker.choices.prefer == "time" else _SLOWER
        near = [c for c in candidates if c.cycles <= best * slack and self._fits(c)]
        chosen = self._ranked(near)[:_MEASURED]
        for candidate in candidates:
            if len(chosen) == _MEASURED:
                break
            if candidate not in chosen and self._fits(candidate):
                chosen.append(candidate)
        return chosen

    # by measurement

    def _exact(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates with exact cycles; not all, once one is as fast as any is estimated."""
        if self.measure is None:
            return list(candidates)
        least, measured = min(c.cycles for c in candidates), []
        for candidate in candidates:
            measured.append(self._measured(candidate))
            if self.maker.choices.prefer == "time" and measured[-1].cycles <= TOLERANCE * least:
                break
        return measured

    def _measured(self, candidate: Candidate) -> Candidate:
        if self.measure is not None and candidate.exact is None:
            self.left -= 1
            candidate.exact = self.measure(candidate.plan)
        return candidate

    def _grown(self, best: Candidate) -> list[Candidate]:
        """Return what the best one becomes by growing what holds it up, until nothing helps, or no plan could be faster."""
        candidates: list[Candidate] = []
        while best.cycles > TOLERANCE * self._least and self.left > 0:
            for point in self._moves(best):
                candidate = self.maker.make(point)
                # the estimate knows of units; whether the stream waits for something only the exact model tells
                gain = best.cycles if candidate.scheduled is best.scheduled else best.estimated
                if candidate.exact is not None or not candidate.estimated < gain:
                    continue
                if not self._fits(candidate):
                    continue
                if self._measured(candidate).time < best.time / TOLERANCE**0.5:
                    candidates.append(candidate)
                    best = candidate
                    break
            else:
                break
        return candidates

    @cached_property
    def _least(self) -> float:
        """Cycles a tuple that no plan beats."""
        maker = self.maker
        batch = maker.graph.merge_count or 1 << 20
        levels = min((batch - 1).bit_length(), len(self.facts["ways"]) - 1)
        return max(maker.bus_cycles / maker.target.ports, self.facts["ways"][levels] / batch)

    def _moves(self, best: Candidate) -> Iterator[Point]:
        """Yield points with more of what may hold a candidate up: units that critical operations wait for, threads, lanes; Striders, slots, pages."""
        point, chosen, maker = best.point, self.maker.choices, self.maker
        if not point.thorough:
            yield replace(point, thorough=True)
        for key in maker.blocking(best)[:2]:
            more = dict(point.more)
            more[key] = more.get(key, 0) + 1
            yield replace(point, more=tuple(sorted(more.items())))
        if point.interval > 1:
            yield replace(point, interval=point.interval // 2)
        if best.cycles > TOLERANCE * best.estimated:
            if chosen.walkers is None and point.walkers < 2 * maker.walkers(point.lanes):
                yield replace(point, walkers=point.walkers + 1)
            yield replace(point, slots=2 * point.slots)
            yield replace(point, pages=2 * point.pages)
        # half as many threads to twice as many, on as many ports or others
        pairs = {(t, p) for _, t, p in self._space() if 0.5 <= t / point.threads <= 2}
        for threads, ports in [(point.threads, point.ports), *sorted(pairs)]:
            for lanes in sorted({*self._lanes[1], point.lanes}, reverse=True):
                for interval in (max(1, point.interval // 4), point.interval):
                    if 1 < 3 * lanes * threads / (point.lanes * point.threads) <= 6:
                        as_many = -(-point.walkers * point.ports // ports)  # on all ports together
                        walkers = chosen.walkers or min(maker.walkers(lanes), as_many)
                        yield Point(lanes, threads, ports, walkers, interval)


def _energy(candidate: Candidate) -> float:
    """Return what a tuple takes, in proportion: time at the power of what is used, as `models.energy` counts it."""
    power = candidate.target.power or CARD
    joules = energy(
        candidate.time, idle_w=power.idle_w, max_w=power.max_w, share=candidate.share
    ).joules
    assert joules is not None
    return joules
