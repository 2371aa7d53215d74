"""The passes of recurrences, from kernels to design."""

from dataclasses import dataclass, replace

from penstock.designs.feasible import feasible
from penstock.dsl.core.diagnostics import Diagnostic, KernelError, Span, error
from penstock.dsl.pim.kernel import Recurrence
from penstock.dsl.pim.recurrent import Recurrent
from penstock.models.memory import FixedLatency, Memory
from penstock.models.pim.config import PimConfig
from penstock.models.pim.layout import Layout
from penstock.models.pim.resources import resources_of
from penstock.passes.forms import Designed, Form, Request
from penstock.targets import timing_of

from .arguments import all_sized, format_of, heads_of, layers_of, with_banks
from .data import policy_of
from .design import PimDesign
from .planning import device_of


@dataclass(frozen=True, kw_only=True)
class Sized(Form):
    """Recurrences in the unit's form, with all sizes.

    `layers`: which recurrence each layer is; `group`: heads that share a cache; `saturates`: values beyond the format become its largest.
    """

    recurrents: tuple[Recurrent, ...]
    layers: tuple[int, ...]
    batch: int
    heads: int
    group: int
    format: str
    saturates: bool

    @property
    def attends(self) -> bool:
        return any(one.values is not None for one in self.recurrents)

    @property
    def stack(self) -> list[tuple[Recurrent, int]]:
        """What the device steps, layer by layer: with the number of its heads."""
        items, one = self.batch * self.heads, self.recurrents
        return [
            (part, items // (1 if one[n].values is None else self.group))
            for n in self.layers
            for part in one[n].parts
        ]


@dataclass(frozen=True, kw_only=True)
class Planned(Sized):
    """Recurrences with the device that steps them."""

    memory: Memory
    device: PimConfig


@dataclass(frozen=True, kw_only=True)
class Built(Designed):
    design: PimDesign


def match(request: Request) -> Sized:
    """Match each kernel with the form of the units.

    All sizes are known then, as given, as the data have them or 64. A step is S' = d ⊙ S + k vᵀ, y = Sᵀ q; what does not touch the state is the host's.

    Before: `S = ps.exp(step * rate) * S + ps.outer(step * b, x)`
    After: `Recurrent(name='mamba2', mode='update', state='S', passes=(Pass(d=16, k=18, v=4, q=5, …),), output=23, …)`
    """
    kernel, args = request.kernel, request.args
    assert isinstance(kernel, Recurrence)
    recurrents = all_sized(kernel, args)
    layers = layers_of(args.option("layers"), len(recurrents))
    chosen = format_of(args)
    saturates = policy_of(args, chosen)
    attends = [one for one in recurrents if one.values is not None]
    batch, heads, group = heads_of((attends or recurrents)[0], args)
    return request.form(
        Sized,
        recurrents=tuple(recurrents),
        layers=layers,
        batch=batch,
        heads=heads,
        group=group,
        format=chosen,
        saturates=saturates,
    )


def choose(form: Sized) -> Planned:
    """Choose the device that the part holds.

    It has the units and banks that were asked for, else as many as the part holds; columns are dealt so that a token takes the fewest rounds.

    Before: `recurrents=(Recurrent(name='mamba2', …),), batch=1, heads=2`
    After: `device=PimConfig(stochastic=True, groups=1, banks=2, rows=4, …)`
    """
    return feasible(form, _best, design)


def design(form: Planned) -> Built:
    """Put recurrences and device together.

    Before: `device=PimConfig(…)`
    After: `design=PimDesign(recurrent=Recurrent(…), device=PimConfig(…), batch=1, heads=2)`
    """
    built = PimDesign(
        form.part,
        form.memory,
        form.recurrents,
        form.device,
        form.batch,
        form.heads,
        "saturate" if form.saturates else "error",
        form.layers,
        form.group,
        source=form.origin.source or "",
    )
    return form.then(Built, design=built)


PASSES = (match, choose, design)


def _best(form: Sized) -> Planned:
    """Return the device that is planned. Raises KernelError (E464, E601)."""
    part, args = form.part, form.args
    timing, stack = timing_of(args.memory, part), form.stack
    device = device_of(form.origin, stack, part, args, form.format, form.attends)
    if isinstance(timing, FixedLatency):
        timing = replace(timing, bytes_per_cycle=min(timing.bytes_per_cycle, device.bus))
    slow = _slow(stack[0][0], device, stack[0][1])
    if part.shared is not None:  # it will be built
        _check_fits(form, device)
    return form.then(Planned, memory=timing, device=device).warned(*slow)


def _slow(recurrent: Recurrent, device: PimConfig, items: int) -> tuple[Diagnostic, ...]:
    """Return the warning of a schedule that is slower than the published one, if it is."""
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


def _check_fits(form: Sized, device: PimConfig) -> None:
    """Raise KernelError (E601) for a device that a part does not hold."""
    kernel, part = form.origin, form.part
    need = resources_of(device, part)
    if (short := need.fits(part)) is None:
        return
    fewest = replace(form, args=with_banks(form.args, least := 2 * device.sets))
    smaller = device.pairs > device.sets and _held(fewest)
    raise error(
        "E601",
        f"recurrence {kernel.name!r} does not fit on {part.name}: its device needs "
        f"{getattr(need, short):,} {short.upper()}, the part has {getattr(part, short):,}",
        kernel.name_span,
        hint=f"write --banks {least}" if smaller else "no number of banks (--banks) fits",
        source=kernel.source,
    )


def _held(form: Sized) -> bool:
    """Return whether there is such a device, and the part holds it."""
    try:
        _best(form)
    except KernelError:
        return False
    return True
