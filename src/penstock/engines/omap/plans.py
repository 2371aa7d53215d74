"""Plans of maps for a part: those that are tried, and those that no other betters."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.omap.kernel import MapKernel
from penstock.engines.base import Given
from penstock.models.memory import FixedLatency, Memory
from penstock.models.memory.dram.memory import Dram
from penstock.models.memory.dram.timing import Timing
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.hbm import plainly, settled
from penstock.models.omap.planner import fitting, plan
from penstock.models.resources import AIM
from penstock.models.target import Target
from penstock.report.parts import Column, Grid
from penstock.report.words import amount
from penstock.runs.outcome import Outcome
from penstock.targets import link_named, timing_of

from .design import MapDesign, Mapped, joined, joins

#: a page's way over PCIe and back, as the published system has it, in µs
_ROUND_TRIP = 1.26
#: cycles of a link's latency, at most
_SLOWEST = 1_000_000
#: bytes a cycle of the widest port to a host on PCIe: 512 bits at 250 MHz carry what 16 lanes do
_PORT = 64
#: shares of the bins in HBM, and their mean loads, that the front of plans is made of; None: of the fewest host bytes
_SHARES, _LOADS = (0.02, 0.1, 0.2, 0.5, 0.8, 0.9), (None, 2.0, 4.0, 8.0)


class _Channels(NamedTuple):
    """Channels of a port: how many are joined to a word, over how many of these it is dealt; slots of a bucket, at most;
    over how many those to frames are dealt, 0: as other ports."""

    joined: int = 1
    dealt: int = 1
    bucket: int = 16
    frames: int = 0

    @property
    def spread(self) -> int:
        """Channels that frames have."""
        return self.joined * (self.frames or self.dealt)

    @property
    def ports(self) -> int:
        """Ports of the map to its memory."""
        return 2 * (self.joined * self.dealt + self.spread)


#: those that are tried, for memory that answers after a fixed latency and for DRAM, whose rows bind: small buckets
#: take fewer words and more memory. All ports together have at most 29 of 32 channels, with messages. More than `_FEW` for
#: frames are for those that these do not hold.
_FEW = 4
_FIXED = _Channels(), _Channels(2), _Channels(4), _Channels(4, frames=2)
_DRAM = (
    *(_Channels(), _Channels(dealt=2), _Channels(2, 2), _Channels(dealt=4)),
    *(_Channels(1, 8, 8, 4), _Channels(1, 4, 16, 8)),
)


def hbm_of(args: Given, part: Target) -> Memory:
    """Return the timing of a channel of HBM: the part's DRAM where it has DRAM and no other memory was given. Raises KernelError (E604)."""
    return timing_of(args.memory or ("dram" if part.dram else None), part)


def _served(
    timing: Timing,
    writes: NDArray[np.bool_],
    arrivals: NDArray[np.int64],
    bursts: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """A `models.omap.hbm.Serve`, quick where there is g++."""
    from penstock.sim.memory.dram import serve
    from penstock.sim.native.toolchain import BuildError

    try:
        return serve(timing, writes, arrivals, bursts)[0]
    except BuildError:
        return plainly(timing, writes, arrivals, bursts)


def link_of(args: Given, part: Target) -> Memory | None:
    """Return the timing of the host's ports over the link that was given, None without a link. Raises KernelError (E604)."""
    text = args.link or args.option("link")
    if not isinstance(text, str):
        return text
    link, hz = link_named(text, "--link"), part.clock_mhz * 1e6
    latency, rate = max(round(link.latency * hz), 1), int(link.bytes_per_s / hz)
    why = f"--link {text} carries less than a byte a cycle" if not rate else ""
    if latency > _SLOWEST:
        why = f"--link {text} answers after {latency:,} cycles, a map's pages at most after {_SLOWEST:,}"
    if why:
        hint = f"write --link gbps=8,latency=10us, or leave it out: {hz / 1e6:g} MHz take 1 byte a cycle and more"
        raise error("E604", why, Span.whole("--link"), hint=hint)
    return FixedLatency(latency, rate)


def own_link(config: OmapConfig, part: Target) -> Memory:
    """Return the timing of the host's ports where no link was given: PCIe, as wide as they are."""
    return FixedLatency(_trip(part), max(config.host_bus_bytes, part.bus_bytes))


def _trip(part: Target) -> int:
    """Return the cycles of a page's way to the host and back."""
    return round(_ROUND_TRIP * part.clock_mhz)


def room(part: Target) -> float:
    """Return the bytes of memory that a map may take beside its pages."""
    return part.memory.bytes or inf


def able(tried: Sequence[OmapConfig], part: Target, most: float, fill: float) -> OmapConfig | None:
    """Return the best plan that fits, in `most` bytes of memory; None where none does."""
    channel = part.memory.channel_bytes or inf
    held = [one for one in tried if one.channel_bytes <= joins(one, part) * channel]
    return fitting(held, part, most, fill)


def plans(
    of: MapKernel | OmapConfig,
    part: Target,
    timing: Memory,
    args: Given,
    link: Memory | None,
    capacity: int,
) -> list[OmapConfig]:
    """Return a map's plans, one for each way in which a port may have channels, of those whose channels hold what it reaches
    if there are any; else with loads for which they do. `of`: has the sizes of its keys and values.

    Raises as `models.omap.planner.plan`; KernelError (E471) for channels that there are not.
    """
    cores, channel = args.option("cores"), part.memory.channel_bytes or inf

    def plan_of(one: _Channels, **held: Any) -> OmapConfig:
        return plan(
            capacity,
            of.value_bytes,
            key=of.key,
            memory=joined(timing, one.joined),
            bus_bytes=one.joined * max(part.bus_bytes, 16),
            dealt=one.dealt,
            frames_dealt=one.frames,
            bucket=one.bucket,
            hbm_bytes=args.option("hbm"),
            load=args.option("load"),
            share=args.option("share"),
            window=args.option("window"),
            trip=_trip(part),
            rounds=args.option("rounds", 2),
            openers=cores,
            sealers=cores,
            widest=_widest(part, link),
            **held,
        )

    tried = _channels(args.option("channels"), part, timing)
    held = [one for one in tried if plan_of(one).channel_bytes <= one.joined * channel]
    if held:
        few = [one for one in held if one.spread <= _FEW]
        return [plan_of(one, serve=_served) for one in few or held]
    return [plan_of(one, serve=_served, channel_bytes=one.joined * channel) for one in tried]


def chosen(
    tried: list[OmapConfig], part: Target, timing: Memory, args: Given, most: float
) -> OmapConfig | None:
    """Return the best plan of those that fit, with the deadlines that its memory keeps; `most`: bytes of HBM."""
    config = able(tried, part, most, args.option("fill", AIM))
    if config is None or not config.access.pace:
        return config
    memory = joined(timing, joins(config, part))
    assert isinstance(memory, Dram)
    return settled(config, memory, _served)


def ideal(outcome: Outcome) -> float | None:
    """Return the million operations a second of the map that is planned for memory of fixed latency, for the operations
    of the run; None where there is none, or the run has such memory."""
    design, workload = outcome.design, outcome.workload
    assert isinstance(design, MapDesign) and isinstance(workload, Mapped)
    args, part = workload.args, design.target
    if isinstance(design.memory, FixedLatency):
        return None
    memory, link = timing_of(part.timing, part), link_of(args, part)
    try:
        tried = plans(design.plan, part, memory, args, link, design.plan.capacity)
    except ValueError:
        return None
    config = chosen(tried, part, memory, args, room(part))
    return None if config is None else _rate(design, config, memory, workload, link)


def _rate(
    design: MapDesign, config: OmapConfig, memory: Memory, workload: Mapped, link: Memory | None
) -> float | None:
    """Return the million operations a second of another plan, for the operations of a run."""
    part = design.target
    other = replace(design, plan=config, memory=memory, link=link or own_link(config, part))
    mapped = Mapped(other, workload.name, workload.requests, workload.args)
    cycles = mapped.model(memory).total
    return None if cycles is None else mapped.count / cycles * part.clock_mhz


def front(outcome: Outcome) -> Grid:
    """Return the plans of a map that no other one betters in trusted bytes, host bytes and rate; rates are the cycle model's, of the operations of the run."""
    design, workload = outcome.design, outcome.workload
    assert isinstance(design, MapDesign) and isinstance(workload, Mapped)
    args, part, points = workload.args, design.target, []
    link = link_of(args, part)
    for config in _of_shares(design, args, link):
        rate = _rate(design, config, design.memory, workload, link)
        if rate is not None:
            points.append((config.hbm_bytes, round(config.bytes_per_operation), -rate, config))
    best = [
        one
        for one in sorted(points, key=lambda one: one[:3])
        if not any(_betters(other[:3], one[:3]) for other in points)
    ]
    rows = [
        (
            f"{config.alpha:.0%}",
            amount(config.load),
            amount(config.hbm_bytes),
            f"{config.hbm_bytes / config.capacity:.0f}",
            amount(round(config.bytes_per_operation)),
            amount(config.host_bytes),
            f"{-rate:.2f}",
        )
        for *_, rate, config in best
    ]
    names = (
        "in HBM",
        "items a bin",
        "trusted bytes",
        "bytes an item",
        "host bytes an operation",
        "pages, bytes",
        "M/s",
    )
    columns = tuple(Column(name, right=True) for name in names)
    caption = (
        f"{len(best)} of {len(points)} plans, none of which another betters in all of trusted bytes, host bytes an operation and rate. "
        f"Rates are the model's, of the {workload.count:,} operations of this run, start and end among them, with HBM of {design.memory}"
    )
    return Grid(columns, tuple(rows), title="plans", caption=caption)


def _of_shares(design: MapDesign, args: Given, link: Memory | None) -> Iterable[OmapConfig]:
    """Yield the plan of each share in HBM and each load that the part holds; of one load alone, where one was given."""
    part, most = design.target, min(room(design.target), args.option("hbm", inf))
    options: Mapping[str, Any] = {n: v for n, v in args.options.items() if n != "hbm"}
    for load, share in product((options["load"],) if "load" in options else _LOADS, _SHARES):
        asked = replace(args, options={**options, "share": share, "load": load})
        try:
            tried = plans(design.plan, part, design.memory, asked, link, design.plan.capacity)
        except ValueError:
            continue
        if (config := chosen(tried, part, design.memory, args, most)) is not None:
            yield config


def _betters(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def has_hbm(part: Target) -> bool:
    return part.memory.kind.startswith("HBM")


def _channels(count: int | None, part: Target, timing: Memory) -> tuple[_Channels, ...]:
    """Return which channels a port may have. Raises KernelError (E471)."""
    known = _DRAM if isinstance(timing, Dram) else _FIXED
    # a port of the part is for messages
    choices = [one for one in known if has_hbm(part) and one.ports < part.ports] or [_Channels()]
    chosen = tuple(one for one in choices if count in (None, one.joined * one.dealt))
    if chosen:
        return chosen
    why = f"--channels {count} is for a target that has HBM"
    others = ", ".join(name for name, other in targets().items() if has_hbm(other))
    hint = f"leave it out, or choose one of {others}"
    if has_hbm(part):
        counts = sorted({one.joined * one.dealt for one in choices})
        why = f"no map on {part.name} with memory {timing} has {count} channels a port"
        hint = f"write --channels {' or '.join(map(str, counts))}, or leave it out: the planner chooses"
    raise error("E471", why, Span.whole("--channels"), hint=hint)


def _widest(part: Target, link: Memory | None) -> int:
    """Return the bytes of a word of the host's ports, at most: no wider than the link that is given."""
    widest = _PORT if part.link.kind == "xdma" else max(part.bus_bytes, 16)
    while link is not None and widest > 16 and widest // 2 >= link.bytes_per_cycle:
        widest //= 2
    return widest
