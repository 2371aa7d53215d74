"""The engine of fits over numeric columns: rows from Striders into exact sums, then one solver. Its units and its registers.

A run is one fit: the sums of the fit before are read, rows that come are added, rows that go are taken, the new sums and the weights are written. What
lies in memory is in `table_memory`, the exact cycles are in `table_cycles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

from ..heap.schema import Schema
from ..numerics.policy import InputPolicy
from ..shell import Counter, EngineRegister, Monitor, RegisterMap
from ..strider.config import PortConfig, WalkConfig
from ..strider.errors import PageError
from ..strider.layout import Source, TupleLayout
from ..strider.program import port_config
from .columns import Columns
from .config import FitPlan
from .shell import ADDRESS_BITS

__all__ = ["AHEAD", "UNIT_BYTES", "Segment", "TableFitPlan", "layout", "register_map"]

#: bytes of a number in memory
UNIT_BYTES = 8
#: words of the answer between the sums and memory
AHEAD = 8


@dataclass(frozen=True)
class TableFitPlan:
    """The hardware of a fit: `columns`, what the Striders walk, the memory port, and how many Striders, page buffers and slots there are."""

    columns: Columns
    walk: WalkConfig
    bus_bytes: int = 64
    walkers: int = 1
    buffers: int = 2
    slots: int = 4

    def __post_init__(self) -> None:
        if self.bus_bytes < UNIT_BYTES:
            raise ValueError(f"a sum has {UNIT_BYTES} bytes, the memory port {self.bus_bytes}")
        if (self.walk.layout.lanes, self.walk.layout.beats) != (
            self.columns.n,
            1,
        ) or self.walk.format != self.columns.format:
            raise ValueError(
                "the Striders must give a row's features and label in one beat, in the columns' limbs"
            )

    @cached_property
    def port(self) -> PortConfig:
        """The Striders, with their program built in."""
        return _port(self.walk, self.bus_bytes, self.walkers, self.buffers, self.slots)

    @cached_property
    def solver(self) -> FitPlan:
        n = max(4, self.columns.n)
        return FitPlan(n_max=n, lanes=n, contexts=1, jobs=1, bus_bytes=self.bus_bytes)

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("bus_bytes", "walkers", "buffers", "slots")},
            "columns": self.columns.to_json(),
            "schema": self.walk.schema.to_json(),
            "layout": asdict(self.walk.layout),
            "visibility": self.walk.visibility,
            "policy": asdict(self.walk.policy),
        }

    def structure(self) -> dict[str, Any]:
        """Return `to_json` without the table's name, on which no hardware depends."""
        return {**self.to_json(), "schema": self.walk.schema.structure()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableFitPlan:
        columns = Columns(**data["columns"])
        walk = WalkConfig(
            Schema.from_json(data["schema"]),
            TupleLayout.from_json(data["layout"]),
            columns.format,
            data["visibility"],
            InputPolicy(**data.get("policy", {})),
        )
        return cls(
            columns, walk, *(data[name] for name in ("bus_bytes", "walkers", "buffers", "slots"))
        )

    @property
    def units(self) -> int:
        """Numbers in a bus word."""
        return self.bus_bytes // UNIT_BYTES

    @property
    def totals_words(self) -> int:
        return -(-(self.head + self.columns.products) // self.units)

    @property
    def head(self) -> int:
        """Numbers before the sums: an offset and a unit of each column."""
        return 2 * self.columns.n

    @cached_property
    def inserts(self) -> bool:
        """Whether rows older than a column hold a value there that pages do not store."""
        schema = self.walk.schema
        return any(schema.columns[k].missing is not None for k in self.walk.used)

    @property
    def answer_words(self) -> int:
        return self.totals_words + -(-(1 + -(-self.columns.n // 2)) // self.units)


@lru_cache(maxsize=64)
def _port(walk: WalkConfig, bus_bytes: int, striders: int, buffers: int, slots: int) -> PortConfig:
    """Return the port of all plans that differ behind it."""
    return port_config(walk, bus_bytes, striders=striders, buffers=buffers, slots=slots, lean=True)


def layout(columns: Sequence[tuple[int, int]], on_null: str = "error") -> TupleLayout:
    """Return where a row's values go: `columns` are attribute and element of each feature, then of the label."""
    sources = tuple(Source(column, element, 1, k) for k, (column, element) in enumerate(columns))
    return TupleLayout(len(columns), 1, (), sources, on_null)


@dataclass(frozen=True)
class Segment:
    """Rows that come or go: they lie in `pages` pages from the byte `address` on, `rows` of them behind the first `skip`; `block`: the first page's number.

    Rows before them are walked and left alone; those behind them are not walked, and the last row is in the last page (or there are fewer than `rows`).
    """

    address: int = 0
    pages: int = 0
    skip: int = 0
    rows: int = 0
    block: int = 0


def register_map(design: int = 0) -> RegisterMap:
    """Return the engine's register map: totals and answer are aligned to the bus, pages to their size."""
    made = [
        EngineRegister("totals", ADDRESS_BITS, "the sums of the fit before"),
        EngineRegister("answer", ADDRESS_BITS, "where new sums and weights go"),
    ]
    for name in ("come", "go"):
        made += [
            EngineRegister(
                f"{name}_address", ADDRESS_BITS, f"the first page of the rows that {name}"
            ),
            EngineRegister(f"{name}_pages", 32, "how many pages; 0: none"),
            EngineRegister(f"{name}_skip", 32, "rows before them"),
            EngineRegister(f"{name}_rows", 32, "how many rows"),
            EngineRegister(f"{name}_block", 32, "the first page's number, for errors"),
        ]
    return RegisterMap(
        made,
        [
            Counter("summed", "rows added or taken"),
            Counter("left", "rows of the same pages left alone"),
            Counter("held", "cycles in which a row waited for the sums", progress=False),
        ],
        [Monitor("tuples"), Monitor("words")],
        design,
        errors=(PageError,),
    )
