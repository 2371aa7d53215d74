"""Designs of fits over numeric columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.data.assumed import Assumed, assume
from penstock.data.tables import table_on
from penstock.dsl.core.diagnostics import error
from penstock.dsl.core.scores import linear
from penstock.dsl.qr.kernel import FitGraph
from penstock.dsl.qr.units import Unit
from penstock.engines.base import Given
from penstock.engines.score import Groups, Scoring
from penstock.models.heap.schema import Schema
from penstock.models.qr.job import Method
from penstock.models.qr.shell import table_register_map
from penstock.models.qr.table_config import TableFitPlan
from penstock.models.shell import RegisterMap
from penstock.models.strider.config import WalkConfig
from penstock.models.strider.isa import disassemble
from penstock.models.strider.program import generate

from .designs import AnyFit
from .options import Solving
from .packing import Group, PackedFits, Packing
from .refit_requests import asked_of, limited_fits
from .solution import column_names
from .table_fits import AssumedFits, TableFits

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts


@dataclass(frozen=True, repr=False)
class ColumnsDesign(AnyFit):
    """A compiled fit over columns: where they are in the table, and the engine."""

    graph: FitGraph
    plan: TableFitPlan
    solving: Solving = field(default=Solving(), compare=False, kw_only=True)
    #: of the table that the kernel was compiled for, for reports
    units: tuple[Unit, ...] = field(default=(), compare=False, kw_only=True)
    #: where the host packs rows that have weights or belong to groups
    packing: Packing | None = field(default=None, kw_only=True)
    #: over which pages come into a ring, in place of the target's
    link: str | None = field(default=None, compare=False, kw_only=True)

    kind = "columns"
    arguments = frozenset({"changes", "on_singular", "refine"})

    @property
    def walk(self) -> WalkConfig:
        """How the user's tables are read: features and label, then a weight where there is one."""
        return self.plan.walk if self.packing is None else self.packing.walk

    @property
    def schema(self) -> Schema:
        """The schema of the user's tables."""
        return self.walk.schema

    @property
    def _named(self) -> list[str]:
        """The columns that features and label are read from."""
        weighted = self.packing is not None and self.packing.weight is not None
        sources = self.walk.layout.sources[: -1 if weighted else None]
        return [self.schema.columns[source.column].name for source in sources]

    @property
    def format_name(self) -> str:
        return self.plan.columns.format.name

    @property
    def registers(self) -> RegisterMap:
        return table_register_map(self.plan, self.identity)

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.qr.table_engine import TableFitEngine

        return TableFitEngine(self.plan, parts, design=self.identity)

    def config(self) -> dict[str, Any]:
        plan, packing = self.plan, self.packing
        names = {"sample_weight": packing.weight, "group_by": packing.group} if packing else {}
        return plan.columns.to_json() | {
            "method": "gram",
            "format": self.format_name,
            **asdict(self.solving),
            **{option: name for option, name in names.items() if name is not None},
            "incremental": self.graph.incremental,
            "walkers": plan.walkers,
            "tuple_slots": plan.slots,
            "bus_bytes": plan.bus_bytes,
            "on_null": self.walk.layout.on_null,
            **asdict(plan.walk.policy),
            "page_size": plan.walk.schema.page_size,
        }

    def to_json(self) -> dict[str, Any]:
        packing = {} if self.packing is None else {"packing": self.packing.to_json()}
        return super().to_json() | {"solving": asdict(self.solving), **packing}

    def scoring(
        self, result: Mapping[str, np.ndarray], details: Mapping[str, Any] | None = None
    ) -> Scoring:
        """Return what scores rows by bias + Σ w x: in float64 on the host, in float32 in hardware; a row's group says which weights."""
        groups, columns = None, self._named[:-1]
        if self.packing is not None and self.packing.group is not None:
            values = tuple(fit["group"] for fit in (details or {})["fit"]["groups"])
            groups = Groups(self.packing.group, values, dict(result))
        weights = result["weights"] if groups is None else result["weights"][0]
        kernel = linear(self.name, np.ravel(weights), float(np.ravel(result["bias"])[0]))
        used, options = {"x": tuple(dict.fromkeys(columns))}, {"on_null": "skip"}
        how = "float32", self.target, options, "host", groups
        return Scoring(kernel, used, self.schema, *how)

    def listings(self) -> dict[str, bytes]:
        return {"strider.asm": disassemble(generate(self.plan.walk)).encode()}

    def text(self) -> str:
        from penstock.report.words import plural

        columns, striders = self.plan.columns, plural(self.plan.walkers, "Strider")
        rows = f"{plural(columns.slots, 'cycle')} a row"
        return f"{plural(columns.gram_lanes, 'product')} a cycle, {rows}; {striders}"

    @property
    def names(self) -> Mapping[str, Any]:
        names = column_names(self.walk) if self.packing is None else self.packing.names
        return {"weights": list(names[:-1])}

    def opened(self, args: Given) -> Given:
        return args  # a server's rows are packed as the design's schema says

    def ringed(self, slots: int) -> ColumnsDesign:
        return replace(self, plan=replace(self.plan, ring=slots))

    def workload(self, args: Given) -> TableFits | PackedFits | AssumedFits:
        """Return fits of the table's first rows, and refits with rows that come and go.

        Raises SourceError for the table, KernelError (E701) where its rows are too few or too many,
        ValueError for an option's value that there is not.
        """
        asked = asked_of(args)
        limited_fits(asked.changes)
        solving = self.solving.with_options(args.options)
        design = self if args.link is None else replace(self, link=args.link)
        if args.rows is not None:
            return AssumedFits(design, assume(self.plan.walk.schema, args.rows), asked)
        if isinstance(args.data, Assumed):
            return AssumedFits(design, args.data, asked)
        table = table_on(args.data, args.source, self.walk, (self._named[-1],))
        if self.packing is not None:
            place = args.place or table.name
            packed = self.packing.packed(table, self.plan.walk.schema, self.graph, place)
            limited_fits(replace(asked.changes, groups=max(1, len(packed.groups))))

            def fits(group: Group, called: str) -> TableFits:
                return TableFits(design, group.table, called, asked, solving, group.values)

            return PackedFits(self.packing, packed, table, args.place, fits)
        return TableFits(design, table, args.place, asked, solving)


def check_method(graph: FitGraph) -> None:
    """Raise KernelError (E606) where a fit over columns has a method without hardware."""
    if graph.method is not Method.GRAM:
        message = "a fit over columns has no method givens yet"
        hint = 'leave method out, or write method="gram"'
        raise error("E606", message, graph.span, hint=hint, source=graph.source)
