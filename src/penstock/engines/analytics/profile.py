"""`penstock profile`: which rows of a kernel's models its table asks for most."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.commandline import DATA, KERNEL, OUTPUT
from penstock.options import Count, Once
from penstock.report.rows import Column, Facts, Grid, Part
from penstock.state import State

from .options import OPTIONS

if TYPE_CHECKING:
    import numpy as np

    from penstock.dsl.analytics.kernel import Kernel
    from penstock.dsl.analytics.lookups import Lookups
    from penstock.host.sources import Table

__all__ = ["COMMANDS", "profiled"]

#: shares of a model's rows that a store is tried with
_SHARES = (64, 32, 16)
#: lookups that the store is tried with, at most
_TRIED = 1_000_000


@click.pass_obj
def _profile(state: State, **values: Any) -> int:
    """Count the rows of models that a kernel asks for with its data, and train nothing.

    For each model: how many lookups and rows there are, which row is asked for most, and how often
    a store of hot rows would have them. --out writes the hottest rows of each model.
    """
    rest = state.begin("profile", values)
    from penstock.commands.job import Job
    from penstock.dsl.analytics.kernel import Kernel
    from penstock.errors import Conflict
    from penstock.host.sources import Table

    job = Job.begin(state, "profile").opened()
    kernel, table = job.kernel, job.given.data
    if not isinstance(kernel, Kernel) or not isinstance(table, Table):
        hint = "give a kernel with rows and --data SRC, such as FILE.csv"
        raise Conflict("a profile is that of a kernel's rows on a table", hint)
    bindings, dims = job.given.option("bindings", {}), job.given.option("dims", {})
    found, sizes = profiled(kernel, table, bindings, dims)
    if not found:
        raise Conflict(
            f"{kernel.name} reads and changes no rows by an index",
            "penstock simulate --profile shows what a kernel's lines cost",
        )
    for name, asked in found.items():
        state.show(_parts(name, sizes[name], asked))
    if rest["out"] is not None:
        try:
            Path(rest["out"]).write_text(
                _hottest(kernel.name, found, rest["top"]), encoding="utf-8"
            )
        except OSError as problem:
            reason = problem.strerror or str(problem)
            raise Conflict(f"{rest['out']}: {reason}", "name a file that can be written") from None
    return 0


def profiled(
    kernel: Kernel,
    table: Table,
    bindings: Mapping[str, Sequence[str]] | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[dict[str, Lookups], dict[str, int]]:
    """Return what a table asks of each model that is read or changed by row, and the models' rows.

    What an index counts is as `dims` says; else 1 + its largest value.

    Raises Conflict for columns that are no indices, and for a row that there is not.
    """
    from penstock.dsl.analytics.lookups import lookups
    from penstock.errors import Conflict

    sizes, columns = dict(dims or {}), table.columns()
    kernel.check_dims(sizes)
    indices = {}
    for parameter in kernel.of_kind("index"):
        names = (bindings or {}).get(parameter.name, (parameter.name,))
        values, width = _integers(parameter.name, names, columns)
        given = dict(
            zip(parameter.dims, (int(values.max(initial=0)) + 1, values.shape[1]), strict=False)
        )
        for name, size in given.items():
            if isinstance(name, str) and name not in (dims or {}):
                sizes[name] = max(sizes.get(name, 1), size)
        indices[parameter.name] = values, width
    graph = kernel.trace({**dict.fromkeys(kernel.dim_names, 1), **sizes})
    shaped = {
        name: (_shaped(name, values, graph.variables[name].shape), width)
        for name, (values, width) in indices.items()
    }
    try:
        found = lookups(graph, shaped)
    except IndexError as problem:
        raise Conflict(str(problem), "give a larger --dim, or leave it out") from None
    return found, {name: graph.variables[name].shape[0] for name in found}


def _integers(
    name: str, columns: Sequence[str], found: Mapping[str, Any]
) -> tuple[np.ndarray, int]:
    """Return an index's integers, [tuples, places], and the bytes of its columns. Several columns count one after the other."""
    import numpy as np

    from penstock.dsl.analytics.integers import ABSENT
    from penstock.errors import Conflict

    pieces, width, offset = [], 4, 0
    for column in columns:
        if column not in found:
            hint = f"write --bind {name}=COLUMN; there are {', '.join(found)}"
            raise Conflict(f"the index {name} takes the column {column}, which there is not", hint)
        values = found[column]
        if isinstance(values, list) or getattr(values, "dtype", None) is np.dtype(object):
            values = _padded(values)
        values = np.ma.asarray(values)
        if values.dtype.kind not in "iub" or (np.ma.is_masked(values) and values.ndim == 1):
            what = "has a NULL" if values.dtype.kind in "iub" else f"holds {values.dtype}"
            hint = "an index is a column of whole numbers"
            raise Conflict(f"the column {column} {what}, and {name} is an index", hint)
        width = max(width, values.dtype.itemsize)
        filled = np.ma.filled(values.astype(np.int64), ABSENT)
        filled[filled != ABSENT] += offset
        pieces.append(filled.reshape(len(filled), -1))
        offset = 1 + max(offset - 1, int(pieces[-1].max(initial=0)))
    return np.concatenate(pieces, axis=1), 8 if width == 8 else 4


def _shaped(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an index's integers in its shape; places that its columns do not have are left out."""
    import numpy as np

    from penstock.dsl.analytics.integers import ABSENT
    from penstock.errors import Conflict

    places = math.prod(shape)
    if values.shape[1] > places:
        what = f"a bag of {places}" if shape else "one number"
        message = f"the index {name} is {what}, and its columns have {values.shape[1]}"
        raise Conflict(message, 'declare a bag that holds them, as in `ps.Index["n", 8]`')
    more = np.full((len(values), places - values.shape[1]), ABSENT)
    return np.concatenate([values, more], axis=1).reshape(len(values), *shape)


def _padded(rows: Sequence[Any]) -> np.ma.MaskedArray:
    """Return arrays of several lengths as one; what is missing is masked."""
    import numpy as np

    longest = max((len(row) for row in rows if row is not None), default=0)
    data = np.ma.masked_all((len(rows), longest), np.int64)
    for n, row in enumerate(rows):
        if row is not None and len(row):
            data[n, : len(row)] = row
    return data


def _parts(name: str, rows: int, asked: Lookups) -> list[Part]:
    """Return what is said of one model."""
    import numpy as np

    from penstock.models.rows.bound import best_fixed, busiest, fewest_fetched
    from penstock.models.rows.config import StoreConfig
    from penstock.models.rows.store import Policy

    trace = asked.rows
    if not len(trace):
        return [Facts.of(("model", name), ("lookups an epoch", "none"))]
    hottest, times = busiest(trace)
    facts = Facts.of(
        ("model", name),
        ("rows", f"{rows:,}, of which {len(np.unique(trace)):,} are asked for"),
        (
            "lookups an epoch",
            f"{len(trace):,}, of which {int(asked.changes.sum()):,} change the row",
        ),
        ("hottest row", f"{hottest:,}, in {times / len(trace):.1%} of the lookups"),
    )
    tried, table = trace[:_TRIED], []
    for share in _SHARES:
        lines = 8 << max(0, (rows // share // 8).bit_length() - 1)
        policy = Policy(StoreConfig(lines))
        for row, change in zip(tried.tolist(), asked.changes.tolist(), strict=False):
            policy.access(row, change)
        counts, fewest = policy.counts, fewest_fetched(tried, lines)
        hits = counts.hits / len(tried), best_fixed(tried, lines), 1 - fewest / len(tried)
        table.append((f"{lines:,}", f"{lines / rows:.1%}", *(f"{h:.3f}" for h in hits)))
    names = ("lines", "of the rows", "store", "best fixed rows", "best of all")
    columns = tuple(Column(n, right=True) for n in names)
    caption = "hits a lookup; the store starts empty" + (
        f"; of the first {_TRIED:,} lookups" * (len(trace) > _TRIED)
    )
    return [facts, Grid(columns, tuple(dict.fromkeys(table)), caption=caption)]


def _hottest(kernel: str, found: Mapping[str, Lookups], most: int) -> str:
    """Return the profile as JSON: of each model the rows that are asked for most, the hottest first."""
    import numpy as np

    models = {}
    for name, asked in found.items():
        rows, counts = np.unique(asked.rows, return_counts=True)
        order = np.lexsort((rows, -counts))[:most]
        models[name] = {"rows": rows[order].tolist(), "lookups": counts[order].tolist()}
    return json.dumps({"kernel": kernel, "models": models}) + "\n"


COMMANDS = (
    click.Command(
        "profile",
        callback=_profile,
        params=[
            *KERNEL(),
            *DATA(),
            *(option.parameter() for option in OPTIONS["profile"]),
            *OUTPUT(),
            Once(("--out",), metavar="FILE.json", help="Where to write the hottest rows."),
            click.Option(
                ("--top",),
                type=Count(1, 1 << 32),
                default=65_536,
                metavar="N",
                help="Rows of each model in it, at most.  [default: 65536]",
            ),
        ],
        help=_profile.__doc__,
    ),
)
