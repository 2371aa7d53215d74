"""Programs that are made for schemas and layouts."""

import pytest

from penstock.models.heap.schema import Schema
from penstock.models.numerics.formats import parse_format
from penstock.models.numerics.limbs import Limbs
from penstock.models.strider.config import PortConfig, WalkConfig
from penstock.models.strider.isa import Op, disassemble
from penstock.models.strider.layout import Source, TupleLayout, place
from penstock.models.strider.program import generate, missing_numbers, port_config
from testbench.strider_cases import regular_case

FLOAT = parse_format("float32")


def text(columns, sources, lanes=4, beats=8, **options):
    schema = Schema.from_json({"columns": columns})
    layout = TupleLayout(
        lanes, beats, (), tuple(Source(*s) for s in sources), options.pop("on_null", "error")
    )
    lines = disassemble(generate(WalkConfig(schema, layout, FLOAT, **options))).splitlines()
    return [line.partition(";")[0].strip().replace("  ", " ").replace("  ", " ") for line in lines]


def test_columns_become_one_run():
    columns = [
        {"name": "id", "type": "int8"},
        *({"name": f"x{k}", "type": "float4"} for k in range(6)),
        {"name": "rest", "type": "int4"},
    ]
    assert text(columns, [(k + 1, 0, 1, k) for k in range(6)]) == [
        "readB 8196, 7, a8",
        "bentr 3",
        "run float4, D+8, 6, @0.0, a0, bexit",
        "extrBi a0",
        "att int8, 1, @0.0, a0",
        "att float4, 6, @0.0, a1, use, bexit",
    ]


def test_array_header_goes_ahead_of_a_run():
    """Where the header may be short its kind must be known before the elements are read: something else is read meanwhile."""
    columns = [{"name": "y", "type": "float4"}, {"name": "x", "type": "float4[]", "length": 26}]
    assert text(columns, [(0, 0, 1, 28), (1, 0, 26, 0)])[2:5] == [
        "arr float4, D+4, 26, a1",
        "run float4, D+0, 1, @7.0, a0",
        "run float4, A+0, 26, @0.0, a0, bexit",
    ]
    columns[1]["length"] = 27
    assert text(columns, [(0, 0, 1, 28), (1, 0, 27, 0)])[2:4] == [
        "run float4, D+0, 1, @7.0, a0",
        "arr float4, D+4, 27, a1",
    ]


def test_stepping_over_any_fixed_length():
    """A length that is a multiple of the alignment takes one instruction, another one two; neighbours of one simple kind share one."""
    columns = [
        {"name": "n", "type": "text"},
        {"name": "u", "type": "uuid"},
        {"name": "m", "type": "macaddr"},
        {"name": "i", "type": "timetz"},
        {"name": "o", "type": "who:fixed(6,8)"},
        {"name": "d", "type": "date"},
        {"name": "e", "type": "oid"},
        {"name": "b", "type": "bool"},
    ]
    assert text(columns, [(7, 0, 1, 0)]) == [
        "readB 8196, 8, a8",
        "bentr 12",
        "var int4, a0",
        "cln bool, P+0, 16, a0",
        "cln int4, P+0, 1, a0",
        "cln bool, P+0, 2, a0",
        "cln int8, P+0, 1, a0",
        "cln bool, P+0, 4, a0",
        "cln int8, P+0, 0, a0",
        "cln bool, P+0, 6, a0",
        "cln int4, P+0, 2, a0",
        "run bool, P+0, 1, @0.0, a0, bexit",
        "extrBi a0",
        "var int4, a0, test",
        "cln bool, P+0, 16, a1, test",
        "cln int4, P+0, 1, a2, test",
        "cln bool, P+0, 2, a2, test",
        "cln int8, P+0, 1, a3, test",
        "cln bool, P+0, 4, a3, test",
        "cln int8, P+0, 0, a4, test",
        "cln bool, P+0, 6, a4, test",
        "att int4, 2, @0.0, a5",
        "att bool, 1, @0.0, a7, use, bexit",
    ]
    assert (
        text([*columns[1:4], columns[7]], [(3, 0, 1, 0)])[2] == "run bool, D+36, 1, @0.0, a0, bexit"
    )


def test_nothing_used():
    assert text([{"name": "a", "type": "int4"}], []) == [
        "readB 8196, 0, a1",
        "bentr 3",
        "bexit",
        "bexit",
    ]


def test_missing_array_of_another_length():
    columns = [
        {"name": "a", "type": "int4"},
        {"name": "x", "type": "float4[]", "length": 2, "missing": [1]},
    ]
    with pytest.raises(
        ValueError, match=r"^the missing value of column 'x' has 1 elements, not 2$"
    ):
        text(columns, [(1, 0, 2, 0)])


def test_numbers_that_older_rows_do_not_have():
    columns = [
        {"name": "a", "type": "int4"},
        {"name": "b", "type": "float8", "missing": 2.5},
        {"name": "x", "type": "float4[]", "length": 2, "missing": [1, -3]},
    ]
    layout = TupleLayout(4, 1, (), (Source(1, 0, 1, 0), Source(2, 0, 2, 1)), "error")
    walk = WalkConfig(Schema.from_json({"columns": columns}), layout, FLOAT)
    places = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert [missing_numbers(walk, *at) for at in places] == [None, 2.5, 2.5, 1, -3]


def test_values_in_units_of_a_column_are_inserted_as_the_hardware_is_told():
    columns = [
        {"name": "a", "type": "int4"},
        {"name": "x", "type": "float4[]", "length": 2, "missing": [5, 7]},
    ]
    layout = TupleLayout(4, 1, (), (Source(0, 0, 1, 0), Source(1, 0, 2, 1)), "error")
    walk = WalkConfig(Schema.from_json({"columns": columns}), layout, Limbs((1, 1, 1)))
    found = [one for one in generate(walk) if one.op is Op.INS]
    assert [(one.attr, one.count, one.offset) for one in found] == [(1, 0, 0)] * 2


def test_port_config():
    walk = regular_case(1, features=54, lanes=16, format=FLOAT).walk
    assert port_config(walk, 64, striders=2, slots=31) == PortConfig(
        8192, 64, 16, 4, FLOAT, ("float4",), 2, 2, 31, 10
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"bus_bytes": 12}, "bus_bytes must be 4, 8, 16, 32 or 64, not 12"),
        (
            {"page_size": 512},
            "page_size must be one of (1024, 2048, 4096, 8192, 16384, 32768), not 512",
        ),
        ({"buffers": 1}, "buffers must be from 2 to 16, not 1"),
        (
            {"types": ("text",)},
            "types must be some of ('bool', 'int2', 'int4', 'int8', 'float4', 'float8'), not ('text',)",
        ),
    ],
)
def test_bad_ports(change, message):
    with pytest.raises(ValueError) as caught:
        PortConfig(
            **(
                {
                    "page_size": 1024,
                    "bus_bytes": 8,
                    "lanes": 4,
                    "beats": 1,
                    "format": FLOAT,
                    "types": ("float4",),
                }
                | change
            )
        )
    assert str(caught.value) == message


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_fields_take_no_more_beats_than_they_need(lanes):
    shapes = {"a": (2, 5), "b": (1, 1), "c": (1, 8), "d": (3, 1)}
    beats, fields = place(shapes, lanes)
    taken = [
        f.position + r * f.stride + c for f in fields for r in range(f.rows) for c in range(f.cols)
    ]
    assert len(set(taken)) == 10 + 1 + 8 + 3 and max(taken) // lanes < beats
    whole = sum(rows * -(-cols // lanes) for rows, cols in shapes.values() if rows * cols > 1)
    assert whole <= beats <= whole + 1 and [f.name for f in fields] == list(shapes)
