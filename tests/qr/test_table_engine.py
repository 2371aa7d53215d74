"""Fits over numeric columns in hardware: every answer bit for bit, every run cycle for cycle, over random tables, engines, rows and memories."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from penstock.dsl.qr.units import unit_of
from penstock.engines.qr.solution import values_of
from penstock.models.errors import RunError
from penstock.models.heap.schema import TYPES, Column, Schema
from penstock.models.memory import FixedLatency
from penstock.models.numerics.limbs import Limbs
from penstock.models.numerics.policy import InputPolicy
from penstock.models.qr import columns as c
from penstock.models.qr.table_config import (
    Segment,
    TableFitPlan,
    layout,
    pack_totals,
    unpack_answer,
)
from penstock.models.qr.table_cycles import bound, run, words_read
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.costs import analyse
from penstock.models.strider.errors import PageError
from penstock.models.strider.row_pages import RowPages
from penstock.models.strider.table import walk_table
from testbench.pruned_pages import random_slots, write_pruned
from testbench.qr import SIMULATED, build, fit_pages, pack_answer

NOTHING, PAGES = Segment(), SIMULATED.pages


class Table:
    """A random table of `features` columns and a label, of mixed types, with tombstones and columns nobody uses."""

    def __init__(
        self,
        seed: int,
        features: int,
        most: int,
        rows: int,
        *,
        page_size: int = 1024,
        on_null: str = "error",
        far: float = 0.0,
    ) -> None:
        source = np.random.default_rng(seed)
        types = [
            str(source.choice(["float4", "float8", "int2", "int4", "int8", "bool"]))
            for _ in range(features + 1)
        ]
        columns = [Column(f"c{k}", name) for k, name in enumerate(types)]
        columns.insert(int(source.integers(features + 1)), Column("t", "text"))
        if features > 2 and all(
            column.type != "text" for column in columns[-2:]
        ):  # some features are an array's
            columns[-2:] = [Column("v", "float4[]", length=2)]
        self.schema = Schema("t", tuple(columns), page_size)
        places = [
            (k, e)
            for k, column in enumerate(columns)
            if column.type != "text"
            for e in range(column.length if column.is_array else 1)
        ]
        source.shuffle(places)
        values, nulls = {}, {}
        for column in columns:
            shape = (rows, column.length) if column.is_array else (rows,)
            name = TYPES[column.type].element or column.type
            numbers = source.standard_normal(shape) * 10.0 ** source.integers(
                -1, 2
            ) + source.uniform(-3, 3)
            values[column.name] = (
                ["x" * int(n) for n in source.integers(0, 20, rows)]
                if column.type == "text"
                else numbers > 0
                if name == "bool"
                else np.rint(numbers * (1e12 if name == "int8" else 1)).astype(np.int64)
                if name.startswith("int")
                else numbers
            )
            if far and name in ("float8", "int8"):  # whose digits hold that
                away = np.rint(far * source.uniform(-1, 1))
                values[column.name] = away.astype(values[column.name].dtype) + values[column.name]
            if on_null == "skip" and not column.is_array:
                nulls[column.name] = source.random(rows) < 0.05
        if features > 3:
            values[columns[-1].name] = values[columns[-1].name] * 0 + 1  # constant
        states = [
            str(source.choice(["frozen", "committed", "aborted", "deleted"])) for _ in range(rows)
        ]
        self.pages = write_pruned(
            self.schema,
            values,
            nulls=nulls,
            visibility=states,
            slots=random_slots(rows, seed) if source.random() < 0.5 else None,
        )
        policy = InputPolicy(on_nan="skip")
        bare = WalkConfig(
            self.schema, layout(places, on_null), Limbs((1,) * len(places)), policy=policy
        )
        columns = values_of(SimpleNamespace(pages=self.pages), bare).columns
        found = [unit_of(column, int(source.integers(1, most + 1))) for column in columns]
        self.limbs = tuple(unit.limbs for unit in found)
        self.walk = replace(bare, format=Limbs(self.limbs))
        self.shifts, self.offsets = [u.shift for u in found], [u.offset for u in found]
        self.format = Limbs(self.limbs).of(self.shifts, self.offsets)
        codes, _, _, wrong = walk_table(self.pages, replace(bare, format=self.format))
        assert wrong is None
        self.rows = self.format.to_integers(codes) + np.array(self.offsets)

    def empty(self, offsets: list[int] | None = None) -> c.Totals:
        own = c.Columns(self.limbs, 1)
        return c.initial_totals(own, self.shifts, self.offsets if offsets is None else offsets)

    def engine(self, lanes: int, *shape: int) -> TableFitPlan:
        return TableFitPlan(c.Columns(self.limbs, lanes), self.walk, *shape)

    def costs(self, engine: TableFitPlan, pages=None):
        port = replace(engine.port, format=self.format)
        return analyse(
            port, replace(self.walk, format=self.format), self.pages if pages is None else pages
        )


def spans(
    source: np.random.Generator, engine: TableFitPlan, table: Table
) -> tuple[list[tuple[int, int]], list[tuple[Segment, object]]]:
    """Random rows that come and go, and the pages they lie in."""
    places, rows, segments = RowPages(table.costs(engine)), [], []
    for _ in range(2):
        first, last = sorted(source.integers(0, len(table.rows) + 1, 2).tolist())
        if source.random() < 0.2:
            last = first
        page, skip, costs = places.span(first, last)
        there = Segment(
            PAGES + page * table.schema.page_size, costs.pages, skip, last - first, page
        )
        segments.append((there, costs) if last > first else (NOTHING, None))
        rows.append((first, last))
    return rows, segments


def check(
    engine: TableFitPlan, library, table: Table, seeds: range, stall_percent: int = 0
) -> None:
    for seed in seeds:
        source = np.random.default_rng(seed)
        many = int(source.integers(0, len(table.rows)))
        (come, go), segments = spans(source, engine, table)
        before = c.add_rows(table.empty(), table.rows[: max(many, go[1] - go[0])])
        after = c.remove_rows(c.add_rows(before, table.rows[slice(*come)]), table.rows[slice(*go)])
        memory = FixedLatency(int(source.integers(1, 60)), int(source.choice([1, 2, 8, 16, 64])))
        found = fit_pages(
            engine,
            library,
            table.pages,
            before,
            [segment for segment, _ in segments],
            memory=memory,
            limit=1_000_000,
            stall_percent=stall_percent,
            seed=seed,
        )
        assert found.error is None and found.answer is not None
        assert (found.answer == pack_answer(after, c.solve(after), engine)).all(), seed
        assert found.counters["summed"] == come[1] - come[0] + go[1] - go[0]
        assert (
            found.bytes_read
            == words_read(engine, [segment for segment, _ in segments]) * engine.bus_bytes
        )
        if not stall_percent:
            cycles = run(
                engine, segments, memory, totals=SIMULATED.answers[0], answer=SIMULATED.answers[1]
            )
            assert cycles == found.cycles, seed
            assert cycles >= bound(engine, [segment for segment, _ in segments], memory).cycles


ENGINES = [
    # features, most limbs, rows, products a cycle, bus, Striders, buffers, slots, NULL
    (1, 1, 60, 6, 8, 1, 2, 4, "error"),
    (4, 3, 200, 4, 16, 2, 2, 9, "skip"),
    (8, 2, 150, 11, 64, 3, 3, 20, "error"),
    # far from 0: up to the last bit of 64
    (3, 2, 120, 5, 32, 2, 2, 7, "error"),
]


def made(case):
    """Return the table and the engine of a row of `ENGINES`."""
    features, most, rows, lanes, bus, walkers, buffers, slots, on_null = case
    table = Table(features, features, most, rows, on_null=on_null, far=8e18 if features == 3 else 0)
    return table, table.engine(lanes, bus, walkers, buffers, slots)


#: the last has all that the others have
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.long if case[0] != 3 else ()) for case in ENGINES],
    ids=str,
)
def test_every_answer_and_every_cycle(case) -> None:
    table, engine = made(case)
    features, library = case[0], build(engine)
    check(engine, library, table, range(25))
    check(engine, library, table, range(100, 105), stall_percent=40)
    if features == 3:
        check_ranges(engine, library, table, range(200, 215))


def check_ranges(engine: TableFitPlan, library, table: Table, seeds: range) -> None:
    """Offsets that leave some value too far away end the run at the first one of them, by row and column; they saturate elsewhere."""
    ended = 0
    for seed in seeds:
        source = np.random.default_rng(seed)
        (come, go), segments = spans(source, engine, table)
        row, column = int(source.integers(len(table.rows))), int(source.integers(engine.columns.n))
        top = 1 << 17 * table.limbs[column]
        offsets = list(table.offsets)
        # one row at least is too far, or just not
        moved = (
            int(table.rows[row, column])
            + int(source.choice([top + 1, -top]))
            - int(source.integers(2))
        )
        offsets[column] = max(-(1 << 63), min(moved, (1 << 63) - 1))
        walk = replace(table.walk, format=table.format.of(table.shifts, offsets))
        taken = [k for (segment, _), span in zip(segments, (come, go), strict=True) if segment.pages
                 for k in range(segment.block, segment.block + segment.pages)]  # fmt: skip
        wrong = next(
            (e for k in taken if (e := walk_table(table.pages[k : k + 1], walk, k)[3])), None
        )
        found = fit_pages(
            engine,
            library,
            table.pages,
            replace(table.empty(offsets), sums=np.full_like(table.empty().sums, len(table.rows))),
            [segment for segment, _ in segments],
            limit=1_000_000,
            stall_percent=30,
            seed=seed,
        )
        if wrong is None:
            assert found.error is None
        elif found.error is not None:  # what lies behind the last row of a page is not walked
            assert found.error == wrong, seed
            assert (wrong.code, wrong.item) == (PageError.VALUE_OVERFLOW, column + 1)
            ended += 1
    assert ended


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_random_engines(seed: int) -> None:
    source = np.random.default_rng(seed + 1000)
    features, most = int(source.choice([1, 2, 3, 6, 12, 20, 40])), int(source.integers(1, 4))
    table = Table(
        seed + 50,
        features,
        most if features < 20 else 1,
        300,
        page_size=int(source.choice([2048, 8192])),
        on_null=str(source.choice(["error", "skip"])),
        far=float(source.choice([0, 1e9])),
    )
    products = c.Columns(table.limbs, 1).products
    lanes = int(source.choice([1, 2, products, min(products, int(source.integers(3, 40)))]))
    engine = table.engine(
        lanes,
        int(source.choice([8, 16, 32, 64])),
        int(source.integers(1, 4)),
        int(source.integers(2, 4)),
        int(source.integers(2, 30)),
    )
    check(engine, build(engine), table, range(30))


def test_pages_behind_the_last_row() -> None:
    """More pages than the rows lie in: those behind the last row are not walked, and none of their words is taken for those that go."""
    table, engine = made(ENGINES[-1])
    library, pages = build(engine), len(table.pages)
    assert pages > 6
    before = c.add_rows(table.empty(), table.rows[:3])
    for come, go, latency in [(3, 2, 1), (5, 1, 40), (1, 4, 90)]:
        segments = [Segment(PAGES, pages, 0, come, 0), Segment(PAGES, pages - 1, 0, go, 0)]
        found = fit_pages(
            engine,
            library,
            table.pages,
            before,
            segments,
            memory=FixedLatency(latency, 2),
        )
        after = c.remove_rows(c.add_rows(before, table.rows[:come]), table.rows[:go])
        assert (
            found.answer is not None
            and (found.answer == pack_answer(after, c.solve(after), engine)).all()
        )


def test_rows_that_the_pages_do_not_have() -> None:
    """A run that asks for more ends with a code of its own, in hardware as in the model."""
    table, engine = made(ENGINES[-1])
    library, memory = build(engine), FixedLatency(20, 16)
    (_, skip, costs), rows = RowPages(table.costs(engine)).span(0, len(table.rows)), len(table.rows)
    whole = Segment(PAGES, costs.pages, skip, rows, 3), costs
    one = c.add_rows(table.empty(), table.rows[:1])
    first = Segment(PAGES, 1, 0, 1, 9), RowPages(table.costs(engine)).span(0, 1)[2]
    for come, go, place in [
        ({"rows": rows + 1}, {}, (3, 1)),
        ({"skip": rows, "rows": 1}, {}, (3, 1)),
        ({"skip": rows - 1, "rows": c.ROWS_MAX - 1}, {}, (3, 1)),
        ({"skip": (1 << 32) - 1}, {}, (3, 1)),
        ({"pages": 0}, {}, (3, 1)),
        ({"pages": 0, "rows": 0}, {"skip": 1 << 20}, (9, 2)),
        ({}, {"pages": 0}, (9, 2)),
        ({"skip": 1 << 31, "rows": 0}, {"rows": 0}, None),
        ({}, {}, None),
    ]:
        segments = [
            (replace(segment, **changed), costs if changed.get("pages", 1) else None)
            for (segment, costs), changed in zip((whole, first), (come, go), strict=True)
        ]
        timed = [] if place else [run(engine, segments, memory, answer=SIMULATED.answers[1])]
        if place:
            with pytest.raises(RunError, match="QR_SHORT") as due:
                run(engine, segments, memory)
            assert (due.value.error.block, due.value.error.item) == place
        held = [segment for segment, _ in segments]
        for stalls in (0, 40):
            found = fit_pages(engine, library, table.pages, one, held, memory=memory,
                              limit=1_000_000, stall_percent=stalls)  # fmt: skip
            assert found.error == (due.value.error if place else None), (come, go)
            assert stalls or not timed or found.cycles == timed[0]


def test_more_rows_than_the_sums_hold() -> None:
    """Rows that come beside those of the totals, and rows that go of fewer: a code of its own, in hardware as in the model."""
    table, engine = made(ENGINES[-1])
    library, memory, rows = build(engine), FixedLatency(20, 16), len(table.rows)
    page, skip, costs = RowPages(table.costs(engine)).span(0, rows)
    most = c.ROWS_MAX
    for before, come, go, item in [
        (most - rows, rows, 0, None),
        (most - rows + 1, rows, 0, 1),
        (most + 1, 0, 0, 1),
        (1 << 24, rows, 0, 1),
        (1 << 62, 0, 0, 1),
        (-1, rows, 0, 1),
        (0, rows, rows, None),
        (rows - 1, 0, rows, 2),
        (0, 0, 1, 2),
    ]:
        sums = table.empty().sums.copy()
        sums[0, 0] = before
        totals = replace(table.empty(), sums=sums)
        held = [
            Segment(PAGES, costs.pages, skip, n, page + k) if n else Segment()
            for k, n in enumerate((come, go))
        ]
        timed = [(one, costs if one.pages else None) for one in held]
        due = None
        try:
            run(engine, timed, memory, answer=SIMULATED.answers[1], rows=before)
        except RunError as problem:
            due = problem.error
        assert (due and (due.code.name, due.block, due.item)) == (
            item and ("QR_ROWS", held[item - 1].block, item)
        )
        found = fit_pages(engine, library, table.pages, totals, held, memory=memory, limit=10**6)
        assert found.error == due, (before, come, go)
        if due is None:
            after = c.remove_rows(c.add_rows(totals, table.rows[:come]), table.rows[:go])
            expected = pack_answer(after, c.solve(after), engine)
            assert found.answer is not None and (found.answer == expected).all()


def test_a_bad_page_ends_the_run() -> None:
    table, engine = made(ENGINES[-1])
    library, pages = build(engine), table.pages.copy()
    pages[1, 18:20] = 0xFF  # pd_pagesize_version
    good = Segment(PAGES, 1, 0, 1, 0)
    found = fit_pages(
        engine,
        library,
        pages,
        replace(table.empty(), sums=np.full_like(table.empty().sums, 1 << 20)),
        [good, Segment(PAGES, 2, 0, 1 << 20, 7)],
    )
    assert found.answer is None and found.error is not None
    assert (found.error.code, found.error.block) == (PageError.PAGE_VERSION, 8)


def test_what_has_no_hardware() -> None:
    table = Table(1, 2, 2, 10)
    columns = c.Columns(table.limbs)
    with pytest.raises(ValueError, match="a sum has 8 bytes, the memory port 4"):
        TableFitPlan(columns, table.walk, 4)
    for other in (c.Columns((1, 1, 1, 1)), c.Columns((3, 3, 3))):
        with pytest.raises(ValueError, match="in one beat, in the columns' limbs"):
            TableFitPlan(other, table.walk)
    engine = TableFitPlan(columns, table.walk)
    assert TableFitPlan.from_json(engine.to_json()) == engine
    totals = c.add_rows(table.empty(), table.rows)
    again = unpack_answer(pack_answer(totals, c.solve(totals), engine), engine)
    assert (
        (again[0].sums == totals.sums).all()
        and (again[0].offsets == totals.offsets).all()
        and len(pack_totals(totals, engine)) % 64 == 0
    )
    places = RowPages(table.costs(engine))
    with pytest.raises(ValueError, match="is not in the last of 2 pages"):
        two = table.costs(engine, np.concatenate([table.pages[:1]] * 2))
        run(engine, [(Segment(PAGES, 2, 0, 1), two), (NOTHING, None)], FixedLatency())
    with pytest.raises(IndexError, match="of "):
        places.span(0, places.rows + 1)
