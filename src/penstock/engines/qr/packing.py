"""What the host packs of a table before fits over its columns: rows times the roots of their weights, rows group by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.dsl.core.diagnostics import KernelError, Span, error
from penstock.dsl.core.hints import closest
from penstock.dsl.qr.kernel import FitGraph
from penstock.host.least_squares import Rows, rooted
from penstock.host.sources import Table, are_stored
from penstock.models.errors import HardwareError
from penstock.models.heap.schema import Column, Schema
from penstock.models.heap.writer import write_heap
from penstock.models.numerics.convert import STORED
from penstock.models.numerics.policy import InputPolicy
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.judge import RowCounts
from penstock.models.strider.layout import TupleLayout
from penstock.models.strider.table import walk_table

from .values import Values, column_names, values_of

__all__ = ["Group", "Packed", "Packing", "without"]

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
        return {
            "schema": self.walk.schema.to_json(),
            "layout": asdict(self.walk.layout),
            "policy": asdict(self.walk.policy),
            "weight": self.weight,
            "group": self.group,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Packing:
        schema, placed = Schema.from_json(data["schema"]), TupleLayout.from_json(data["layout"])
        walk = WalkConfig(schema, placed, STORED, policy=InputPolicy(**data["policy"]))
        return cls(walk, data["weight"], data["group"])

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
        values, given = values_of(table, self.walk), rows[:, 2].astype(bool)
        number = np.flatnonzero(given)

        def at(row: int) -> str:
            if are_stored(place):
                block, line, _ = rows[number[row]].tolist()
                return f"block {block:,}, line pointer {line}"
            return f"row {number[row] + 1:,}"

        weights, kept = None, np.ones(len(number), bool)
        if self.weight:
            weights, kept = self._weights(values, at, place)
        keys, null = self._keys(table, given, at, place)
        kept &= ~null
        weightless = 0 if weights is None else int((weights == 0).sum())
        counts = replace(counts, skipped=counts.skipped + int(null.sum()))
        groups = tuple(self._groups(values, weights, kept, keys, schema, graph, table.name))
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
        self, table: Table, given: NDArray[np.bool_], at: Any, place: str
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the group of each row that is delivered, and where it is NULL and the row is left out."""
        if self.group is None:
            return np.zeros(int(given.sum()), np.int64), np.zeros(int(given.sum()), bool)
        found = table.columns()[self.group]
        null = np.ma.getmaskarray(found)
        if isinstance(found, list):
            null = np.array([value is None for value in found], bool)
            odd = (v is not None and not isinstance(v, str) for v in np.array(found, object)[given])
            if (row := next((k for k, is_odd in enumerate(odd) if is_odd), None)) is not None:
                what = "is compressed or out of line"
                message = f"the group in {at(row)}, column {self.group}, {what}"
                raise _unfit(message, place, "group by a shorter text")
            found = np.array(["" if value is None else value for value in found], object)
        keys, null = np.ma.getdata(found)[given], null[given]
        if null.any() and self.walk.layout.on_null != "skip":
            message = f"the group in {at(int(np.argmax(null)))}, column {self.group}, is NULL"
            raise _unfit(message, place, "--on-null skip leaves such rows out")
        return keys, null

    def _groups(
        self,
        values: Values,
        weights: NDArray[np.float64] | None,
        kept: NDArray[np.bool_],
        keys: NDArray[Any],
        schema: Schema,
        graph: FitGraph,
        name: str,
    ) -> Iterator[Group]:
        """Yield the groups in order, their rows in the table's."""
        labels = None if self.group is None else self.walk.schema.column(self.group).labels
        if not kept.any():
            return
        some = np.flatnonzero(kept)
        found, which = np.unique(keys[some], return_inverse=True)
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=len(found)))
        for value, part in zip(found.tolist(), np.split(some[order], ends[:-1]), strict=True):
            columns = [column[part] for column in values.columns[: len(self.names)]]
            own = replace(values, names=self.names, columns=columns)
            packed: Sequence[NDArray[Any]] = columns
            if weights is not None:
                rows = Rows(columns, weights[part], graph.intercept)
                centres, packed = rooted(rows)
                own = replace(own, weights=rows.weights, weight=self.weight, centres=centres)
            called = value if labels is None else labels[value]
            stored = {c.name: v for c, v in zip(schema.columns, packed, strict=True)}
            pages = Table(schema, write_heap(schema, stored), name)
            yield Group(None if self.group is None else called, own, pages)

    def _check_weights(self, groups: Sequence[Group], keys: NDArray[Any], place: str) -> None:
        """Raise KernelError (E846) where weights of 0 leave nothing of a group."""
        without = len(np.unique(keys)) - len(groups)
        if not without:
            return
        what = "no row has" if self.group is None else f"{without} of the groups have no row with"
        message = f"{what} a weight above 0 in column {self.weight}: nothing is fitted"
        hint = "leave such groups out" if self.group else "is it the right column?"
        raise _unfit(message, place, hint)


def without(schema: Schema, asked: Mapping[str, Any], bound: Sequence[str]) -> Schema:
    """Return the schema without the columns of weights and groups, so that no variable takes them unless it was bound to them.

    Raises KernelError (E846) where there are no such columns, or they hold something else.
    """
    hidden = set()
    for option, what in (("sample_weight", "sample weights"), ("group_by", "groups")):
        if not (name := asked.get(option)):
            continue
        flag = f"--{option.replace('_', '-')}"
        try:
            column = schema.column(name)
        except KeyError:
            there = [c.name for c in schema.columns if not c.dropped]
            hint = closest(name, there) or f"its columns are {', '.join(there)[:200]}"
            raise _unfit(f"the table {schema.table} has no column {name}", flag, hint) from None
        if option == "group_by" and column.type not in _GROUPS:
            message = f"{what} are whole numbers, booleans or texts; column {name} has the type {column.type}"
            raise _unfit(message, flag, "a query can make such a column: ?query=SELECT …")
        if option == "sample_weight" and (not column.is_numeric or column.is_array):
            message = f"{what} are numbers, one a row; column {name} has the type {column.type}"
            raise _unfit(message, flag, "name another column")
        hidden |= {name} - set(bound)
    columns = tuple(replace(c, dropped=c.dropped or c.name in hidden) for c in schema.columns)
    return replace(schema, columns=columns)


def _unfit(message: str, where: str, hint: str) -> KernelError:
    return error("E846", message, Span.whole(where), hint=hint)
