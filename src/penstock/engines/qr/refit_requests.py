"""Which rows a fit runs on, and how many come and go: no more than can be played through."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Given
from penstock.errors import Conflict
from penstock.host.sources import RandomOptions, Table
from penstock.host.workloads import Changes, Refits, TooFew
from penstock.models.qr.config import FitPlan

#: most rows, and most fits, that are played through: the models go through all of them
MOST_ROWS, MOST_FITS = 1 << 22, 1 << 16
#: most keys that come to a group, or leave it, before one refit: each one looks for its place among
#: all of the group's
MOST_CHANGES = 4096
_FEWER = "fewer will do: with target=slot(key) a refit's cycles do not grow with the rows"


def changes_of(args: Given, groups: int | None = None) -> Changes:
    """Return the groups, refits and changes that the options ask for; `groups`: where they may not
    be chosen."""
    if args.option("changes") is not None:
        changes: Changes = args.option("changes")
        return changes
    base = Changes() if groups is None else Changes(groups)
    numbers = {n: args.option(n) for n in ("groups", "refits", "new", "gone")}
    return replace(base, **{name: n for name, n in numbers.items() if n is not None})


@dataclass(frozen=True)
class Asked:
    """The refits of a table: `changes`, and whether they were `chosen` or are the defaults."""

    changes: Changes
    chosen: bool

    def of(self, rows: int, columns: int) -> Changes:
        """Return the changes for so many rows: fewer refits than the default where the first fit
        would have fewer rows than columns."""
        if self.chosen or not self.changes.new:
            return self.changes
        most = max(rows - columns, 0) // self.changes.new
        return replace(self.changes, refits=min(self.changes.refits, most))


def asked_of(args: Given) -> Asked:
    """Return the refits that the options ask for of a table."""
    named = ("changes", "refits", "new", "gone")
    return Asked(changes_of(args, 1), any(args.option(name) is not None for name in named))


def _limit(count: int, what: str, most: int, where: str, hint: str) -> None:
    """Raise KernelError (E701) where there are more than can be played through."""
    if count > most:
        message = f"{count:,} {what} are too many to be played through: the most is {most:,}"
        raise error("E701", message, Span.whole(where), hint=hint)


def check_random(source: Any, keys: bool) -> RandomOptions | None:
    """Return what stands behind `random:`, None for other sources. Raises SourceError, KernelError
    (E701)."""
    if not isinstance(source, str) or not source.startswith("random:"):
        return None
    options = RandomOptions.parse(source.removeprefix("random:"))
    hint = _FEWER if keys else "penstock model --rows N needs no table at all"
    _limit(options.rows, "rows", MOST_ROWS, source, hint)
    return options


def limited_fits(changes: Changes) -> None:
    """Raise KernelError (E701) where so many fits would take hours."""
    fits = changes.groups * (1 + changes.refits)
    hint = "fewer will do: fewer --groups, or fewer --refits of each"
    _limit(fits, "fits", MOST_FITS, "--refits", hint)


def _limited_rows(rows: int, changes: Changes, plan: FitPlan, where: str) -> None:
    """Raise KernelError (E701) where what is asked for would take hours."""
    _limit(rows, "rows", MOST_ROWS, where, _FEWER)
    limited_fits(changes)
    for name in ("new", "gone"):
        count, hint = getattr(changes, name), "fewer will do: a group has some 1,000 keys"
        _limit(count, "keys at once", MOST_CHANGES, f"--{name}", hint)
    changed = changes.groups * changes.refits * (changes.new + changes.gone)
    read = rows * (1 + changes.refits * (not plan.incremental)) + changed
    hint = "fewer will do: fewer --rows, --groups or --refits, or fewer --new or --gone of each"
    _limit(read, "rows in all fits", MOST_ROWS, "--refits", hint)


def refits_of(graph: FitGraph, plan: FitPlan, span: Span, args: Given) -> tuple[Refits, str]:
    """Return the refits of keys that are asked for, and the name of the keys; `span`: of the
    kernel's key. Raises KernelError."""
    changes, source = changes_of(args), args.place
    random = check_random(source, True)
    named = key_texts(graph, span, args)
    try:
        if named is None:
            options = random or RandomOptions()
            seed = options.seed if random or args.seed is None else args.seed
            options = replace(options, rows=args.rows or options.rows, seed=seed)
            _limited_rows(options.rows, changes, plan, source or "--rows")
            return Refits.random(options.rows, graph.columns, changes, options.seed), "random keys"
        name, keys = named
        later = changes.groups * changes.refits * changes.new
        _limited_rows(max(len(keys) - later, 0), changes, plan, str(source))
        seed = 1 if args.seed is None else args.seed
        return Refits.of_keys(keys, graph.columns, changes, seed), name
    except TooFew as problem:
        hint = "more rows, or fewer --groups, --refits, --new or --gone"
        place = Span.whole(source or "--rows")
        raise error("E701", str(problem), place, hint=hint) from None


def key_texts(graph: FitGraph, span: Span, args: Given) -> tuple[str, list[bytes]] | None:
    """Return the name of the given table and its keys, None where they are to be random.

    Raises KernelError, and Conflict for options that say nothing of either.
    """
    bindings = args.option("bind", {})
    if isinstance(args.data, Table):
        if args.rows is not None:
            what = f"--rows {args.rows} and --data {args.place} both say which keys there are"
            raise Conflict(what, "leave one of them out: with --rows alone keys are random ones")
        return args.data.name, _keys(graph, span, args, args.data)
    if other := next((name for name in bindings if name != graph.features), None):
        hint = f"write --bind {graph.features}=COLUMN, beside --data SRC"
        raise _wrong(graph, span, f"the kernel {graph.name} has no key {other}", hint)
    if bindings:
        what = "there is no table" if args.source is None else "random keys have none"
        hint = "give --data SRC with a table, or leave --bind out"
        raise Conflict(f"--bind names a column, but {what}", hint)
    return None


def _wrong(graph: FitGraph, span: Span, message: str, hint: str) -> KernelError:
    return error("E619", message, span, hint=hint, source=graph.source)


def key_column(graph: FitGraph, span: Span, args: Given, table: Table) -> str:
    """Return the name of the key's column. Raises KernelError (E619)."""
    bound, key, columns = args.option("bind", {}), graph.features, table.schema.columns
    texts = [column.name for column in columns if column.type == "text" and not column.dropped]
    listing = f"its columns of text are {', '.join(texts)}" if texts else "it has no column of text"
    if other := next((name for name in bound if name != key), None):
        message = f"the kernel {graph.name} has no key {other}"
        raise _wrong(graph, span, message, f"write --bind {key}=COLUMN; {listing}")
    chosen: Sequence[str] = bound.get(key, ())
    if not chosen:
        chosen = [key] if key in texts else texts
    if len(chosen) != 1:
        hint = f"name it with --bind {key}=COLUMN; {listing}" if texts else listing
        raise _wrong(graph, span, f"the key {key} takes one column, not {len(chosen)}", hint)
    if chosen[0] not in texts:
        have = [column.name for column in columns if not column.dropped]
        what = "is not of text" if chosen[0] in have else f"is not in the table {table.name}"
        hint = closest(chosen[0], texts) or listing
        raise _wrong(graph, span, f"the column {chosen[0]} {what}", hint)
    return chosen[0]


def _keys(graph: FitGraph, span: Span, args: Given, table: Table) -> list[bytes]:
    """Return the texts of the key's column, in the order of rows. Raises KernelError (E619)."""
    name = key_column(graph, span, args, table)
    values = [None if value is None else str(value) for value in table.columns()[name]]
    empty = next((number for number, value in enumerate(values, 1) if value is None), None)
    if empty is not None and args.option("on_null", "error") != "skip":
        message = f"the column {name} is NULL in row {empty:,}"
        raise _wrong(graph, span, message, "--on-null skip leaves such rows out")
    return [value.encode() for value in values if value is not None]
