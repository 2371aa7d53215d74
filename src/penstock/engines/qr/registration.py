"""The registration of the engine of fit kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.qr.kernel import FitGraph, FitKernel
from penstock.engines.base import Design, Engine, Given
from penstock.errors import Conflict
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

    @property
    def passes(self) -> Sequence[Callable[[Any], Any]]:
        from .passes import PASSES

        return PASSES

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
