"""Fit kernels from both front ends: their graphs, options and warnings; mistakes are among the cases of `bad/`."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.kernel import FitKernel


@ps.fit
def plain(key: ps.Key):
    return ps.least_squares(ps.window(key, 32), target=ps.rank(key))


@ps.fit(method="givens")
def decorated(key: ps.Key):
    """What stands here is kept."""
    length = 4 * 2
    part = ps.window(key, length)
    return ps.least_squares(part, ps.slot(key), incremental=True, method="givens")


@ps.fit(incremental=False)
def columns(x: ps.Input["d"], y: ps.Output):
    return ps.least_squares(features=x, target=y)


def text(body: str, parameters: str = "key: key") -> FitKernel:
    made = from_text(f"fit f({parameters})\n  {body}\n", "f.psk")
    assert isinstance(made, FitKernel) and made.keyword == "fit"
    return made


def test_options_and_sizes() -> None:
    graph = decorated.trace()
    assert (graph.name, graph.columns, graph.keys, graph.incremental) == (
        "decorated",
        9,
        True,
        True,
    )
    assert plain.trace().incremental is False and columns.trace().incremental is False
    assert decorated.__doc__ == "What stands here is kept." and decorated.check() == []
    assert columns.trace({"d": 5}).columns == 6 and columns.trace().columns == 0
    assert columns.dim_names == ["d"] and columns.check() == []


def test_functions_without_a_file() -> None:
    names = {"ps": ps}
    exec(
        "@ps.fit\ndef f(key: ps.Key):\n    return ps.least_squares(ps.window(key, 3), ps.rank(key))\n",
        names,
    )
    assert names["f"].trace().columns == 4


def test_dimensions_are_checked() -> None:
    with pytest.raises(KernelError, match="E504"):
        columns.trace({"n": 3})
    with pytest.raises(KernelError, match="x has 64 columns; a fit takes at most 63"):
        columns.trace({"d": 64})
    with pytest.raises(KernelError, match="the kernel plain has no dimension d"):
        plain.check({"d": 3})
    with pytest.raises(KernelError, match="the kernel plain cannot be called like a function"):
        plain(3)


def test_steps_outside_a_kernel() -> None:
    with pytest.raises(KernelError, match="E214"):
        ps.window(3, 4)
    kept = []

    @ps.fit
    def keeps(key: ps.Key):
        kept.append(key)
        return ps.least_squares(ps.window(key, 8), target=ps.rank(key))

    @ps.fit
    def uses(key: ps.Key):
        return ps.least_squares(ps.window(kept[0], 8), target=ps.rank(key))

    keeps.check()
    with pytest.raises(KernelError, match="this value belongs to another kernel"):
        uses.check()
