"""Striders with their program built in: what is known of the program, and that nothing else changes."""

import numpy as np
import pytest

from penstock.models.heap.schema import Schema
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.fixed import _divisor
from penstock.models.strider.layout import Source, TupleLayout
from penstock.models.strider.program import port_config
from testbench.strider_bench import check_port
from testbench.strider_cases import corrupt, random_case

FLOAT = parse_format("float32")


def known(columns, sources, bus_bytes=8):
    schema = Schema.from_json({"columns": columns, "page_size": 1024})
    walk = WalkConfig(schema, TupleLayout(4, 16, (), tuple(Source(*s) for s in sources)), FLOAT)
    fixed = port_config(walk, bus_bytes, lean=True).fixed
    assert fixed is not None
    return fixed


@pytest.mark.parametrize(
    "columns, sources, granule, probes",
    [
        (
            [{"name": "y", "type": "float4"}, {"name": "z", "type": "float8"}],
            [(0, 0, 1, 0), (1, 0, 1, 1)],
            4,
            False,
        ),
        (
            [{"name": "y", "type": "int2"}, {"name": "z", "type": "float4"}],
            [(0, 0, 1, 0), (1, 0, 1, 1)],
            2,
            False,
        ),
        (
            [{"name": "y", "type": "float4"}, {"name": "x", "type": "float4[]", "length": 27}],
            [(0, 0, 1, 27), (1, 0, 27, 0)],
            4,
            False,
        ),
        (
            [{"name": "y", "type": "float4"}, {"name": "x", "type": "float4[]", "length": 26}],
            [(0, 0, 1, 26), (1, 0, 26, 0)],
            1,
            True,
        ),
        (
            [{"name": "y", "type": "int2"}, {"name": "x", "type": "float4[]", "length": 27}],
            [(0, 0, 1, 27), (1, 0, 27, 0)],
            1,
            True,
        ),
        (
            [{"name": "s", "type": "text"}, {"name": "y", "type": "float4"}],
            [(1, 0, 1, 0)],
            1,
            False,
        ),
    ],
)
def test_where_windows_lie(columns, sources, granule, probes):
    """A text, or an array that may be short, can lie anywhere; everything else at multiples of its size."""
    fixed = known(columns, sources)
    assert (fixed.granule, fixed.probes) == (granule, probes)


def test_words_hold_what_differs():
    fixed = known(
        [
            {"name": "y", "type": "float4"},
            {"name": "x", "type": "float4"},
            {"name": "z", "type": "int4"},
        ],
        [(0, 0, 1, 4), (2, 0, 1, 0)],
    )

    def field(name, row):
        return sum(
            (~bit if bit < 0 else fixed.words[row] >> bit & 1) << n
            for n, bit in enumerate(fixed.fields[name])
        )

    assert [
        (field("count", k), field("beat", k), field("bexit", k), field("first", k))
        for k in range(2)
    ] == [(1, 1, 0, 0), (1, 0, 1, 8)]
    assert all(word < 1 << fixed.width for word in fixed.words)
    assert fixed.width < sum(bit >= 0 for bits in fixed.fields.values() for bit in bits)


def check(seed, bus_bytes, types):
    rng = np.random.default_rng(seed)
    case = random_case(
        seed, lanes=int(rng.choice([1, 2, 3])), format=FLOAT, page_size=1024, types=types, clean=0.6
    )
    config = port_config(case.walk, bus_bytes, lean=True, latency=int(rng.integers(4, 6)))
    for k in range(6):
        pages = corrupt(case.pages, rng, 4) if k % 3 else case.pages
        check_port(
            config,
            case.walk,
            pages,
            epochs=1 + k % 2,
            ready=None if k % 2 else rng.random(97) < 0.6,
        )


@pytest.mark.parametrize(
    "seed, bus_bytes, types",
    [
        pytest.param(3, 4, ("float4", "int4"), marks=pytest.mark.long),
        (8, 8, ("float4", "int2", "float8")),
    ],
)
def test_random_tables(seed, bus_bytes, types):
    """Values, errors and cycles are those of golden Strider and model."""
    check(seed, bus_bytes, types)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(24))
def test_random_tables_long(seed):
    check(
        100 + seed,
        (4, 8, 16, 64)[seed % 4],
        (("float4",), ("float4", "int4", "float8"), ("bool", "int2", "float4", "float8"))[seed % 3],
    )


@pytest.mark.parametrize(
    ("number", "divisor"), [(0, 8), (1, 1), (2, 2), (4, 4), (8, 8), (16, 8), (24, 8), (36, 4)]
)
def test_what_a_move_is_a_multiple_of(number, divisor):
    assert _divisor(number) == divisor
