"""Values that a number format does not hold: none is lost without a word, on golden and hardware alike."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.api import Design, compile
from penstock.dsl.core.diagnostics import KernelError
from penstock.host.sources import Table
from penstock.models.errors import HardwareError
from penstock.models.numerics.formats import Fixed, parse_format
from penstock.models.strider.errors import PageError

POLICIES = [("error", "error"), ("error", "skip"), ("saturate", "error"), ("saturate", "skip")]
#: columns in attribute order; the kernel uses all but the first
TYPES = {"id": np.int32, "a": np.float32, "b": np.float64, "c": np.int32, "y": np.float32}
BINDINGS = {"x": ["a", "b", "c"], "y": ["y"]}


@ps.kernel(epochs=1)
def linear(x: ps.Input[3], y: ps.Output, w: ps.Model[3], rate: ps.Meta = 0.125):
    return w - rate * ps.mean((ps.sum(w * x) - y) * x, 4)


def draw(rng: np.random.Generator, fmt: Fixed) -> Table:
    """Return a table of up to 40 rows, of which a few values do not fit, or nearly do not."""
    rows = int(rng.integers(1, 41))
    unit = 2.0**-fmt.fraction_bits
    edges = [fmt.max_value, fmt.min_value, fmt.max_value + unit / 2, fmt.min_value - unit / 2]
    edges += [np.nextafter(edge, sign * np.inf) for edge in edges for sign in (1, -1)]
    odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, 200_000.0, *edges]
    columns = {}
    for name, dtype in TYPES.items():
        values = rng.uniform(fmt.min_value / 2, fmt.max_value / 2, rows)
        places = rng.random(rows) < rng.choice([0.0, 0.02, 0.2])
        chosen = rng.choice(odd, rows)
        if dtype is np.int32:
            chosen = rng.integers(-(1 << 31), 1 << 31, rows) >> rng.integers(0, 32, rows)
        with np.errstate(over="ignore"):
            columns[name] = np.where(places, chosen, values).astype(dtype)
    return Table.from_columns(columns, "t", page_size=1024)


def kind(value: Any, fmt: Fixed) -> str:
    """Say how a value fits, from exact fractions."""
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "overflow"
    integer = round(Fraction(value) * 2**fmt.fraction_bits)
    return "" if -(fmt.top + 1) <= integer <= fmt.top else "overflow"


def expected(table: Table, fmt: Fixed, policy: tuple[str, str]) -> tuple[Any, int, int]:
    """Return the error (code, block, line, column) or None, rows left out, and values saturated."""
    counts = [(int(page[12:14].view("<u2")[0]) - 24) // 4 for page in table.pages]
    places = [(block, line + 1) for block, count in enumerate(counts) for line in range(count)]
    rows = table.columns()
    left = saturated = 0
    for row, (block, line) in enumerate(places):
        kinds = {name: kind(rows[name][row].item(), fmt) for name in TYPES if name != "id"}
        if "nan" in kinds.values() and policy[1] == "skip":
            left += 1
            continue
        for name, found in kinds.items():
            if found == "nan" or (found == "overflow" and policy[0] == "error"):
                code = PageError.VALUE_NAN if found == "nan" else PageError.VALUE_OVERFLOW
                return (code, block, line, name), left, saturated
            saturated += found == "overflow"
    return None, left, saturated


def told(design: Design, table: Table, error: HardwareError) -> tuple[Any, ...]:
    """Return what a user is told of an error."""
    from penstock.engines.base import Given

    entry = design.workload(Given(table, table)).failure(error).errors[0]
    return error.code, entry["block"], entry["line"], entry["column"]


def sweep(name: str, tables: int, hardware: int) -> None:
    """Run random tables on golden under all policies, every few of them on RTL as well."""
    fmt = parse_format(name)
    assert isinstance(fmt, Fixed)
    rng = np.random.default_rng([tables, fmt.width])
    first = draw(rng, fmt)
    designs = {
        policy: compile(
            linear,
            "small",
            first,
            name,
            bind=BINDINGS,
            on_overflow=policy[0],
            on_nan=policy[1],
        )
        for policy in POLICIES
    }
    assert len({design.digest for design in designs.values()}) == 1, "one bitstream serves all"
    seen = set()
    for number in range(tables):
        policy = POLICIES[number % len(POLICIES)]
        design, table = designs[policy], draw(rng, fmt)
        error, left, saturated = expected(table, fmt, policy)
        golden = design.run(table, "golden")
        seen.add((error is None, bool(left), bool(saturated)))
        if error is not None:
            assert not golden.ok and told(design, table, golden.errors[0]) == error
        else:
            assert not golden.errors
            assert golden.counters["tuples"] == table.rows - left
            assert golden.counters["nan_rows"] == golden.counters["rows_skipped"] == left
            assert golden.counters["saturated_inputs"] == saturated
        if number % (tables // hardware) == 0:
            rtl = design.run(table, "rtl", limit=1_000_000, watchdog=50_000)
            assert rtl.errors == golden.errors
            if error is None:
                assert np.array_equal(rtl.codes["w"], golden.codes["w"])
                assert rtl.counters["tuples"] == golden.counters["tuples"]
                assert rtl.cycles == design.run(table, "model").cycles
    assert len(seen) >= 6  # errors or none, rows left out or not, values saturated or not


def test_no_value_is_lost() -> None:
    sweep("fixed:8,8", 120, 12)


@pytest.mark.long
@pytest.mark.parametrize("name", ["fixed:8,8", "fixed:8,24", "fixed:4,12", "fixed:20,0"])
def test_no_value_is_lost_long(name: str) -> None:
    sweep(name, 2_500, 75)


@pytest.mark.parametrize(
    ("format", "on_nan", "rows"),
    [("float32", "skip", 2), ("float32", "pass", 5), ("float16", "skip", 2)],
)
def test_floats(format: str, on_nan: str, rows: int) -> None:
    """An infinity in the data is no finite number; a number beyond the range saturates to one."""
    data = {"x": [1.0, np.nan, np.inf, 1e39, -np.inf], "y": [0.5] * 5}
    table = Table.from_columns({k: np.array(v) for k, v in data.items()}, "t")
    kernel = "kernel f(x: input, y: output, w: model)\n w <- w - 0.5 * (w * x - y)"
    given: dict[str, Any] = {"on_overflow": "saturate", "on_nan": on_nan}
    golden = compile(_written(kernel), "small", table, format, **given).run(table, "golden")
    assert golden.counters["tuples"] == rows
    assert golden.counters["saturated_inputs"] == 1
    assert (
        golden.counters["not_finite_inputs"] == 5 - rows - (golden.counters["nan_rows"]) + rows - 2
    )
    stopped = compile(_written(kernel), "small", table, format, on_nan=on_nan).run(table, "golden")
    assert stopped.errors == (HardwareError(PageError.VALUE_OVERFLOW, 0, 4, 1),)


def _written(text: str) -> Any:
    from penstock.dsl.core.load import from_text

    return from_text(text, "f.psk")


def test_results_that_leave_the_range() -> None:
    """Held against integers without bounds: every operation of a kernel of one tuple after the other."""
    fmt = parse_format("fixed:5,6")
    assert isinstance(fmt, Fixed)
    rng = np.random.default_rng(7)
    x, y = (np.round(rng.uniform(-9, 9, 60) * 64) / 64 for _ in range(2))
    table = Table.from_columns({"x": x, "y": y}, "t")
    kernel = "kernel f(x: input, y: output, w: model)\n e = w * x - y\n w <- w - e * x / y"
    design = compile(_written(kernel), "small", table, fmt.name, epochs=2)
    counted, w = 0, 0

    def kept(exact: Fraction | None) -> int:
        nonlocal counted
        integer = fmt.top + 1 if exact is None else round(exact)
        counted += exact is None or not -fmt.top - 1 <= integer <= fmt.top
        return max(-fmt.top - 1, min(fmt.top, integer))

    pairs = [(int(a * 64), int(b * 64)) for a, b in zip(x, y, strict=True)]
    assert all(b for _, b in pairs)
    for a, b in pairs * 2:
        error = kept(Fraction(kept(Fraction(w * a, 64)) - b))
        w = kept(Fraction(w - kept(Fraction(kept(Fraction(error * a, 64)) * 64, b))))
    golden = design.run(table, "golden")
    assert counted > 10 and golden.counters["left_range"] == counted
    assert golden.result["w"] == w / 64
    assert "results of the arithmetic" in golden._repr_html_() or counted


@pytest.mark.parametrize(
    ("text", "format", "options", "code", "message"),
    [
        ("mean(x - w, 300)", "bfloat16", {}, "E428", "this counts up to 300, but bfloat16 is exact only up to 256"),
        ("mean(x - w, 200)", "fixed:8,8", {}, "E428", "this counts up to 200, but fixed:8,8 is exact only up to 127"),
        ("w - 200 * x", "fixed:8,8", {}, "E445", "a constant, 200, is beyond fixed:8,8 and becomes 127.99609375"),
        ("w - x", "fixed:8,8", {"on_nan": "pass"}, "E608", "on_nan is pass, but fixed:8,8 has no NaN that could pass"),
        ("w - x", "float32", {"on_nan": "drop"}, "E609", "on_nan must be one of error, skip, pass, not 'drop'"),
        ("w - x", "float32", {"on_overflow": "wrap"}, "E609", "on_overflow must be one of error, saturate, not 'wrap'"),
    ],
)  # fmt: skip
def test_refusals(text: str, format: str, options: dict[str, Any], code: str, message: str) -> None:
    kernel = _written(f"kernel f(x: input, w: model)\n w <- {text}")
    with pytest.raises(KernelError) as caught:
        compile(kernel, "small", None, format, **options)
    assert (caught.value.diagnostic.code, caught.value.diagnostic.message) == (code, message)


def test_means_over_an_epoch() -> None:
    kernel = _written("kernel f(x: input, w: model)\n w <- w - mean(w - x)")
    design = compile(kernel, "small", None, "fixed:8,8")
    table = Table.from_columns({"x": np.full(127, 0.5, np.float32)}, "t")
    assert design.run(table, "golden").result["w"] == 0.5
    more = Table.from_columns({"x": np.full(128, 0.5, np.float32)}, "t")
    with pytest.raises(KernelError, match="this counts up to 128"):
        design.run(more, "golden")


def test_a_sum_divided_by_its_batch() -> None:
    for text in (
        "merge(w - x, 16) / 16",
        "0.0625 * merge(w - x, 16)",
        "w - 0.5 * merge(w - x, 16) / 16",
        "w - -merge(w - x, 16) * w * 0.0625",
    ):
        kernel = _written(f"kernel f(x: input, w: model)\n w <- {text}")
        kernel.check()
        assert [warning.code for warning in kernel.warnings] == ["W104"]
        assert kernel.warnings[0].hint == "mean(v, 16) divides by as many tuples as there are"
    for text in (
        "merge(w - x, 16) / 8",
        "mean(w - x, 16)",
        "mean(w - x, 16) / 16",
        "w / merge(x, 16) / 16",
        'merge(w - x, 16, "max") / 16',
    ):
        kernel = _written(f"kernel f(x: input, w: model)\n w <- {text}")
        kernel.check()
        assert kernel.warnings == []
