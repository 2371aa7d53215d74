"""Whether a target's memory holds a run."""

from __future__ import annotations

from collections.abc import Callable

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.workload import Workload
from penstock.models.target import Target

__all__ = ["check_memory"]


def check_memory(
    name: str, target: Target, workload: Workload, assumed: Callable[[int], Workload]
) -> None:
    """Raise KernelError (E610) where the target's memory does not hold a run: its pages, images and results.

    `name`: of the kernel; `assumed`: the run on so many assumed rows.
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
    more = sorted(
        (t for t in targets().values() if t.memory.bytes >= need), key=lambda t: t.memory.bytes
    )
    names = ", ".join(f"{t.name} ({t.memory.bytes >> 10:,} KiB)" for t in more[:3])
    hint = f"choose a target with more memory{f': {names}' if names else ''}"
    hint = f"{low:,} rows like these fit" if low else hint
    raise error("E610", what, Span.whole("--target"), hint=hint)
