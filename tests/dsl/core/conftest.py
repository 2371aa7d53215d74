"""What all kernel languages share is tested without any of Penstock's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbench.plain import alone


@pytest.fixture(scope="module", autouse=True)
def _alone() -> Iterator[None]:
    with alone():
        yield
