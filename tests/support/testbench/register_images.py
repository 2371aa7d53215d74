"""Images of an engine's registers: those of a run with some values changed, and what must become of them, by the documents alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import penstock as ps
from penstock.engines.base import Given, Result
from penstock.engines.omap.design import MapDesign
from penstock.host.workloads import Changes
from penstock.models.memory import FixedLatency
from penstock.sim.machine import Closing, Ended, Metered
from penstock.targets import target_named
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
_KEYS = """fit keys(key: key)
  model <- least_squares(window(key, 3), target=slot(key), method="gram", incremental=True)
"""
_COLUMNS = "fit columns(x: input[2], y: output)\n  model <- least_squares(x, target=y)\n"
_RECURRENCE = """recurrence r(S: state[32, 32], q: input[32], k: input[32], v: input[32], a: input)
  S <- a * S + outer(k, v)
  y <- q @ S
"""
CASES: dict[str, tuple[str, str, Any]] = {
    "training": (_TRAINING, "small", "random:rows=40,seed=2"),
    "keys": (_KEYS, "small", None),
    "columns": (_COLUMNS, "kcu105", "random:rows=300,seed=2"),
    "recurrence": (_RECURRENCE, "small", None),
    "map": ("", "u55c", None),
}
#: a byte that no memory has
_FAR = 1 << 38
Rule = Callable[[int, Mapping[str, int]], bool]


class _Stopped(Exception):
    """The start that counts has ended with an error, or was only looked at."""


class Imaged(Closing):
    """A machine whose start number `start` has an image in place of its registers; without a machine nothing runs. `ended`: how that start ended."""

    apart, capacity = 0, None

    def __init__(self, start: int, machine: Any = None, values: Mapping[str, int] = {}) -> None:
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
            return np.zeros(size, np.uint8)
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
        return self.design.held(self.design.opened(self.given))

    @cached_property
    def registers(self) -> dict[str, int]:
        """Return those of the start."""
        seen = Imaged(self.start)
        try:
            self.workload.drive(Metered(seen))
        except _Stopped:
            pass
        return seen.registers

    def golden(self, values: Mapping[str, int]) -> Result:
        """Return what a run with these registers gives, where no code is due."""
        if self.kind == "training" and values["epochs"] != self.registers["epochs"]:
            plan = replace(self.design.plan, epochs=values["epochs"])
            return replace(self, design=replace(self.design, plan=plan)).workload.golden()
        return self.workload.golden()

    def driven(self, machine: Any, values: Mapping[str, int]) -> tuple[Ended | None, Result | None]:
        """Run with these registers on hardware: return how the start ended, and the result."""
        imaged = Imaged(self.start, machine, values)
        try:
            result = self.workload.drive(Metered(imaged, watchdog=20_000, limit=3_000_000))
        except _Stopped:
            return imaged.ended, None
        return imaged.ended, result

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """What `docs/reference/registers.md` says of each register."""
        return _RULES[self.kind](self.design)

    def illegal(self, values: Mapping[str, int]) -> int | None:
        """Return the offset of the first register whose value is not legal."""
        known = self.design.registers
        for register in known.engine:
            value = values[register.name]
            if value >> register.bits or not self.rules[register.name](value, values):
                return known[register.name].offset
        return None

    def codes(self, name: str, value: int) -> set[str]:
        """Return the codes of which one ends a run whose register has another value, {} where its result is golden's."""
        if value == self.registers[name]:
            return set()
        return set(_CODES.get((self.kind, name), "").split())


def _address(bits: int, bus: int, size: int, count: str = "", most: int = 1 << 32) -> Rule:
    """What is said of an address: it is a multiple of the bus, and what lies there ends before the last byte."""

    def holds(value: int, values: Mapping[str, int]) -> bool:
        pieces = values[count] % most if count else 1
        return value % bus == 0 and value + pieces * size < 1 << bits

    return holds


def _any(value: int, values: Mapping[str, int]) -> bool:
    return True


def _training(design: Any) -> dict[str, Rule]:
    from penstock.models.analytics.shell import image_bytes

    plan = design.plan
    bus, (boot, result) = plan.bus_bytes, image_bytes(plan)
    return {
        "boot_address": _address(40, bus, boot),
        "result_address": _address(40, bus, result),
        "epochs": lambda value, _: 1 <= value <= 2**31 - 1,
        "page_address0": _address(40, bus, plan.page_size, "pages0"),
        "pages0": _any,
    }


def _keys(design: Any) -> dict[str, Rule]:
    bus = design.plan.bus_bytes
    return {"ring": _address(48, bus, max(64, bus), "jobs"), "jobs": _any}


def _columns(design: Any) -> dict[str, Rule]:
    plan = design.plan
    bus, page = plan.bus_bytes, plan.walk.schema.page_size
    rules: dict[str, Rule] = {
        "totals": _address(48, bus, plan.totals_words * bus),
        "answer": _address(48, bus, plan.answer_words * bus),
    }
    for name in ("come", "go"):
        rules[f"{name}_address"] = _address(48, bus, page, f"{name}_pages")
        rules |= {f"{name}_{one}": _any for one in ("pages", "skip", "block")}
        rules[f"{name}_rows"] = lambda value, _: value <= 1 << 23
    return rules


def _recurrence(design: Any) -> dict[str, Rule]:
    bus = design.device.bus

    def results(value: int, values: Mapping[str, int]) -> bool:
        stored = {n: values[n] % (1 << bits) for n, bits in _PIM_BITS.items()}
        begin, end = stored["program"], stored["program"] + bus * stored["words"]
        last = value % (1 << 40) + bus * stored["result_words"]
        apart = not (begin < last and value % (1 << 40) < end)
        return apart and _address(40, bus, bus, "result_words", 1 << 24)(value, values)

    return {
        "program": _address(40, bus, bus, "words", 1 << 24),
        "words": lambda value, _: value >= 1,
        "results": results,
        "result_words": _any,
    }


_PIM_BITS = {"program": 40, "words": 24, "result_words": 24}


def _map(design: Any) -> dict[str, Rule]:
    from penstock.models.omap.boundary import Frames

    plan = design.plan
    frames, bus = Frames.of(plan), plan.host_bus_bytes
    plain = {
        "requests": _address(40, bus, frames.size, "count"),
        "responses": _address(40, bus, frames.size, "count"),
        "opening": _address(40, bus, frames.opening_beats * bus),
        "welcome": _address(40, bus, frames.welcome_beats * bus),
        "pages": _address(40, bus, plan.host_bytes),
    }

    def apart(name: str, others: tuple[str, ...]) -> Rule:
        def extent(n: str, values: Mapping[str, int]) -> tuple[int, int]:
            begin = values[n] % (1 << 40)
            count = values["count"] % (1 << 32)
            return begin, begin + (plan.host_bytes if n == "pages" else count * frames.size)

        def holds(value: int, values: Mapping[str, int]) -> bool:
            a, b = extent(name, values)
            pairs = [extent(other, values) for other in others]
            return plain[name](value, values) and all(b <= c or d <= a for c, d in pairs)

        return holds

    return {
        **plain,
        "responses": apart("responses", ("requests",)),
        "pages": apart("pages", ("requests", "responses")),
        **dict.fromkeys(("handshake", "count", "interval"), _any),
    }


_RULES: dict[str, Callable[[Any], dict[str, Rule]]] = {
    "training": _training,
    "keys": _keys,
    "columns": _columns,
    "recurrence": _recurrence,
    "map": _map,
}
#: by register: the codes of a value that is legal, and leads where no memory is, or that contradicts memory
_CODES = {
    ("training", "boot_address"): "BUS_READ",
    ("training", "result_address"): "BUS_WRITE",
    ("training", "page_address0"): "BUS_READ",
    ("training", "pages0"): "BUS_READ",
    ("keys", "ring"): "BUS_READ",
    ("keys", "jobs"): "BUS_READ BUS_WRITE",
    ("columns", "totals"): "BUS_READ",
    ("columns", "answer"): "BUS_WRITE",
    ("columns", "come_address"): "BUS_READ",
    ("columns", "come_pages"): "QR_SHORT",
    ("columns", "come_skip"): "QR_SHORT",
    ("columns", "come_rows"): "QR_SHORT",
    ("columns", "go_rows"): "QR_SHORT",
    ("recurrence", "program"): "BUS_READ",
    ("recurrence", "words"): "PIM_PROGRAM",
    ("recurrence", "results"): "BUS_WRITE",
    ("recurrence", "result_words"): "PIM_PROGRAM BUS_WRITE",
    ("map", "requests"): "BUS_READ",
    ("map", "responses"): "BUS_WRITE",
    ("map", "pages"): "BUS_READ BUS_WRITE",
}
#: by register: legal values of which the documents say what becomes
_LEGAL: dict[tuple[str, str], Callable[[int], list[int]]] = {
    ("training", "epochs"): lambda value: [1, 2, value + 2],
    ("training", "pages0"): lambda value: [value + 3],
    ("keys", "jobs"): lambda value: [1 << 31],
    ("columns", "come_pages"): lambda value: [0, value - 1],
    ("columns", "come_skip"): lambda value: [1 << 20, (1 << 32) - 1],
    ("columns", "come_rows"): lambda value: [1 << 20, 1 << 23],
    ("columns", "go_rows"): lambda value: [1, 1 << 23],
    ("columns", "go_skip"): lambda value: [1, 1 << 31],
    ("columns", "come_block"): lambda value: [1, (1 << 32) - 1],
    ("columns", "go_block"): lambda value: [7],
    ("recurrence", "words"): lambda value: [1, value - 1],
    ("recurrence", "result_words"): lambda value: [0, value - 1, value + 1, value + 64],
    ("map", "interval"): lambda value: [1, 300],
}


def image(case: Case, random: Random, *, tame: bool = False) -> dict[str, int]:
    """Draw an image: one to three registers have other values, at their edges; one in ten has values at random. `tame`: of legal values only those of
    which the documents say what becomes."""
    known = case.design.registers
    values = dict(case.registers)
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
        if not case.rules[name](0, values):
            edges.append(0)
        if not tame:
            edges += [0, 1, (1 << bits) - 1, register.most, register.rule.least]
        if edges:
            values[name] = random.choice(edges) % (1 << room)
    return values


def case(kind: str, folder: Path) -> Case:
    """Compile one of `CASES`, with a small run."""
    kernel, target, source = CASES[kind]
    if kind == "map":
        link = FixedLatency(30, 32)
        design: Any = MapDesign(target_named(target), FixedLatency(5, 32), kind, config(), link)
        return Case(kind, design, Given(options={"ops": 6}), 2)
    path = folder / f"{kind}.psk"
    path.write_text(kernel)
    made: Any = ps.compile(str(path), target, source)
    given = Given(source, source, options={"tokens": 2} if kind == "recurrence" else {})
    if kind == "keys":
        given = Given(made.refits(4, changes=Changes(1, 3, 10)))
    return Case(kind, made.compiled, given, 0)
