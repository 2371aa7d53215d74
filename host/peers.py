"""Other programs for the same work on this computer, and how they are measured: `--beside cpu`.

Each is run on the same bytes, on one thread and on all, the best of five after a warm-up. One that would take longer than a minute
gets the first rows only; its seconds are scaled by the rows, which is said.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from ..models.verdict import Beside

#: seconds that a peer may take for all its runs on so many threads
LIMIT = 60.0
#: of the rows, in a run that says how long all of them would take
_PROBE = 64
_RAPL = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Peer:
    """A program beside ours."""

    name: str
    rows: int  #: rows of its data
    prepare: Callable[[], Any]  #: makes what `run` is given; not timed
    #: `run(prepared, rows, threads)` does the work on the first rows, and returns its result
    run: Callable[[Any, int, int], Any]
    #: loss of a result; None where it computes the same updates as we do
    loss: Callable[[Any], float] | None = None
    parallel: bool = True  #: more threads than one mean anything
    goal: float | None = None  #: loss that it must not exceed, where nobody says another


@dataclass(frozen=True)
class Measured:
    """A peer's seconds for all rows."""

    name: str
    threads: int
    seconds: float
    runs: int  #: runs of which it is the best
    rows: int
    rows_run: int  #: fewer than `rows` where it was scaled
    loss: float | None = None
    reached: bool | None = None
    joules: float | None = None  #: joules of a run, None where nothing measures them
    watts: float | None = None  #: the CPU's, where a user says them

    def beside(self) -> Beside:
        """Return what a verdict needs of it."""
        scaled = self.rows_run < self.rows
        return Beside(self.name, self.threads, self.seconds, scaled, self.reached)


def threads_here() -> int:
    """Return the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(
    peer: Peer,
    threads: Sequence[int] | None = None,
    *,
    ours: float | None = None,
    best_of: int = 5,
    clock: Callable[[], float] = perf_counter,
) -> list[Measured]:
    """Return what a peer takes on each number of threads, one and all unless given; `ours`: our loss,
    which its own must not exceed."""
    prepared, ours = peer.prepare(), peer.goal if ours is None else ours

    def on(count: int) -> Measured:
        def timed(rows: int) -> tuple[float, Any]:
            begin = clock()
            result = peer.run(prepared, rows, count)
            return clock() - begin, result

        begun, rows, few = clock(), peer.rows, -(-peer.rows // _PROBE)
        with _limited(count):
            took, result = timed(few)
            if few < rows and took * (rows / few) > LIMIT / 2:
                rows = max(few, math.floor(few * LIMIT / 2 / took))
            timed(rows)  # the warm-up
            before, runs, best = _rapl(), 0, math.inf
            while runs < best_of and (not runs or clock() - begun + best <= LIMIT):
                took, result = timed(rows)
                best, runs = min(best, took), runs + 1
            used = _spent(before, _rapl())
        loss = None if peer.loss is None else peer.loss(result)
        reached = None if loss is None or ours is None else loss <= ours
        scale = peer.rows / rows if rows else 1.0
        joules = None if used is None else used / runs * scale
        return Measured(
            peer.name, count, best * scale, runs, peer.rows, rows, loss, reached, joules
        )

    counts = threads if threads is not None else sorted({1, threads_here()})
    return [on(count) for count in counts if count == 1 or peer.parallel]


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Let the libraries that NumPy and scikit-learn call use so many threads, where threadpoolctl is
    installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(threads):
        yield


def _rapl(root: Path = _RAPL) -> dict[str, tuple[int, int]] | None:
    """Return each package's microjoules and where they begin again, None where they can't be read."""
    try:
        return {
            zone.name: (
                int((zone / "energy_uj").read_text()),
                int((zone / "max_energy_range_uj").read_text()),
            )
            for zone in sorted(root.glob("intel-rapl:?"))
        } or None
    except (OSError, ValueError):
        return None


def _spent(
    before: dict[str, tuple[int, int]] | None, after: dict[str, tuple[int, int]] | None
) -> float | None:
    """Return joules from one reading to the next; a counter begins again once at most."""
    if before is None or after is None or before.keys() != after.keys():
        return None
    return sum((after[k][0] - before[k][0]) % (after[k][1] + 1) for k in after) * 1e-6


@dataclass(frozen=True)
class Joules:
    """Of a CPU; `value` None where nobody knows."""

    value: float | None
    source: str


def joules(measured: Measured) -> Joules:
    """Return what a peer's run took: by RAPL, else by the watts that `--cpu-watts` says."""
    if measured.joules is not None:
        return Joules(measured.joules, "RAPL, the whole package")
    if measured.watts is not None:
        return Joules(measured.watts * measured.seconds, f"--cpu-watts {measured.watts:g}")
    return Joules(None, "not measured")
