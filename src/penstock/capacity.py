"""Whether a target's memory holds a run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.workload import Workload
from penstock.models.target import Target

__all__ = ["check_memory"]


def check_memory(
    name: str,
    target: Target,
    workload: Workload,
    assumed: Callable[[int], Workload],
    holds: Callable[[Target], bool],
) -> None:
    """Raise KernelError (E610) where the target's memory does not hold a run: its pages, images and results.

    `name`: of the kernel; `assumed`: the run on so many assumed rows; `holds`: whether another target holds design and run.
    """
    have, need = target.memory.bytes, workload.device_bytes()
    if not have or need <= have:
        return
    low, high = 0, workload.rows or 0
    while high - low > 1:
        middle = (low + high) // 2
        if assumed(middle).device_bytes() <= have:
            low = middle
        else:
            high = middle
    what = f"a run of {name} takes {need:,} bytes of memory; {target.name} has {have:,}"
    raise error(
        "E610",
        what,
        Span.whole("--target"),
        hint=f"{low:,} rows like these fit" if low else _larger(target, holds),
    )


def _larger(target: Target, holds: Callable[[Target], bool]) -> str:
    """Return a hint that names the three targets with the least memory that hold a run."""
    more = (t for t in targets().values() if t.memory.bytes > target.memory.bytes)
    found = islice(filter(holds, sorted(more, key=lambda t: t.memory.bytes)), 3)
    names = ", ".join(f"{t.name} ({t.memory.bytes >> 10:,} KiB)" for t in found)
    return f"choose a target with more memory{f': {names}' if names else ''}"
