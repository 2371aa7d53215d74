"""The declarations of operations, and what becomes of an error in one."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.dsl.core import operations
from penstock.dsl.core.functions import VALUES
from penstock.dsl.core.load import from_text
from penstock.dsl.core.operations import OPERATIONS, Elementwise, Reduction, spoken
from penstock.models.numerics import latency
from penstock.models.numerics.formats import float32, parse_format


def test_every_unit_that_an_operation_names_is_there() -> None:
    for operation in OPERATIONS.values():
        units: list[str] = []
        if isinstance(operation, Elementwise):
            units = [operation.unit]
        elif isinstance(operation, Reduction):
            units = [operation.unit, operation.before, operation.after]
        for unit in filter(None, units):
            for form in (float32, parse_format("fixed:8,8")):
                assert latency.latency(unit, form) >= 0, (operation.name, unit)


def test_words_of_messages() -> None:
    assert [spoken(name) for name in ("sub", "neg", "matmul", "exp", "sum")] == [
        "-",
        "unary -",
        "@",
        "exp",
        "sum",
    ]


def test_functions_are_the_operations_with_a_docstring() -> None:
    assert [name for name, operation in OPERATIONS.items() if operation.doc] == list(VALUES)
    assert (
        VALUES["where"].usage == "where(condition, a, b)"
        and VALUES["sum"].usage == "sum(v) or sum(v, axis=0)"
    )


def test_what_goes_wrong_here_is_not_called_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    @ps.kernel
    def halves(x: ps.Input, w: ps.Model):
        return w - ps.exp(2.0) * x

    monkeypatch.delitem(operations.OPERATIONS, "exp")
    with pytest.raises(KeyError, match="exp"):
        halves.check()
    with pytest.raises(KeyError, match="exp"):
        from_text("kernel f(x: input, w: model)\n  w <- w - exp(2.0) * x").check()
