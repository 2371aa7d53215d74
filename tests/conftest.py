"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.runs.outcome import Outcome
from testbench.netlists import quicken
from testbench.reported import checked

# a shell starts what it runs in the background with SIGINT ignored, and all that is started from there inherits it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# most simulations here are over before a better compilation pays
os.environ.setdefault("PENSTOCK_OPTIMISE", "-O0")
quicken()

# every report that a test makes is held against its schema
Outcome.to_json = checked(Outcome.to_json)  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URI of a PostgreSQL server that tests may do with as they like.

    It is the one that PENSTOCK_PG names (scripts/test starts one for the whole run), else one of our own for this session.
    Only the first of several workers takes the former: two would drop each other's tables.
    Without server programs the tests that need it fail: `apt-get install postgresql`.
    """
    given = os.environ.get("PENSTOCK_PG")
    if given and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        yield given
        return
    script = Path(__file__).resolve().parents[1] / "scripts" / "with-postgres"
    # the server goes when `cat` sees the end of its input
    with subprocess.Popen(
        [script, "sh", "-c", 'echo "$PENSTOCK_PG"; exec cat'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if key != "PENSTOCK_PG"},
        text=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        uri = process.stdout.readline().strip()
        if not uri:
            pytest.fail(
                f"no PostgreSQL server for the tests: {process.stderr.read().strip()}",
                pytrace=False,
            )
        yield uri
        process.stdin.close()
        process.stdout.read()
        process.stderr.read()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests take their time."""
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.timeout(2 * 3600))
