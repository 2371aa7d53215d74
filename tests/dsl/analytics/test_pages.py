"""Examples of kernels on the pages of diagnostics."""

from __future__ import annotations

import pytest

from penstock.dsl.analytics.overrides import with_overrides
from penstock.dsl.core import codes
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import from_text


def text_examples() -> list[str]:
    return [code for code in codes.codes() if "```\nkernel " in codes.explain(code)]


#: examples that need a table or a target to go wrong
ELSEWHERE = ("E496", "E497", "E601", "E614", "E617")


@pytest.mark.parametrize("code", [code for code in text_examples() if code not in ELSEWHERE])
def test_examples_of_pages_are_what_they_say(code: str) -> None:
    example = codes.explain(code).split("```\n")[1]
    try:
        kernel = from_text(example, "page.psk")
        found = [warning.code for warning in kernel.check()]
        with_overrides(kernel.trace(dict.fromkeys(kernel.dim_names, 3)))
    except KernelError as problem:
        found = [problem.diagnostic.code]
    assert code in found
