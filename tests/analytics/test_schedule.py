"""Schedules are replayed beat by beat: no unit is used twice, nothing is read before it is written or after it is overwritten."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings

from penstock.api import compile
from penstock.dsl.analytics.lower import lower
from penstock.dsl.analytics.plan import Choices, choose
from penstock.dsl.analytics.reservations import Table as Busy
from penstock.dsl.analytics.reservations import turned
from penstock.dsl.analytics.schedule import blocking, schedule
from penstock.dsl.core.bind import bind, schema_for
from penstock.dsl.core.load import from_text, load_kernel
from penstock.host.sources import Table
from penstock.models.analytics.config import FETCH, AnalyticsPlan
from penstock.models.analytics.timing import read_times, write_times
from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.latency import latency
from penstock.models.target import Target
from penstock.targets import target_named as target
from testbench.kernels.drawn import FIXED, FLOATS, Case, cases, refusals

EXAMPLES = Path(__file__).parents[2] / "examples"
DIMS = {
    "linear": {"d": 13},
    "logistic": {"d": 30},
    "svm": {"d": 54},
    "ridge": {"d": 7},
    "mlp": {"d": 9, "h": 6},
    "waiting": {"d": 40, "e": 6},
    "abreast": {"d": 40},
    "late": {"d": 5},
}
TEXTS = {
    # a model is read long after it could be written
    "waiting": """kernel waiting(x: input[d], a: model[d], b: model[d], m: model[e, d])
  b <- b + merge(x, 4) * sum(m @ a)
  a <- a * 0.5
  m <- m
""",
    # products at one time
    "abreast": """kernel abreast(x: input[d], u: input, v: input, a: model[d])
  a <- a + merge(x * (u * v + u * u), 4)
""",
    # the last operation on a tuple reads none of it
    "late": """kernel late(x: input[d], b: model)
  b <- b + merge(tanh(sum(x) * b), 4)
""",
}


def make(
    name: str, fmt: str, part: str | Target, lanes: int | None, threads: int | None
) -> AnalyticsPlan:
    file = EXAMPLES / f"{name}.py"
    kernel = load_kernel(file) if file.exists() else from_text(TEXTS[name])
    schema = schema_for(kernel.trace(DIMS[name]))
    bound = bind(kernel, schema, None, DIMS[name])
    choice = choose(
        kernel.trace(bound.dims),
        bound.fields,
        schema,
        target(part) if isinstance(part, str) else part,
        parse_format(fmt),
        choices=Choices(lanes=lanes, threads=threads, ports=1),
    )
    program = choice.lowered()
    return choice.assembled(program, choice.scheduled(program))


def test_free_starts() -> None:
    """Of a table of an interval, against cycles tried one by one."""
    rng = np.random.default_rng(6)
    for _ in range(500):
        interval, beats = int(rng.integers(1, 40)), int(rng.integers(1, 45))
        table = Busy(interval)
        for _ in range(int(rng.integers(0, 6))):
            table.take(int(rng.integers(100)), int(rng.integers(1, min(8, interval) + 1)))
        expected = [
            beats <= interval
            and not any(table.busy >> (start + k) % interval & 1 for k in range(beats))
            for start in range(interval)
        ]
        found = table.starts(beats)
        assert [
            bool(found >> start & 1) for start in range(interval)
        ] == expected and found >> interval == 0
        by = int(rng.integers(100))
        assert [turned(found, by, interval) >> k & 1 for k in range(interval)] == [
            expected[(k + by) % interval] for k in range(interval)
        ]


def events(made: AnalyticsPlan, starts: list[tuple[int, bool]]) -> tuple[dict, dict, list]:
    """Replay group starts (cycle, closes its batch); return writes and reads by buffer beat as (cycle, version), and unit uses."""
    writes: dict[tuple[int, int], list[tuple[int, tuple]]] = {}
    reads: dict[tuple[int, int], list[tuple[int, tuple]]] = {}
    uses: list[tuple[int, int]] = []
    batch = 0
    for group, (start, closes) in enumerate(starts):
        for op in made.ops:
            if op.region == "epoch" or (op.region == "batch" and not closes):
                continue
            for unit, offset in (
                (op.unit, 0),
                (op.merge_unit, FETCH + latency(op.fn, made.format)),
            ):
                if unit >= 0:
                    uses += [(unit, start + op.start + offset + n) for n in range(op.beats)]
            for operand in op.operands:
                buffer = made.buffers[operand.buffer]
                version = {"model": batch, "temp": group, "acc": batch, "run": 0, "input": group}[
                    buffer.kind
                ]
                first, last = read_times(op, operand, made.buffers, made.lanes)
                for beat in np.flatnonzero(last >= 0):
                    reads.setdefault((operand.buffer, int(beat)), []).extend(
                        ((start + op.start + int(t)), version) for t in (first[beat], last[beat])
                    )
            buffer = made.buffers[op.dest]
            version = {"model": batch + 1, "temp": group, "acc": batch}[buffer.kind]
            first, last = write_times(op, made.buffers, made.format, made.lanes, made.threads)
            slot = group % buffer.slots
            for beat in range(len(last)):
                writes.setdefault((op.dest, beat), []).append(
                    (
                        start + op.start + int(first[beat]),
                        start + op.start + int(last[beat]),
                        version,
                        slot,
                    )
                )
        batch += closes
    return writes, reads, uses


def bounded(made: AnalyticsPlan) -> None:
    """Demand that all is done when the plan's constants say so, and that what comes once an epoch goes in order."""
    s, uses = made.schedule, []
    written: dict[int, np.ndarray] = {}
    for op in sorted(made.ops, key=lambda op: op.region == "epoch"):
        last = op.start + write_times(op, made.buffers, made.format, made.lanes, made.threads)[1]
        assert last.max() < (s.decide if op.region == "epoch" else s.settle)
        for operand in op.operands:
            first, end = read_times(op, operand, made.buffers, made.lanes)
            if made.buffers[operand.buffer].kind == "input":
                assert op.start + end.max() < s.release
            if op.region == "epoch" and operand.buffer in written:
                read = end >= 0
                assert (op.start + first[read] > written[operand.buffer][read]).all()
        if op.region == "epoch":
            written[op.dest] = last
            uses += [(op.unit, op.start + n) for n in range(op.beats)]
    assert len(set(uses)) == len(uses)


def replay(made: AnalyticsPlan) -> None:
    """Demand that operations on what each thread has have a unit in each, that every place of a result is written
    once, that no unit is used twice in a cycle, and that every beat is read after its writing and before the next one."""
    bounded(made)
    for op in made.ops:
        buffer, (i, c, _) = made.buffers[op.dest], op.extents
        places = buffer.rows * buffer.cols if op.element_dest else buffer.beats(made.lanes)
        assert i * c == places, op
        apart = op.merge or any(made.buffers[o.buffer].home == "thread" for o in op.operands)
        assert op.home == made.units[op.unit].home == ("thread" if apart else "core"), op
    assert {buffer.home for buffer in made.buffers} <= {"thread", "core"}
    s = made.schedule
    rng = np.random.default_rng(7)
    starts, cycle, close, closed = [], 0, 0, False
    for _ in range(24):  # the tightest distances that the conductor keeps, and looser ones
        starts.append((cycle, closes := bool(rng.random() < 0.4)))
        if closes:
            close = cycle
        closed = closes
        step = int(
            rng.choice(
                [
                    s.interval,
                    2 * s.interval,
                    s.drain,
                    s.drain + 1,
                    s.drain + int(rng.integers(0, 50)),
                ]
            )
        )
        cycle = close + s.batch + int(rng.integers(0, 3)) if closed else cycle + step
    writes, reads, uses = events(made, starts)
    assert len(set(uses)) == len(uses), "a unit is used twice in one cycle"
    for (number, beat), readings in reads.items():
        buffer = made.buffers[number]
        if buffer.kind not in ("model", "temp", "acc"):
            continue
        written = writes.get((number, beat), [])
        for when, version in readings:
            if buffer.kind == "model" and version == 0:
                before = 0
            else:
                ready = [last for _, last, v, _ in written if v == version]
                assert ready, f"{buffer.name} beat {beat}: version {version} is never written"
                before = min(ready) if buffer.kind != "acc" else max(ready)
                assert when > before, (
                    f"{buffer.name} beat {beat} is read in {when}, written in {before}"
                )
            slot = version % buffer.slots if buffer.kind == "temp" else 0
            for first, _, v, at in written:
                newer = v > version and (at == slot if buffer.kind == "temp" else True)
                assert not newer or first >= when, (
                    f"{buffer.name} beat {beat}, version {version}, read in {when}, overwritten in {first}"
                )


#: with three lanes and four threads: the constants, the least way from model to model, and how many there are of what
CYCLES = {
    "abreast": (14, 29, 37, 29, 57, 1, 36, 5, 5, 15, 3, 3, 3),
    "late": (7, 37, 56, 2, 63, 1, 56, 5, 6, 8, 1, 3, 3),
    "linear": (7, 56, 104, 56, 108, 1, 104, 12, 13, 30, 3, 3, 8),
    "logistic": (20, 80, 105, 80, 114, 1, 101, 6, 6, 19, 3, 3, 6),
    "mlp": (18, 133, 150, 133, 167, 1, 150, 19, 14, 52, 3, 3, 13),
    "ridge": (7, 47, 105, 47, 107, 50, 105, 17, 16, 39, 4, 3, 9),
    "svm": (36, 108, 133, 108, 150, 1, 119, 10, 9, 26, 3, 3, 5),
    "waiting": (14, 14, 152, 14, 165, 1, 152, 7, 5, 11, 1, 3, 3),
}


@pytest.mark.parametrize("name", sorted(DIMS))
def test_examples(name: str) -> None:
    """Also that they take no more than they did."""
    replay(make(name, "float32", "vu9p", None, None))
    made = make(name, "float32", "vu9p", 3, 4)
    replay(made)
    slots = sum(buffer.slots for buffer in made.buffers)
    counts = (
        len(made.ops),
        len(made.units),
        slots,
        made.striders.walkers,
        made.striders.page_buffers,
        made.striders.input_slots,
    )
    *times, change, by_row = asdict(made.schedule).values()
    assert not change and not by_row  # no row waits for a batch's end
    assert (*times, made.notes["recurrence"], *counts) == CYCLES[name]


@seed(3)
@settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(cases((*FIXED, *FLOATS)))
def test_drawn(case: Case) -> None:
    with refusals():
        made = case.design(case.table()).plan
    replay(made)


@pytest.mark.parametrize(
    ("family", "lean", "latency"), [("ecp5", True, 5), ("ecp5", False, 4), ("ice40", True, 4)]
)
def test_slow_block_rams_get_a_cycle_more(family: str, lean: bool, latency: int) -> None:
    """Those of ECP5s whose programs are built in."""
    part = replace(target("small"), family=family, lean=lean)
    for name in ("linear", "ridge"):  # the latter has an `until`
        assert make(name, "fixed:8,8", part, 1, 1).striders.window_latency == latency


@pytest.mark.parametrize(
    "name, part, lanes", [("waiting", "vu9p", 3), ("mlp", "small", 6), ("linear", "vu9p", 13)]
)
def test_no_lanes_are_quicker_than_those_chosen(name: str, part: str, lanes: int) -> None:
    """The first one's models are longer than what a tuple brings, mlp's layer is narrower."""

    def cycles(made: AnalyticsPlan) -> float:
        groups = (count := made.merge_count or 1 << 20) / made.threads
        return ((groups - 1) * made.schedule.interval + made.schedule.batch) / count

    forced = [make(name, "float32", part, n, None) for n in (1, 2, lanes)]
    assert cycles(make(name, "float32", part, None, None)) <= 1.03 * min(map(cycles, forced))


def test_what_holds_a_plan_up() -> None:
    """In three cycles one unit adds three times, two multiply four times: another adder helps."""
    text = "kernel k(a: input, b: input, c: input, d: input, w: model)\n  w <- w + merge(a*b + c*d + a*c + b*d, 4)\n"
    program, format = lower(from_text(text).trace({}), 1, serial_limit=3), parse_format("float32")
    scheduled = schedule(program, format, 4, 3, thorough=False)
    assert blocking(program, format, 4, scheduled) == [("add", False, "thread", "group")]


def test_sums_of_a_matrix_from_one_array_and_of_an_outer_product() -> None:
    """The array fills row after row; the product is merged as it is made."""
    cells = np.random.default_rng(1).integers(-4, 5, size=(8, 6)).astype(np.float32)
    table = Table.from_columns({"a": cells}, "t")
    text = 'kernel f(a: input[2, 3], w: model[2, 3])\n w <- w + merge(a, 4, "+")'
    run = compile(from_text(text, "f.psk"), "small", table, "float32").run(table, "golden")
    assert run.result and np.array_equal(run.result["w"], cells.sum(0).reshape(2, 3))
    table = Table.from_columns({"a": cells[:, :4], "b": cells[:, 4:]}, "t")
    text = (
        'kernel f(a: input[4], b: input[2], w: model[4, 2])\n w <- w + merge(outer(a, b), 4, "+")'
    )
    design = compile(from_text(text, "f.psk"), "small", table, "float32")
    run = design.run(table, "golden")
    assert run.result and np.array_equal(run.result["w"], cells[:, :4].T @ cells[:, 4:])
    assert [op.fn for op in design.plan.ops] == ["mul", "add"]
