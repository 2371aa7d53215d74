"""Fits over rows that the host packs: weighted ones, or a fit for each group, one after the other on the same engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.engines.base import Cycles, Result, Workload
from penstock.host.sources import Table
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Codes
from penstock.tables import table_failure

from .packing import Group, Packed, Packing
from .table_fits import TableFits

if TYPE_CHECKING:
    from penstock.failures import Failure
    from penstock.models.errors import HardwareError
    from penstock.sim.machine import Metered

__all__ = ["PackedFits"]


class PackedFits(Workload):
    """Fits over a table's rows in pages that the host packs, group by group; `packing`: how; `fits`: makes those of a group, given what
    messages call it.

    What is wrong with the user's pages, NULL and values that are no finite numbers among it, is found by the host, before the engine starts.
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
        return sum(there for there, _ in moved), sum(back for _, back in moved)

    def _joined(self, results: Sequence[Result]) -> Result:
        """Return the groups' results as one; `fits` says how many fits each of them has."""
        counters = Counter[str]()
        found = []
        for result in results:
            if result.codes is None:
                return result
            counters.update(result.counters)
            found.append(result.codes)
        codes = {name: np.concatenate([of[name] for of in found]) for name in found[0]}
        codes["fits"] = np.array([len(of["mask"]) for of in found], np.int64)
        return Result(codes, counters={**counters, **self._inputs})

    def golden(self) -> Result:
        if (wrong := self._packed.error) is not None:
            return Result(None, wrong)
        return self._joined([part.golden() for part in self._parts])

    def model(self, memory: Memory) -> Cycles:
        if (wrong := self._packed.error) is not None:
            return Cycles(None, error=wrong)
        runs = [part.model(memory) for part in self._parts]

        def total(name: str) -> Any:
            return reduce(add, (getattr(run, name) for run in runs))

        counters = Counter[str]()
        for run in runs:
            counters.update(run.counters)
        return Cycles(
            total("total"),
            total("bound"),
            {**counters, **self._inputs},
            {},
            total("bytes_read"),
            total("bytes_written"),
            bound_machine=total("bound_machine"),
        )

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
        found = [part.values(own) for part, own in self._split(codes)]
        if self.packing.group is None:
            return found[0]
        bias = np.concatenate([of["bias"] for of in found])
        return {"bias": bias, "weights": np.stack([of["weights"] for of in found])}

    @property
    def names(self) -> Mapping[str, Any] | None:
        """By learned array the columns of its elements, with their group."""
        if self.packing.group is None:
            return None
        called = [f"{self.packing.group}={group.value}" for group in self._packed.groups]
        features = self.packing.names[:-1]
        return {"bias": called, "weights": [[f"{g}: {f}" for f in features] for g in called]}

    def details(self, codes: Mapping[str, Codes]) -> Mapping[str, Any]:
        found = [part.details(own) for part, own in self._split(codes)]
        skipped = {
            n: v for n, v in self._inputs.items() if n in ("rows_skipped", "rows_of_weight_0")
        }
        if self.packing.group is None:
            return {**found[0], "fit": found[0]["fit"] | skipped}
        groups = [
            {"group": group.value, **of["fit"]}
            for group, of in zip(self._packed.groups, found, strict=True)
        ]
        return {"fit": {"group_by": self.packing.group, **skipped, "groups": groups}}

    def unreadable(self) -> HardwareError | None:
        return self._packed.error

    def failure(self, error: HardwareError) -> Failure:
        return table_failure(self.source, self.table, error, self.packing.walk)
