"""Designs of kernels that learn from a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.data.assumed import Assumed, assume
from penstock.data.tables import table_on
from penstock.dsl.analytics.kernel import checked_epochs
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.scores import ScoreKernel, graph_from_json
from penstock.engines.base import Design, Given
from penstock.engines.score import Scoring, no_score
from penstock.errors import bad_value
from penstock.models.analytics.config import AnalyticsPlan
from penstock.models.analytics.job import order
from penstock.models.analytics.resources import estimate
from penstock.models.analytics.shell import count_bits, images, register_map
from penstock.models.analytics.storages import memories
from penstock.models.errors import HardwareError, RunError
from penstock.models.mapping import Storage
from penstock.models.numerics.formats import Codes, Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target

from .frozen import Frozen
from .in_memory import row_parts, row_spaces
from .measure import ROWS
from .workload import Assumption, Scored, Training

if TYPE_CHECKING:
    from penstock.hdl.modules import Parts
    from penstock.sim.native import PortSpec


@dataclass(frozen=True, repr=False)
class AnalyticsDesign(Design):
    """A compiled kernel: the plan, where columns go, and the models' start.

    `start`: of each model as float64 in the kernel's shape; `run_values`: of metas and constants;
    `labels`: columns that a random table must make learnable; `score`: the graph of the score and the columns of its inputs as plain data, or why
    there is none; of a design that scores, the score's name. `link`: over which pages come into rings, in place of the target's.
    """

    plan: AnalyticsPlan
    start: dict[str, np.ndarray]
    run_values: dict[str, Any]
    labels: tuple[str, ...] = ()
    score: Mapping[str, Any] = field(default_factory=dict)
    link: str | None = None

    engine_name = "analytics"
    arguments = frozenset({"epochs", "freeze"})

    @property
    def name(self) -> str:
        return self.plan.kernel

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the models."""
        return {name: value.shape for name, value in self.start.items()}

    def structure(self) -> Any:
        return self.plan.structure()

    @property
    def format(self) -> Format:
        return self.plan.format

    @property
    def format_name(self) -> str:
        return self.plan.format_name

    @property
    def registers(self) -> RegisterMap:
        return register_map(self.plan, self.identity)

    @property
    def uncounted(self) -> str:
        one = self.plan.rows.tables and self.target.ports < 2
        return "turns of rows and pages at the board's one port" if one else ""

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        from penstock.sim.native import PortSpec

        plan = self.plan
        pages = tuple(
            PortSpec(f"m{q}_axi", plan.bus_bytes, True, q == 0) for q in range(plan.ports)
        )
        if not plan.rows.tables:
            return pages
        return *pages, *(
            PortSpec(f"m{plan.ports + k}_axi", plan.bus_bytes, space=space)
            for k, space in enumerate(row_spaces(plan))
        )

    def component(self, parts: Parts) -> Any:
        from penstock.hdl.analytics.engine import AnalyticsEngine

        return AnalyticsEngine(self.plan, self.plan.port, parts, design=self.identity)

    def resources_on(self, part: Target) -> Resources:
        return estimate(self.plan, part)

    def storages(self) -> Iterable[tuple[int, Storage]]:
        return memories(self.plan)

    def config(self) -> dict[str, Any]:
        plan = self.plan
        read = {
            "threads": plan.threads,
            "ports": plan.ports,
            "merge_count": plan.merge_count,
            "epochs": plan.epochs,
            "visibility": plan.striders.visibility,
            "page_size": plan.page_size,
            "on_null": plan.layout.on_null,
            **asdict(plan.policy),
        }
        if self.refused is not None:  # golden results alone: no part of a machine
            rows = plan.rows
            return {**read, "on_index": rows.on_index, "on_unseen": rows.on_unseen}
        tables = {m: t.lines for t in plan.rows.tables for m in t.models}
        return {
            **read,
            "lanes": plan.lanes,
            "walkers": plan.striders.walkers,
            "page_buffers": plan.striders.page_buffers,
            "tuple_slots": plan.striders.tuple_slots,
            "input_slots": plan.striders.input_slots,
            "bus_bytes": plan.bus_bytes,
            "interval": plan.schedule.interval,
            "batch": plan.schedule.batch,
            **({"in_memory": tables} if tables else {}),
            **({"change": plan.schedule.change} if plan.schedule.change else {}),
            "units": len(plan.units),
            "planned_rows": ROWS,
            **({"planned_for": plan.notes["power"]} if "power" in plan.notes else {}),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.to_json(),
            "start": {name: value.tolist() for name, value in self.start.items()},
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "labels": list(self.labels),
            "score": dict(self.score),
            "run_values": self.run_values,
        }

    def lines(self) -> Mapping[str, int]:
        return {op.name: op.line for op in self.plan.ops if op.line}

    def images(self) -> dict[str, bytes]:
        models, unit = self.models(), self.plan.row_unit
        files = {"boot.bin": images(self.plan, self.runs(), models).boot.tobytes()}
        if unit is not None and self.plan.rows.deal.ports == 1:
            for t in range(len(unit.tables)):
                files[f"rows{t}.bin"] = unit.image(t, models).tobytes()
        elif unit is not None:
            for k, part in enumerate(row_parts(self.plan, models), self.plan.ports):
                files[f"rows_m{k}.bin"] = part.tobytes()
        return files

    def listings(self) -> dict[str, bytes]:
        from penstock.models.strider.isa import disassemble
        from penstock.models.strider.program import generate

        return {"strider.asm": disassemble(generate(self.plan.walk)).encode()}

    def text(self) -> str:
        plan = self.plan
        return (
            f"{plan.threads} × {plan.lanes} (threads × lanes), Striders: {plan.striders.walkers}, "
            f"pages of {plan.page_size} bytes"
        )

    # numbers

    def runs(self) -> list[Codes]:
        """Return the codes of metas and constants in load order."""
        fmt, codes = self.plan.format, []
        for buffer in (self.plan.buffers[n] for n in self.plan.roles.runs):
            value = np.asarray(self.run_values[buffer.name], dtype=np.float64)
            codes.append(value.astype(np.int64) if buffer.integer else fmt.encode(value))
        return codes

    def models(self) -> dict[str, Codes]:
        """Return the models' start as codes (rows, cols)."""
        buffers = [self.plan.buffers[n] for n in self.plan.roles.models]
        return {
            b.name: self.plan.format.encode(self.start[b.name]).reshape(b.rows, -1) for b in buffers
        }

    def decode(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return codes of models as numbers in the kernel's shapes."""
        return {
            name: self.plan.format.decode(value).reshape(self.shapes[name])
            for name, value in codes.items()
        }

    # devices

    def on_board(self, board: Target) -> AnalyticsDesign:
        memory_bytes = board.memory.bytes if board.lean else 0
        striders = replace(self.plan.striders, lean=board.lean, memory_bytes=memory_bytes)
        chosen = replace(self.plan, striders=striders)
        most = (1 << count_bits(chosen)) - 1
        if chosen.epochs > most:
            raise error(
                "E441",
                f"epochs on {board.name} must be from 1 to {most}, not {chosen.epochs}",
                Span.whole("epochs"),
                hint="the device has a counter of that size; "
                "train several times, from the models of the time before",
            )
        return replace(self, plan=chosen)

    @property
    def device_memory(self) -> tuple[str, int]:
        single = self.target.memory.kind == "SPRAM" and self.plan.striders.memory_bytes
        return "SPRAM" if single else "block RAM", self.plan.striders.memory_bytes

    # runs

    def __eq__(self, other: object) -> bool:
        """Compare what `save` writes: arrays have no truth value of their own."""
        if not isinstance(other, AnalyticsDesign):
            return NotImplemented
        return self.manifest() == other.manifest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def opened(self, args: Given) -> Given:
        return args  # a server's rows are packed as the design's schema says

    @property
    def names(self) -> Mapping[str, Any]:
        return self.score.get("names", {})

    def order(self, table: Any) -> np.ndarray:
        """Return which of a table's rows an epoch learns from, in its order.

        Rows are numbered from 0 as the table has them. With one memory port this is their own order; several take pages in
        turns. Rows that are left out, for a NULL or a NaN, are not among them.

        Parameters: `table`: as `run` takes it.

        Raises SourceError as `run` does, RunError for a row that would end a run.
        """
        training = self.workload(self.opened(Given(table, table)))
        if not isinstance(training, Training | Scored):
            raise TypeError("rows that are assumed have no order")
        rows = order(self.plan, training.table.pages)
        if isinstance(rows, HardwareError):
            raise RunError(rows)
        return rows

    def scoring(
        self, result: Mapping[str, np.ndarray], details: Mapping[str, Any] | None = None
    ) -> Scoring:
        if "graph" not in self.score:
            raise no_score(self.name, self.score.get("why", "it was saved without a score"))
        plan = self.plan
        graph = graph_from_json(self.score["graph"])
        policies = {
            "on_null": "skip",
            "on_nan": plan.policy.on_nan,
            "on_overflow": plan.policy.on_overflow,
        }
        if plan.rows.indices:
            policies |= {"on_index": plan.rows.on_index, "on_unseen": plan.rows.on_unseen}
        return Scoring(
            ScoreKernel.of(graph, result, {}),
            {name: tuple(columns) for name, columns in self.score["columns"].items()},
            plan.schema,
            plan.format_name,
            self.target,
            policies | {"visibility": plan.striders.visibility},
        )

    def _asked(self) -> dict[str, Any]:
        """Return what is asked of the columns of indices."""
        plan = self.plan
        if not plan.rows.indices:
            return {}
        counts = {
            plan.schema.columns[n].name: most
            for index in plan.rows.indices
            for n, _, most in index.columns
        }
        unseen = "error" if plan.rows.on_unseen == "error" else "code"
        return {"indices": tuple(counts), "counts": counts, "unseen": unseen}

    def ringed(self, slots: int) -> AnalyticsDesign:
        striders = replace(self.plan.striders, ring=slots)
        return replace(self, plan=replace(self.plan, striders=striders))

    def workload(self, args: Given) -> Training | Assumption | Scored | Frozen:
        """Return a training, or the scores of rows. Options: `epochs`, in place of the plan's own; `freeze`, as of `Frozen`.

        Raises SourceError for the table, KernelError for a number of epochs that is none, OptionError as `Frozen`.
        """
        epochs, freeze = args.option("epochs"), args.option("freeze")
        design = self if args.link is None else replace(self, link=args.link)
        if epochs is not None:
            plan = replace(self.plan, epochs=checked_epochs(epochs, Span.whole("epochs")))
            design = replace(design, plan=plan)
        assumed = args.data if args.rows is None else assume(self.plan.schema, args.rows)
        if isinstance(assumed, Assumed):
            if freeze is not None:
                raise bad_value("freeze", "which rows stop changing depends on the table: give one")
            if args.option("indices") is not None and not self.plan.rows.indices:
                raise bad_value("indices", "the kernel has no index")
            return Assumption(design, assumed, args.option("indices", 0.0))
        if args.option("indices") is not None:
            raise bad_value("indices", "a table has its own: it is for rows that are assumed")
        table = table_on(args.data, args.source, self.plan.walk, self.labels, **self._asked())
        if not self.plan.learns:
            return Scored(design, table, args.place)
        full = Training(design, table, args.place)
        if freeze is None:
            return full

        def part(epochs: int, start: Mapping[str, np.ndarray], pages: np.ndarray) -> Training:
            variant = replace(design, plan=replace(design.plan, epochs=epochs), start=dict(start))
            return Training(variant, replace(table, pages=pages), args.place)

        return Frozen(full, design.plan, design.start, table.pages, part, freeze)
