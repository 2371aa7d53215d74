"""Oblivious maps by the cycle model: operations a second, latency and host bytes over capacity, value size, share in HBM and window, beside published maps
and a linear scan in C that is timed here.

    benchmarks/omap.py [--write] [--quick]
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import log2
from pathlib import Path

import numpy as np
from common import Options, Section, machine, main, markdown

from penstock.models.memory import FixedLatency, Memory
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import Public, bound, run
from penstock.models.omap.pairs import PairSource
from penstock.models.omap.planner import plan, quickest
from penstock.models.omap.resources import estimate
from penstock.models.omap.tails import total
from penstock.targets import target_named, timing_of

__all__ = ["SECTIONS"]

_PART = target_named("u55c")
_MHZ = _PART.clock_mhz
#: PCIe as the published artifact has it: 1.26 µs a page; its 12 GB/s are 48 bytes a cycle, of which a port of 32 moves 32, and
#: one of 64 all
_TRIP = round(1.26 * _MHZ)
_WIDEST = 64
_PCIE = 12e9
_HBM = FixedLatency(60, _PART.bus_bytes)
_KEY = 0x3C4F1A2B5E6D70819203A4B5C6D7E8F9


def _shown(config: OmapConfig, count: int) -> list[Public]:
    """What so many operations show: pairs of bins as the generator draws them. All operations show such pairs, whatever their keys are."""
    shown = []
    for _, (first, second), blocks in islice(PairSource(config, _KEY), count):
        pages = tuple(b - config.hbm_bins for b in (first, second) if b >= config.hbm_bins)
        shown.append(Public(pages, first >= config.hbm_bins, blocks))
    return shown


@dataclass(frozen=True)
class _Row:
    """A map under full load, and its latency at half of it."""

    config: OmapConfig
    rate: float  #: operations a second
    share: float  #: of the bound of the model's link
    latency: float  #: seconds, at half load, from a request in the card's memory
    fetched: float  #: the same with requests and responses in the host's memory
    binds: str


def _measured(config: OmapConfig, options: Options, most: int = 1000) -> _Row:
    link = FixedLatency(_TRIP, config.host_bus_bytes)
    messages = FixedLatency(_HBM.latency, config.host_bus_bytes)
    count = 200 if options.quick else most
    operations = _shown(config, count)
    at = {"requests_at": config.host_bytes, "responses_at": config.host_bytes + (1 << 30)}
    cycles = run(config, operations, link, messages=messages, **at).total
    limits = bound(config, operations, link)
    half, fetched = (
        run(config, operations, link, interval=2 * -(-cycles // count), messages=port, **at)
        for port in (messages, link)
    )
    return _Row(
        config,
        count / cycles * _MHZ * 1e6,
        limits.link / cycles,
        half.latency / _MHZ * 1e-6,
        fetched.latency / _MHZ * 1e-6,
        limits.by,
    )


_HEAD = (
    "capacity",
    "value, bytes",
    "items a bin",
    "in HBM",
    "channels",
    "window",
    "host bytes an operation",
    "million operations/s",
    "of the model's link",
    "of 12 GB/s",
    "latency at half load, µs",
    "requests fetched over PCIe, µs",
    "binds",
    "failure, log2",
)


def _cells(row: _Row) -> tuple[str, ...]:
    config = row.config
    moved = config.bytes_per_operation + config.message_bytes
    return (
        f"2^{log2(config.capacity):.0f}",
        str(config.value_bytes),
        f"{config.load:.1f}",
        f"{config.alpha:.2f}",
        str(config.bus_bytes // _PART.bus_bytes),
        str(config.window),
        f"{moved:.0f}",
        f"{row.rate / 1e6:.3f}",
        f"{row.share:.2f}",
        f"{row.rate * moved / _PCIE:.2f}",
        f"{row.latency * 1e6:.2f}",
        f"{row.fetched * 1e6:.2f}",
        row.binds,
        f"{total(config):.0f}",
    )


def _plan(capacity: int, value_bytes: int = 8, memory: Memory = _HBM, **given: float) -> OmapConfig:
    """Return the engine's plan: with a fixed latency it chooses how many channels a port joins, unless they are given."""
    few = (given.pop("channels"),) if "channels" in given else (1, 2, 4)
    given = {"rounds": 2, "widest": _WIDEST, **given}  # the engine's default
    if not isinstance(memory, FixedLatency):
        return plan(capacity, value_bytes, memory=memory, bus_bytes=_PART.bus_bytes, **given)  # type: ignore[arg-type]
    return quickest(
        [
            plan(
                capacity,
                value_bytes,
                memory=FixedLatency(memory.latency, int(channels) * _PART.bus_bytes),
                bus_bytes=int(channels) * _PART.bus_bytes,
                **given,  # type: ignore[arg-type]
            )
            for channels in few
        ]
    )


def _joined(capacity: int, options: Options) -> str:
    """Maps whose ports join channels of HBM, with more rounds of a cipher core a cycle."""
    rows = []
    for channels, rounds in ((1, 2), (1, 4), (2, 2), (4, 2), (4, 4)):
        config = _plan(capacity, channels=channels, rounds=rounds)
        row = _measured(config, options, 10_000)
        cores = f"{config.openers}, {config.sealers}"
        rows.append((str(channels), str(rounds), cores, *_cells(row)[5:-1]))
    return markdown(("channels", "rounds a cycle", "openers, sealers", *_HEAD[5:-1]), rows)


def _table(configs: Iterable[OmapConfig], options: Options) -> str:
    return markdown(_HEAD, [_cells(_measured(config, options)) for config in configs])


def _growth(configs: Sequence[OmapConfig]) -> str:
    """Bytes an operation, fitted to a constant and a multiple of log2 log2 N, and to a multiple of log2 N."""
    sizes = np.array([log2(c.capacity) for c in configs])
    moved = np.array([c.bytes_per_operation for c in configs])
    parts = []
    for name, values in (("log2 log2 N", np.log2(sizes)), ("log2 N", sizes)):
        matrix = np.column_stack([np.ones(len(sizes)), values])
        (constant, slope), *_ = np.linalg.lstsq(matrix, moved, rcond=None)
        rest = np.sqrt(np.mean((matrix @ [constant, slope] - moved) ** 2))
        parts.append(f"{constant:.1f} + {slope:.2f} {name} (root mean square {rest:.1f})")
    slots = sorted({c.slots for c in configs})
    return f"Host bytes of pages over capacity, fitted: {parts[0]}; {parts[1]}. Slots of a page over these capacities: {', '.join(map(str, slots))}."


def _sizes(options: Options) -> list[int]:
    return [1 << k for k in ((10, 20) if options.quick else range(10, 25, 2))]


def _model(options: Options) -> str:
    million = 1 << (14 if options.quick else 20)
    over = [_plan(capacity) for capacity in _sizes(options)]
    published = [_plan(million, load=8.0, share=alpha) for alpha in (0.01, 0.2, 0.5)]
    values = [_plan(million, size) for size in (8, 64, 256, 1024)]
    windows = [_plan(million, window=window) for window in (8, 16, 32, 64, 128)]
    slow = _plan(million, memory=timing_of("dram", _PART))
    taken = estimate(values[0], _PART)
    lines = [
        "Capacity:",
        _table(over, options),
        _growth(over),
        "Value sizes:",
        _table(values, options),
        "The published mean load, and its shares in HBM (its batch took 4.96, 4.57 and 3.73 µs an operation, one in flight, without encryption):",
        _table(published, options),
        "Channels of HBM that each port joins, and rounds of a cipher core a cycle, over 10,000 operations:",
        _joined(million, options),
        "Requests in flight:",
        _table(windows, options),
        f"HBM with the timing of DRAM ({_PART.dram}): the deadline of an access, with a refresh "
        f"and conflicts of its bank, is {slow.deadline} cycles instead of {values[0].deadline}.",
        _table([slow], options),
        f"On `u55c` the first design of the value sizes is expected to take {taken.lut:,} of {_PART.lut:,} "
        f"look-up tables and {taken.bram:,} of {_PART.bram:,} block RAMs, with {values[0].openers} cores "
        f"that open and {values[0].sealers} that seal (at 1024 bytes {values[-1].openers} and "
        f"{values[-1].sealers}).",
    ]
    return "\n\n".join(lines)


# beside others


def _wide() -> list[str]:
    """Return the flags for vectors of 512 bits, which a GCC older than the processor leaves out."""
    names = ("avx512f", "avx512dq", "avx512bw", "avx512vl")
    flags = Path("/proc/cpuinfo").read_text().split()
    if any(name not in flags for name in names):
        return []
    return ["-mprefer-vector-width=512", *(f"-m{name}" for name in names)]


@cache
def _scan(value_bytes: int) -> ctypes.CDLL:
    source = Path(__file__).with_name("scan.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "scan.so"
        words = f"-DWORDS={value_bytes // 8}"
        command = [
            "gcc",
            "-O3",
            "-march=native",
            *_wide(),
            "-funroll-loops",
            "-shared",
            "-fPIC",
            words,
        ]
        subprocess.run([*command, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.scan_seconds.restype = ctypes.c_double
    loaded.scan_seconds.argtypes = [ctypes.c_long] * 3
    return loaded


def _scan_seconds(capacity: int, value_bytes: int) -> float:
    """Return the seconds of an operation of the linear scan."""
    # short batches, of about a millisecond: the fastest one has met no other process
    count = max(1, min(2000, (1 << 24) // (capacity * (8 + value_bytes))))
    seconds = float(_scan(value_bytes).scan_seconds(capacity, count, 100))
    if seconds < 0:
        raise ValueError("the scan gave a wrong answer")
    return seconds


#: map, where it was measured, µs an operation: 2^10, 2^16, 2^18, 2^20, 2^22, 2^24 with values of 8 bytes; 2^20 with 256
_PEERS = (
    (
        "linear scan, AVX-512 masks",
        "Zen 5 core with nothing beside it, November 2026",
        (0.08, 7.6, 37.7, 194, None, None),
        None,
    ),
    ("BOLT, α = 0.2", "its artifact, U55C, 2025", (None, None, None, 4.57, 5.80, None), None),
    (
        "H2O2RAM",
        "BOLT's artifact, 12 threads; at 2^20 one rebuild for 5,000 operations",
        (None, 2.98, 2.58, 192, 1031, None),
        890,
    ),
    ("EnigMap", "BOLT's artifact, a profiled build", (684, 1779, 2282, None, None, None), None),
    ("EnigMap", "Zen 5 core, November 2026", (None, 1343, 1676, 2152, None, None), None),
    (
        "Meta (mc-oblivious)",
        "obliviouslabs/benchmarks, Ryzen 9 7945HX",
        (80.4, 225, 355, 457, 574, 706),
        None,
    ),
    ("Signal CDSI", "the same", (5.45, 15.1, 19.8, 33.7, 38.4, 48.5), None),
    ("rostl", "the same", (1.29, 3.44, 6.41, 6.91, 10.8, 12.0), None),
    ("rostl", "Zen 5 core, November 2026", (None, 3.39, 6.78, 7.30, None, None), 25.7),
    (
        "olabs (umap)",
        "obliviouslabs/benchmarks, Ryzen 9 7945HX",
        (1.45, 4.05, 4.76, 6.50, 7.88, 9.88),
        None,
    ),
    ("olabs (OHashMap)", "Zen 5 core, November 2026", (None, 3.86, 5.50, 7.35, None, None), 12.0),
    (
        "olabs, 15 shards",
        "the same table, batches of 4,096, 56 bytes",
        (None, None, None, 1.40, None, None),
        None,
    ),
)
_AT = (10, 16, 18, 20, 22, 24)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _crossing(times: dict[int, float], engine: dict[int, float]) -> str:
    won = [k for k in times if times[k] > engine[k]]
    return f"2^{min(won)}" if won else "none of these capacities"


def _peers(options: Options) -> str:
    logs = (6, 10) if options.quick else range(6, 21)
    shown = [k for k in _AT if not options.quick or k == 10]
    rows = [
        (
            name,
            where,
            *(_number(t) for k, t in zip(_AT, times, strict=True) if k in shown),
            _number(wide),
        )
        for name, where, times, wide in _PEERS
    ]
    parts = []
    engines: dict[int, dict[int, _Row]] = {}
    for size in (8, 256):
        engines[size] = {
            k: _measured(_plan(1 << k, size), options, most=400) for k in sorted({*logs, *shown})
        }
    scans = {
        8: {k: _scan_seconds(1 << k, 8) * 1e6 for k in logs},
        256: {k: _scan_seconds(1 << k, 256) * 1e6 for k in logs},
    }
    wide = max(logs)
    for label, value in (("time between results", "rate"), ("latency at half load", "latency")):
        cells = []
        for size, ks in ((8, shown), (256, [wide])):
            for k in ks:
                row = engines[size][k]
                cells.append(_number(1e6 / row.rate if value == "rate" else row.latency * 1e6))
        rows.insert(0, (f"Penstock, {label}", "cycle model, `u55c` at 250 MHz", *cells))
    scanned = [_number(scans[8].get(k)) for k in shown]
    rows.insert(
        2, ("linear scan in C", "this machine, one core, now", *scanned, _number(scans[256][wide]))
    )
    head = ("map", "where", *(f"2^{k}" for k in shown), f"2^{wide}, 256 bytes")
    parts.append(markdown(head, rows))
    for size in (8, 256):
        rate = {k: 1e6 / row.rate for k, row in engines[size].items()}
        late = {k: row.latency * 1e6 for k, row in engines[size].items()}
        parts.append(
            f"Values of {size} bytes: the engine answers more operations a second than the scan from {_crossing(scans[size], rate)} on, and one "
            f"operation sooner from {_crossing(scans[size], late)} on."
        )
    parts.append(f"Scan: {machine()}")
    return "\n\n".join(parts)


SECTIONS = [
    Section("omap", False, _model),
    Section("omap-peers", True, _peers),
]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
