"""`AccessPort` in Verilator: codes as the golden Strider has them, cycles as the model has them."""

import dataclasses

import numpy as np
import pytest

from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.models.memory.timing import FixedLatency
from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.errors import PageError
from penstock.models.strider.isa import FIXED_TYPES, Instruction
from penstock.models.strider.layout import Integer, Source, TupleLayout
from penstock.models.strider.program import generate
from testbench.strider_bench import check_port, run_port
from testbench.strider_cases import corrupt, random_case, regular_case

FLOAT = parse_format("float32")


def port(page_size, bus_bytes, lanes, beats, format, types, **options):
    return PortConfig(
        page_size,
        bus_bytes,
        lanes,
        beats,
        parse_format(format),
        types,
        **{"program_depth": 256, **options},
    )


#: few builds by default; the others run with --long
NARROW = port(1024, 8, 4, 12, "float32", FIXED_TYPES, slots=2)
SEVERAL = port(
    1024, 4, 3, 16, "bfloat16", ("int2", "float8"), striders=2, buffers=3, slots=5, latency=5
)
SOME = ("int2", "float4", "float8")
ALL = ("bool", "int8", "float4", "float8")
LONG = [
    port(2048, 64, 16, 4, "float32", ("int4", "float4"), striders=4, slots=20),
    port(1024, 16, 1, 40, "fixed:8,16", FIXED_TYPES, buffers=3, slots=2, latency=5),
    port(4096, 32, 7, 8, "float16", SOME, striders=3, slots=5),
    port(1024, 8, 16, 4, "float32", SOME[1:], striders=1, slots=4, latency=5),
    port(1024, 64, 11, 6, "float32", ALL, slots=4),
    port(32768, 32, 13, 6, "bfloat16", ("bool", "float4"), striders=2, slots=3),
    port(1024, 4, 16, 4, "float32", FIXED_TYPES, striders=2, buffers=4, slots=2, latency=5),
]


def table(config, seed, clean=0.6):
    """A random table that the port can serve, with as many beats as the port has."""
    case = random_case(
        seed,
        lanes=config.lanes,
        format=config.format,
        page_size=config.page_size,
        types=config.types,
        clean=clean,
    )
    if case.walk.layout.beats > config.beats:
        return None
    layout = dataclasses.replace(case.walk.layout, beats=config.beats)
    return dataclasses.replace(case.walk, layout=layout), case.pages


def pattern(rng):
    return None if rng.random() < 0.3 else rng.random(997) < rng.choice([0.1, 0.5, 0.9])


def sweep(config, seeds, corruptions, system=False):
    """Random tables and corruptions of them; returns what the runs ended in."""
    ends = set()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        drawn = table(config, seed)
        if drawn is None:
            continue
        walk, pages = drawn
        memory = (
            FixedLatency(int(rng.integers(1, 100)), int(rng.choice([1, 4, 8, 16, 64])))
            if system
            else None
        )
        for k in range(1 + corruptions):
            out = check_port(
                config,
                walk,
                corrupt(pages, rng, 4) if k else pages,
                epochs=int(rng.integers(1, 4)),
                offer=pattern(rng),
                ready=pattern(rng),
                first_block=int(rng.integers(9)),
                block_stride=int(rng.integers(1, 4)),
                memory=memory,
            )
            ends.add(out.error.code.name if out.error else "")
    return ends


@pytest.mark.parametrize("config", [NARROW, SEVERAL], ids=["narrow", "several"])
def test_random_tables(config):
    assert len(sweep(config, range(20), 2)) >= 5


@pytest.mark.long
@pytest.mark.parametrize(
    "config", LONG, ids=lambda c: f"{c.bus_bytes}-bytes-{c.lanes}-lanes-{c.striders}-striders"
)
def test_random_tables_long(config):
    sweep(config, range(100, 200), 3)


#: positions 1 and 4 are integers
INTEGERS = port(
    1024, 4, 3, 2, "fixed:4,8", FIXED_TYPES, integers=(Integer(1, 3000), Integer(4, 1 << 12))
)


@pytest.mark.parametrize("leaves", [False, True])
def test_integers_stay_integers(leaves):
    """Beside codes of a narrow format: dates, booleans and integers of every length; the first that names nothing ends the run, or its row is
    left out."""
    ends = set()
    port_of = dataclasses.replace(
        INTEGERS, integers=tuple(i._replace(leaves=leaves) for i in INTEGERS.integers)
    )
    for seed in range(24 if not leaves else 8):
        rng = np.random.default_rng(seed)
        kinds = rng.choice(["bool", "int2", "int4", "int8", "date"], 2).tolist()
        names = ["date", "x", kinds[0], "int2", kinds[1]]
        at = rng.permutation(5)
        columns = [Column(f"c{n}", "float4" if names[n] == "x" else names[n]) for n in at]
        values = {f"c{n}": rng.integers(0, 2 if names[n] == "bool" else 3000, 30) for n in range(5)}
        values["c1"] = rng.uniform(-7, 7, 30)
        wrong = None
        if rng.random() < 0.5 and "bool" not in kinds:
            wrong = int(rng.integers(30))
            values["c2"][wrong] = rng.choice([-1, 3000, 32767])
        place = {int(n): k for k, n in enumerate(at)}
        sources = (
            Source(place[1], 0, 1, 0),
            Source(place[2], 0, 1, 1),
            Source(place[4], 0, 1, 4),
        )
        layout = TupleLayout(3, 2, (), sources, integers=port_of.integers)
        schema = Schema("t", tuple(columns), 1024)
        policy = InputPolicy("saturate" if rng.random() < 0.5 else "error")
        walk = WalkConfig(schema, layout, INTEGERS.format, policy=policy)
        stored = {
            c.name: [int(v).to_bytes(4, "little", signed=True) for v in values[c.name]]
            if c.type == "date"
            else values[c.name]
            for c in columns
        }
        out = check_port(port_of, walk, write_heap(schema, stored), ready=rng.random(97) < 0.7)
        whole, given = out.tuples[:, [1, 4]], np.stack([values["c2"], values["c4"]], 1)
        if wrong is not None:
            given = np.delete(given, wrong, 0) if leaves else given[:wrong]
        assert np.array_equal(whole, given)
        assert (out.error is None) == (wrong is None or leaves)
        ends.add("" if out.error is None else out.error.code.name)
    assert ends == ({""} if leaves else {"", "VALUE_INDEX"})


@pytest.mark.parametrize("default", [-1, 1 << 12])
@pytest.mark.parametrize("on_overflow", ["error", "saturate"])
def test_a_default_that_names_nothing(default, on_overflow):
    """It ends the run at the first row from before the column, whatever becomes of other numbers."""
    columns = Column("x", "float4"), Column("a", "int2"), Column("i", "int4", missing=default)
    sources = Source(0, 0, 1, 0), Source(1, 0, 1, 1), Source(2, 0, 1, 4)
    layout = TupleLayout(3, 2, (), sources, integers=INTEGERS.integers)
    policy = InputPolicy(on_overflow)
    walk = WalkConfig(Schema("t", columns, 1024), layout, INTEGERS.format, policy=policy)
    pages = write_heap(walk.schema, {n: [1, 2, 0] for n in "xai"}, natts=[3, 2, 3])
    out = check_port(INTEGERS, walk, pages)
    assert (out.error.code, out.error.line) == (PageError.VALUE_INDEX, 2)
    assert len(out.tuples) == 1


def test_ends_of_pages_that_wait():
    """The last pages hold no tuple, and their ends wait behind one that nobody takes."""
    walk, pages = table(NARROW, 3, clean=1.0)
    pages = np.concatenate([pages, np.zeros((3, 1024), np.uint8)])
    check_port(NARROW, walk, pages, epochs=2, ready=np.arange(97) == 96)


def test_behind_the_reader():
    """With page sequencer and reader on a memory of fixed latency: exact from `start` on."""
    for config in (NARROW, SEVERAL):
        sweep(config, range(40, 60), 0, system=True)


@pytest.mark.long
@pytest.mark.parametrize("config", LONG[:3], ids=lambda c: f"{c.bus_bytes}-bytes")
def test_behind_the_reader_long(config):
    sweep(config, range(100, 160), 1, system=True)


@pytest.mark.parametrize(
    "at, code, line",
    [(0, PageError.PROGRAM, 0), (1, PageError.PROGRAM, 0), (3, PageError.PROGRAM, 1)],
)
@pytest.mark.parametrize("how", ["opcode", "end"])
def test_bad_program(at, code, line, how):
    """An unknown opcode, or running past the program's end, stops the run with a report."""
    drawn = regular_case(3, features=5, lanes=4, format=FLOAT, page_size=1024)
    program = generate(drawn.walk)
    program = program[:at] if how == "end" else [*program[:at], Instruction(12), *program[at + 1 :]]
    if not program:
        program = [Instruction(0)]
    out = run_port(NARROW, program, drawn.pages, first_block=5)
    assert out.complete and (out.error.code, out.error.block, out.error.line) == (code, 5, line)
    assert len(out.tuples) == 0


def pace(features, array, short=False, striders=1, slots=4):
    """Cycles from tuple to tuple on a 64-byte bus, and the bus words of a tuple."""
    case = regular_case(400, features=features, lanes=16, format=FLOAT, array=array, short=short)
    config = PortConfig(
        8192, 64, 16, 4, FLOAT, ("float4",), striders=striders, slots=slots, program_depth=16
    )
    walk = dataclasses.replace(case.walk, layout=dataclasses.replace(case.walk.layout, beats=4))
    out = check_port(config, walk, case.pages, epochs=2)
    cycles = [cycle for cycle, kind in out.tokens if kind == "end"]
    line = case.pages[0, 24:28].copy().view("<u4")[0]
    return (cycles[1] - cycles[0]) / 400, int(line >> 17) / 64


@pytest.mark.parametrize(
    "features, array, short",
    [(54, True, False), (54, False, False), (26, True, True), (26, False, False), (2, True, True)],
)
def test_pace(features, array, short):
    """At most four cycles a tuple on top of its bus words, the page's own costs included; five where an array's header may be short."""
    cycles, words = pace(features, array, short)
    assert cycles <= words + 4 + short
