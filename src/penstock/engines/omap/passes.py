"""The passes of oblivious maps, from declaration to design."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from penstock.designs.feasible import feasible
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.omap.kernel import MapKernel
from penstock.engines.base import Given
from penstock.models.memory import Memory
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.planner import NoPlan, largest
from penstock.models.omap.resources import estimate
from penstock.models.resources import AIM, MOST
from penstock.models.target import Target
from penstock.passes.forms import Designed, Form, Request

from .design import MapDesign, joins
from .plans import able, chosen, hbm_of, link_of, own_link, plans, room


@dataclass(frozen=True, kw_only=True)
class Declared(Form):
    """A map: its keys, the bytes of its values, how many items it holds."""

    kernel: MapKernel


@dataclass(frozen=True, kw_only=True)
class Planned(Declared):
    """A map with its plan. `memory`: timing of a channel of HBM; `link`: of the host's ports."""

    memory: Memory
    link: Memory
    plan: OmapConfig


@dataclass(frozen=True, kw_only=True)
class Built(Designed):
    design: MapDesign


def declare(request: Request) -> Declared:
    """Check the declaration and its options.

    Timing of memory and link can be read then, and options that are powers of two are that.

    Before: `sessions = ps.ObliviousMap(key=ps.u64, value=ps.bytes(256), capacity=1 << 20)`
    After: `kernel=MapKernel(name='sessions', value_bytes=256, capacity=1048576, …)`
    """
    kernel, args = request.kernel, request.args
    assert isinstance(kernel, MapKernel)
    kernel.check()
    hbm_of(args, request.part), link_of(args, request.part)
    _check_powers(args)
    return request.form(Declared, kernel=kernel)


def choose(form: Declared) -> Planned:
    """Choose the plan that the part holds.

    For each way in which a port may have channels there is a candidate; the best one is taken, with deadlines that its memory keeps.

    Before: `kernel=MapKernel(capacity=1048576, …)`
    After: `plan=OmapConfig(capacity=1048576, value_bytes=256, window=128, openers=32, …), link=memory("latency=315,bytes=64")`
    """
    return feasible(form, _best, design)


def design(form: Planned) -> Built:
    """Put name and plan together.

    Before: `plan=OmapConfig(…)`
    After: `design=MapDesign(kernel='sessions', plan=OmapConfig(…), …)`
    """
    built = MapDesign(form.part, form.memory, form.kernel.name, form.plan, form.link)
    return form.then(Built, design=built)


PASSES = (declare, choose, design)


def _best(form: Declared) -> Planned:
    """Return the best plan that fits. Raises KernelError (E471, E601)."""
    kernel, part, args = form.kernel, form.part, form.args
    timing = hbm_of(args, part)
    link = link_of(args, part)
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
        hint = "leave the option out: the planner chooses"
        raise error("E471", str(problem), kernel.name_span, hint=hint) from None
    plan = chosen(candidates, part, timing, args, most)
    if plan is None:
        raise _too_large(kernel, candidates, part, most, largest(fits, kernel.capacity))
    return form.then(Planned, memory=timing, link=link or own_link(plan, part), plan=plan)


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
