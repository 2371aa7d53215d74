"""The registration of the engine of oblivious maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.boards.records import from_json
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.omap.kernel import MapKernel
from penstock.engines.base import Design, Engine, Given
from penstock.errors import Conflict
from penstock.models.memory import parse_memory
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.errors import MapError
from penstock.models.omap.planner import NoPlan, largest
from penstock.models.omap.resources import estimate
from penstock.models.resources import AIM, MOST

from .commands import COMMANDS
from .design import MapDesign, joins
from .operations import check_options
from .options import OPTIONS
from .plans import able, chosen, hbm_of, link_of, own_link, plans, room

if TYPE_CHECKING:
    import click

    from penstock.dsl.core.kernel import AnyKernel
    from penstock.engines.options import Request
    from penstock.models.target import Target
    from penstock.report.parts import Part
    from penstock.runs.outcome import Outcome


def _open(kernel: MapKernel, backend: str) -> Any:
    from penstock.host.omap import ObliviousMap

    return ObliviousMap(
        kernel.capacity, key=kernel.key, value_bytes=kernel.value_bytes, backend=backend
    )


MapKernel.opens = staticmethod(_open)


class MappingEngine(Engine):
    """Maps whose accesses show nothing."""

    name = "omap"
    kernels = (MapKernel,)
    default_target = "u55c"
    backends = frozenset({"golden", "rtl", "netlist"})
    data_optional = True
    options = OPTIONS
    errors = (MapError,)
    names: ClassVar[Mapping[str, str]] = {
        "ObliviousMap": "penstock.dsl.omap.kernel:ObliviousMap",
        "bytes": "penstock.dsl.omap.kernel:bytes",
        "text": "penstock.dsl.omap.kernel:text",
        "u64": "penstock.dsl.omap.kernel:u64",
    }
    arguments = frozenset({"hbm", "load", "share", "window", "rounds", "cores", "channels", "link"})

    @property
    def commands(self) -> Sequence[click.Command]:
        return COMMANDS

    @property
    def papers(self) -> Mapping[str, Any]:
        from .bolt import parts

        return {"bolt": parts}

    def allow(self, kernel: AnyKernel, command: str, request: Request) -> None:
        check_options(set(request.own), request.data is not None)
        if request.format is not None:
            raise Conflict(
                f"--format {request.format} is not for oblivious maps",
                "leave --format out: values are bytes",
            )

    def needs(self, kernel: AnyKernel) -> str:
        return "operations"

    def open(self, source: Any, args: Given) -> Any:
        return source

    def compile(self, kernel: AnyKernel, part: Target, args: Given) -> Design:
        assert isinstance(kernel, MapKernel)
        kernel.check()
        timing = hbm_of(args, part)
        link = link_of(args, part)
        _check_powers(args)
        tried = partial(plans, kernel, part, timing, args, link)
        most = room(part)

        def fits(capacity: int) -> bool:
            try:
                return able(tried(capacity), part, most, AIM) is not None
            except ValueError:
                return False

        try:
            candidates = tried(kernel.capacity)
        except NoPlan as problem:
            raise error("E471", str(problem), kernel.name_span, hint=problem.hint) from None
        except ValueError as problem:
            raise error(
                "E471",
                str(problem),
                kernel.name_span,
                hint="leave the option out: the planner chooses",
            ) from None
        config = chosen(candidates, part, timing, args, most)
        if config is None:
            raise _too_large(kernel, candidates, part, most, largest(fits, kernel.capacity))
        return MapDesign(part, timing, kernel.name, config, link or own_link(config, part))

    def load(self, manifest: Mapping[str, Any]) -> Design:
        return MapDesign(
            from_json(manifest["target"]),
            parse_memory(manifest["memory"]),
            manifest["kernel"],
            OmapConfig.from_json(manifest["config"]),
            parse_memory(manifest["link"]),
        )

    def sections(self, outcome: Outcome) -> Iterable[Part]:
        from .sections import summary

        return summary(outcome)


def _too_large(
    kernel: MapKernel, plans: Sequence[OmapConfig], part: Target, hbm: float, largest: int
) -> Exception:
    """Return what says of which resource the plan that comes nearest takes too much, and what fits."""

    def short(config: OmapConfig) -> tuple[float, str]:
        need = estimate(config, part)
        share, name = max((s / MOST.get(n, 1.0), n) for n, s in need.shares(part).items())
        have = getattr(part, name)
        full = f", of which {MOST[name]:.0%} can be routed" if name in MOST else ""
        text = f"{getattr(need, name):,} {name.upper()}, the part has {have:,}{full}"
        channel = joins(config, part) * (part.memory.channel_bytes or inf)
        sizes = (config.hbm_bytes, "memory", hbm), (config.channel_bytes, "a channel", channel)
        for size, of, held in sizes:
            if size / held > max(share, 1.0):
                share, text = size / held, f"{size:,} bytes of {of}, the part has {held:,}"
        return share, text

    return error(
        "E601",
        f"map {kernel.name!r} does not fit on {part.name}: for {kernel.capacity:,} items it needs {min(map(short, plans))[1]}",
        kernel.name_span,
        hint=f"a map of {largest:,} items fits with the same values and options"
        if largest
        else "no map of such values fits with these options: leave them out, or choose a larger target (--target)",
    )


def _check_powers(args: Given) -> None:
    """Raise KernelError (E471) for options that are no powers of two."""
    for name in ("window", "cores", "rounds", "channels"):
        value = args.option(name)
        if value is not None and value & (value - 1):
            lower = 1 << value.bit_length() - 1
            near = str(lower) if name in ("rounds", "channels") else f"{lower} or {2 * lower}"
            raise error(
                "E471",
                f"--{name} is a power of two, not {value}",
                Span.whole(f"--{name}"),
                hint=f"write --{name} {near}, or leave it out: the planner chooses",
            )
