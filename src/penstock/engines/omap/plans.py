"""Plans of maps for a part: those that are tried, and those that no other betters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

from penstock.boards.catalogue import targets
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.omap.kernel import MapKernel
from penstock.engines.base import Given
from penstock.models.memory import FixedLatency, Memory
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.planner import fitting, plan
from penstock.models.resources import AIM
from penstock.models.target import Target
from penstock.outcome import Outcome
from penstock.report.rows import Column, Grid
from penstock.report.words import amount
from penstock.targets import link_named

from .design import MapDesign, Mapped, joined

__all__ = ["front", "has_hbm", "link_of", "own_link", "plans", "room"]

#: a page's way over PCIe and back, as the published system has it, in µs
_ROUND_TRIP = 1.26
#: bytes a cycle of the widest port to a host on PCIe: 512 bits at 250 MHz carry what 16 lanes do
_PORT = 64
#: shares of the bins in HBM that the front of plans is made of
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)


def link_of(given: Given, part: Target) -> Memory | None:
    """Return the timing of the host's ports over the link that was given, None without one. Raises KernelError (E604)."""
    text = given.link or given.option("link")
    if not isinstance(text, str):
        return text
    link, hz = link_named(text, "--link"), part.clock_mhz * 1e6
    return FixedLatency(max(round(link.latency * hz), 1), max(int(link.bytes_per_s / hz), 1))


def own_link(config: OmapConfig, part: Target) -> Memory:
    """Return the timing of the host's ports where no link was given: PCIe, as wide as they are."""
    return FixedLatency(_trip(part), max(config.host_bus_bytes, part.bus_bytes))


def _trip(part: Target) -> int:
    """Return the cycles of a page's way to the host and back."""
    return round(_ROUND_TRIP * part.clock_mhz)


def room(part: Target) -> float:
    """Return the bytes of HBM that a map may take."""
    return part.memory.bytes if has_hbm(part) else inf


def plans(
    of: MapKernel | OmapConfig,
    part: Target,
    timing: Memory,
    given: Given,
    link: Memory | None,
    capacity: int,
) -> list[OmapConfig]:
    """Return a map's plans, one for each number of channels that a port may join. `of`: has the sizes of its keys and values.

    Raises as `models.omap.planner.plan`; KernelError (E471) for channels that there are not.
    """
    cores = given.option("cores")
    return [
        plan(
            capacity,
            of.value_bytes,
            key=of.key,
            memory=joined(timing, channels),
            bus_bytes=channels * max(part.bus_bytes, 16),
            hbm_bytes=given.option("hbm"),
            load=given.option("load"),
            share=given.option("share"),
            window=given.option("window"),
            trip=_trip(part),
            rounds=given.option("rounds", 2),
            openers=cores,
            sealers=cores,
            widest=_widest(part, link),
        )
        for channels in _channels(given.option("channels"), part, timing)
    ]


def front(outcome: Outcome) -> Grid:
    """Return the plans of a map that no other one betters in trusted bytes, host bytes and rate; rates are the cycle model's, of the operations of the run."""
    design, workload = outcome.design, outcome.workload
    assert isinstance(design, MapDesign) and isinstance(workload, Mapped)
    given, part, made = workload.given, design.target, []
    link = link_of(given, part)
    for config in _of_shares(design, given, link):
        other = replace(design, plan=config, link=link or own_link(config, part))
        mapped = Mapped(other, workload.name, workload.requests, given)
        cycles = mapped.model(design.memory).total
        if cycles is not None:
            rate = mapped.count / cycles * part.clock_mhz
            made.append((config.hbm_bytes, config.bytes_per_operation, -rate, config))
    best = [one for one in made if not any(_betters(other[:3], one[:3]) for other in made)]
    rows = [
        (
            f"{config.alpha:.0%}",
            f"{config.hbm_bytes:,}",
            f"{config.hbm_bytes / config.capacity:.0f}",
            amount(round(config.bytes_per_operation)),
            f"{config.host_bytes:,}",
            f"{-rate:.2f}",
        )
        for *_, rate, config in best
    ]
    names = "in HBM", "trusted bytes", "an item", "host bytes an operation", "bytes of pages", "M/s"
    columns = tuple(Column(name, right=True) for name in names)
    said = (
        f"{len(best)} of {len(made)} plans, none of which another betters in all of trusted bytes, host bytes an operation and rate. "
        f"Rates are the model's, of the {workload.count:,} operations of this run, start and end among them, with HBM of {design.memory}"
    )
    return Grid(columns, tuple(rows), title="plans", caption=said)


def _of_shares(design: MapDesign, given: Given, link: Memory | None) -> Iterable[OmapConfig]:
    """Yield the plan of each share in HBM that the part holds."""
    part, most = design.target, min(room(design.target), given.option("hbm", inf))
    own: Mapping[str, Any] = {n: v for n, v in given.options.items() if n not in ("hbm", "load")}
    for share in _SHARES:
        asked = replace(given, options={**own, "share": share})
        try:
            tried = plans(design.plan, part, design.memory, asked, link, design.plan.capacity)
        except ValueError:
            continue
        if (found := fitting(tried, part, most, given.option("fill", AIM))) is not None:
            yield found


def _betters(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def has_hbm(part: Target) -> bool:
    return part.memory.kind.startswith("HBM")


def _channels(count: int | None, part: Target, timing: Memory) -> tuple[int, ...]:
    """Return how many channels a port may join. Raises KernelError (E471)."""
    able = has_hbm(part) and isinstance(timing, FixedLatency)
    if count is None:
        return (1, 2, 4) if able else (1,)
    if count == 1 or able:
        return (count,)
    what = "whose channels answer after a fixed latency" if has_hbm(part) else "that has HBM"
    others = ", ".join(name for name, other in targets().items() if has_hbm(other))
    raise error(
        "E471",
        f"--channels {count} is for a target {what}",
        Span.whole("--channels"),
        hint=f"leave it out, or choose one of {others} with --memory latency=L,bytes=B",
    )


def _widest(part: Target, link: Memory | None) -> int:
    """Return the bytes of a word of the host's ports, at most: no wider than the link that is given."""
    widest = _PORT if part.link.kind == "xdma" else max(part.bus_bytes, 16)
    while link is not None and widest > 16 and widest // 2 >= link.bytes_per_cycle:
        widest //= 2
    return widest
