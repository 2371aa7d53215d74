"""Kernels with rows of models, drawn by hypothesis: indices, integers made of them, rows that are read and changed, beside all that others do."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any, cast

import numpy as np
from hypothesis import strategies as st

from penstock.host.sources import Table
from penstock.models.heap.reader import read_heap
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap

from .drawn import _PIECE, _PIECES, Case, Shape, _case, _Writer, case
from .meaning import Engine

__all__ = ["RowCase", "row_case", "row_cases"]

_INDEX = re.compile(r"(\w+): index\[(\w+)(?:, (\w+))?\]")
_SIGNS = {"+=": "add", "-=": "subtract", "max=": "max", "min=": "min", "<-": "set"}


class RowCase(Case):
    """A case with indices. Their columns are drawn with the table: duplicates, arrays of several lengths, integers of all widths."""

    LANES = (1, 2, 4, 8)

    def indices(self) -> dict[str, tuple[int, int]]:
        """Return of each index what it counts, and the places of a bag, 0 for one that is none."""
        sizes = dict(self.sizes)
        size = lambda text: sizes.get(text, 0) or int(text)
        found = _INDEX.findall(self.text)
        return {name: (size(n), size(places) if places else 0) for name, n, places in found}

    def python(self) -> Any:
        lines, changed = [], set[str]()
        for line in self.text.splitlines():
            found = re.fullmatch(r"  (\w+)\[(.+?)\] (\+=|-=|max=|min=|<-) (.+)", line)
            if found:
                model, index, sign, value = found.groups()
                base = f"new_{model}" if model in changed else model
                changed.add(model)
                line = f"  {model} <- {base}.at[{index}].{_SIGNS[sign]}({value})"
            lines.append(line)
        return Case.python(replace(self, text="\n".join(lines)))

    def table(self) -> Table:
        plain = super().table()
        rng = np.random.default_rng(self.seed + 1)
        rows = max(self.rows, 1)
        columns, values = list(plain.schema.columns), read_heap(plain.schema, plain.pages)
        if not self.rows:
            values = {
                c.name: np.zeros((rows, c.length or 1))[:, 0 if not c.length else slice(None)]
                for c in columns
            }
            values["pad"] = ["-"] * rows
        for name, (n, places) in self.indices().items():
            kind = str(rng.choice(["int2", "int4", "int8"]))
            dtype = {"int2": "<i2", "int4": "<i4", "int8": "<i8"}[kind]
            most = n if rng.random() < 0.5 else min(n, 2)  # many duplicates
            if not places:
                columns.append(Column(name, kind, not_null=True))
                values[name] = rng.integers(0, most, rows).astype(dtype)
                continue
            shorter = rng.random() < 0.7
            lengths = rng.integers(0 if shorter else places, places + 1, rows)
            columns.append(Column(name, f"{kind}[]", not_null=True))
            values[name] = [rng.integers(0, most, k).astype(dtype) for k in lengths]
        schema = Schema("t", tuple(columns), plain.schema.page_size)
        pages = write_heap(schema, values)
        return Table(schema, pages if self.rows else pages[:0])

    def engine(self, table: Table) -> Engine:
        found = []
        of = self.columns()
        for q in range(self.ports):
            columns = read_heap(table.schema, table.pages[q :: self.ports])
            port = []
            for k in range(len(columns["pad"])):
                row: dict[str, Any] = {
                    name: np.concatenate([np.ravel(columns[c][k]) for c in parts])
                    for name, parts in of.items()
                }
                for name, (_, places) in self.indices().items():
                    row[name] = columns[name][k]
                    if places:
                        short = np.zeros(places, columns[name][k].dtype)
                        short[: len(columns[name][k])] = columns[name][k]
                        row[name] = np.ma.masked_array(
                            short, np.arange(places) >= len(columns[name][k])
                        )
                port.append(row)
            found.append(port)
        return Engine(self.lanes, self.threads, found)

    def reference(self, port: Any) -> dict[str, Any]:
        """Return a port's rows as `interp` takes them."""
        found = {name: np.array([row[name] for row in port]) for name in self.variables()}
        for name, (_, places) in self.indices().items():
            cells = [row[name] for row in port]
            none = np.zeros((0, places) if places else 0, np.int64)
            join = np.ma.stack if places else np.array
            found[name] = join(cells) if cells else none
        return found


class _RowWriter(_Writer):
    """One kernel with rows."""

    def parameters(self) -> None:
        one, grower = self.one, self.grower
        self.n, self.bag = one(3, 6, 1, 11), one(2, 3, 1, 5)
        self.width = one(*self.sizes.values(), one(2, 3, 1, 4))
        self.dense = one(False, True)
        super().parameters()
        if not self.dense:
            self.head = [h for h in self.head if ": model" not in h]
            self.model.clear()
            self.updated.clear()
        n = self.n
        self.head += [f"i: index[{n}]", f"j: index[{n}]", f"c: index[{n}, {self.bag}]"]
        self.head += [f"E: model[{n}, {self.width}]", f"b: model[{n}]", "h: model[7]"]
        self.head.sort(key=lambda declared: ": meta" in declared)
        self.rows: dict[str, Shape] = {"E": (self.width,), "b": (), "h": ()}
        self.start = [
            f"init {name} = {value}"
            for name in self.rows
            if (value := one("", "0.5", "uniform(-1, 1, seed=4)"))
        ]
        self.whole = one(False, False, True)
        if self.whole:  # read whole as well
            self.model |= {"E": (n, self.width), "b": (n,)}
        grower.begin()
        self.gathers()

    def single(self, n: int, changed: bool = False) -> str:
        """Return an index of a row of n; one of models alone where rows are `changed`."""
        values = f"[{', '.join(map(str, range(2, -3, -1)))}]"
        forms = ["i", "j", f"(i + 2 * j) % {n}", f"hash(i, 5) % {n}", f"(j // 2 + i) % {n}"]
        forms += [f"(2 * count(c) + i) % {n}", f"hash(count(c) - 1, 3) % {n}"]
        forms += [f"(j + argmin({values} * number(i)) // 2) % {n}"]
        if n == 7:
            forms += ["count(c)", "count(c)"]
        elif self.whole:
            forms += ["argmin(b * number(i - 1))", "argmax(abs(b - 0.25) * number(j + 1))"]
            forms += ["argmin(b)"] * changed
        form = self.one(*forms)
        return form if n == self.n or form not in ("i", "j") else f"{form} % {n}"

    def many(self, n: int) -> str:
        """Return a bag of rows of n."""
        form = self.one(
            "c", "c", f"(c + i) % {n}", f"(c * 3 - j) % {n}", f"hash(c) % {n}", f"c % {n}"
        )
        return form if n == self.n or "%" in form else f"{form} % {n}"

    def gathers(self) -> None:
        L, k = self.bag, self.width
        for g in range(self.one(1, 2, 3)):
            shape, text = self.one(
                ((k,), f"E[{self.single(self.n)}]"),
                ((L, k), f"E[{self.many(self.n)}]"),
                ((), f"b[{self.single(self.n)}]"),
                ((L,), f"b[{self.many(self.n)}]"),
                ((L,), f"h[{self.many(7)}]"),
                ((), "number(i)"),
                ((L,), "number(c)"),
                ((), "count(c)"),
                ((L,), f"(c {self.one('<', '==', '!=', '>=')} i)"),
                ((), f"(i {self.one('<', '==', '!=', '>')} j)"),
            )
            self.lines.append(f"g{g} = {text}")
            self.tuple[f"g{g}"] = shape

    def changes(self, depth: int) -> None:
        scope, left = self.of_tuple, dict(self.rows)
        for _ in range(self.one(1, 2, 3, 4)):
            self.grower.begin()
            name = self.one(*self.rows)
            n, shape = (7 if name == "h" else self.n), self.rows[name]
            bag = self.one(False, True)
            index = self.many(n) if bag else self.single(n, changed=True)
            shape = (self.bag, *shape) if bag and self.one(True, False) else shape
            text = self.grower.grow(scope, shape, depth - 1)
            sign = self.one("+=", "+=", "-=", "max=", "min=", "<-")
            self.lines.append(f"{name}[{index}] {sign} {text}")
            left.pop(name, None)
        self.lines += [f"{name} <- {name}" for name in left]

    def text(self, depth: int) -> str:
        whole = super().text(depth)
        merges = "merge(" in whole or "mean(" in whole
        self.lines = []
        self.changes(depth)
        if not merges and not any(f"\n  {name} <-" in whole for name in self.updated):
            self.lines.append(f"batch {self.one(1, 2, 3, 4, 8, 16)}")
        return (
            whole.rstrip("\n")
            + "".join(f"\n  {line}" for line in [*self.lines, *self.start])
            + "\n"
        )


def row_cases(
    formats: tuple[str, ...], rows: int = 24, largest: int = 12, depth: int = 3
) -> st.SearchStrategy[RowCase]:
    """Return a strategy for cases with rows; see `drawn.cases`."""
    data = st.binary(min_size=_PIECE * _PIECES, max_size=_PIECE * _PIECES)
    make = lambda data: _case(data, formats, rows, largest, depth, False, _RowWriter, RowCase)
    return data.map(make)


def row_case(random: Random, formats: tuple[str, ...]) -> RowCase:
    """Return a small case with rows that Hypothesis has no part in."""
    return cast(RowCase, case(random, formats, _RowWriter, RowCase))
