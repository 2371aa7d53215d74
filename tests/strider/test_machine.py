"""The machine that runs programs delivers what the golden Strider delivers, on good and on corrupt pages."""

import numpy as np
import pytest

from penstock.models.errors import ErrorCode
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.golden import walk_page
from penstock.models.strider.isa import Instruction, assemble, disassemble
from penstock.models.strider.machine import StriderMachine
from penstock.models.strider.program import generate, port_config
from testbench.strider_cases import corrupt, random_case, regular_case

FLOAT = parse_format("float32")


def check(case, pages, bus_bytes, latency=4):
    program = generate(case.walk)
    assert assemble(disassemble(program)) == program
    machine = StriderMachine(port_config(case.walk, bus_bytes, latency=latency), program)
    for k, page in enumerate(pages):
        tuples, skipped, error = walk_page(page, case.walk, k)
        walked = machine.walk(page)
        last = walked.events[-1]
        assert np.array_equal(np.array(tuples), np.array(walked.tuples))
        assert walked.skipped == skipped.skipped
        assert (last.code, last.line, last.item) == (
            (error.code, error.line, error.item) if error else (ErrorCode.OK, 0, 0)
        )
        assert all(event.wait >= 0 and event.issue >= 0 for event in walked.events)


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(seed):
    rng = np.random.default_rng(seed)
    case = random_case(
        seed,
        lanes=int(rng.integers(1, 17)),
        format=FLOAT,
        page_size=int(rng.choice([1024, 2048, 4096])),
        clean=0.5,
    )
    check(case, case.pages, int(rng.choice([4, 8, 16, 32, 64])))
    check(case, corrupt(case.pages, rng, 4), int(rng.choice([4, 8, 16, 32, 64])), latency=5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_random_tables_long(seed):
    test_random_tables(seed)


@pytest.mark.parametrize(
    "bus_bytes, cycles",
    [(4, [64, 64]), (8, [33, 32]), (16, [19, 18]), (32, [10, 10]), (64, [7, 7])],
)
def test_cycles_of_a_tuple(bus_bytes, cycles):
    """id int4, y float4, x float4[54]: 272 bytes. One window for header, label and array header each, then the elements; now and then
    a window of line pointers."""
    case = regular_case(20, features=54, lanes=16, format=FLOAT)
    walked = StriderMachine(port_config(case.walk, bus_bytes), generate(case.walk)).walk(
        case.pages[0]
    )
    assert sorted({e.wait for e in walked.events[1:6]}, reverse=True) == sorted(
        set(cycles), reverse=True
    )


@pytest.mark.parametrize(
    "at, code, line", [(0, "PROGRAM", 0), (1, "PROGRAM", 0), (2, "PROGRAM", 1), (3, "PROGRAM", 1)]
)
def test_illegal_opcode(at, code, line):
    case = regular_case(3, features=5, lanes=4, format=FLOAT)
    program = generate(case.walk)
    program[at] = Instruction(13)
    last = StriderMachine(port_config(case.walk, 8), program).walk(case.pages[0]).events[-1]
    assert (last.kind, last.code.name, last.line) == ("error", code, line)
