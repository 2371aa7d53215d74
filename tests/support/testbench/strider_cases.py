"""Random tables for the Striders' tests: schemas, layouts and heap pages with everything real heaps hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.models.heap.page import max_tuple_size
from penstock.models.heap.schema import NUMERIC, TYPES, Column, Schema, type_named
from penstock.models.heap.values import DTYPES, Raw, varlena
from penstock.models.heap.writer import write_heap
from penstock.models.numerics.formats import Format
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.isa import FIXED_TYPES
from penstock.models.strider.layout import Source, TupleLayout, place
from testbench.pruned_pages import random_slots, write_pruned
from testbench.visibility import VISIBILITY

__all__ = ["Case", "corrupt", "random_case", "regular_case"]

Pages = NDArray[np.uint8]
#: types of every length and alignment that no kernel can use
_STEPPED_OVER = (
    "uuid",
    "interval",
    "timetz",
    "macaddr",
    "tid",
    "numeric",
    "date",
    "timestamp",
    "circle",
    "o:fixed(3,8)",
    "o:fixed(10,4)",
    "o:varlena(8)",
)


@dataclass(frozen=True)
class Case:
    """A table's pages and what to walk."""

    walk: WalkConfig
    pages: Pages


def _values(rng: np.random.Generator, column: Column, rows: int) -> Any:
    element = column.storage.element or column.type
    shape = (rows, column.length or 0) if column.is_array else (rows,)
    if not column.is_numeric and column.storage.length > 0 and column.type not in DTYPES:
        return [rng.bytes(column.storage.length) for _ in range(rows)]
    if column.storage.length < 0 and not column.is_array:
        texts: list[Any] = ["x" * int(n) for n in rng.choice([0, 1, 3, 60, 126, 127, 150], rows)]
        oddities = (
            Raw(bytes([1, 18]) + bytes(16)),
            Raw((30 << 2 | 2).to_bytes(4, "little") + bytes(26)),
            varlena(b"", short=False),  # SET STORAGE PLAIN: headers of 4 bytes
            varlena(b"xyz", short=False),
        )
        return [
            text if rng.random() < 0.8 else oddities[int(rng.integers(len(oddities)))]
            for text in texts
        ]
    kind = DTYPES[element].kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind == "i":
        info = np.iinfo(DTYPES[element])
        return np.where(
            rng.random(shape) < 0.3,
            rng.integers(info.min, info.max, shape, dtype=np.int64),
            rng.integers(-99, 99, shape),
        ).astype(DTYPES[element])
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(
            DTYPES[element]
        )


def _layout(
    rng: np.random.Generator, schema: Schema, lanes: int, types: tuple[str, ...]
) -> TupleLayout:
    """A few fields over random columns: scalars, vectors of columns, arrays, parts of arrays as matrices."""
    scalars = [
        i
        for i, c in enumerate(schema.columns)
        if c.is_numeric and not c.is_array and c.type in types
    ]
    arrays = [
        i
        for i, c in enumerate(schema.columns)
        if c.is_numeric and c.is_array and c.storage.element in types
    ]
    shapes: dict[str, tuple[int, int]] = {}
    what: dict[str, list[tuple[int, int, int, int]]] = {}  # field -> (column, first, count, row)
    for index in arrays:
        if rng.random() < 0.8:
            length = schema.columns[index].length or 1
            rows = 2 if length % 2 == 0 and length > 2 and rng.random() < 0.3 else 1
            shapes[f"x{index}"] = rows, length // rows
            what[f"x{index}"] = [
                (index, r * (length // rows), length // rows, r) for r in range(rows)
            ]
    if len(scalars) > 1 and rng.random() < 0.7:
        chosen = sorted(
            rng.choice(scalars, int(rng.integers(2, len(scalars) + 1)), replace=False).tolist()
        )
        if rng.random() < 0.3:
            rng.shuffle(chosen)
        shapes["v"], what["v"] = (1, len(chosen)), [(c, 0, 1, 0) for c in chosen]
    for index in scalars:
        if rng.random() < 0.4 or not shapes:
            shapes[f"s{index}"], what[f"s{index}"] = (1, 1), [(index, 0, 1, 0)]
    beats, fields = place(shapes, lanes)
    sources = []
    for field in fields:
        at = [0] * field.rows
        for column, first, count, row in what[field.name]:
            sources.append(
                Source(column, first, count, field.position + row * field.stride + at[row])
            )
            at[row] += count
    return TupleLayout(
        lanes, beats, fields, tuple(sources), "skip" if rng.random() < 0.3 else "error"
    )


def random_case(
    seed: int,
    *,
    lanes: int,
    format: Format,
    page_size: int = 1024,
    types: tuple[str, ...] = FIXED_TYPES,
    rows: int = 24,
    clean: float = 0.3,
) -> Case:
    """Return a random table. A share `clean` of the tables holds nothing that ends a run; others may.

    At most `rows` rows, fewer if they are long.
    """
    rng = np.random.default_rng(seed)
    tidy = rng.random() < clean
    columns: list[Column] = []
    budget = max_tuple_size(page_size) - 80
    for k in range(int(rng.integers(1, 12))):
        pool = (
            ["text", "float4[]", "float8[]", *FIXED_TYPES, *_STEPPED_OVER]
            if rng.random() < 0.5
            else ["float4", "float4", "int4"]
        )
        name = str(rng.choice(pool))
        if columns and rng.random() < 0.4:
            name = columns[-1].type
        length = (
            int(rng.choice([1, 2, 5, 13, 14, 26, 27, 40])) if type_named(name).element else None
        )
        kind = type_named(name)
        size = (
            (160 if kind.element is None else TYPES[kind.element].length * (length or 1) + 32)
            if kind.length < 0
            else kind.length + 32
        )
        if size > budget:
            continue
        budget -= size
        dropped = rng.random() < 0.1
        missing: Any = None
        if k and rng.random() < 0.3 and not dropped and name in NUMERIC:
            missing = _values(rng, Column("m", name, length=length), 1)[0]
            missing = missing.tolist() if hasattr(missing, "tolist") else missing
        columns.append(Column(f"c{k}", name, length=length, dropped=dropped, missing=missing))
    usable = [c for c in columns if c.is_numeric and (c.storage.element or c.type) in types]
    if not usable:
        columns.append(Column("c99", types[0]))
    schema = Schema("t", tuple(columns), page_size)
    layout = _layout(rng, schema, lanes, types)
    values = {c.name: _values(rng, c, rows) for c in columns}
    policy = _policy(np.random.default_rng([seed, 1]), format, tidy, values)
    nulls = {}
    if rng.random() < 0.4:
        for c in columns:
            used = any(s.column == columns.index(c) for s in layout.sources)
            if not (used and tidy and layout.on_null == "error"):
                nulls[c.name] = rng.random(rows) < rng.choice([0.0, 0.05 if used else 0.3])
    natts = None
    if rng.random() < 0.3:
        natts = rng.integers(max(1, len(columns) - 2), len(columns) + 1, rows).tolist()
        if tidy:
            natts = None
    states = ["frozen"] * rows
    if rng.random() < 0.5:
        safe = ["frozen", "committed", "aborted", "deleted", "updated", "newer", "locked", "shared"]
        states = [
            str(rng.choice(safe if tidy or rng.random() < 0.997 else list(VISIBILITY)))
            for _ in range(rows)
        ]
    slots = random_slots(rows, seed) if rng.random() < 0.4 else None
    pages = write_pruned(
        schema,
        values,
        nulls=nulls,
        visibility=states,
        natts=natts,
        short=[c.name for c in columns if c.is_array and rng.random() < 0.6],
        slots=slots,
        shuffle=seed if rng.random() < 0.3 else None,
    )
    if rng.random() < 0.2:
        pages = np.insert(pages, int(rng.integers(len(pages) + 1)), 0, axis=0)  # a new page
    visibility = "all" if rng.random() < 0.1 else "hints"
    return Case(WalkConfig(schema, layout, format, visibility, policy), pages)


def _policy(
    rng: np.random.Generator, format: Format, tidy: bool, values: dict[str, Any]
) -> InputPolicy:
    """Put values into some columns that fit nowhere; return a policy, of a tidy table one that goes on."""
    odd = [np.nan, np.inf, -np.inf, 1e300, -3e38]
    if rng.random() < 0.5:
        for name, column in values.items():
            real = isinstance(column, np.ndarray) and column.dtype.kind == "f"
            if real and rng.random() < 0.5:
                places = rng.random(column.shape) < 0.03
                with np.errstate(over="ignore"):
                    chosen = rng.choice(odd, column.shape).astype(column.dtype)
                values[name] = np.where(places, chosen, column)
    go_on = tidy or rng.random() < 0.5
    nan = ["skip", "pass"] if format.is_float else ["skip"]
    on_overflow = "saturate" if go_on else "error"
    return InputPolicy(on_overflow, str(rng.choice(nan)) if go_on else "error")


def regular_case(
    rows: int,
    *,
    features: int,
    lanes: int,
    format: Format,
    page_size: int = 8192,
    array: bool = True,
    seed: int = 0,
    short: bool = False,
) -> Case:
    """Return a table as benchmarks have them: id int4, y float4, x float4[features] (or as many columns), frozen."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    xs = (
        [Column("x", "float4[]", length=features)]
        if array
        else [Column(f"x{k}", "float4") for k in range(features)]
    )
    schema = Schema("t", (Column("id", "int4"), Column("y", "float4"), *xs), page_size)
    values: dict[str, Any] = {
        "id": np.arange(rows),
        "y": rng.standard_normal(rows).astype(np.float32),
    }
    values |= {"x": x} if array else {f"x{k}": x[:, k] for k in range(features)}
    beats, fields = place({"x": (1, features), "y": (1, 1)}, lanes)
    at = fields[0].position
    sources = (
        [Source(2, 0, features, at)]
        if array
        else [Source(2 + k, 0, 1, at + k) for k in range(features)]
    )
    layout = TupleLayout(lanes, beats, fields, (Source(1, 0, 1, fields[1].position), *sources))
    return Case(WalkConfig(schema, layout, format), write_heap(schema, values, short=short))


def corrupt(pages: Pages, rng: np.random.Generator, flips: int) -> Pages:
    """Return a copy with up to `flips` bytes changed, half of them in page headers, line pointers and tuple headers."""
    out = pages.copy()
    for _ in range(int(rng.integers(1, flips + 1))):
        block = int(rng.integers(len(out)))
        lower = int(pages[block, 12:14].copy().view("<u2")[0])
        count = max(1, (lower - 24) // 4)
        where = rng.random()
        if where < 0.15:
            at = int(rng.integers(8, 24))
        elif where < 0.3:
            at = 24 + int(rng.integers(4 * count))
        elif where < 0.6:
            line = 24 + 4 * int(rng.integers(count))
            at = (int(pages[block, line : line + 2].copy().view("<u2")[0]) & 0x7FFF) + int(
                rng.integers(18, 64)
            )
        else:
            at = int(rng.integers(out.shape[1]))
        out[block, at % out.shape[1]] = int(rng.integers(256))
    return out
