"""The registration of the engine of recurrences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, error
from penstock.dsl.pim.kernel import Recurrence
from penstock.engines.base import Design, Engine, Given
from penstock.errors import not_one_of
from penstock.models.pim.errors import PimError

from .options import FORMATS, OPTIONS, SCHEDULES, misfit

if TYPE_CHECKING:
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.dsl.pim.recurrent import Recurrent
    from penstock.models.pim.config import PimConfig
    from penstock.models.target import Target
    from penstock.report.parts import Part
    from penstock.runs.outcome import Outcome

#: sizes of dimensions where nothing is said
_SIZE = 64


def _format(args: Given) -> str:
    """Return the number format. Raises KernelError (E603)."""
    if args.format is None:
        return FORMATS[0]
    chosen = str(getattr(args.format, "name", args.format))
    if chosen not in FORMATS:
        what = f"units compute in {' or '.join(FORMATS)}, not in {chosen!r}"
        raise error("E603", what, Span.whole("--format"), hint=f"write --format {FORMATS[0]}")
    return chosen


def _with_banks(args: Given, banks: int) -> Given:
    return replace(args, options={**args.options, "banks": banks})


def _layers(choice: int | Sequence[int] | None, recurrences: int) -> tuple[int, ...]:
    """Return which recurrence each layer is: as given, a number of layers of the only one, or one each. Raises OptionError."""
    if choice is None:
        return tuple(range(recurrences))
    layers = (0,) * choice if isinstance(choice, int) else tuple(choice)
    if not all(isinstance(n, int) for n in layers) or {*layers} != {*range(recurrences)}:
        which = f"numbers of recurrences, 0 to {recurrences - 1}, one a layer, each of them"
        raise not_one_of("layers", choice, [which])
    return layers


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

    def compile(self, kernel: AnyKernel, part: Target, args: Given) -> Design:
        from penstock.models.memory import FixedLatency
        from penstock.targets import timing_of

        from .data import policy_of
        from .design import PimDesign
        from .planning import device_of

        assert isinstance(kernel, Recurrence)
        recurrents = self._all_sized(kernel, args)
        layers = _layers(args.option("layers"), len(recurrents))
        saturates = policy_of(args, _format(args))
        timing = timing_of(args.memory, part)
        attends = [one for one in recurrents if one.values is not None]
        batch, heads, group = self._heads((attends or recurrents)[0], args)
        stack = [
            (part, batch * heads // (1 if recurrents[n].values is None else group))
            for n in layers
            for part in recurrents[n].parts
        ]
        device = device_of(kernel, stack, part, args, _format(args), len(attends) > 0)
        if isinstance(timing, FixedLatency):
            timing = replace(timing, bytes_per_cycle=min(timing.bytes_per_cycle, device.bus))
        slow = self._slow(stack[0][0], device, stack[0][1])
        kernel.warnings = [*(w for w in kernel.warnings if w.code != "W465"), *slow]
        if part.shared is not None:  # it will be built
            self._fits(kernel, device, part, args)
        return PimDesign(
            part,
            timing,
            tuple(recurrents),
            device,
            batch,
            heads,
            "saturate" if saturates else "error",
            layers,
            group,
            source=kernel.source or "",
        )

    def _slow(self, recurrent: Recurrent, device: PimConfig, items: int) -> tuple[Diagnostic, ...]:
        """Return the warning of a schedule that is slower than the published one, if it is."""
        from penstock.models.pim.layout import Layout

        if device.sets == 1 or None in recurrent.shape:
            return ()
        together = replace(device, sets=1, bank_local=False)
        cycles, published = (
            Layout(config, *recurrent.form, items, 1).token_cycles(waits=recurrent.depends)
            for config in (device, together)
        )
        if cycles <= published:
            return ()
        slow = Diagnostic(
            "W465",
            f"{device.sets} staggered sets of bank groups take {cycles:,} cycles a token; all banks together, as "
            f"published, {published:,}",
            Span.whole("--schedule"),
            hint="leave --schedule out",
            severity="warning",
        )
        return (slow,)

    def _fits(self, kernel: Recurrence, device: PimConfig, part: Target, args: Given) -> None:
        """Raise KernelError (E601) for a device that a part does not hold."""
        from penstock.models.pim.resources import resources_of

        need = resources_of(device, part)
        if short := need.fits(part):
            fewest = _with_banks(args, least := 2 * device.sets)
            smaller = device.pairs > device.sets and self._holds(kernel, part, fewest)
            raise error(
                "E601",
                f"recurrence {kernel.name!r} does not fit on {part.name}: its device needs "
                f"{getattr(need, short):,} {short.upper()}, the part has {getattr(part, short):,}",
                kernel.name_span,
                hint=f"write --banks {least}" if smaller else "no number of banks (--banks) fits",
                source=kernel.source,
            )

    def _holds(self, kernel: AnyKernel, part: Target, args: Given) -> bool:
        """Return whether there is such a device, and a part holds it."""
        try:
            return self.compile(kernel, part, args).resources.fits(part) is None
        except KernelError:
            return False

    def _all_sized(self, kernel: Recurrence, args: Given) -> list[Recurrent]:
        """Return the recurrences of a design with all their sizes. Raises KernelError."""
        dims, together = dict(args.option("dims", {})), (kernel, *kernel.others)
        known = {name for one in together for name in one.dim_names}
        kernel.check_dims({name: size for name, size in dims.items() if name not in known})
        stack = []
        for one in together:
            sizes = {name: size for name, size in dims.items() if name in one.dim_names}
            stack.append(self._sized(one, replace(args, options={**args.options, "dims": sizes})))
        return stack

    def _sized(self, kernel: Recurrence, args: Given) -> Recurrent:
        """Return the recurrence with all its sizes: as given, as the data have them, or 64."""
        dims = dict(args.option("dims", {}))
        if isinstance(args.data, Mapping):
            for parameter in kernel.parameters:
                value = args.data.get(parameter.name)
                shape = getattr(value, "shape", ())
                for name, size in zip(reversed(parameter.dims), reversed(shape), strict=False):
                    if isinstance(name, str):
                        dims.setdefault(name, int(size))
        kernel.trace(dims)
        for name in kernel.dim_names:
            dims.setdefault(name, _SIZE)
        return kernel.trace(dims)

    def _heads(self, recurrent: Recurrent, args: Given) -> tuple[int, int, int]:
        """Return requests, heads, and how many heads share a cache: as given, or as the data have them. Raises E464."""
        batch, heads, few = (args.option(name) for name in ("batch", "heads", "kv_heads"))
        asked, shared = few, recurrent.of_cache if recurrent.mode == "attention" else ()
        if isinstance(args.data, Mapping):
            for name, dims in recurrent.dims:
                shape = getattr(args.data.get(name), "shape", ())
                lead = len(shape) - len(dims) - (name not in recurrent.states)
                if lead == 2:
                    at = len(shape) - len(dims) - 2
                    batch, count = batch or int(shape[at]), int(shape[at + 1])
                    heads, few = (heads, few or count) if name in shared else (heads or count, few)
                elif lead == 0 and len(shape):
                    batch, heads = batch or 1, heads or 1
        heads = heads or few or 2
        few = few or heads
        if asked and not shared:
            what = f"{recurrent.name} reads no two caches that heads could share"
            raise misfit("kv-heads", what)
        if heads % few:
            what = f"{heads} heads cannot share {few} caches alike"
            hint = f"--heads takes a multiple of {few}"
            raise misfit("kv-heads", what, hint)
        return batch or 1, heads, heads // few

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
        from .data import Inputs, policy_of
        from .host import Course
        from .sections import facts, read

        assert isinstance(kernel, Recurrence)
        saturates = policy_of(args, _format(args))
        if not isinstance(args.data, Mapping):  # nothing that has sizes
            return (facts(kernel.trace(args.option("dims", {}))),)
        recurrent = self._sized(kernel, args)
        batch, many, group = self._heads(recurrent, args)
        inputs = Inputs.of(recurrent, batch, many, args.data, args.option("tokens"), group)
        course = Course(inputs.in_turns().part(0), _format(args), saturates)
        return facts(recurrent), read(inputs, course.beyond)

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)

    def largest(self, kernel: AnyKernel, part: Target, args: Given, smaller: int = 0) -> str:
        from penstock.boards.catalogue import boards

        least = 2 * SCHEDULES[args.option("schedule", "together")][0]
        texts = []
        for form in FORMATS:
            fewest = replace(_with_banks(args, least), format=form)
            built = (board for board in boards().values() if board.shared is not None)
            if names := [board.name for board in built if self._holds(kernel, board, fewest)]:
                texts.append(f"on {', '.join(names)} in {form}")
        return f"with --banks {least} it fits {' and '.join(texts)}" if texts else ""
