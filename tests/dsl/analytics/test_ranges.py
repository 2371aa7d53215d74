"""Numbers that a format cannot hold."""

from __future__ import annotations

import pytest

from penstock.dsl.analytics.overrides import with_overrides
from penstock.dsl.analytics.ranges import out_of_range
from penstock.dsl.core.load import from_text
from penstock.models.numerics.formats import parse_format

KERNEL = (
    "kernel f(x: input[2], w: model[2], rate: meta = 0.5)\n w <- w - rate * x * {}\n init w = {}\n"
)

CASES = [
    (
        "300",
        "0",
        0.5,
        "fixed:8,24",
        "a constant, 300, is beyond fixed:8,24 and becomes 127.99999994",
        "such as fixed:11,21;",
    ),
    (
        "300",
        "0",
        0.5,
        "fixed:8,8",
        "a constant, 300, is beyond fixed:8,8 and becomes 127.99609375",
        "such as fixed:11,8;",
    ),
    (
        "-300",
        "0",
        0.5,
        "fixed:8,8",
        "a constant, -300, is beyond fixed:8,8 and becomes -128",
        "such as fixed:11,8;",
    ),
    (
        "0.001",
        "0",
        0.5,
        "fixed:8,8",
        "a constant, 0.001, is too small for fixed:8,8 and becomes 0",
        "such as fixed:8,13;",
    ),
    (
        "1e39",
        "0",
        0.5,
        "float32",
        "a constant, 1e+39, is beyond float32 and becomes inf",
        "such as 1e38 in float32",
    ),
    (
        "1e39",
        "0",
        0.5,
        "fixed:8,8",
        "a constant, 1e+39, is beyond fixed:8,8 and becomes 127.99609375",
        "such as 1e38 in float32",
    ),
    (
        "70000",
        "0",
        0.5,
        "float16",
        "a constant, 70000, is beyond float16 and becomes inf",
        "float32 holds it",
    ),
    (
        "1e-60",
        "0",
        0.5,
        "float32",
        "a constant, 1e-60, is too small for float32 and becomes 0",
        "scale the numbers",
    ),
    (
        "1e-30",
        "0",
        0.5,
        "float16",
        "a constant, 1e-30, is too small for float16 and becomes 0",
        "float32 holds it",
    ),
    (
        "[1, 200]",
        "0",
        0.5,
        "fixed:8,8",
        "1 of 2 elements of a constant: 200 is beyond fixed:8,8 and becomes 127.99609375",
        "fixed:10,8;",
    ),
    (
        "1",
        "[500, -500]",
        0.5,
        "fixed:8,8",
        "2 of 2 elements of the start of w: 500 is beyond fixed:8,8",
        "fixed:11,8;",
    ),
    (
        "1",
        "uniform(-200, 1)",
        0.5,
        "fixed:8,8",
        "1 of 2 elements of the start of w: -200 is beyond fixed:8,8 and becomes -128",
        "fixed",
    ),
    (
        "1",
        "0",
        1000,
        "fixed:8,8",
        "the meta rate, 1000, is beyond fixed:8,8 and becomes 127.99609375",
        "fixed:12,8;",
    ),
    (
        "1",
        "0",
        0.0001,
        "fixed:8,8",
        "the meta rate, 0.0001, is too small for fixed:8,8 and becomes 0",
        "fixed:8,17;",
    ),
]


@pytest.mark.parametrize(
    ("constant", "start", "rate", "name", "message", "hint"), CASES, ids=[f"{c[4]}" for c in CASES]
)
def test_warnings(
    constant: str, start: str, rate: float, name: str, message: str, hint: str
) -> None:
    graph = with_overrides(from_text(KERNEL.format(constant, start)).trace(), {"rate": rate})
    found = out_of_range(graph, parse_format(name))
    assert [d.code for d in found] == ["W103"]
    assert found[0].message.startswith(message)
    assert hint in found[0].hint
    assert found[0].severity == "warning" and found[0].span.line


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "float16", "fixed:8,8", "fixed:8,24", "fixed:2,30"]
)
@pytest.mark.parametrize("constant", ["0", "1", "-1", "0.3", "[0, 1.5, 1e-9]"])
def test_nothing_to_say(name: str, constant: str) -> None:
    text = KERNEL.replace("[2]", "[3]").format(constant, "uniform(-0.5, 0.5)")
    assert out_of_range(from_text(text).trace(), parse_format(name)) == []


def test_what_rounds_to_the_last_number_is_not_beyond_it() -> None:
    graph = from_text(KERNEL.format("127.997", "0")).trace()
    assert out_of_range(graph, parse_format("fixed:8,8")) == []
