"""What comes of a sweep: rows as a table, the points that no other betters, files, a report."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.designs.cache import kept
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.report.parts import Chart, Column, Facts, Grid, Part, Row, Verdict
from penstock.report.words import plural, short

from .grid import Sweep, bad
from .points import FIGURES, FITS, digest

if TYPE_CHECKING:
    import pyarrow as pa

FILES = ("points.parquet", "points.csv", "points.json", "pareto.html")
#: rows that a report shows
_SHOWN = 20
Rows = Sequence[Mapping[str, Any]]


def checked(pareto: Sequence[str]) -> tuple[str, ...]:
    """Return figures of which less is better. Raises KernelError (E906) for what is no number."""
    numbers = [name for name, kind in FIGURES.items() if kind is not str]
    if unknown := next((name for name in pareto if name not in numbers), None):
        hint = closest(unknown, numbers) or f"those are {', '.join(numbers)}"
        raise bad(f"{unknown!r} is no figure of a point", hint, "--pareto")
    if not pareto or len(set(pareto)) < len(pareto):
        raise bad("--pareto names figures, each once", "as in --pareto seconds,lut", "--pareto")
    return tuple(pareto)


def best(rows: Rows, pareto: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the rows that fit and have all figures, those with the least of the first one first."""
    able = [r for r in rows if r["status"] == FITS and None not in (r[name] for name in pareto)]
    return sorted(able, key=lambda row: (*(row[name] for name in pareto), row["key"]))


def _front(rows: Rows, pareto: Sequence[str]) -> set[str]:
    """Return the keys of the rows that no other betters: none is less in one figure and no more in
    the others."""
    front: dict[tuple[Any, ...], list[str]] = {}
    for row in best(rows, pareto):  # so that none is bettered by a later one
        values = tuple(row[name] for name in pareto)
        if not any(
            f != values and all(a <= b for a, b in zip(f, values, strict=True)) for f in front
        ):
            front.setdefault(values, []).append(row["key"])
    return {key for keys in front.values() for key in keys}


def table_of(
    sweep: Sweep, rows: Mapping[str, Mapping[str, Any]], pareto: Sequence[str]
) -> pa.Table:
    """Return all rows as an Arrow table, by key in order."""
    import pyarrow as pa
    from pyarrow.json import ParseOptions, read_json

    records = [{**sweep.asked(point), **rows[point.key]} for point in sweep.points]
    front = _front(records, pareto)
    kinds: dict[str, Any] = {"key": str, "status": str, "target": str, "format": str}
    kinds |= {name: type(values[0]) for name, values in sweep.swept.items()}
    kinds |= {**FIGURES, "pareto": bool}
    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in kinds.items()])
    # pa.array would import pandas where there is one, which takes longer than all the rest
    lines = [json.dumps(row | {"pareto": row["key"] in front}) for row in records]
    options = ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    read = read_json(io.BytesIO("\n".join(lines).encode()), parse_options=options)
    return read.select(schema.names).combine_chunks()


def files(
    table: pa.Table, header: Mapping[str, Any], page: Callable[[], str], code: str
) -> dict[str, bytes]:
    """Return what is written, by the files' names: equal rows give equal bytes. `header`: what
    `points.json` has beside the rows; `page`: makes the page, where the cache has none of the same; `code`: a digest of
    what makes it."""
    import pyarrow.csv
    import pyarrow.parquet

    parquet, csv = io.BytesIO(), io.BytesIO()
    pyarrow.parquet.write_table(table, parquet)
    pyarrow.csv.write_csv(table, csv)
    lines = ",\n".join(map(json.dumps, table.to_pylist()))  # an indent would take ten times as long
    text = f'{json.dumps(header)[:-1]}, "points": [\n{lines}\n]}}\n'
    shown = kept(f"sweep {digest(text)} {code}", page)
    contents = (parquet.getvalue(), csv.getvalue(), text.encode(), shown.encode())
    return dict(zip(FILES, contents, strict=True))


def check_any(rows: Rows) -> None:
    """Raise KernelError (E908) where no point fits, with the reasons counted."""
    if not any(row["status"] == FITS for row in rows):
        why = "; ".join(f"{count:,} × {reason}" for reason, count in _reasons(rows))
        what = f"none of {plural(len(rows), 'point')} fits: {why}"
        hint = "the column `status` says of each point why"
        raise error("E908", what, Span.whole("penstock explore"), hint=hint)


def _reasons(rows: Rows) -> list[tuple[str, int]]:
    """Return why points do not fit, refusals by their code, and how many."""
    statuses = (row["status"] for row in rows if row["status"] != FITS)
    counts = Counter(" ".join(s.split()[:2]) if s.startswith("refused") else s for s in statuses)
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _unknown(rows: Rows, pareto: Sequence[str]) -> Iterable[str]:
    """Yield which figures some points that fit do not have."""
    for name in pareto:
        if count := sum(row["status"] == FITS and row[name] is None for row in rows):
            yield f"{name} of {plural(count, 'point')}, not compared"


def parts(
    sweep: Sweep, rows: Rows, pareto: Sequence[str], confirmed: Iterable[Mapping[str, Any]]
) -> list[Part]:
    """Return a report: counts, the points that no other betters, charts of them."""
    front = [row for row in best(rows, pareto) if row["pareto"]]
    able = sum(row["status"] == FITS for row in rows)
    asked = {"target": sorted({point.target.name for point in sweep.points}), **sweep.swept}
    facts = [
        Row("kernel", f"{sweep.task.kernel.name}, engine {sweep.task.engine}"),
        *(Row(f"  {name}", ", ".join(map(str, asked[name]))) for name in asked),
        Row("points", f"{len(rows):,}: {able:,} fit, {len(rows) - able:,} do not"),
        *(Row("  assumed", law) for law in sorted({row["drawn"] or "" for row in rows} - {""})),
        *(Row("  not", f"{count:,} × {why}") for why, count in _reasons(rows)),
        *(Row("  unknown", line) for line in _unknown(rows, pareto)),
    ]
    for each in confirmed:
        text = each["differs"] or f"{each['cycles']:,} cycles of {each['rows']:,} rows"
        verdict = Verdict(not each["differs"], f"{each['key'][:8]}: {text}")
        facts.append(Row("golden = RTL = model", verdict))
    names = ["key", "target", "format", *sweep.swept, *pareto]
    columns = tuple(Column(name, right=name not in names[:3]) for name in names)
    cells = tuple(
        tuple(_cell(row[name])[: 8 if name == "key" else 99] for name in names) for row in front
    )
    title = f"{plural(len(front), 'point')} that no other betters in {', '.join(pareto)}"
    more = f"and {len(front) - _SHOWN:,} more" if len(front) > _SHOWN else ""
    grid = Grid(columns, cells[:_SHOWN], title, more)
    return [Facts(tuple(facts)), *([grid] if front else ()), *_charts(rows, pareto)]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return short(value)
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def _charts(rows: Rows, pareto: Sequence[str]) -> Iterable[Chart]:
    """Yield a chart of the first figure and each other one."""
    x, able = pareto[0], best(rows, pareto)
    for y in pareto[1:] if able else ():
        names = sorted({row["target"] for row in able})
        groups = {n: [(r[x], r[y], r["pareto"]) for r in able if r["target"] == n] for n in names}
        note = "Less is better. Large points are those that no other betters in all figures."
        yield Chart("scatter", f"{x} and {y}", {"x": x, "y": y, "groups": groups}, note)
