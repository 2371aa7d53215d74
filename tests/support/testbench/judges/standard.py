"""A machine whose memory and monitor are written from the text of AXI4 alone (standard.cpp)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.models.errors import HardwareError
from penstock.models.shell import Control, Interrupt, Status
from penstock.sim.machine import Closing, Ended, Feed, Progress, Transfer, Unsupported
from penstock.sim.native.toolchain import build_library

__all__ = ["Broken", "Event", "Habit", "Interrupted", "JudgeMachine", "Stalled", "built"]

_SOURCE = Path(__file__).with_name("standard.cpp")
_PTR, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
#: cycles within which a soft reset has to bring the bus to rest
_REST = 20_000


class Habit(IntFlag):
    """What the memory does that a subordinate may do; see standard.cpp."""

    ADDRESS_WAITS = 1
    DATA_FIRST = 2
    VISIBLE_AT_B = 4
    READY_AFTER_VALID = 8
    LATE_B = 16
    LATE_R = 32
    DATA_WAITS = 64
    ALTERNATE = 128


class Broken(AssertionError):
    """The core did what AXI4 forbids."""


class Stalled(AssertionError):
    """Nothing moves any more, and the core has not ended."""


class Interrupted(Exception):
    """The start was ended by the event that was asked for."""


@dataclass
class Event:
    """What befalls one start: `kind`: "read" or "write" (the `count`-th answer of a port fails with `response`),
    "soft" or "hard" (a reset after `count` cycles). `happened`: it came before the start's end."""

    kind: str
    count: int
    port: int = 0
    response: int = 2
    happened: bool = False


@cache
def built(verilog: str, ports: tuple[Any, ...], vault: tuple[Any, ...] = ()) -> ctypes.CDLL:
    """Return the model of a core in this memory; the cache has it by digest."""
    path = build_library(verilog, ports, harness=str(_SOURCE), optimise="-O0", vault=vault)
    library = ctypes.CDLL(str(path))
    for name, result, arguments in (
        ("open", _PTR, []),
        ("close", None, [_PTR]),
        ("behave", None, [_PTR, _U64, _U32, _U32, _U32, _U64]),
        ("place", None, [_PTR, _U32, _U64, _PTR, _U64, ctypes.c_int]),
        ("fetch", None, [_PTR, _U32, _U64, _PTR, _U64]),
        ("fail", None, [_PTR, _U32, ctypes.c_int, _U64, _U32]),
        ("reset", None, [_PTR, _U32]),
        ("write", ctypes.c_int, [_PTR, _U32, _U32]),
        ("read", ctypes.c_int, [_PTR, _U32, ctypes.POINTER(_U32)]),
        ("run", ctypes.c_int, [_PTR, _U64]),
        ("open_bursts", ctypes.c_int, [_PTR]),
        ("cycle", _U64, [_PTR]),
        ("traffic", None, [_PTR, _U32, ctypes.POINTER(_U64)]),
        ("findings", ctypes.c_char_p, [_PTR]),
        ("waits", ctypes.c_char_p, [_PTR]),
    ):
        function = getattr(library, f"judge_{name}")
        function.restype, function.argtypes = result, arguments
    if vault:
        library.penstock_vault.restype = None
        library.penstock_vault.argtypes = [_PTR, ctypes.POINTER(_U32)]
    return library


class JudgeMachine(Closing):
    """A core behind that memory. `event`: befalls the start `at_start` from now on, from 0."""

    capacity, apart = None, 0

    def __init__(
        self,
        verilog: str,
        ports: Sequence[Any],
        register_map: Any,
        vault: Mapping[str, int] | None = None,
    ) -> None:
        self.register_map, self._count = register_map, len(ports)
        self._api = built(verilog, tuple(ports), tuple(register_map.vault) if vault else ())
        self._words = register_map.vault_words(vault or {})
        self._habits: tuple[int, ...] = (1, 0, 0, 1, 0)
        self._judge = None
        self.power_up()
        self.event: Event | None = None
        self.at_start = 0

    def power_up(self) -> None:
        """Begin anew, with empty memory: what a core keeps over all resets is gone."""
        self.close()
        self._judge = self._api.judge_open()
        if self._words:
            self._api.penstock_vault(self._judge, (_U32 * len(self._words))(*self._words))
        self._api.judge_behave(self._judge, *self._habits)

    def close(self) -> None:
        if self._judge:
            self._api.judge_close(self._judge)
            self._judge = None

    def behave(
        self, seed: int, habits: Habit, stall: int = 0, latency: int = 1, calm: int = 0
    ) -> None:
        """Have the memory behave so from now on; delays are drawn by `seed`. `calm`: of these ports, as bits, it is never late."""
        self._habits = (seed, int(habits), stall, latency, calm)
        self._api.judge_behave(self._judge, *self._habits)

    def check(self) -> None:
        """Raise Broken if the core did what AXI4 forbids."""
        if text := self._api.judge_findings(self._judge).decode():
            raise Broken(text.rstrip())

    # memory

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        self._api.judge_place(self._judge, space, at, None, max(size, 1), 1)

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._api.judge_place(self._judge, space, at, flat.ctypes.data, flat.size, 0)

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        room = np.zeros(size, dtype=np.uint8)
        self._api.judge_fetch(self._judge, space, at, room.ctypes.data, size)
        return room

    # registers

    def _set(self, name: str, value: int) -> None:
        register = self.register_map[name]
        for half in range(register.bits // 32):
            at, word = register.offset + 4 * half, value >> 32 * half & 0xFFFFFFFF
            if answer := self._api.judge_write(self._judge, at, word):
                raise Stalled(f"register {name} answers a write with {answer}")

    def _get(self, name: str) -> int:
        register, value = self.register_map[name], 0
        for half in range(register.bits // 32):
            word = _U32()
            at = register.offset + 4 * half
            if answer := self._api.judge_read(self._judge, at, ctypes.byref(word)):
                raise Stalled(f"register {name} answers a read with {answer}")
            value |= word.value << 32 * half
        return value

    def hard_reset(self, cycles: int = 3) -> None:
        """Assert the reset of core and memory for so many cycles."""
        self._api.judge_reset(self._judge, cycles)
        self.check()

    def soft_reset(self) -> None:
        """Ask for rest by the control register. Raises Stalled where none comes within 20,000 cycles."""
        self._set("control", Control.RESET)
        begin = self._api.judge_cycle(self._judge)
        while Status(self._get("status")) != Status.IDLE:
            if self._api.judge_cycle(self._judge) - begin > _REST:
                raise Stalled(f"no rest after a soft reset: {self._waits()}")
        self.check()
        if self._api.judge_open_bursts(self._judge):
            raise Broken("the core says that it is idle, and bursts are open")

    @property
    def cycle(self) -> int:
        return int(self._api.judge_cycle(self._judge))

    def _waits(self) -> str:
        return self._api.judge_waits(self._judge).decode().rstrip() or "no channel waits"

    def run(
        self,
        registers: Mapping[str, int],
        *,
        watchdog: int = 1_000_000,
        limit: int | None = None,
        progress: Progress | None = None,
        feeds: Sequence[Feed] = (),
    ) -> Ended:
        if feeds:
            raise Unsupported("this memory fills no ring")
        event = self.event if self.at_start == 0 else None
        self.at_start -= 1
        for name, value in {**registers, "watchdog": watchdog}.items():
            self._set(name, value)
        self._set("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        if event is not None and event.kind in ("read", "write"):
            writes = event.kind == "write"
            self._api.judge_fail(self._judge, event.port, writes, event.count, event.response)
        before, begin = self._traffic(), perf_counter()
        self._set("control", Control.START)
        resets = event is not None and event.kind in ("soft", "hard")
        end = self._api.judge_run(self._judge, event.count if resets else limit or 20_000_000)
        self.check()
        if resets and end == 0:
            event.happened = True
            (self.soft_reset if event.kind == "soft" else self.hard_reset)()
            raise Interrupted(event.kind)
        if end != 1:
            cause = "nothing moves" if end == 2 else "the run does not end"
            raise Stalled(f"{cause}: {self._waits()}")
        ended = self._ended(perf_counter() - begin, before)
        if event is not None and not resets:
            event.happened = ended.error is not None
            for writes in (0, 1):
                self._api.judge_fail(self._judge, event.port, writes, 0, 0)
        self.check()
        return ended

    def _traffic(self) -> NDArray[np.uint64]:
        """Bursts and beats of all ports so far: reads, writes, read beats, written beats."""
        total = np.zeros(4, dtype=np.uint64)
        for port in range(self._count):
            room = (_U64 * 4)()
            self._api.judge_traffic(self._judge, port, room)
            total += np.array(room, dtype=np.uint64)
        return total

    def _ended(self, seconds: float, before: NDArray[np.uint64]) -> Ended:
        error = None
        if Status(self._get("status")) & Status.ERROR:
            code, *place = [
                self._get(f"error_{name}") for name in ("code", "block", "line", "item")
            ]
            error = HardwareError(self.register_map.error(code), *place)
        counters = {c.name: self._get(f"count_{c.name}") for c in self.register_map.counters}
        cycles = self._get("cycles")
        self._set("interrupt", Interrupt.PENDING)
        self.beats = [int(n) for n in self._traffic() - before]
        return Ended(error, cycles, counters, 0, 0, seconds)

    def trace(self, port: int) -> list[Transfer]:
        return []

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        raise Unsupported("this memory does not change during a run")
