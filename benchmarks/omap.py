"""Oblivious maps by the cycle model: operations a second, latency and host bytes over capacity, value size, share in HBM and window, beside published maps
and a linear scan in C that is timed here.

    benchmarks/omap.py [--write] [--quick]
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from math import log2
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import Options, Section, machine, main, markdown
from reproduce import written

from penstock.api import compile
from penstock.dsl.omap.kernel import ObliviousMap
from penstock.dsl.omap.kernel import bytes as bytes_
from penstock.engines.omap import bolt
from penstock.engines.omap.bolt import Served, served
from penstock.engines.omap.design import MapDesign
from penstock.engines.omap.scan import flags, scan_seconds
from penstock.models.omap.boundary import Frames
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import run
from penstock.models.omap.tails import total
from penstock.sim.native.toolchain import build_text
from penstock.targets import target_named

__all__ = ["SECTIONS"]

_PART = target_named("u55c")
_PCIE = 12e9

#: of a design alone; of its run; how it may fail
_PLAN = "capacity | value, bytes | items a bin | in HBM | channels"
_RUN = (
    "window | host bytes an operation | million operations/s | of the model's link | of 12 GB/s | "
)
_RUN += "latency at half load, µs | requests fetched over PCIe, µs | binds"
_IDEAL = "on ideal memory, million/s"
_HEAD = f"{_PLAN} | {_RUN} | {_IDEAL} | failure, log2"


def _run(row: Served) -> str:
    config, rate = row.design.plan, 1 / row.full
    moved = config.bytes_per_operation + Frames.of(config).size
    shares = f"{row.link:.2f} | {rate * moved / _PCIE:.2f} | {row.half * 1e6:.2f} | {row.fetched * 1e6:.2f}"
    return f"{config.window} | {moved:.0f} | {rate / 1e6:.3f} | {shares} | {row.binds}"


def _cells(row: Served, ideal: str) -> str:
    config = row.design.plan
    channels = config.access.dealt * config.bus_bytes // _PART.bus_bytes
    plan = f"2^{log2(config.capacity):.0f} | {config.value_bytes} | {config.load:.1f} | {config.alpha:.2f} | {channels}"
    return f"{plan} | {_run(row)} | {ideal} | {total(config):.0f}"


def _measured(design: MapDesign, options: Options, most: int = 1000) -> Served:
    return served(design, 200 if options.quick else most)


def _plan(capacity: int, value_bytes: int = 8, **given: Any) -> MapDesign:
    kernel = ObliviousMap(value=bytes_(value_bytes), capacity=capacity, name="map")
    found = compile(kernel, _PART, **given)
    assert isinstance(found, MapDesign)
    return found


class _Both(NamedTuple):
    """A map, and the one that is planned for memory that is always ready."""

    design: MapDesign
    ideal: MapDesign


def _both(capacity: int, value_bytes: int = 8, **given: Any) -> _Both:
    ideal = _plan(capacity, value_bytes, memory=_PART.timing, **given)
    return _Both(_plan(capacity, value_bytes, **given), ideal)


def _joined(capacity: int, options: Options) -> str:
    """Maps whose ports have channels of HBM, with more rounds of a cipher core a cycle."""
    rows = []
    for channels, rounds in ((1, 2), (1, 4), (2, 2), (4, 2), (4, 4)):
        design, ideal = _both(capacity, channels=channels, rounds=rounds)
        row, beside = (_measured(each, options, 10_000) for each in (design, ideal))
        cores = f"{design.plan.cores.openers}, {design.plan.cores.sealers}"
        rows.append(f"{channels} | {rounds} | {cores} | {_run(row)} | {1e-6 / beside.full:.3f}")
    return markdown(f"channels | rounds a cycle | openers, sealers | {_RUN} | {_IDEAL}", rows)


def _table(maps: Iterable[_Both], options: Options) -> str:
    rows = []
    for design, ideal in maps:
        beside = _measured(ideal, options)
        rows.append(_cells(_measured(design, options), f"{1e-6 / beside.full:.3f}"))
    return markdown(_HEAD, rows)


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


def _taken(designs: Iterable[MapDesign]) -> str:
    rows = []
    for design in designs:
        config, need = design.plan, design.resources
        items = config.capacity * (8 + config.value_bytes)
        parts = [f"2^{int(log2(config.capacity))}", str(config.value_bytes)]
        parts += [f"{size / items:.2f}" for size in (config.hbm_bytes, config.host_bytes)]
        rows.append((*parts, *(f"{n:,}" for n in (need.bram, need.uram, need.lut))))
    heads = (
        "capacity|value, bytes|trusted bytes ÷ items'|host's bytes ÷ items'|block RAM|UltraRAM|LUT"
    )
    return markdown(heads.split("|"), rows)


def _sizes(options: Options) -> list[int]:
    return [1 << k for k in ((10, 20) if options.quick else range(10, 25, 2))]


def _model(options: Options) -> str:
    million = 1 << (14 if options.quick else 20)
    over = [_both(capacity) for capacity in _sizes(options)]
    published = [_both(million, load=8.0, share=alpha) for alpha in (0.01, 0.2, 0.5)]
    values = [_both(million, size) for size in (8, 64, 256, 1024)]
    half = _both(million, 256, hbm=132 << 20)
    windows = [_both(million, window=window) for window in (8, 16, 32, 64, 128)]
    designs = [each.design for each in values]
    wide = [_plan(capacity, 256) for capacity in _sizes(options)]
    taken, quick = designs[0].resources, values[0].ideal
    lines = [
        "Capacity:",
        _table(over, options),
        _growth([each.design.plan for each in over]),
        "What a map takes: trusted memory is HBM, which the host does not read, untrusted memory the host's:",
        _taken([*(each.design for each in over), *wide, half.design]),
        "Value sizes:",
        _table([*values, half], options),
        "The published mean load, and its shares in HBM (its batch took 4.96, 4.57 and 3.73 µs an operation, one in flight, without encryption):",
        _table(published, options),
        "Channels of HBM that each port has, and rounds of a cipher core a cycle, over 10,000 operations:",
        _joined(million, options),
        "Requests in flight:",
        _table(windows, options),
        "With a log of all operations (`penstock serve --state`):",
        _logged(designs, options),
        f"The deadline of an access to HBM, with a refresh and conflicts of its bank ({_PART.dram}), is "
        f"{designs[0].plan.access.deadline} cycles; {quick.plan.access.deadline} on ideal memory.",
        f"On `u55c` the first design of the value sizes is expected to take {taken.lut:,} of {_PART.lut:,} "
        f"look-up tables and {taken.bram:,} of {_PART.bram:,} block RAMs, with {designs[0].plan.cores.openers} cores "
        f"that open and {designs[0].plan.cores.sealers} that seal (at 1024 bytes {designs[-1].plan.cores.openers} and "
        f"{designs[-1].plan.cores.sealers}).",
    ]
    if not options.quick:
        lines += ["Beside other maps, below:", written(bolt.ours())]
    return "\n\n".join(lines)


def _logged(designs: Sequence[MapDesign], options: Options) -> str:
    """Rates with a log of all operations, by a port of its own, and without."""
    rows, count = [], 400 if options.quick else 2000
    for design in designs:
        config, card = design.plan, design.messages(design.memory)
        at = {"requests_at": config.host_bytes, "responses_at": config.host_bytes + (1 << 30)}
        shown = bolt.shown(config, count)
        rates = [
            count
            * design.target.clock_mhz
            / run(config, shown, design.link, messages=card, log=log, **at).total
            for log in (None, card)
        ]
        size = Frames.of(config).size
        rows.append((str(config.value_bytes), *(f"{rate:.3f}" for rate in rates), str(size)))
    heads = "value, bytes | million operations/s | with a log | bytes of the log an operation"
    return markdown(heads, rows)


# beside others


def _peers(options: Options) -> str:
    logs = (6, 10) if options.quick else range(6, 21)
    scans = {size: {k: scan_seconds(1 << k, size) * 1e6 for k in logs} for size in (8, 256)}
    table = written(bolt.peers(scans[8], scans[256][max(logs)]))
    text = Path(__file__).with_name("circuit_oram.cpp").read_text()
    peer = ctypes.CDLL(str(build_text("circuit_oram", text, flags()))).peer_seconds
    peer.restype, peer.argtypes = ctypes.c_double, [ctypes.c_long] * 3
    own, scan = peer(1 << max(logs), 200, 200) * 1e6, scans[8][max(logs)]
    assert own > 0, "a wrong answer, or an item without a place"
    beside = (
        f"In the same run, 2^{max(logs)} items of 8 bytes: the scan {scan:.3g} µs, a cuckoo map over Circuit ORAM in C++ {own:.3g} µs, "
        f"{scan / own:.1f} × less (asked of a peer: 20). Both encrypt nothing and trust the computer; the engine trusts its chip and HBM."
    )
    return "\n\n".join([table, beside, f"Scan and Circuit ORAM: {machine()}"])


SECTIONS = [Section("omap", False, _model), Section("omap-peers", True, _peers)]

if __name__ == "__main__":
    main(SECTIONS, __doc__)
