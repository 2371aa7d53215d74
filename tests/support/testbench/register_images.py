"""Images of an engine's registers: those of a run with some values changed, and what must become of them, by the documents alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import penstock as ps
from penstock.engines.base import Given, Result
from penstock.engines.omap.design import MapDesign
from penstock.host.omap.devices import MachineDevice
from penstock.host.workloads import Changes
from penstock.models.analytics.golden import train
from penstock.models.analytics.indices import walk_port
from penstock.models.analytics.job import port_pages
from penstock.models.memory import FixedLatency
from penstock.models.omap.kept_device import KeptDevice
from penstock.models.target import Link
from penstock.sim.machine import Closing, Ended, Metered
from penstock.targets import target_named
from testbench.kernels.by_index import LRMF, ratings
from testbench.omap import config

__all__ = ["CASES", "Case", "Imaged", "case", "image"]

#: the kernels; the first is that of `test_dram`, which is built anyway
_TRAINING = """kernel logistic(x: input[6], y: output, w: model[6], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  step  = merge(error * x, 16)
  w    <- w - rate * step
  until norm(step) < 0.9
  epochs 40
"""
_RINGED = """kernel f(x: input[4], y: output, w: model[4], rate: meta = 0.1)
  w <- w - rate * merge((sigmoid(sum(w * x)) - y) * x, 4)
  epochs 2
"""
_KEYS = """fit keys(key: key)
  model <- least_squares(window(key, 3), target=slot(key), method="gram", incremental=True)
"""
_COLUMNS = "fit columns(x: input[2], y: output)\n  model <- least_squares(x, target=y)\n"
_RECURRENCE = """recurrence r(S: state[32, 32], q: input[32], k: input[32], v: input[32], a: input)
  S <- a * S + outer(k, v)
  y <- q @ S
"""
#: the dialect's kind of each: others are its variants, with what registers only these have
CASES = {
    "training": "training",
    "ring": "training",
    "ports": "training",
    "rows": "training",
    "keys": "keys",
    "columns": "columns",
    "columns ring": "columns",
    "recurrence": "recurrence",
    "map": "map",
    "kept": "map",
}
#: a byte that no memory has
_FAR = 1 << 38


class _Stopped(Exception):
    """The start that counts has ended with an error, or was only looked at."""


class Imaged(Closing):
    """A machine whose start number `start` has an image in place of its registers; without a machine nothing runs, and memory
    reads as `nothing`. `ended`: how that start ended."""

    apart, capacity = 0, None

    def __init__(
        self,
        start: int,
        machine: Any = None,
        values: Mapping[str, int] = {},
        nothing: bytes = b"",
    ) -> None:
        self._nothing = nothing
        self._machine, self._left, self._image = machine, start, values
        self.registers: dict[str, int] = {}
        self.ended: Ended | None = None

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        if self._machine is not None:
            self._machine.reserve(at, size, space=space)

    def write(self, at: int, data: Any, *, space: int = 0) -> None:
        if self._machine is not None:
            self._machine.write(at, data, space=space)

    def read(self, at: int, size: int, *, space: int = 0) -> Any:
        if self._machine is None:
            return np.frombuffer(self._nothing.ljust(size, b"\0")[:size], np.uint8)
        return self._machine.read(at, size, space=space)

    def run(self, registers: Mapping[str, int], **options: Any) -> Ended:
        counts, self._left = self._left == 0, self._left - 1
        if counts:
            self.registers = dict(registers)
        if self._machine is None:
            if counts:
                raise _Stopped
            return Ended(None, 0, {}, 0, 0, 0.0)
        ended = self._machine.run({**registers, **(self._image if counts else {})}, **options)
        if counts:
            self.ended = ended
            if ended.error is not None:
                raise _Stopped
        return ended

    def trace(self, port: int) -> Any:
        return self._machine.trace(port) if self._machine is not None else []

    def alter(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Case:
    """A design with a run, whose start number `start` is looked at."""

    kind: str
    design: Any
    given: Given
    start: int

    @property
    def workload(self) -> Any:
        """Return the run anew: a driver may remember what it did."""
        if self.kind == "kept":
            return _Kept(self.design)
        return self.design.held(self.design.opened(self.given))

    @cached_property
    def registers(self) -> dict[str, int]:
        """Return those of the start."""
        seen = Imaged(self.start, nothing=self.workload.first() if self.kind == "kept" else b"")
        try:
            self.workload.drive(Metered(seen))
        except _Stopped:
            pass
        return seen.registers

    def golden(self, values: Mapping[str, int]) -> Result:
        """Return what a run with these registers gives, where no code is due."""
        if CASES[self.kind] != "training":
            return self.workload.golden()
        plan = replace(self.design.plan, epochs=values["epochs"])
        design = replace(self.design, plan=plan)
        if self.kind != "ports":
            return replace(self, design=design).workload.golden()
        parts = [part[: values[f"pages{q}"]] for q, part in enumerate(port_pages(plan, self.pages))]
        tuples = [walk_port(plan, part, q, plan.ports).tuples for q, part in enumerate(parts)]
        return Result(train(plan, tuples, dict(design.models()), design.runs()).models, None)

    @property
    def pages(self) -> Any:
        """Return those of the table."""
        return self.workload.table.pages

    def driven(self, machine: Any, values: Mapping[str, int]) -> tuple[Ended | None, Result | None]:
        """Run with these registers on hardware: return how the start ended, and the result."""
        imaged = Imaged(self.start, machine, values)
        try:
            result = self.workload.drive(Metered(imaged, watchdog=20_000, limit=3_000_000))
        except _Stopped:
            return imaged.ended, None
        return imaged.ended, result

    @cached_property
    def areas(self) -> dict[str, Area]:
        """What `docs/reference/registers.md` says of registers of addresses."""
        return _AREAS[CASES[self.kind]](self.design)

    @cached_property
    def _idle(self) -> set[str]:
        """Return registers of addresses where nothing lies."""
        return {name for name, area in self.areas.items() if not area.size and not area.each}

    def extent(self, name: str, values: Mapping[str, int]) -> tuple[int, int]:
        """Return where the bytes at an address begin, and the first one behind them."""
        bits = {register.name: register.bits for register in self.design.registers.engine}
        area, held = self.areas[name], {n: values[n] % (1 << width) for n, width in bits.items()}
        return held[name], held[name] + area.size + sum(
            size * held[n] for n, size in area.each.items()
        )

    def legal(self, name: str, values: Mapping[str, int]) -> bool:
        """Whether a run may start with a register's value: an address is a multiple of its unit, and what lies there ends
        before the last byte, apart from others."""
        value, bits = (
            values[name],
            next(r.bits for r in self.design.registers.engine if r.name == name),
        )
        if value >> bits:
            return False
        if name not in self.areas:
            least, most = _RANGES.get((CASES[self.kind], name), (0, None))
            return least <= value and (most is None or value <= most)
        area, (begin, end) = self.areas[name], self.extent(name, values)
        others = [self.extent(other, values) for other in area.apart]
        apart = all(end <= first or last <= begin for first, last in others)
        return begin % area.unit == 0 and end < 1 << bits and apart

    def illegal(self, values: Mapping[str, int]) -> int | None:
        """Return the offset of the first register whose value is not legal."""
        known = self.design.registers
        wrong = (r.name for r in known.engine if not self.legal(r.name, values))
        first = next(wrong, None)
        return None if first is None else known[first].offset

    def codes(self, name: str, value: int) -> set[str]:
        """Return the codes of which one ends a run whose register has another value, {} where its result is golden's."""
        if value == self.registers[name]:
            return set()
        if self.kind == "ring" and name == "epochs":  # no page comes for them
            return {"WATCHDOG"} if value > self.registers[name] else set()
        which = name.rstrip("0123456789") if CASES[self.kind] == "training" else name
        if (self.kind == "ports" and which == "pages") or name in self._idle:
            return set()
        return set(_CODES.get((CASES[self.kind], which), "").split())


@dataclass(frozen=True)
class Area:
    """The bytes at an address, a multiple of `unit`: `size` of them, and as many more for each one that registers count."""

    unit: int
    size: int = 0
    each: Mapping[str, int] = field(default_factory=dict)
    apart: tuple[str, ...] = ()


def _training(design: Any) -> dict[str, Area]:
    from penstock.models.analytics.shell import image_bytes

    plan = design.plan
    bus, page, (boot, result) = plan.bus_bytes, plan.page_size, image_bytes(plan)
    areas = {"boot_address": Area(bus, boot), "result_address": Area(bus, result)}
    for q in range(plan.ports):
        ring = Area(bus, plan.striders.ring * page)
        areas[f"page_address{q}"] = (
            ring if plan.striders.ring else Area(bus, 0, {f"pages{q}": page})
        )
    for t, (size, rows) in enumerate(plan.row_unit.sizes if plan.row_unit else ()):
        areas[f"row_address{t}"] = Area(size, size * rows, {}, tuple(areas))
    return areas


def _keys(design: Any) -> dict[str, Area]:
    bus = design.plan.bus_bytes
    return {"ring": Area(bus, 0, {"jobs": max(64, bus)})}


def _columns(design: Any) -> dict[str, Area]:
    plan = design.plan
    bus, page = plan.bus_bytes, plan.walk.schema.page_size
    areas = {
        "totals": Area(bus, plan.totals_words * bus),
        "answer": Area(bus, plan.answer_words * bus),
    }
    for name in ("come", "go"):
        ring = Area(bus, plan.ring * page)
        areas[f"{name}_address"] = ring if plan.ring else Area(bus, 0, {f"{name}_pages": page})
    return areas


def _recurrence(design: Any) -> dict[str, Area]:
    bus = design.device.bus
    return {
        "program": Area(bus, 0, {"words": bus}),
        "results": Area(bus, 0, {"result_words": bus}, ("program",)),
    }


def _map(design: Any) -> dict[str, Area]:
    """What a run writes lies apart from all else."""
    from penstock.models.omap.boundary import Frames

    plan = design.plan
    frames, bus = Frames.of(plan), plan.host_bus_bytes
    each = {"count": frames.size}
    areas = {
        "requests": Area(bus, 0, each),
        "responses": Area(bus, 0, each, ("requests",)),
        "opening": Area(bus, frames.opening_beats * bus, {}, ("responses",)),
    }
    areas["welcome"] = Area(bus, frames.welcome_beats * bus, {}, tuple(areas))
    areas["pages"] = Area(bus, plan.host_bytes, {}, tuple(areas))
    for name in ("log", "snapshot") if design.state else ():  # the snapshot's end is a record, too
        records = {**each, "walk": plan.bucket_slots * frames.size}
        areas[name] = Area(bus, frames.size, records, tuple(areas))
    return areas


_AREAS: dict[str, Callable[[Any], dict[str, Area]]] = {
    "training": _training,
    "keys": _keys,
    "columns": _columns,
    "recurrence": _recurrence,
    "map": _map,
}
#: by register: least and greatest value, where that is not any of its width
_RANGES: dict[tuple[str, str], tuple[int, int | None]] = {
    ("training", "epochs"): (1, (1 << 31) - 1),
    ("columns", "come_rows"): (0, 1 << 23),
    ("columns", "go_rows"): (0, 1 << 23),
    ("recurrence", "words"): (1, None),
}
#: by register: the codes of a value that is legal, and leads where no memory is, or that contradicts memory
_CODES = {
    ("training", "boot_address"): "BUS_READ",
    ("training", "result_address"): "BUS_WRITE",
    ("training", "page_address"): "BUS_READ",
    ("training", "pages"): "BUS_READ",
    ("training", "row_address"): "BUS_READ",
    ("keys", "ring"): "BUS_READ",
    ("keys", "jobs"): "BUS_READ BUS_WRITE",
    ("columns", "totals"): "BUS_READ",
    ("columns", "answer"): "BUS_WRITE",
    ("columns", "come_address"): "BUS_READ",
    ("columns", "come_pages"): "QR_SHORT",
    ("columns", "come_skip"): "QR_SHORT",
    ("columns", "come_rows"): "QR_SHORT",
    ("columns", "go_rows"): "QR_ROWS QR_SHORT",
    ("recurrence", "program"): "BUS_READ",
    ("recurrence", "words"): "PIM_PROGRAM",
    ("recurrence", "results"): "BUS_WRITE",
    ("recurrence", "result_words"): "PIM_PROGRAM BUS_WRITE",
    ("map", "requests"): "BUS_READ",
    ("map", "responses"): "BUS_WRITE",
    ("map", "pages"): "BUS_READ BUS_WRITE",
    ("map", "log"): "BUS_WRITE",
    ("map", "snapshot"): "BUS_WRITE",
}
#: by case and register: values at whose edges something becomes of a run that the documents say
_LEGAL: dict[tuple[str, str], Callable[[int], list[int]]] = {
    ("training", "epochs"): lambda value: [1, 2, value + 2],
    ("training", "pages0"): lambda value: [value + 3],
    ("ring", "epochs"): lambda value: [1, value + 1],
    ("ports", "epochs"): lambda value: [1, value + 2],
    ("ports", "pages0"): lambda value: [0, 1, value - 1],
    ("ports", "pages1"): lambda value: [0, 1, value - 1],
    ("rows", "epochs"): lambda value: [1, value + 2],
    ("keys", "jobs"): lambda value: [1 << 31],
    ("columns", "come_pages"): lambda value: [0, value - 1],
    ("columns", "come_skip"): lambda value: [1 << 20, (1 << 32) - 1],
    ("columns", "come_rows"): lambda value: [1 << 20, 1 << 23],
    ("columns", "go_rows"): lambda value: [1, 1 << 23],
    ("columns", "go_skip"): lambda value: [1, 1 << 31],
    ("columns", "come_block"): lambda value: [1, (1 << 32) - 1],
    ("columns", "go_block"): lambda value: [7],
    ("columns ring", "go_rows"): lambda value: [1, 1 << 23],
    ("columns ring", "come_block"): lambda value: [1, (1 << 32) - 1],
    ("recurrence", "words"): lambda value: [1, value - 1],
    ("recurrence", "result_words"): lambda value: [0, value - 1, value + 1, value + 64],
    ("map", "interval"): lambda value: [1, 300],
    ("kept", "interval"): lambda value: [1, 300],
    ("kept", "walk"): lambda value: [15],
}


def image(case: Case, random: Random, *, tame: bool = False) -> dict[str, int]:
    """Draw an image: one to three registers have other values, at their edges; one in ten has values at random. `tame`: of legal values only those of
    which the documents say what becomes."""
    known = case.design.registers
    values, overlaps = dict(case.registers), set[str]()
    live = [r for r in known.engine if not r.live]
    if not tame and random.random() < 0.1:
        return {r.name: random.getrandbits(known[r.name].bits) for r in known.engine}
    for register in random.sample(live, min(len(live), random.randint(1, 3))):
        name, bits, room = register.name, register.bits, known[register.name].bits
        value, multiple = values[name], register.rule.multiple
        edges = [*_LEGAL.get((case.kind, name), lambda _: [])(value)]
        if multiple > 1:
            edges += [
                value + 1,
                value + multiple // 2,
                _FAR,
                (1 << bits) - multiple,
                (1 << bits) - 1,
            ]
        if bits < room:
            edges += [value | 1 << bits, value | 1 << room - 1]
        if not case.legal(name, {**values, name: 0}):
            edges.append(0)
        beside = _beside(case, name, values) if name in case.areas else []
        edges += beside
        if not tame:
            edges += [0, 1, (1 << bits) - 1, register.most, register.rule.least]
        if edges:
            values[name] = random.choice(edges) % (1 << room)
            overlaps |= {name} if values[name] in beside else set()
    # what others were there may lie elsewhere by now
    while tame and (free := {name for name in overlaps if case.legal(name, values)}):
        values |= {name: case.registers[name] for name in free}
        overlaps -= free
    return values


def _beside(case: Case, name: str, values: Mapping[str, int]) -> list[int]:
    """Return where the last word of the bytes at an address would be the first one of others that they lie apart from, or their first one the
    last of these."""
    begin, end = case.extent(name, values)
    unit, edges = case.areas[name].unit, []
    for other in case.areas[name].apart:
        first, last = case.extent(other, values)
        edges += [first, first - (end - begin) + unit, last - 1 - (last - 1) % unit]
    return [edge for edge in edges if edge >= 0 and not case.legal(name, {**values, name: edge})]


class _Kept:
    """A map with a log and a snapshot, which is asked for two things that no session asks. Its first start begins the log."""

    frames, walk = [bytes(range(64)), bytes(64)], 8

    def __init__(self, design: MapDesign) -> None:
        self.config = design.plan
        self.vault = {"root": 1, "entropy": 2, "generation": 0}

    def _device(self) -> KeptDevice:
        keys = (self.vault[name].to_bytes(32, "little") for name in ("root", "entropy"))
        return KeptDevice(self.config, *keys)

    def golden(self) -> Result:
        return self._told(self._device())

    def first(self) -> bytes:
        """Return what the log's first start writes."""
        return self._device().begin()

    def drive(self, machine: Any) -> Result:
        return self._told(MachineDevice(self.config, machine, state=True))

    def _told(self, device: Any) -> Result:
        texts = [device.begin()]
        ask = device.step if isinstance(device, MachineDevice) else device.carry
        made = ask(self.frames, walk=self.walk)
        texts += [*made.answers, made.log, made.fresh]
        return Result({"texts": np.frombuffer(b"".join(texts), np.uint8).astype(np.int64)})

    def memory_bytes(self) -> int:
        return 0


def _compiled(kind: str, folder: Path) -> tuple[Any, str]:
    """Return the design of a training, fit or recurrence, and its table's source."""
    small = target_named("small")
    two = replace(small, ports=2, page_size=1024, link=Link())
    kernels: dict[str, tuple[str, Any, str | None, dict[str, Any]]] = {
        "training": (_TRAINING, "small", "random:rows=40,seed=2", {}),
        "ring": (_RINGED, two, "random:rows=200", {"ring": 2, "choices": ps.Choices(ports=1)}),
        "ports": (_RINGED, two, "random:rows=150", {"choices": ps.Choices(ports=2, threads=2)}),
        "keys": (_KEYS, "small", None, {}),
        "columns": (_COLUMNS, "kcu105", "random:rows=300,seed=2", {}),
        "columns ring": (
            _COLUMNS,
            replace(target_named("kcu105"), link=Link()),
            "random:rows=900,seed=2",
            {"ring": 2},
        ),
        "recurrence": (_RECURRENCE, "small", None, {}),
    }
    kernel, target, source, options = kernels[kind]
    path = folder / f"{kind}.psk"
    path.write_text(kernel)
    return ps.compile(str(path), target, source, **options), source


def _of_rows(folder: Path) -> Case:
    """Rows of two tables in memory, beside pages and results."""
    table = ratings(np.random.default_rng(1), 30, 6, 5)
    (path := folder / "rows.psk").write_text(LRMF + "  batch 4\n")
    part, place = replace(target_named("small"), ports=2), {"P": "memory:8", "Q": "memory"}
    design = ps.compile(
        path,
        part,
        table,
        "fixed:8,8",
        dims={"m": 6, "n": 5, "k": 3},
        choices=ps.Choices(place=place, lanes=2),
        on_overflow="saturate",
    )
    return Case(
        "rows", design.compiled, Given(ps.open_table(table, design.compiled.plan.schema)), 0
    )


def case(kind: str, folder: Path) -> Case:
    """Compile one of `CASES`, with a small run."""
    if CASES[kind] == "map":
        link, hbm, state = FixedLatency(30, 32), FixedLatency(5, 32), kind == "kept"
        design = MapDesign(target_named("u55c"), hbm, "map", config(), link, state)
        return Case(kind, design, Given(options={"ops": 6}), 1 if state else 2)
    if kind == "rows":
        return _of_rows(folder)
    made, source = _compiled(kind, folder)
    given = Given(source, source, options={"tokens": 2} if kind == "recurrence" else {})
    if kind == "keys":
        given = Given(made.refits(4, changes=Changes(1, 3, 10)))
    return Case(kind, made.compiled, given, 0)
