"""Numbers as reports write them."""

from collections.abc import Sequence
from dataclasses import asdict

from penstock.models.memory import Dram, Memory
from penstock.models.resources import Resources
from penstock.models.target import Target

#: powers of ten by their letters
SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    size, unit = next((u for u in units if value >= u[0]), units[-1])
    return f"{value / size:.3g} {unit}"


def seconds_text(value: float) -> str:
    if value >= 120:
        return f"{value / 60:,.1f} min"
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")))


def grams_text(value: float) -> str:
    return _scaled(value, ((1e3, "kg"), (1.0, "g"), (1e-3, "mg"), (1e-6, "µg")))


def size_text(count: int) -> str:
    """Return bytes of memory."""
    power = max(0, min(count.bit_length() - 1, 40) // 10)
    return f"{count / (1 << 10 * power):g} {('bytes', 'KB', 'MB', 'GB', 'TB')[power]}"


def byte_rate(value: float) -> str:
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))) + "/s"


def rate(value: float) -> str:
    """Return a number a second without its unit."""
    return _scaled(value, ((1e6, "M"), (1e3, "k"), (1.0, ""))).rstrip()


def target_text(target: Target) -> str:
    """Return a target in one line."""
    ports = plural(target.ports, "memory port")
    clock = f"{amount(target.clock.mhz)} MHz ({target.clock.evidence})"
    return f"{target.name}: {clock}, {ports} of {target.bus_bytes} bytes"


def memory_text(memory: Memory, bus_bytes: int) -> str:
    """Return what a port of `bus_bytes` has behind it."""
    latency = plural(memory.latency, "cycle")
    speed = f"{amount(memory.rate(bus_bytes))} bytes a cycle"
    if not isinstance(memory, Dram):
        asked = memory.bytes_per_cycle
        if asked < bus_bytes and bus_bytes % asked:
            speed += f" ({asked} were asked for, but a word takes whole cycles)"
        return f"{latency} latency, {speed}"
    pins = f"{amount(float(memory.peak))} bytes a cycle on its pins"
    clocks = f"{memory.ratio.denominator} of its cycles in {memory.ratio.numerator}"
    return f"{memory.timing.title}; {clocks}, {pins}; {latency} latency at most, {speed}"


def resource_text(need: Resources, have: Target) -> str:
    """Return estimated resources in one line."""
    parts = []
    for name, count in asdict(need).items():
        most = getattr(have, name)
        if name == "uram" and not count:
            continue
        parts.append(f"{name.upper()} {count:,}" + (f" ({count / most:.0%})" if most else ""))
    return " · ".join(parts) + ", estimated"


def values_text(values: Sequence[float]) -> str:
    """Return the first of some numbers."""
    return " ".join(f"{v:.4g}" for v in values[:6]) + (" …" if len(values) > 6 else "")


def short(value: float) -> str:
    """Return a number in few signs."""
    if value >= 1e15 or 0 < value < 1e-3:
        return f"{value:.2g}"
    if value >= 1e5:
        size, unit = next(each for each in SIZES if value >= each[0])
        return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
