"""Targets and the timing of their memory ports, by what a user calls them."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from penstock.boards.catalogue import targets
from penstock.boards.records import Misread, read
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.errors import bad_value
from penstock.models.link.kinds import KINDS, Link, parse_link, stated
from penstock.models.link.timing import BYTE_BITS
from penstock.models.memory import FixedLatency, Memory, parse_memory
from penstock.models.plugins import absent
from penstock.models.target import Link as LinkRecord
from penstock.models.target import Target

#: bytes that a memory port may have, as a target's description does
BUSES = (4, 8, 16, 32, 64)


def target_named(name: str | Path | Target) -> Target:
    """Return the target of that name, the one that a TOML file describes, or the one that is given.

    Raises KernelError: E602 for an unknown name, E621 for a file that describes none; OptionError (E609) for what is none of these.
    """
    if isinstance(name, Target):
        return name
    if not isinstance(name, str | Path):
        what = f"it is a name, a TOML file or a Target, not {name!r:.99}"
        raise bad_value("target", what)
    known = targets()
    if isinstance(name, Path) or name.endswith(".toml"):
        return _described(name, known)
    if name not in known:
        hint = closest(name.lower(), known) or f"known are {', '.join(sorted(known))}"
        hint += "; or the name of a TOML file" + absent()
        raise error("E602", f"there is no target {name!r}", Span.whole("--target"), hint=hint)
    return known[name]


def _described(file: str | Path, known: Mapping[str, Target]) -> Target:
    """Return the one target of a file. Raises KernelError (E621)."""
    try:
        parts = read(file, known)
        if len(parts) != 1:
            raise Misread("target", f"expected one table [target], not {len(parts)}")
    except Misread as problem:
        hint = "docs/reference/targets.md lists the keys" + absent()
        raise error("E621", str(problem), Span.whole(str(file)), hint=hint) from None
    return parts[0]


def timing_of(memory: str | Memory | None, part: Target, bus_bytes: int = 0) -> Memory:
    """Return the timing of a part's memory ports, its own where none is given; `bus_bytes`: of a port,
    where a plan has wider ones. Raises KernelError (E604)."""
    if memory is None:
        memory = part.timing
    if memory == "dram":
        if not part.dram:
            others = ", ".join(name for name, other in targets().items() if other.dram)
            what = f"{part.name} has no DRAM of its own"
            hint = f"name one, as in --memory ddr4-2400; with DRAM of their own are {others}"
            raise error("E604", what, Span.whole("--memory"), hint=hint)
        memory = part.dram
    if not (isinstance(memory, str) or hasattr(memory, "channel")):
        raise bad_value("memory", f"it must be the name of a memory, or a Memory, not {memory!r}")
    try:
        timing = parse_memory(memory, part.clock_mhz) if isinstance(memory, str) else memory
    except ValueError as problem:
        what, _, hint = str(problem).partition("; ")
        raise error(
            "E604",
            what,
            Span.whole("--memory"),
            hint=hint or f"as in --memory {part.timing}, which is what {part.name} has",
        ) from None
    if not isinstance(timing, FixedLatency):
        return timing
    if timing.bytes_per_cycle > max(part.bus_bytes, bus_bytes):
        wider = [
            name for name, other in targets().items() if other.bus_bytes >= timing.bytes_per_cycle
        ]
        hint = f"write bytes={part.bus_bytes}" + (
            f", or choose a target with wider ports: {', '.join(sorted(wider))}" if wider else ""
        )
        what = f"a memory port of {part.name} is {part.bus_bytes} bytes wide; it cannot carry {timing.bytes_per_cycle} bytes a cycle"
        raise error("E604", what, Span.whole("--memory"), hint=hint)
    return timing


def link_named(text: str, flag: str) -> Link:
    """Return a link or disk as it is typed behind a flag. Raises KernelError (E604)."""
    try:
        return parse_link(text)
    except ValueError as problem:
        what, _, hint = str(problem).partition("; ")
        example = f"as in {flag} gbps=8,latency=10us"
        raise error("E604", what, Span.whole(flag), hint=hint or example) from None


def link_of(target: Target, text: str | None = None) -> Link | None:
    """Return the link between a host and a target, as the target's own end takes it; None: none is known.

    `text`: what `--link` says in place of the target's. Raises KernelError (E604) for that.
    """
    if text is not None:
        return _into(link_named(text, "--link"), target)
    link = target.link
    if link.kind not in KINDS and link.gbps is None:
        return None
    figures: dict[str, Fraction] = {}
    if link.kind == "uart" and link.baud:
        figures["baud"] = Fraction(link.baud)
    if link.gbps is not None:
        figures["gbps"] = Fraction(str(link.gbps))
    if link.latency_us is not None:
        figures["latency"] = Fraction(str(link.latency_us)) / 10**6
    return _into(KINDS.get(link.kind, stated)(**figures), target)


def linked(target: Target, text: str | None) -> Target:
    """Return a target with the link that `--link` says in place of its own, no board of which it is no link. Raises KernelError (E604)."""
    if text is None:
        return target
    link = link_named(text, "--link")
    if link.kind == "uart":
        record = LinkRecord(kind=link.kind, baud=int(link.rate * BYTE_BITS), source="--link")
    else:
        rate, latency = float(link.rate * 8 / 10**9), float(link.latency * 10**6)
        record = LinkRecord(kind=link.kind, gbps=rate, latency_us=latency, source="--link")
    board = target.board
    joined = link.kind in ("uart", target.link.kind)
    joined = joined or (link.kind == "udp" and board is not None and bool(board.rgmii))
    return replace(target, link=record, board=board if joined else None)


def with_bus(target: Target, bus: int | None) -> Target:
    """Return a target with memory ports of `bus` bytes, in a system of somebody else's: no board. Ports that carried a
    whole word a cycle go on to. Raises KernelError (E622)."""
    if bus is None:
        return target
    if bus not in BUSES or isinstance(bus, bool):
        what = f"a memory port is {', '.join(map(str, BUSES[:-1]))} or {BUSES[-1]} bytes wide, not {bus!r}"
        raise error("E622", what, Span.whole("--bus"), hint=f"as in --bus {target.bus_bytes}")
    full_rate = target.bytes_per_cycle >= target.bus_bytes
    rate = bus if full_rate else min(bus, target.bytes_per_cycle)
    return replace(target, bus_bytes=bus, bytes_per_cycle=rate, board=None)


def _into(link: Link, target: Target) -> Link:
    return link.into(Fraction(str(target.clock.mhz)) * 10**6, target.bus_bytes)


targets()  # packages that are left out are warned of here; they may ask for `target_named`
