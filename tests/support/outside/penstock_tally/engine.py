"""The engine's registration: designs, workloads, options, report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.boards.records import from_json
from penstock.engines.base import Cycles, Design, Engine, Given, Result, Workload
from penstock.engines.options import Count, Option
from penstock.host.sources import SourceError
from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency, Memory, parse_memory
from penstock.models.numerics.formats import parse_format
from penstock.models.resources import Resources
from penstock.passes.forms import Designed, Request
from penstock.report.common import agreement, cycle_rows, resources, written
from penstock.report.parts import Facts, Part
from penstock.sim.machine import PAGE, Unsupported, round_up
from penstock.sim.native import PortSpec
from penstock.targets import timing_of

from .dialect import Tally
from .spec import BUS, Spec, TallyError, register_map

__all__ = ["TallyDesign", "TallyingEngine"]

#: the word that a fault puts in place of word 3
_FAULT = 12345
#: words that its register counts
MOST = (1 << 24) - 1


@dataclass(frozen=True)
class _Bound:
    cycles: int
    by: str = "memory"


@dataclass(frozen=True, repr=False)
class TallyDesign(Design):
    """A compiled kernel."""

    kernel: str
    gain: int
    engine_name = "tally"
    arguments = frozenset({"fault"})

    @property
    def name(self) -> str:
        return self.kernel

    @property
    def format(self) -> Any:
        return parse_format("fixed:16,16")

    @property
    def registers(self) -> Any:
        return register_map(self.identity)

    @property
    def bus_ports(self) -> tuple[PortSpec, ...]:
        return PortSpec("m0_axi", BUS, True, False), PortSpec("m1_axi", BUS, False, True)

    def component(self, parts: Any) -> Any:
        from .hardware import TallyEngine

        return TallyEngine(self.gain, self.identity)

    def memories(self, memory: Memory) -> Mapping[str, Memory]:
        return Spec.memories(memory)

    def resources_on(self, part: Any) -> Resources:
        return Resources(900, 900, 4 if part.dsp else 0, 0)

    def config(self) -> dict[str, Any]:
        return {"gain": self.gain}

    def to_json(self) -> dict[str, Any]:
        return {"gain": self.gain}

    def images(self) -> dict[str, bytes]:
        return {"gain.bin": self.gain.to_bytes(4, "little")}

    def text(self) -> str:
        return f"a sum times {self.gain}"

    def workload(self, args: Given) -> Tallying:
        words = args.data
        if words is None:
            words = range(args.rows or 0)
        return Tallying(self, _words(words), args.option("fault"))


def _words(numbers: Sequence[Any]) -> NDArray[np.uint64]:
    """Return numbers, or their texts, as words. Raises SourceError where they are none, or too many."""
    if not 0 < len(numbers) <= MOST:
        hint = f"give 1 to {MOST:,}, as in numbers:1,2,3"
        raise SourceError(f"{len(numbers):,} words cannot be summed", hint, code="E701")
    try:
        whole = [int(n, 0) if isinstance(n, str) else index(n) for n in numbers]
        return np.array(whole, dtype=np.uint64)
    except (TypeError, ValueError, OverflowError):
        hint = "a word is a whole number from 0 to 2^64 - 1, as in numbers:1,0xff"
        raise SourceError("these numbers are no words", hint, code="E701") from None


class Tallying(Workload):
    """The sum of some words; `fault`: the cycle in which word 3 changes."""

    def __init__(self, design: TallyDesign, words: Any, fault: int | None) -> None:
        self.design, self.words, self.fault = design, words, fault
        self.name, self.rows = "words", len(words)
        self._target = round_up(BUS * len(words))

    def _told(self, memory: Memory) -> Any:
        fault = None if self.fault is None else (self.fault, 3, _FAULT)
        spec = Spec(self.design.gain)
        return spec.run(self.words, 0, self._target, memory, fault)

    def golden(self) -> Result:
        told = self._told(self.design.memory)
        if told.total is None:
            return Result(None, HardwareError(TallyError.TALLY_FORBIDDEN, told.forbidden))
        halves = [told.total & 0xFFFFFFFF, told.total >> 32]
        codes = {"total": np.array(halves, dtype=np.int64)}
        return Result(codes, None, {"writes": told.writes})

    def model(self, memory: Memory) -> Cycles:
        told = self._told(memory)
        return Cycles(told.cycles, _Bound(len(self.words)))

    def memory_bytes(self) -> int:
        return self._target + PAGE

    def drive(self, machine: Any) -> Result:
        machine.write(0, self.words.copy().view(np.uint8))
        machine.reserve(self._target, BUS)
        traced = True
        try:
            machine.trace(1)
            if self.fault is not None:
                machine.alter(self.fault, 3 * BUS, _FAULT.to_bytes(8, "little"))
        except Unsupported:
            traced = False
        ended = machine.run({"source": 0, "target": self._target, "words": len(self.words)})
        if ended.error is not None:
            return Result(None, ended.error)
        halves = machine.read(self._target, BUS).view("<u4").astype(np.int64)
        facts: dict[str, Any] = {}
        if traced:
            facts["writes"] = [(t.cycle, t.address, t.beats, t.digest) for t in machine.trace(1)]
        return Result({"total": halves}, None, facts)

    def values(self, codes: Mapping[str, Any]) -> dict[str, np.ndarray]:
        low, high = codes["total"].tolist()
        return {"total": np.array([low + (high << 32)], dtype=np.float64)}


def design(request: Request) -> Designed:
    """Put a multiplier behind the sum.

    Before: `kernel=Tally(name="sums", gain=3)`
    After: `design=TallyDesign(kernel="sums", gain=3)`
    """
    kernel, part = request.kernel, request.part
    kernel.check()
    timing = timing_of(request.args.memory, part)
    if isinstance(timing, FixedLatency):  # --memory may name a DRAM, which has a bus of its own
        timing = replace(timing, bytes_per_cycle=min(timing.bytes_per_cycle, BUS))
    return request.form(Designed, design=TallyDesign(part, timing, kernel.name, kernel.gain))


class TallyingEngine(Engine):
    """Sums words."""

    name = "tally"
    kernels = (Tally,)
    default_target = "small"
    errors = (TallyError,)
    options = dict.fromkeys(
        ("model", "simulate"),
        (Option("fault", Count(0, 1 << 30), "CYCLE", "Word 3 changes then."),),
    )

    def needs(self, kernel: Any) -> str:
        return "words"

    def open(self, source: str, args: Given) -> Any:
        kind, _, rest = source.partition(":")
        if kind != "numbers":
            raise SourceError(f"no words: {source}", "write numbers:1,2,3", code="E701")
        return _words(rest.split(",") if rest.strip() else ())

    passes = (design,)

    def load(self, manifest: Mapping[str, Any]) -> TallyDesign:
        memory = parse_memory(manifest["memory"])
        gain, name = manifest["gain"], manifest["kernel"]
        return TallyDesign(from_json(manifest["target"]), memory, name, gain)

    def sections(self, outcome: Any) -> Iterable[Part]:
        design = outcome.design
        yield Facts.of(("kernel", design.name), ("gain", str(design.gain)))
        if outcome.rows is not None:
            rows = [*agreement(outcome), *cycle_rows(outcome)]
            yield Facts(tuple(rows))
        yield Facts((resources(outcome),))
        yield written(outcome)
