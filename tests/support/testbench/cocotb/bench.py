"""What a cocotb test needs on a shell's top: clock, reset, registers, memory. Imported inside the simulator only."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator, Mapping
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiReadBus,
    AxiSlave,
    AxiSlaveRead,
    AxiSlaveWrite,
    AxiWriteBus,
)

from penstock.models.shell import Control, Interrupt

__all__ = ["Bench", "Memory"]


class Memory:
    """Bytes behind a port: an AxiSlave's target. Accesses outside the windows or on `poison` raise, which
    the slave answers with SLVERR; so does the access after `fail_after` others, from where on that is set."""

    def __init__(self) -> None:
        self.fail_after: int | None = None
        self.windows: dict[int, bytearray] = {}
        self.poison: set[int] = set()

    def map(self, base: int, content: bytearray) -> None:
        self.windows[base] = content

    def _find(self, address: int, length: int) -> tuple[bytearray, int]:
        for base, content in self.windows.items():
            if (
                base <= address
                and address + length <= base + len(content)
                and address not in self.poison
            ):
                return content, address - base
        raise ValueError(f"no memory at {address:#x}")

    def _count(self) -> None:
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after == 0:
                raise ValueError("an error that was asked for")

    def get(self, address: int, length: int) -> bytes:
        content, start = self._find(address, length)
        return bytes(content[start : start + length])

    def put(self, address: int, data: bytes) -> None:
        content, start = self._find(address, len(data))
        content[start : start + len(data)] = data

    async def read(self, address: int, length: int, **_: Any) -> bytes:
        self._count()
        content, start = self._find(address, length)
        return bytes(content[start : start + length])

    async def write(self, address: int, data: bytes, **_: Any) -> None:
        self._count()
        content, start = self._find(address, len(data))
        content[start : start + len(data)] = data


class Bench:
    """Clock, AxiLiteMaster and one AxiSlave a port on a shell's top; ports of one space see the same
    memory, `memory` that of space 0.

    Ports and register map come from `run_cocotb`. Make it inside a test, then `await bench.reset()`.
    """

    def __init__(self, dut: Any) -> None:
        described = pickle.loads(bytes.fromhex(os.environ["PENSTOCK_BENCH"]))
        self.dut = dut
        self.register_map = described["map"]
        self.memories = {port["space"]: Memory() for port in described["ports"]}
        self.memory = self.memories[0]
        dut.rst.value = 1
        Clock(dut.clk, 10, unit="ns").start()
        self.control = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        self.slaves: list[Any] = []
        for port in described["ports"]:
            both = port["read"] and port["write"]
            bus, slave = (
                (AxiBus, AxiSlave)
                if both
                else (AxiReadBus, AxiSlaveRead)
                if port["read"]
                else (AxiWriteBus, AxiSlaveWrite)
            )
            self.slaves.append(
                slave(
                    bus.from_prefix(dut, port["prefix"]),
                    dut.clk,
                    dut.rst,
                    self.memories[port["space"]],
                )
            )

    async def reset(self) -> None:
        """Assert the hard reset for a few cycles."""
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 3)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    def channels(self, calm: int = 0) -> list[Any]:
        """The channels of all ports that can hold back a handshake, but those of `calm` ports, as bits."""
        found = []
        for slave in (slave for k, slave in enumerate(self.slaves) if not calm >> k & 1):
            for side in (getattr(slave, "read_if", slave), getattr(slave, "write_if", slave)):
                found += [
                    getattr(side, name)
                    for name in ("ar_channel", "r_channel", "aw_channel", "w_channel", "b_channel")
                    if hasattr(side, name)
                ]
        control = self.control
        found += [
            control.write_if.aw_channel,
            control.write_if.w_channel,
            control.write_if.b_channel,
            control.read_if.ar_channel,
            control.read_if.r_channel,
        ]
        return found

    def stall(self, percent: int, seed: int = 1, calm: int = 0) -> None:
        """Hold back every channel, the control port's included, at random; not those of `calm` ports."""
        for k, channel in enumerate(self.channels(calm)):
            channel.set_pause_generator(_pauses(percent, seed * 100 + k))

    async def write(self, name: str, value: int) -> None:
        """Write a register by name."""
        register = self.register_map[name]
        for half in range(register.bits // 32):
            await self.control.write_dword(
                register.offset + 4 * half, value >> 32 * half & 0xFFFFFFFF
            )

    async def read(self, name: str) -> int:
        """Read a register by name."""
        register = self.register_map[name]
        value = 0
        for half in range(register.bits // 32):
            value |= await self.control.read_dword(register.offset + 4 * half) << 32 * half
        return value

    async def start(self, registers: Mapping[str, int]) -> None:
        """Write registers, enable the interrupt, start."""
        for name, value in registers.items():
            await self.write(name, value)
        await self.write("interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        await self.write("control", Control.START)

    async def finish(self, limit: int = 100_000) -> None:
        """Wait for the interrupt, at most `limit` cycles, and clear it."""
        if not int(self.dut.irq.value):
            await with_timeout(RisingEdge(self.dut.irq), 10 * limit, "ns")
        await self.write("interrupt", Interrupt.ENABLE | Interrupt.PENDING)


def _pauses(percent: int, seed: int) -> Iterator[bool]:
    source = random.Random(seed)
    while True:
        yield source.randrange(100) < percent
