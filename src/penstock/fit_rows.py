"""Which rows a fit kernel's commands run on: random ones, or those of a table; and no more of them than can be played through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import penstock.api as api
from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.qr.kernel import FitKernel
from penstock.host.sources import RandomOptions
from penstock.host.workloads import Changes, Refits, TooFew
from penstock.models.qr.job import Bounds, Sums
from penstock.options import Conflict, Request, names

if TYPE_CHECKING:
    from penstock.cli import State
    from penstock.fits import FitDesign
    from penstock.progress import Steps

__all__ = ["changes_of", "given_keys", "not_too_many_fits", "random_of", "refits_of"]

#: most rows, and most fits, that are played through: the models go through all of them
MOST_ROWS, MOST_FITS = 1 << 22, 1 << 16
#: most keys that come to a group, or leave it, before one refit: each one looks for its place among all of the group's
MOST_CHANGES = 4096
_FEWER = "fewer will do: with target=slot(key) a refit's cycles do not grow with the rows"


def changes_of(request: Request, groups: int | None = None) -> Changes:
    """Return the groups, refits and changes that the options ask for; `groups`: where they may not be chosen."""
    given = Changes() if groups is None else Changes(groups)
    return Changes(*(getattr(given, name) if getattr(request, name) is None else getattr(request, name) for name in ("groups", "refits", "new", "gone")))


def refits_of(state: State, kernel: FitKernel, design: FitDesign, steps: Steps) -> Refits:
    """Return the refits that the options ask for."""
    request, outcome = state.asked, state.record
    changes, random, source = changes_of(request), random_of(request, kernel), request.source
    with steps.step("keys"):
        given = given_keys(request, kernel)
        try:
            if given is None:
                options = random or RandomOptions()
                options = replace(options, rows=request.rows or options.rows, seed=options.seed if random or request.seed is None else request.seed)
                _not_too_many(options.rows, changes, design, source or "--rows")
                refits = design.refits(options.rows, changes=changes, seed=options.seed)
                outcome.table = "random keys"
            else:
                outcome.table, keys = given
                later = changes.groups * changes.refits * changes.new
                _not_too_many(max(len(keys) - later, 0), changes, design, str(source))
                refits = design.refits(keys=keys, changes=changes, seed=1 if request.seed is None else request.seed)
        except TooFew as problem:
            raise error("E701", str(problem), Span.whole(source or "--rows"), hint="more rows, or fewer --groups, --refits, --new or --gone") from None
    outcome.rows, outcome.assumed = refits.rows, source is None
    return refits


def random_of(request: Request, kernel: FitKernel) -> RandomOptions | None:
    """Return what stands behind `random:`, None for other sources. Raises SourceError, KernelError (E701)."""
    if request.source is None or not request.source.startswith("random:"):
        return None
    options = RandomOptions.parse(request.source.removeprefix("random:"))
    if options.rows > MOST_ROWS:
        hint = _FEWER if kernel.of_kind("key") else "penstock model --rows N needs no table at all"
        raise _too_many(f"{options.rows:,} rows", MOST_ROWS, request.source, hint)
    return options


def _too_many(what: str, most: int, where: str, hint: str) -> KernelError:
    return error("E701", f"{what} are too many to be played through: the most is {most:,}", Span.whole(where), hint=hint)


def not_too_many_fits(changes: Changes) -> None:
    """Raise KernelError (E701) where so many fits would take hours."""
    fits = changes.groups * (1 + changes.refits)
    if fits > MOST_FITS:
        raise _too_many(f"{fits:,} fits", MOST_FITS, "--refits", "fewer will do: fewer --groups, or fewer --refits of each")


def _not_too_many(rows: int, changes: Changes, design: FitDesign, where: str) -> None:
    """Raise KernelError (E701) where what is asked for would take hours."""
    if rows > MOST_ROWS:
        raise _too_many(f"{rows:,} rows", MOST_ROWS, where, _FEWER)
    not_too_many_fits(changes)
    for name in ("new", "gone"):
        if getattr(changes, name) > MOST_CHANGES:
            raise _too_many(f"{getattr(changes, name):,} keys at once", MOST_CHANGES, f"--{name}", "fewer will do: a group has some 1,000 keys")
    scans = design.config.sums is Sums.SCAN or design.config.bounds is Bounds.RESCAN
    read = rows * (1 + changes.refits * scans) + changes.groups * changes.refits * (changes.new + changes.gone)
    if read > MOST_ROWS:
        raise _too_many(f"{read:,} rows in all fits", MOST_ROWS, "--refits",
                        "fewer will do: fewer --rows, --groups or --refits, or fewer --new or --gone of each")


def given_keys(request: Request, kernel: FitKernel) -> tuple[str, list[bytes]] | None:
    """Return the name of the table of --data and its keys, None where they are to be random. Raises KernelError, SourceError, Conflict for options that
    say nothing of either."""
    [key] = kernel.of_kind("key")
    if request.source is not None and random_of(request, kernel) is None:
        if request.rows is not None:
            raise Conflict(f"--rows {request.rows} and --data {request.data} both say which keys there are",
                           "leave one of them out: with --rows alone keys are random ones")
        table = api.open_table(request.source)
        return table.name, _keys(request, kernel, table)
    if other := next((name for name in names(request.bindings) if name != key.name), None):
        raise kernel.error("E619", f"the kernel {kernel.name} has no key {other}", key.span, hint=f"write --bind {key.name}=COLUMN, beside --data SRC")
    if request.bindings:
        raise Conflict("--bind names a column, but there is no table" if request.source is None else "--bind names a column, but random keys have none",
                       "give --data SRC with a table, or leave --bind out")
    return None


def _keys(request: Request, kernel: FitKernel, table: api.Table) -> list[bytes]:
    """Return the texts of the key's column, in the order of rows. Raises KernelError (E619)."""
    [key] = kernel.of_kind("key")
    bound = names(request.bindings)
    texts = [column.name for column in table.schema.columns if column.type == "text" and not column.dropped]
    listing = f"its columns of text are {', '.join(texts)}" if texts else "it has no column of text"

    def wrong(message: str, hint: str) -> KernelError:
        return kernel.error("E619", message, key.span, hint=hint)
    if other := next((name for name in bound if name != key.name), None):
        raise wrong(f"the kernel {kernel.name} has no key {other}", f"write --bind {key.name}=COLUMN; {listing}")
    chosen: Sequence[str] = bound.get(key.name, ())
    if not chosen:
        chosen = [key.name] if key.name in texts else texts
    if len(chosen) != 1:
        raise wrong(f"the key {key.name} takes one column, not {len(chosen)}", f"name it with --bind {key.name}=COLUMN; {listing}" if texts else listing)
    if chosen[0] not in texts:
        have = [column.name for column in table.schema.columns if not column.dropped]
        what = "is not of text" if chosen[0] in have else f"is not in the table {table.name}"
        raise wrong(f"the column {chosen[0]} {what}", closest(chosen[0], texts) or listing)
    values = [None if value is None else str(value) for value in table.columns()[chosen[0]]]
    empty = next((number for number, value in enumerate(values, 1) if value is None), None)
    if empty is not None and request.on_null != "skip":
        raise wrong(f"the column {chosen[0]} is NULL in row {empty:,}", "--on-null skip leaves such rows out")
    return [value.encode() for value in values if value is not None]
