"""Carrying a sweep out: what the cache has, then what a crew computes; and `ps.explore`."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.load import load_kernel
from penstock.engines.base import Given
from penstock.engines.discovery import engine_of
from penstock.engines.options import taken
from penstock.errors import no_option
from penstock.models.target import Target

from .crews import Crew, Dask, Processes, unable
from .grid import Sweep, sweep_of
from .points import Task
from .results import checked, table_of

if TYPE_CHECKING:
    import pyarrow as pa

#: how often a point's worker may end before the point is given up
_TRIES = 3
Rows = dict[str, dict[str, Any]]


def computed(
    sweep: Sweep,
    jobs: int | None,
    dask: str | None,
    progress: Callable[[int], None],
    say: Callable[[str], Any],
) -> Rows:
    """Return the rows of all points by key: those that the cache has, and those that a crew computes,
    which are kept as they come, but for failures.

    Parameters: as `explore`; `say`: is told of workers that are left out. Raises KernelError (E907).
    """
    from penstock.hdl.environment import cache_folder
    from penstock.sim.native.store import publish, text_of, trim

    rows: Rows = {}
    folder = cache_folder()
    for point in sweep.points:
        if text := text_of(folder / f"point-{point.key}"):
            rows[point.key] = json.loads(text)
    progress(len(rows))
    if missing := len(sweep.points) - len(rows):
        cores = len(os.sched_getaffinity(0)) if jobs is None else jobs
        with Dask(sweep.task, dask) if dask else Processes(sweep.task, min(cores, missing)) as crew:
            for key, row in _carried_out(sweep, rows, crew):
                rows[key] = row
                progress(len(rows))
                if not row["status"].startswith("failed"):
                    with suppress(OSError):
                        publish(json.dumps(row).encode(), folder / f"point-{key}")
        for worker, why in crew.left_out.items():
            say(f"warning: the worker {worker} is left out: it has {why}")
        trim(folder)
    return rows


def _carried_out(sweep: Sweep, rows: Rows, crew: Crew) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield key and row of each point that `rows` has not. One whose worker ends is computed again,
    and given up after the third time."""
    waiting = deque(point for point in sweep.points if point.key not in rows)
    ends, left = Counter[str](), len(waiting)
    while left:
        while waiting and crew.free():
            crew.give(waiting.popleft())
        for point, row in crew.done():
            if row is None:
                ends[point.key] += 1
                if ends[point.key] < _TRIES:
                    waiting.append(point)
                    continue
                if not crew.begun:
                    raise unable("they end before they have begun")
                row = {"status": f"failed: its worker ended {_TRIES} times"}
            left -= 1
            yield point.key, row


def explore(
    kernel: AnyKernel | str | Path,
    target: str | Target | Sequence[str | Target] | None = None,
    format: Any = None,
    *,
    sweep: Mapping[str, Any] | None = None,
    table: Any = None,
    rows: int | None = None,
    seed: int | None = None,
    memory: Any = None,
    link: str | None = None,
    pareto: Sequence[str] = ("seconds", "lut"),
    jobs: int | None = None,
    dask: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
    **options: Any,
) -> pa.Table:
    """Return the rows of a sweep as an Arrow table: one for each combination, by key in order.

    Parameters: `target`, `format`: one or several, as `compile` takes them; `sweep`: by the name of
    an option of the engine its values, as a list, a range or a text such as "1..16"; `table`: as
    `compile` takes it, or `rows`: so many assumed; `memory`, `link`, `options`: the same at all points, as
    `compile` and `penstock model` take them; `pareto`: figures of which less is better: rows that no
    other betters have True in the column `pareto`; `jobs`: processes, one a core unless given;
    `dask`: the address of a running scheduler, in place of them; `progress`: is called with how
    many points are done.

    What is computed is kept in the cache. Where nothing fits, every `status` says why.

    Raises KernelError: E906 for a sweep that cannot be made, E907 for a scheduler that does not
    answer, and whatever is wrong with the kernel; SourceError for the table.
    """
    kernel = kernel if isinstance(kernel, AnyKernel) else load_kernel(kernel)
    engine, objectives = engine_of(kernel), checked(pareto)
    options = {name: value for name, value in options.items() if value is not None}
    known = {o.name for c in ("compile", "model") for o in engine.options.get(c, ())}
    if unknown := next((name for name in options if name not in known | engine.arguments), None):
        raise no_option(f"the {kernel.title} {kernel.name}", unknown, known | engine.arguments)
    if table is None and rows is None and not engine.data_optional:
        needs = f"explore needs {engine.needs(kernel)}"
        raise error("E904", needs, Span.whole("explore"), hint="give table=, or rows= so many")
    options = taken([o for c in ("compile", "model") for o in engine.options.get(c, ())], options)
    if "dims" in options:
        options["dims"] = kernel.sized(options["dims"])
    args = Given(None, table, rows, seed, memory=memory, link=link, options=options)
    if table is not None:
        args = engine.reads(kernel, args)
        args = replace(args, data=engine.open(table, args))
    asked = sweep_of(
        Task(kernel, engine.name, args),
        _several(engine.default_target if target is None else target),
        _several(format),
        sweep or {},
    )
    return table_of(asked, computed(asked, jobs, dask, progress, warnings.warn), objectives)


def _several(values: Any) -> Sequence[Any]:
    """Return one or several as a list."""
    return [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
