"""Columns to variables, and the sizes that follow."""

from __future__ import annotations

import pytest

from penstock.dsl.core.bind import Source, bind, schema_for
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.models.heap.schema import Column, Schema

VECTOR = "kernel f(x: input[d], y: output, w: model[d])\n w <- w - (sum(w * x) - y) * x"


def table(*columns: str) -> Schema:
    """A schema from texts such as `x:float4[]:30`."""
    made = []
    for text in columns:
        name, kind, *length = text.split(":")
        made.append(Column(name, kind, length=int(length[0]) if length else None))
    return Schema("t", tuple(made))


def message(
    text: str,
    schema: Schema,
    bindings: dict[str, list[str]] | None = None,
    dims: dict[str, int] | None = None,
) -> str:
    with pytest.raises(KernelError) as caught:
        bind(from_text(text, "f.psk"), schema, bindings, dims)
    return str(caught.value)


def test_columns_of_the_same_name() -> None:
    made = bind(from_text(VECTOR), table("id:int4", "y:float4", "x:float4[]:30"))
    assert made.fields == {"x": (Source(2, 0, 30),), "y": (Source(1, 0, 1),)}
    assert made.dims == {"d": 30}


def test_one_input_takes_what_is_left() -> None:
    schema = table("age:int2", "name:text", "y:bool", "more:float8[]:3", "height:float4")
    made = bind(from_text(VECTOR), schema)
    assert made.fields == {
        "x": (Source(0, 0, 1), Source(3, 0, 3), Source(4, 0, 1)),
        "y": (Source(2, 0, 1),),
    }
    assert made.dims == {"d": 5}


def test_dropped_columns_are_not_there() -> None:
    schema = Schema(
        "t", (Column("x", "float4", dropped=True), Column("y", "float4"), Column("a", "float4"))
    )
    assert bind(from_text(VECTOR), schema).fields["x"] == (Source(2, 0, 1),)


def test_chosen_columns_in_their_order() -> None:
    schema = table("a:float4", "b:float4", "y:float4", "c:float4[]:4", "price:float8")
    made = bind(from_text(VECTOR), schema, {"x": ["c", "a"], "y": ["price"]})
    assert made.fields == {"x": (Source(3, 0, 4), Source(0, 0, 1)), "y": (Source(4, 0, 1),)}
    assert made.dims == {"d": 5}


def test_a_number_of_the_vectors_name_is_one_of_the_rest() -> None:
    made = bind(from_text(VECTOR), table("x:float4", "y:float4", "z:float4"))
    assert made.fields["x"] == (Source(0, 0, 1), Source(2, 0, 1))


def test_matrix_takes_an_array_row_by_row() -> None:
    kernel = from_text("kernel f(x: input[n, m], w: model[m])\n w <- w - sum(x, axis=0)")
    schema = table("x:float4[]:12")
    assert bind(kernel, schema, dims={"n": 3}).dims == {"n": 3, "m": 4}
    square = from_text("kernel f(x: input[n, n], w: model[n])\n w <- w - sum(x, axis=0)")
    assert bind(square, table("x:float4[]:9")).dims == {"n": 3}


def test_sizes_travel_between_variables() -> None:
    text = "kernel f(x: input[n, m], z: input[m], w: model[m])\n w <- w - sum(x, axis=0) - z"
    assert bind(from_text(text), table("x:float4[]:12", "z:float4[]:4")).dims == {"n": 3, "m": 4}
    assert bind(from_text(text), table("x:float4[]", "z:float4[]:4"), dims={"n": 2}).fields[
        "x"
    ] == (Source(0, 0, 8),)


def test_length_of_an_array_follows_from_the_kernel() -> None:
    assert bind(from_text(VECTOR), table("x:float4[]", "y:float4"), dims={"d": 6}).fields["x"] == (
        Source(0, 0, 6),
    )


@pytest.mark.parametrize("left", [7, 1])
def test_an_array_takes_what_the_others_leave(left: int) -> None:
    schema, chosen = table("a:float4[]", "b:float4[]:3", "y:float4"), {"x": ["a", "b"]}
    made = bind(from_text(VECTOR), schema, chosen, {"d": 3 + left})
    assert made.fields["x"] == (Source(0, 0, left), Source(1, 0, 3))
    assert message(VECTOR, schema, chosen, {"d": 3}).startswith(
        "error[E615]: x is [d=3] and takes 3 elements, but its columns have 4: a[], b[3]\n"
    )


def test_long_lists_are_cut() -> None:
    names = [f"a{number}" for number in range(13)]
    text = "kernel f(x: input[n, 5], w: model[n])\n w <- w - sum(x, axis=1)"
    for count, end in ((12, "a11"), (13, "a11, …")):
        schema = table(*(f"{name}:float4" for name in names[:count]))
        said = message(text, schema, {"x": ["nowhere"]})
        assert said.endswith(", ".join(["hint: its numeric columns are a0", *names[1:11], end]))
    for count, end in ((8, "a7\n"), (9, "a7, …\n")):
        schema = table(*(f"{name}:float4" for name in names[:count]))
        assert f": {', '.join(names[:7])}, {end}" in message(text, schema)


def test_unsupervised() -> None:
    kernel = from_text("kernel f(x: input[d], w: model[d])\n w <- w - x")
    assert bind(kernel, table("a:float4", "b:float4")).dims == {"d": 2}


def test_schema_for_random_data() -> None:
    graph = from_text(
        "kernel f(x: input[d], m: input[2, 3], y: output, w: model[d])\n w <- w - x * y"
    ).trace(d=5)
    assert [(c.name, c.type, c.length) for c in schema_for(graph).columns] == [
        ("y", "float4", None),
        ("x", "float4[]", 5),
        ("m", "float4[]", 6),
    ]


PLACE_X = " --> f.psk:1:10\n  |\n1 | kernel f(x: input[d], y: output, w: model[d])\n  |          ^^^^^^^^^^^\n"
PLACE_Y = " --> f.psk:1:23\n  |\n1 | kernel f(x: input[d], y: output, w: model[d])\n  |                       ^^^^^^^^^\n"
PLACE_F = " --> f.psk:1:8\n  |\n1 | kernel f(x: input[d], y: output, w: model[d])\n  |        ^\n"


@pytest.mark.parametrize(
    ("schema", "bindings", "dims", "expected"),
    [
        pytest.param(
            ("age:int4", "y:float4"),
            {"x": ["aeg"]},
            {},
            f"error[E611]: the table t has no column aeg\n{PLACE_X}hint: did you mean age?",
            id="unknown",
        ),
        pytest.param(
            ("a:int4", "y:float4"),
            {"x": ["zzz"]},
            {},
            f"error[E611]: the table t has no column zzz\n{PLACE_X}hint: its numeric columns are a, y",
            id="unknown_listing",
        ),
        pytest.param(
            ("a:int4", "y:float4"),
            {"x": []},
            {},
            f"error[E611]: no column is given for x\n{PLACE_X}hint: its numeric columns are a, y",
            id="none_given",
        ),
        pytest.param(
            ("a:int4", "y:float4"),
            {"x": ["a", "a"]},
            {},
            f"error[E612]: the column a is used twice\n{PLACE_X}hint: every column feeds one variable, once",
            id="twice",
        ),
        pytest.param(
            ("a:int4", "y:float4"),
            {"x": ["a"], "y": ["a"]},
            {},
            f"error[E612]: the column a is used twice\n{PLACE_Y}note: x takes it too\n{PLACE_X}"
            "hint: every column feeds one variable, once",
            id="twice_two",
        ),
        pytest.param(
            ("a:text", "y:float4"),
            {"x": ["a"]},
            {},
            f"error[E613]: x cannot take the column a: its type text is not numeric\n{PLACE_X}hint: its numeric columns are y",
            id="text",
        ),
        pytest.param(
            ("x:float4[]:3", "y:text"),
            {},
            {},
            f"error[E613]: y cannot take the column y: its type text is not numeric\n{PLACE_Y}hint: its numeric columns are x",
            id="text_name",
        ),
        pytest.param(
            ("x:text", "a:float4", "y:float4"),
            {},
            {},
            f"error[E613]: x cannot take the column x: its type text is not numeric\n{PLACE_X}hint: its numeric columns are a, y",
            id="text_vector",
        ),
        pytest.param(
            ("x:float4[]:3", "y:float4[]:2"),
            {},
            {},
            f"error[E614]: y is a scalar and takes 1 element, but its columns have 2: y[2]\n{PLACE_Y}"
            "hint: choose its columns with --bind y=COLUMN,COLUMN",
            id="length",
        ),
        pytest.param(
            ("x:float4[]:3", "a:float4", "b:float4"),
            {"y": ["a", "b"]},
            {},
            f"error[E614]: y is a scalar and takes 1 element, but its columns have 2: a, b\n{PLACE_Y}"
            "hint: y is one number: name one column; its numeric columns are x, a, b",
            id="chosen_length",
        ),
        pytest.param(
            ("x:float4[]:3", "y:float4"),
            {},
            {"d": 4},
            "error[E615]: x is [d=4] and takes 4 elements, but its columns have 3: x[3]\n"
            f"{PLACE_X}note: d was given as 4\n{PLACE_F}hint: choose its columns with --bind x=COLUMN,COLUMN",
            id="conflict",
        ),
        pytest.param(
            ("x:float4[]:3", "y:float4"),
            {"z": ["x"]},
            {},
            f"error[E616]: the kernel f has no input or output z\n{PLACE_F}hint: columns can be bound to x, y",
            id="variable",
        ),
        pytest.param(
            ("x:float4[]:3", "label:float4"),
            {},
            {},
            "error[E617]: the output y has no column: the table t has no numeric column of that name\n"
            f"{PLACE_Y}hint: say which with --bind y=COLUMN; its numeric columns are x, label",
            id="no_column",
        ),
        pytest.param(
            ("a:float4", "y:float4"),
            {"x": ["a", "y"]},
            {},
            "error[E617]: the output y has no column: the column of that name feeds x\n"
            f"{PLACE_Y}hint: say which with --bind y=COLUMN; its numeric columns are a, y",
            id="column_taken",
        ),
        pytest.param(
            ("y:float4", "b:text"),
            {},
            {},
            "error[E617]: the input x has no column: the table t has no array column of that name\n"
            f"{PLACE_X}hint: say which with --bind x=COLUMN; its numeric columns are y",
            id="nothing_left",
        ),
        pytest.param(
            ("b:text",),
            {},
            {},
            "error[E617]: the input x has no column: the table t has no array column of that name\n"
            f"{PLACE_X}hint: say which with --bind x=COLUMN; it has no numeric column",
            id="no_numbers",
        ),
        pytest.param(
            ("x:float4[]", "y:float4"),
            {},
            {},
            f"error[E618]: the length of the array column x is not known\n{PLACE_X}"
            'hint: write it into the schema ("length"), or give the sizes of the kernel\'s dimensions with --dim',
            id="array_length",
        ),
        pytest.param(
            ("a:float4[]", "b:float4[]", "y:float4"),
            {"x": ["a", "b"]},
            {"d": 10},
            f"error[E618]: the length of the array column a is not known\n{PLACE_X}"
            'hint: write it into the schema ("length"), or give the sizes of the kernel\'s dimensions with --dim',
            id="array_lengths",
        ),
        pytest.param(
            ("x:float4[]:2000000", "y:float4"),
            {},
            {},
            f"error[E307]: a dimension of 2000000; the largest is 1048576\n{PLACE_X}hint: bind fewer columns to x: a row lies in one page "
            "of at most 32 KB, which is some 8,000 numbers",
            id="large",
        ),
    ],
)
def test_messages(
    schema: tuple[str, ...], bindings: dict[str, list[str]], dims: dict[str, int], expected: str
) -> None:
    assert message(VECTOR, table(*schema), bindings, dims) == expected


def test_two_inputs_without_columns() -> None:
    text = "kernel f(a: input, b: input, w: model)\n w <- w - a * b"
    assert message(text, table("a:float4", "c:float4")).startswith(
        "error[E617]: the input b has no column: the table t has no numeric column"
    )


def test_contradicting_columns() -> None:
    text = "kernel f(a: input[d], b: input[d], w: model[d])\n w <- w - a * b"
    shown = message(text, table("a:float4[]:3", "b:float4[]:4"))
    assert shown.startswith(
        "error[E615]: b is [d=3] and takes 3 elements, but its columns have 4: b[4]\n --> f.psk:1:23\n"
    )
    assert "note: d is 3 because of the columns of a\n --> f.psk:1:10\n" in shown


def test_rows_that_do_not_come_out_even() -> None:
    text = "kernel f(a: input[n, 5], w: model[n])\n w <- w - sum(a, axis=1)"
    shown = message(text, table("a:float4[]:12"))
    assert shown.startswith(
        "error[E614]: a is [n, 5], which does not divide the 12 elements of its columns: a[12]\n"
    )


def test_default_of_another_length() -> None:
    """Rows older than an array column have its default, which may be longer or shorter than the others."""
    text = "kernel f(a: input[d], w: model[d])\n w <- w - a"
    for length in (None, 3):
        column = Column("a", "float4[]", length=length, missing=[1.0, 2.0])
        shown = message(text, Schema("t", (column,)), dims={"d": 3})
        assert shown == (
            "error[E614]: a takes 3 elements of the column a, but its default for older rows has 2\n --> f.psk:1:10\n  |\n"
            "1 | kernel f(a: input[d], w: model[d])\n  |          ^^^^^^^^^^^\n"
            "hint: UPDATE these rows, or take a table whose arrays have one length"
        )


def test_dimension_of_the_model_alone() -> None:
    text = "kernel f(x: input[d], A: model[h, d])\n A <- A - x"
    expected = "error[E505]: the size of dimension h is not known\n --> f.psk:1:23\n"
    shown = message(text, table("x:float4[]:3"))
    assert shown.startswith(expected)
    assert shown.endswith("hint: give it with --dim h=SIZE")


def test_wrong_dimension() -> None:
    assert message(VECTOR, table("x:float4[]:3", "y:float4"), dims={"e": 3}).startswith(
        "error[E504]: the kernel f has no dimension e\n"
    )


def test_a_made_table_has_the_columns_that_are_bound() -> None:
    graph = from_text(VECTOR).trace({"d": 2})
    found = schema_for(graph, bindings={"x": ["a", "b"], "y": ["y"]}).columns
    assert [(c.name, c.type, c.not_null) for c in found] == [
        ("y", "float4", True),
        ("a", "float4", True),
        ("b", "float4", True),
    ]
    assert [c.name for c in schema_for(graph, bindings={"x": ["a"]}).columns] == [
        "y",
        "x",
    ]  # not as many as there are elements
