"""`penstock reproduce bolt`: the figures of BOLT (2025) and of its artifact beside ours."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from penstock.api import compile
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.omap.kernel import ObliviousMap
from penstock.dsl.omap.kernel import bytes as bytes_
from penstock.models.derating import fullest
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.cycles import Public, bound, run
from penstock.models.omap.pairs import PairSource
from penstock.report.papers import Cell, beside, chart, facts, figures, number, plain, records
from penstock.report.parts import Facts, Part

from .design import MapDesign
from .scan import scan_seconds

_TARGET, _KEY = "u55c", 0x3C4F1A2B5E6D70819203A4B5C6D7E8F9
_SIZES = (10, 16, 18, 20, 22, 24)


def _data() -> Mapping[str, Any]:
    return figures(__package__, "bolt")


def shown(config: OmapConfig, count: int) -> list[Public]:
    """Return what so many operations show, whatever their keys are: pairs of bins, as drawn."""
    operations = []
    for _, pair, blocks in islice(PairSource(config, _KEY), count):
        pages = tuple(b - config.hbm_bins for b in pair if b >= config.hbm_bins)
        operations.append(Public(pages, pair[0] >= config.hbm_bins, blocks))
    return operations


@dataclass(frozen=True)
class Served:
    """A map under full load, and with one operation after another. Seconds an operation: `full`;
    `half`: from arrival to response at half of that rate; `fetched`: the same with requests and
    responses in the host's memory; `single`: one in flight alone, fetched as well. `link`: the
    share of the link's bound; `binds`: at full load."""

    design: MapDesign
    full: float
    half: float
    fetched: float
    single: float
    link: float
    binds: str


def served(design: MapDesign, count: int = 1000) -> Served:
    """Return how a map serves, by the cycle model."""
    config, clock = design.plan, design.target.clock_mhz * 1e6
    card, link = design.messages(design.memory), design.link
    operations = shown(config, count)
    at: dict[str, Any] = {
        "requests_at": config.host_bytes,
        "responses_at": config.host_bytes + (1 << 30),
    }
    cycles = run(config, operations, link, messages=card, **at).total
    limits = bound(config, operations, link)
    every = 2 * -(-cycles // count)
    half, fetched = (
        run(config, operations, link, interval=every, messages=port, **at).latency
        for port in (card, link)
    )
    few = operations[:200]
    single = run(config, few, link, interval=round(2 * fetched), messages=link, **at).latency
    full, half, share = cycles / count / clock, half / clock, limits.link / cycles
    return Served(design, full, half, fetched / clock, single / clock, share, limits.by)


@cache
def _map(items: int, value: int = 8, **options: Any) -> Served | str:
    """Return how the planner's map serves, or why there is none."""
    kernel = ObliviousMap(value=bytes_(value), capacity=items, name="bolt")
    try:
        design = compile(kernel, _TARGET, **options)
    except KernelError as problem:
        return problem.diagnostic.message
    assert isinstance(design, MapDesign)
    return served(design)


def _rows() -> Iterator[Part]:
    single, full, plans = [], [], []
    for row in records(_data()["rows"]):
        name, printed = row["name"], row["us"]
        system = _map(row["items"], row["value"], load=8.0, share=row["share"])
        if isinstance(system, str):
            single.append(Cell(name, printed, None, system))
            full.append(single[-1])
            continue
        slower, plan = system.single * 1e6 > printed, system.design.plan
        cause = f"HBM's deadline, {plan.access.deadline} cycles" if slower else "two pages at once"
        single.append(Cell(name, printed, system.single * 1e6, cause))
        cause = f"{plan.window} in flight; {system.binds} binds"
        full.append(Cell(name, printed, system.full * 1e6, cause))
        what, share = fullest(system.design.resources, system.design.target)
        part = f"{share:.0%} {what.upper()}"
        plans.append([name, f"{plan.window}", f"{plan.cores.openers}, {plan.cores.sealers}", part])
    note = _data()["notes"]["artifact"]
    yield beside("Artifact: µs an operation, one in flight", "map", single, note)
    yield beside("Artifact: µs between results, many in flight", "map", full)
    drawn = {"one in flight": single, "between results": full}
    yield chart("Artifact's rows", drawn, "µs", log=True)
    yield plain("Our plans", ["map", "window", "openers, sealers", "part"], plans)


def _headlines() -> Iterator[Part]:
    tables: dict[str, list[Cell]] = {"queries": [], "initialization": []}
    for row in records(_data()["baselines"]):
        items, name, why = 1 << row["log"], f"{row['name']}, 2^{row['log']}", row["fairness"]
        ours = _map(items)
        if isinstance(ours, str):
            tables["queries"].append(Cell(name, None, None, ours))
            continue
        tables["queries"].append(Cell(name, None, row["us"] / (ours.single * 1e6), why))
        if row["init"] > 0:
            gain, why = row["init"] / (items * ours.full), "ours: as many PUTs as items; " + why
            tables["initialization"].append(Cell(name, None, gain, why))
    for what, cells in tables.items():
        best = Cell("headline", _data()["headlines"][what], max(c.ours or 0 for c in cells))
        title = f"{what.capitalize()}, × over earlier maps"
        yield beside(title, "baseline", [best, *cells], _data()["notes"][what])


def ours() -> Iterator[Part]:
    """Return our map's µs an operation, by the cycle model."""
    maps = {**{f"2^{k}": _map(1 << k) for k in _SIZES}, "2^20, 256 bytes": _map(1 << 20, 256)}
    rows = []
    for name, what in (("latency at half load", "half"), ("between results", "full")):
        values = [None if isinstance(x, str) else getattr(x, what) * 1e6 for x in maps.values()]
        rows.append([f"Penstock, {name}", *map(number, values)])
    yield plain("µs an operation, by the cycle model", ["map", *maps], rows)
    if missing := [(name, x) for name, x in maps.items() if isinstance(x, str)]:
        yield Facts.of(*missing, title="No plan")


def peers(
    scan: Mapping[int, float] | None = None, wide_scan: float | None = None
) -> Iterator[Part]:
    """Return other maps; `scan`: µs of the scan in C by log2 of the items, and with 256 bytes."""
    heads, rows = [f"2^{k}" for k in _SIZES], []
    if scan:
        times = [*(scan.get(k) for k in _SIZES), wide_scan]
        rows.append(["scan in C", "this machine, now", *map(number, times)])
    for row in records(_data()["peers"]):
        values = [row[str(k)] for k in _SIZES] + [row["wide"]]
        rows.append([row["name"], row["where"], *(number(v if v > 0 else None) for v in values)])
    note = _data()["notes"]["peers"]
    yield plain("µs an operation of other maps", ["map", "where", *heads, "256 B"], rows, note)


def parts(cpu: bool = False) -> Iterator[Part]:
    """Return the report; `cpu`: with the scan in C on this computer."""
    yield facts(_data()["facts"])
    yield from _rows()
    yield from _headlines()
    scans = {k: scan_seconds(1 << k, 8) * 1e6 for k in _SIZES} if cpu else None
    yield from ours()
    yield from peers(scans, scan_seconds(1 << 20, 256) * 1e6 if cpu else None)
