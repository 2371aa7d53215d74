"""The costs of whole tables are those of their pages one by one."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.numerics.formats import parse_format
from penstock.models.strider.costs import ERROR, VOID, analyse
from penstock.models.strider.machine import StriderMachine
from penstock.models.strider.program import generate, port_config
from testbench.strider_cases import corrupt, random_case, regular_case

FLOAT = parse_format("float32")


def check(case, pages) -> int:
    """Compare the costs of all pages with each page's walk; return how many runs there are."""
    config = port_config(case.walk, 8)
    costs = analyse(config, case.walk, pages)
    machine = StriderMachine(config, generate(case.walk), deliver=False)
    walks = [machine.walk(page) for page in pages]
    kinds = {"tuple": 0, "null": 1, "end": 2, "error": ERROR, "void": VOID}
    expected = [[(kinds[e.kind], e.wait, e.issue) for e in walk.events] for walk in walks]
    assert [events for count, events in costs.runs for _ in range(count)] == expected
    assert costs.errors == {
        k: walk.events[-1] for k, walk in enumerate(walks) if walk.events[-1].kind == "error"
    }
    assert costs.pages == len(pages)
    return len(costs.runs)


@pytest.mark.parametrize("seed", range(30))
def test_random_pages(seed: int) -> None:
    """Line pointers of all kinds, NULLs, texts, invisible tuples, damage."""
    case = random_case(
        seed,
        lanes=4,
        format=FLOAT,
        page_size=1024,
        types=("int2", "int4", "float4", "float8"),
        clean=0.6,
    )
    check(case, case.pages)
    check(case, corrupt(case.pages, np.random.default_rng(seed), 4))


@pytest.mark.parametrize("array", [True, False])
def test_regular_pages(array: bool) -> None:
    """Equal pages are one run, also around pages that are not: with a dead tuple, a redirect, without any tuple."""
    case = regular_case(200, features=12, lanes=4, format=FLOAT, array=array, page_size=1024)
    assert check(case, case.pages) == 2
    pages = case.pages.copy()
    for page, flags in ((3, 3), (4, 0), (9, 3)):
        lines = pages[page, 24:32].view("<u4")
        lines[1] = (
            lines[1] & ~np.uint32(3 << 15) | np.uint32(flags << 15) if flags else np.uint32(0)
        )
    pages[11] = 0
    assert check(case, pages) == 8
