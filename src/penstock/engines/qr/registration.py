"""The registration of the engine of fit kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.qr.kernel import FitGraph, FitKernel
from penstock.engines.base import Design, Engine, Given
from penstock.errors import Conflict, no_option
from penstock.models.qr.shell import FitError
from penstock.models.strider.errors import PageError

from .options import OPTIONS, Solving

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.options import Request
    from penstock.models.target import Target
    from penstock.report.parts import Part
    from penstock.runs.failures import Failure
    from penstock.runs.outcome import Outcome


def _over_keys(kernel: AnyKernel) -> bool:
    return bool(kernel.of_kind("key"))


def _room(
    design_of: Callable[[FitGraph], Design], part: Target, args: Given
) -> Callable[[FitGraph], bool] | None:
    """Return what says whether the part's memory holds the run of a design that is made; None where no run is known."""
    from penstock.dsl.core.diagnostics import KernelError
    from penstock.host.sources import SourceError

    if (args.rows is None and args.data is None) or not part.memory.bytes:
        return None

    def holds(graph: FitGraph) -> bool:
        try:
            return design_of(graph).workload(args).device_bytes() <= part.memory.bytes
        except (KernelError, SourceError, Conflict):
            return False

    return holds


class FitEngine(Engine):
    """Least squares that is fitted again when rows come and go."""

    name = "qr"
    kernels = (FitKernel,)
    default_target = "vu9p"  # the engine is too large for the small part
    options = OPTIONS
    arguments = frozenset({"load"})
    errors = (PageError, FitError)
    names: ClassVar[Mapping[str, str]] = {
        "LearnedIndex": "penstock.host.learned_index:LearnedIndex"
    }

    @property
    def papers(self) -> Mapping[str, Any]:
        from .sia import parts

        return {"sia": parts}

    def allow(self, kernel: AnyKernel, command: str, request: Request) -> None:
        keys, options, form = _over_keys(kernel), request.own, request.format
        numbers = "on_overflow on_nan on_singular refine limbs sample_weight group_by ring".split()
        flag = next((f"--{name.replace('_', '-')}" for name in numbers if name in options), None)
        for wrong, what, hint in (
            (
                keys and options.get("dims"),
                "--dim is not for fits of keys",
                "leave --dim out: the window says how many bytes of a key are fitted",
            ),
            (
                not keys and options.get("groups") not in (None, 1),
                "--groups is for fits of keys",
                "leave --groups out: a table is one group of rows",
            ),
            (
                keys and flag,
                f"{flag} is not for fits of keys",
                f"leave {flag} out: keys are bytes, each fits, and constant ones have the weight 0",
            ),
            (
                keys and form not in (None, "float32"),
                f"--format {form} is not for fits of keys",
                "leave --format out: weights are float32",
            ),
            (
                not keys and form is not None,
                f"--format {form} is not for fits over columns",
                "leave --format out: each column has a unit of its own; --limbs says how many bits its values keep",
            ),
            (
                command == "build" and request.memory is not None,
                "--memory is not for builds of fit kernels",
                "leave --memory out: the board has the memory that it has",
            ),
            (
                request.rows is not None and request.data is None and "group_by" in options,
                "--rows assumes rows that belong to no group",
                "leave --group-by out, or give --data SRC in place of --rows",
            ),
        ):
            if wrong:
                raise Conflict(what, hint)
        if not keys and command in ("model", "simulate"):
            from .refit_requests import changes_of, limited_fits

            limited_fits(changes_of(Given(options=request.own), 1))

    def draws(self, kernel: AnyKernel, source: str | None) -> bool:
        return _over_keys(kernel)  # which keys come and go

    def needs(self, kernel: AnyKernel) -> str:
        return "keys" if _over_keys(kernel) else "a table"

    def compile(self, kernel: AnyKernel, part: Target, args: Given) -> Design:
        from penstock.dsl.qr.plan import Room, lower
        from penstock.host.sources import Table
        from penstock.models.memory import FixedLatency
        from penstock.models.resources import AIM
        from penstock.targets import timing_of

        from .keys import FitDesign
        from .refit_requests import check_random, key_column

        assert isinstance(kernel, FitKernel)
        check_random(args.source, _over_keys(kernel))
        if not _over_keys(kernel):
            from .columns import compile_columns

            if args.format is not None:
                raise no_option(f"the fit kernel {kernel.name}", "format", ("limbs",))
            return compile_columns(kernel, part, args)
        self._keys_alone(kernel, args)
        graph, memory = kernel.trace(), None
        [key] = kernel.of_kind("key")
        if isinstance(args.data, Table):
            key_column(graph, key.span, args, args.data)
        # where the memory is on the part, the planner chooses the width of its port
        if args.memory is not None or not part.shared:
            memory = timing_of(args.memory, part)
        options = {"load": args.option("load"), "fill": args.option("fill", AIM)}

        def design_of(graph: FitGraph, room: Room | None = None) -> FitDesign:
            plan = lower(graph, part, memory=memory, **options, room=room)
            timing = memory or FixedLatency(part.latency, plan.bus_bytes)
            return FitDesign(part, timing, graph, plan, key.span)

        return design_of(graph, _room(design_of, part, args))

    @staticmethod
    def _keys_alone(kernel: FitKernel, args: Given) -> None:
        """Raise OptionError for arguments that mean nothing to a fit over keys."""
        other = getattr(args.format, "name", args.format)
        if args.option("dims"):
            raise no_option(f"the fit kernel {kernel.name}", "dims", ())
        if other not in (None, "float32"):
            raise no_option(f"the fit kernel {kernel.name}", "format", ())

    def load(self, manifest: Mapping[str, Any]) -> Design:
        from penstock.boards.records import from_json
        from penstock.models.memory import parse_memory
        from penstock.models.qr.config import FitPlan
        from penstock.models.qr.table_config import TableFitPlan

        from .columns import ColumnsDesign
        from .keys import FitDesign
        from .packing import Packing

        graph, memory = FitGraph.from_json(manifest["fit"]), parse_memory(manifest["memory"])
        part, config = from_json(manifest["target"]), manifest["config"]
        if manifest["kind"] == "keys":
            return FitDesign(part, memory, graph, FitPlan.from_json(config))
        plan = TableFitPlan.from_json(config)
        return ColumnsDesign(
            part,
            memory,
            graph,
            plan,
            solving=Solving(**manifest["solving"]),
            packing=Packing.from_json(manifest["packing"]) if "packing" in manifest else None,
        )

    def plans(self, kernel: AnyKernel, request: Request) -> bool:
        columns = not _over_keys(kernel)
        has_table = request.data is not None or bool(request.own.get("bind"))
        return (columns and has_table) or super().plans(kernel, request)

    def check(self, kernel: AnyKernel, args: Given, design: Design | None) -> Iterable[Part]:
        from .columns import check_method
        from .refit_requests import check_random, key_texts
        from .sections import fit_facts

        assert isinstance(kernel, FitKernel)
        check_random(args.source, _over_keys(kernel))
        if _over_keys(kernel):
            graph = kernel.trace()
            [key] = kernel.of_kind("key")
            key_texts(graph, key.span, args)
        else:
            graph = getattr(design, "graph", None) or kernel.trace(args.option("dims", {}))
            check_method(graph)
        return (fit_facts(graph),)

    def unreadable(self, kernel: AnyKernel, args: Given, design: Design | None) -> Failure | None:
        # keys are read by `check`
        return None if _over_keys(kernel) else super().unreadable(kernel, args, design)

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)

    def largest(self, kernel: AnyKernel, part: Target, args: Given, smaller: int = 0) -> str:
        if not smaller:
            return ""  # the planner's own hint says it
        if not _over_keys(kernel):
            return "fewer columns take less; or choose a board with a larger device"
        from penstock.dsl.qr.plan import longest_text

        assert isinstance(kernel, FitKernel)
        longest = longest_text(kernel.trace(), part)
        return f"the longest window that fits is {longest}; or choose a board with a larger device"
