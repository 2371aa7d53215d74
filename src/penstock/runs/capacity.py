"""Whether a target's memory holds a run."""

from collections.abc import Callable
from itertools import islice

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.engines.workload import Workload
from penstock.models.target import Target

#: page slots a port of the rings that are tried
_RINGS = (16, 8, 4, 2)


def check_memory(
    name: str,
    target: Target,
    workload: Workload,
    assumed: Callable[[int], Workload],
    holds: Callable[[Target], bool],
    ringed: Callable[[int], int | None],
) -> None:
    """Raise KernelError (E610) where the target's memory does not hold a run: its pages, images and results.

    `name`: of the kernel; `assumed`: the run on so many assumed rows; `holds`: whether another target holds design and run;
    `ringed`: bytes of the run with so many page slots a port, None where it reads no pages.
    """
    have, need = target.memory.bytes, workload.device_bytes()
    if not have or need <= have:
        return
    rows = _fitting(workload.rows or 0, have, assumed)
    what = f"a run of {name} takes {need:,} bytes of memory; {target.name} has {have:,}"
    hint = f"{rows:,} rows like these fit" if rows else _larger(target, holds)
    slots = next((n for n in _RINGS if (ringed(n) or have + 1) <= have), 0)
    if slots:
        hint += f"; with --ring {slots} their pages come during the run"
    raise error("E610", what, Span.whole("--target"), hint=hint)


def _fitting(rows: int, have: int, assumed: Callable[[int], Workload]) -> int:
    """Return how many rows, of fewer than these, so many bytes hold; 0 where the kernel needs more."""
    low, high, capacity = 0, rows, 0
    while high - low > 1:
        middle = (low + high) // 2
        try:
            need = assumed(middle).device_bytes()
        except KernelError:  # too few for the kernel
            low = middle
            continue
        if need <= have:
            low = capacity = middle
        else:
            high = middle
    return capacity


def _larger(target: Target, holds: Callable[[Target], bool]) -> str:
    """Return a hint that names the three targets with the least memory that hold a run."""
    more = (t for t in targets().values() if t.memory.bytes > target.memory.bytes)
    candidates = islice(filter(holds, sorted(more, key=lambda t: t.memory.bytes)), 3)
    names = ", ".join(f"{t.name} ({t.memory.bytes >> 10:,} KiB)" for t in candidates)
    return f"choose a target with more memory{f': {names}' if names else ''}"
