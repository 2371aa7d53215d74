"""Fits over rows that the host packs before: weighted ones, times the roots of their weights, or a fit for each group, one after the other on the same
engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.data.tables import table_failure
from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.qr.kernel import FitGraph
from penstock.engines.base import Cycles, Result, Workload
from penstock.host.least_squares import Rows, rooted
from penstock.host.sources import Table, are_stored
from penstock.models.errors import HardwareError
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.models.memory import Memory
from penstock.models.numerics.convert import STORED
from penstock.models.numerics.formats import Codes
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.judge import RowCounts
from penstock.models.strider.layout import TupleLayout
from penstock.models.strider.table import walk_table

from .designs import in_all
from .solution import Values, column_names, values_of
from .table_fits import TableFits

if TYPE_CHECKING:
    from penstock.runs.failures import Failure
    from penstock.sim.machine import Metered

#: why a column cannot be used, and what to do; None where nothing is known of it
Unusable = Callable[[str], tuple[str, str] | None]
_GROUPS = ("bool", "int2", "int4", "int8", "text")


@dataclass(frozen=True)
class Group:
    """Rows that are fitted together: the group's value (None: all rows), the user's values and the pages packed of them."""

    value: Any
    values: Values
    table: Table


@dataclass(frozen=True)
class Packed:
    """What became of a table: its groups in order, what was left out, and how many rows for a weight of 0; or the error that a row of it is."""

    groups: Sequence[Group]
    counts: RowCounts
    weightless: int
    error: HardwareError | None


@dataclass(frozen=True)
class Packing:
    """How a table is packed. `walk`: of the user's table: features, label and, last, the weight where there is one; `weight`, `group`: names of columns."""

    walk: WalkConfig
    weight: str | None
    group: str | None

    @classmethod
    def of(
        cls, schema: Schema, placed: TupleLayout, policy: InputPolicy, asked: Mapping[str, Any]
    ) -> Packing:
        """Return the packing that options ask for; `placed`: with the weight last."""
        # each value is read as it is stored: only what is no finite number is left to a policy
        walk = WalkConfig(schema, placed, STORED, policy=InputPolicy("saturate", policy.on_nan))
        return cls(walk, asked.get("sample_weight"), asked.get("group_by"))

    def to_json(self) -> dict[str, Any]:
        return self.walk.to_json() | {"weight": self.weight, "group": self.group}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Packing:
        return cls(WalkConfig.from_json(data, STORED), data["weight"], data["group"])

    @property
    def names(self) -> tuple[str, ...]:
        """How messages call features and label."""
        names = column_names(self.walk)
        return names[:-1] if self.weight else names

    @property
    def schema(self) -> Schema:
        """The schema of the pages that are packed."""
        names = [f"√{self.weight}", *self.names] if self.weight else list(self.names)
        if len(set(names)) < len(names):
            names = [f"{k}: {name}" for k, name in enumerate(names)]
        types = [self.walk.element(s.column) for s in self.walk.layout.sources]
        kinds = ["float8"] * len(names) if self.weight else types
        columns = (Column(n, kind, not_null=True) for n, kind in zip(names, kinds, strict=True))
        return Schema(self.walk.schema.table, tuple(columns))

    def packed(self, table: Table, schema: Schema, graph: FitGraph, place: str) -> Packed:
        """Pack a table into pages of this schema; `place`: what messages call the table.

        Raises KernelError (E846) for a weight below 0, for a group without a weight above 0, and for one that is NULL; (E701) without rows.
        """
        places: list[NDArray[np.int64]] = []
        walked = walk_table(table.pages, self.walk, places=places)
        if walked.error is not None:
            return Packed((), walked.total, 0, walked.error)
        counts = walked.total
        rows = np.concatenate(places) if places else np.zeros((0, 3), np.int64)
        values, mask = values_of(table, self.walk), rows[:, 2].astype(bool)
        number = np.flatnonzero(mask)

        def at(row: int) -> str:
            if are_stored(place):
                block, line, _ = rows[number[row]].tolist()
                return f"block {block:,}, line pointer {line}"
            return f"row {number[row] + 1:,}"

        weights, kept = None, np.ones(len(number), bool)
        if self.weight:
            weights, kept = self._weights(values, at, place)
        keys, null = self._keys(table, mask, at, place)
        kept &= ~null
        weightless = 0 if weights is None else int((weights == 0).sum())
        counts = replace(counts, skipped=counts.skipped + int(null.sum()))

        def pages_of(packed: Sequence[NDArray[Any]]) -> Table:
            stored = {c.name: v for c, v in zip(schema.columns, packed, strict=True)}
            return Table(schema, write_heap(schema, stored), table.name)

        some = np.flatnonzero(kept)
        groups = tuple(self._groups(values, weights, some, keys, graph, pages_of))
        if weights is not None and not null.all():
            self._check_weights(groups, keys[~null], place)
        if not groups:
            hint = "more rows, or another policy for those that were left out"
            raise error("E701", "there is no row to fit", Span.whole(place), hint=hint)
        return Packed(groups, counts, weightless, None)

    def _weights(
        self, values: Values, at: Any, place: str
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rows' weights, and which are above 0."""
        weights = values.columns[-1].astype(np.float64)
        if (weights < 0).any():
            row = int(np.argmax(weights < 0))
            message = f"the weight in {at(row)}, column {self.weight}, is {weights[row]:g}: weights are 0 or more"
            raise _unfit(message, place, "leave such rows out, or correct them")
        return weights, weights > 0

    def _keys(
        self, table: Table, mask: NDArray[np.bool_], at: Any, place: str
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the group of each row that is delivered, and where it is NULL and the row is left out."""
        if self.group is None:
            return np.zeros(int(mask.sum()), np.int64), np.zeros(int(mask.sum()), bool)
        column = table.columns()[self.group]
        null = np.ma.getmaskarray(column)
        if isinstance(column, list):
            null = np.array([value is None for value in column], bool)
            odd = (v is not None and not isinstance(v, str) for v in np.array(column, object)[mask])
            if (row := next((k for k, is_odd in enumerate(odd) if is_odd), None)) is not None:
                what = "is compressed or out of line"
                message = f"the group in {at(row)}, column {self.group}, {what}"
                raise _unfit(message, place, "group by a shorter text")
            column = np.array(["" if value is None else value for value in column], object)
        keys, null = np.ma.getdata(column)[mask], null[mask]
        if null.any() and self.walk.layout.on_null != "skip":
            message = f"the group in {at(int(np.argmax(null)))}, column {self.group}, is NULL"
            raise _unfit(message, place, "--on-null skip leaves such rows out")
        return keys, null

    def _groups(
        self,
        values: Values,
        weights: NDArray[np.float64] | None,
        some: NDArray[np.int64],
        keys: NDArray[Any],
        graph: FitGraph,
        pages_of: Callable[[Sequence[NDArray[Any]]], Table],
    ) -> Iterator[Group]:
        """Yield the groups of `some` rows in order, their rows in the table's."""
        labels = None if self.group is None else self.walk.schema.column(self.group).labels
        if not len(some):
            return
        groups, which = np.unique(keys[some], return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(groups)))
        for value, part in zip(groups.tolist(), np.split(some[order], ends[:-1]), strict=True):
            columns = [column[part] for column in values.columns[: len(self.names)]]
            subset = replace(values, names=self.names, columns=columns)
            packed: Sequence[NDArray[Any]] = columns
            if weights is not None:
                rows = Rows(columns, weights[part], graph.intercept)
                centres, packed = rooted(rows)
                subset = replace(subset, weights=rows.weights, weight=self.weight, centres=centres)
            called = value if labels is None else labels[value]
            yield Group(None if self.group is None else called, subset, pages_of(packed))

    def _check_weights(self, groups: Sequence[Group], keys: NDArray[Any], place: str) -> None:
        """Raise KernelError (E846) where weights of 0 leave nothing of a group."""
        empty = len(np.unique(keys)) - len(groups)
        if not empty:
            return
        what = "no row has" if self.group is None else f"{empty} of the groups have no row with"
        message = f"{what} a weight above 0 in column {self.weight}: nothing is fitted"
        hint = "leave such groups out" if self.group else "is it the right column?"
        raise _unfit(message, place, hint)


def without(
    schema: Schema, asked: Mapping[str, Any], bound: Sequence[str], unusable: Unusable | None
) -> Schema:
    """Return the schema without the columns of weights and groups, so that no variable takes them unless it was bound to them.

    `unusable`: says why there is no such column, where there was one. Raises KernelError (E846) where there are no such columns, or they hold something else.
    """
    hidden = set()
    for option, what in (("sample_weight", "sample weights"), ("group_by", "groups")):
        if not (name := asked.get(option)):
            continue
        flag = f"--{option.replace('_', '-')}"
        try:
            column = schema.column(name)
        except KeyError:
            if unusable is not None and (known := unusable(name)) is not None:
                raise _unfit(f"column {name} {known[0]}", flag, known[1]) from None
            names = [c.name for c in schema.columns if not c.dropped]
            hint = closest(name, names) or f"its columns are {', '.join(names)[:200]}"
            raise _unfit(f"the table {schema.table} has no column {name}", flag, hint) from None
        if option == "group_by" and column.type not in _GROUPS:
            message = f"{what} are whole numbers, booleans or texts; column {name} has the type {column.type}"
            raise _unfit(message, flag, "a query can make such a column: ?query=SELECT …")
        if option == "sample_weight" and (not column.is_numeric or column.is_array):
            message = f"{what} are numbers, one a row; column {name} has the type {column.type}"
            raise _unfit(message, flag, "name another column")
        hidden |= {name} - set(bound)
    # dropped, not removed: the other columns keep their attribute numbers
    columns = tuple(replace(c, dropped=c.dropped or c.name in hidden) for c in schema.columns)
    return replace(schema, columns=columns)


def _unfit(message: str, where: str, hint: str) -> KernelError:
    return error("E846", message, Span.whole(where), hint=hint)


class PackedFits(Workload):
    """Fits over a table's rows in pages that the host packs, group by group.

    Mistakes in the user's pages, NULL and values that are no finite numbers among them, are found by the host, before the engine starts.

    * `packing`, `packed`: how rows are packed, and the packed groups.
    * `table`, `source`: the user's table, and its address.
    * `fits`: makes the fits of a group, given what messages call it.
    """

    results_with_model = True

    def __init__(
        self,
        packing: Packing,
        packed: Packed,
        table: Table,
        source: str | None,
        fits: Callable[[Group, str], TableFits],
    ) -> None:
        self.packing, self._packed = packing, packed
        self.table, self.source = table, source
        self.name, self.rows = table.name, table.rows
        self.pages = sum(len(group.table.pages) for group in packed.groups)
        place = source or self.name
        self._parts = [
            fits(g, place if packing.group is None else f"{place}, {packing.group} = {g.value}")
            for g in packed.groups
        ]
        self.watchdog = max((part.watchdog for part in self._parts), default=self.watchdog)

    @property
    def streamed(self) -> int:  # type: ignore[override]
        return sum(part.streamed for part in self._parts)

    @property
    def _inputs(self) -> dict[str, int]:
        counts = self._packed.counts
        left = {"rows_skipped": counts.skipped, "nan_rows": counts.nan_rows}
        if self.packing.weight:
            left["rows_of_weight_0"] = self._packed.weightless
        return left | ({"groups": len(self._parts)} if self.packing.group else {})

    def memory_bytes(self) -> int:
        return max((part.memory_bytes() for part in self._parts), default=1 << 12)

    def moved(self) -> tuple[int, int]:
        moved = [part.moved() for part in self._parts]
        return sum(inputs for inputs, _ in moved), sum(back for _, back in moved)

    def _joined(self, results: Sequence[Result]) -> Result:
        """Return the groups' results as one; `fits` says how many fits each of them has."""
        counters = Counter[str]()
        parts = []
        for result in results:
            if result.codes is None:
                return result
            counters.update(result.counters)
            parts.append(result.codes)
        codes = {name: np.concatenate([of[name] for of in parts]) for name in parts[0]}
        codes["fits"] = np.array([len(of["mask"]) for of in parts], np.int64)
        return Result(codes, counters={**counters, **self._inputs})

    def golden(self) -> Result:
        if (wrong := self._packed.error) is not None:
            return Result(None, wrong)
        return self._joined([part.golden() for part in self._parts])

    def model(self, memory: Memory) -> Cycles:
        if (wrong := self._packed.error) is not None:
            return Cycles(None, error=wrong)
        runs = [part.model(memory) for part in self._parts]
        counters = Counter[str]()
        for run in runs:
            counters.update(run.counters)
        return in_all(runs, {**counters, **self._inputs})

    def drive(self, machine: Metered) -> Result:
        if (wrong := self._packed.error) is not None:
            return Result(None, wrong)
        return self._joined([part.drive(machine) for part in self._parts])

    def _split(self, codes: Mapping[str, Codes]) -> list[tuple[TableFits, dict[str, Codes]]]:
        ends = np.cumsum(codes["fits"])[:-1]
        cut = {name: np.split(value, ends) for name, value in codes.items() if name != "fits"}
        return [
            (part, {name: values[k] for name, values in cut.items()})
            for k, part in enumerate(self._parts)
        ]

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return the weights of the last fit, with groups a row for each of them."""
        fits = [part.values(part_codes) for part, part_codes in self._split(codes)]
        if self.packing.group is None:
            return fits[0]
        bias = np.concatenate([of["bias"] for of in fits])
        return {"bias": bias, "weights": np.stack([of["weights"] for of in fits])}

    @property
    def names(self) -> Mapping[str, Any] | None:
        """By learned array the columns of its elements, with their group."""
        if self.packing.group is None:
            return None
        called = [f"{self.packing.group}={group.value}" for group in self._packed.groups]
        features = self.packing.names[:-1]
        return {"bias": called, "weights": [[f"{g}: {f}" for f in features] for g in called]}

    def details(self, codes: Mapping[str, Codes]) -> Mapping[str, Any]:
        fits = [part.details(part_codes) for part, part_codes in self._split(codes)]
        left = ("rows_skipped", "rows_of_weight_0")
        skipped = {n: v for n, v in self._inputs.items() if n in left}
        if self.packing.group is None:
            return {**fits[0], "fit": fits[0]["fit"] | skipped}
        pairs = zip(self._packed.groups, fits, strict=True)
        groups = [{"group": group.value, **of["fit"]} for group, of in pairs]
        return {"fit": {"group_by": self.packing.group, **skipped, "groups": groups}}

    def unreadable(self) -> HardwareError | None:
        return self._packed.error

    def failure(self, error: HardwareError) -> Failure:
        return table_failure(self.source, self.table, error, self.packing.walk)
