"""The registration of the engine of recurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.pim.kernel import Recurrence
from penstock.engines.base import Design, Engine, Given
from penstock.models.pim.errors import PimError

from .options import FORMATS, OPTIONS, SCHEDULES

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.models.target import Target
    from penstock.report.parts import Part
    from penstock.runs.outcome import Outcome


class PimEngine(Engine):
    """State updates and attention in units beside the banks of a DRAM."""

    name = "pim"
    kernels = (Recurrence,)
    default_target = "small"
    options = OPTIONS
    errors = (PimError,)
    names: ClassVar[Mapping[str, str]] = {
        "LanguageModel": "penstock.engines.pim.models.language:LanguageModel"
    }
    elsewhere: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("pimba", "neupims", "fusemax"),
        "pip install ./studies in a clone of Penstock (the distribution penstock-studies)",
    )
    arguments = frozenset({"tokens", "layers"})
    data_optional = True
    formats = f"for recurrences {' or '.join(FORMATS)}, {FORMATS[0]} by default"

    def draws(self, kernel: AnyKernel, source: str | None) -> bool:
        return True  # bits for stochastic rounding

    def open(self, source: Any, args: Given) -> Any:
        from .data import opened

        return opened(source)

    @property
    def passes(self) -> Sequence[Callable[[Any], Any]]:
        from .passes import PASSES

        return PASSES

    def _holds(self, kernel: AnyKernel, part: Target, args: Given) -> bool:
        """Return whether there is such a device, and a part holds it."""
        from penstock.passes.compiling import compiled

        try:
            compiled(self, kernel, part, args, search=False)
        except KernelError:
            return False
        return True

    def load(self, manifest: Mapping[str, Any]) -> Design:
        from penstock.boards.records import from_json
        from penstock.models.memory import parse_memory
        from penstock.models.pim.config import PimConfig

        from .design import PLAIN, PimDesign, recurrent_from
        from .steppable import check

        design = PimDesign(
            from_json(manifest["target"]),
            parse_memory(manifest["memory"]),
            tuple(map(recurrent_from, [manifest["recurrent"], *manifest.get("more", ())])),
            PimConfig.from_json(manifest["device"]),
            layers=tuple(manifest.get("layers", (0,))),
            **{name: {"group": 1, **manifest}[name] for name in PLAIN},
        )
        check(design)
        return design

    def check(self, kernel: AnyKernel, args: Given, design: Design | None) -> Iterable[Part]:
        from .arguments import format_of, heads_of, sized
        from .data import Inputs, policy_of
        from .host import Course
        from .sections import facts, read

        assert isinstance(kernel, Recurrence)
        saturates = policy_of(args, format_of(args))
        if not isinstance(args.data, Mapping):  # nothing that has sizes
            return (facts(kernel.trace(args.option("dims", {}))),)
        recurrent = sized(kernel, args)
        batch, many, group = heads_of(recurrent, args)
        inputs = Inputs.of(recurrent, batch, many, args.data, args.option("tokens"), group)
        course = Course(inputs.in_turns().part(0), format_of(args), saturates)
        return facts(recurrent), read(inputs, course.beyond)

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)

    def largest(self, kernel: AnyKernel, part: Target, args: Given, smaller: int = 0) -> str:
        from penstock.boards.catalogue import boards

        from .arguments import with_banks

        least = 2 * SCHEDULES[args.option("schedule", "together")][0]
        texts = []
        for form in FORMATS:
            fewest = replace(with_banks(args, least), format=form)
            built = (board for board in boards().values() if board.shared is not None)
            if names := [board.name for board in built if self._holds(kernel, board, fewest)]:
                texts.append(f"on {', '.join(names)} in {form}")
        return f"with --banks {least} it fits {' and '.join(texts)}" if texts else ""
