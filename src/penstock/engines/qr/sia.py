"""`penstock reproduce sia`: the headlines of SIA (PVLDB 17(8), 2024) beside ours."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from penstock.api import compile
from penstock.dsl.core.load import from_text
from penstock.dsl.qr.plan import Load
from penstock.models.derating import fullest
from penstock.models.qr.cycles import Work, run
from penstock.models.qr.layout import Size
from penstock.models.target import Clock, Target
from penstock.report.papers import (
    Cell,
    beside,
    chart,
    facts,
    figures,
    geomean,
    number,
    plain,
    records,
)
from penstock.report.parts import Part
from penstock.targets import target_named

from .keys import FitDesign
from .refit_c import keys_seconds

_ROWS, _NEW, _THREADS = 500, 50, 16
_KERNEL = "fit model(key: key)\n  line <- least_squares(window(key, 32), target=slot(key))\n"


def throughput(operation: float, merge: float, fit: float, new: float, *, beside: bool) -> float:
    """Return operations a second, sustained, of serving threads that take `operation` seconds for one
    each, where a share `new` of them inserts a key: the slower of the threads and of their one
    trainer, which merges and fits a group for `_NEW` keys. `beside`: fits run beside merges (an
    engine), not after them."""
    refit = max(merge, fit) if beside else merge + fit
    return min(_THREADS / operation, _NEW / (refit * new))


def _data() -> Mapping[str, Any]:
    return figures(__package__, "sia")


def _part() -> Target:
    """Return the machine: HARP's Arria 10 GX 1150, by the synthesis rules of the nearest family."""
    machine = _data()["machine"]
    return replace(target_named("vu9p"), **machine["part"], clock=Clock(**machine["clock"]))


@cache
def _design() -> FitDesign:
    design = compile(from_text(_KERNEL, "sia.psk"), _part())
    assert isinstance(design, FitDesign)
    return design


def _size() -> Size:
    return Load(_ROWS, _NEW).work(_design().plan).size


@cache
def _engine(columns: int) -> tuple[int, float]:
    """Return cycles and seconds of a refit on the engine, when many follow one another."""
    design, jobs = _design(), 128
    work = Work.plain(replace(_size(), columns=columns), False)
    cycles = run(design.plan, [work] * jobs, design.memory).total // jobs
    return cycles, cycles / (_part().clock_mhz * 1e6)


def _trainers(cpu: bool) -> list[dict[str, Any]]:
    """Return the trainers in software; `cpu`: with the one in C on this computer."""
    trainers = records(_data()["trainers"])
    if cpu:
        refit = _NEW, _size().moved
        took = {c: keys_seconds(_ROWS, int(c), *refit) * 1e6 for c in ("9", "33")}
        trainers.append({"name": "C, here", **took, "origin": "the same on this computer, now"})
    return trainers


def _refits(cpu: bool) -> Iterator[Part]:
    rows = []
    for columns in ("9", "33"):
        cycles, seconds = _engine(int(columns))
        for row in _trainers(cpu):
            ratio = row[columns] / (seconds * 1e6)
            rows.append(
                [columns, row["name"], number(row[columns]), f"{ratio:.2f} ×", row["origin"]]
            )
        rows.append([columns, "engine", number(seconds * 1e6), "", f"{cycles:,} cycles a refit"])
    heads = ["columns", "trainer", "µs", "÷ engine", "what it is"]
    yield plain("A refit of 500 rows, 50 of them new", heads, rows)


def _served(share: float, columns: str, cpu: bool) -> dict[str, float]:
    """Return operations a second by trainer."""
    index = _data()["index"]
    rates = {}
    fits = {row["name"]: (row[columns] * 1e-6, False) for row in _trainers(cpu)}
    fits["engine"] = (_engine(int(columns))[1], True)
    for name, (fit, side) in fits.items():
        rates[name] = throughput(index["operation"], index["merge"], fit, share, beside=side)
    return rates


def _headlines(cpu: bool) -> Iterator[Part]:
    rows, cells = [], []
    gains: dict[str, list[float]] = {name: [] for name in _data()["headlines"]}
    over_c: dict[str, list[float]] = {name: [] for name in gains}
    for w in records(_data()["workloads"]):
        for columns in ("9", "33"):
            speed = _served(w["new"], columns, cpu)
            rows.append([f"{w['name']}, {columns}", *(f"{v / 1e6:.2f}" for v in speed.values())])
            for other in ("SIndex", "SIA software", "C"):
                rows[-1].append(f"{speed['engine'] / speed[other]:.2f} ×")
            if w["set"]:
                gains[w["set"]].append(speed["engine"] / speed["SIndex"])
                over_c[w["set"]].append(speed["engine"] / speed["C"])
    heads = ["workload, columns", *speed, "÷ SIndex", "÷ SIA software", "÷ C"]
    note = "; ".join(
        f"{w['name']}: {w['new']:.0%} new keys, {w['origin']}"
        for w in records(_data()["workloads"])
    )
    yield plain("Million operations a second by trainer", heads, rows, note)
    for name, printed in _data()["headlines"].items():
        cause = _data()["notes"]["cause"].format(over_c=geomean(over_c[name]))
        cells.append(Cell(name, printed, geomean(gains[name]), cause))
    note = _data()["notes"]["headlines"]
    yield beside("Headlines: × the operations a second", "workload", cells, note)
    drawn = {"engine ÷ SIndex's trainer": cells}
    yield chart("Headlines", drawn, "× the operations a second", log=False)


def parts(cpu: bool = False) -> Iterator[Part]:
    """Return the report; `cpu`: with the trainer in C on this computer."""
    name, share = fullest(_design().resources, _design().target)
    plan = f"{_design().text()}; {share:.0%} of the {name.upper()}"
    yield facts(_data()["facts"], plan=plan)
    yield from _refits(cpu)
    yield from _headlines(cpu)
