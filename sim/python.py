"""Amaranth's own simulator as a machine: slow, but without any tool outside Python."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from amaranth.sim import Simulator
from numpy.typing import NDArray

from ..hdl.shell.shell import Shell
from ..hdl.shell.verilog import collector_off
from ..models.errors import HardwareError
from ..models.memory import FixedLatency, Memory
from ..models.shell import Control, Interrupt, RegisterMap, Status
from .machine import Closing, Ended, Feed, Hung, Progress, Transfer, Unsupported
from .memory.axi import AxiMemory
from .memory.dram import fast
from .memory.modes import NO_MODES, Mode
from .native.toolchain import PortSpec
from .windows import Windows

#: cycles after which a run without a limit of its own has not come to an end
_LIMIT = 10_000_000
#: cycles between two calls of `progress`
_REPORT = 1000


class _Pins:
    """A memory port of a shell under the names of the protocol."""

    def __init__(self, shell: Shell, number: int) -> None:
        self._shell, self._prefix = shell, f"m{number}_axi_"
        self.signature = shell.ports[number]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, self._prefix + name)


class _Port(AxiMemory):
    """A memory port in the windows of its space."""

    def __init__(self, pins: Any, memory: Windows, timing: Memory, space: int, modes: Mode) -> None:
        super().__init__(pins, np.zeros(0, dtype=np.uint8), timing, modes)
        self._memory, self._space = memory, space

    def load(self, address: int, width: int) -> bytes | None:
        window = self._memory.find(address, width, self._space)
        if window is None:
            return None
        return window.content[address - window.at :][:width].tobytes()

    def store(self, address: int, word: bytes, strobe: int) -> bool:
        window = self._memory.find(address, len(word), self._space)
        if window is None or not window.writable:
            return False
        for k, value in enumerate(word):
            if strobe >> k & 1:
                window.content[address - window.at + k] = value
        return True


class PythonMachine(Closing):
    """An engine in its shell, elaborated once.

    Parameters: `engine`: not elaborated yet, its modules submodules (`hdl.modules.Submodules`);
    `ports`: of its top; `memory`: timing of all ports, or by a port's name ("m0", …); `waves`: a
    file for the waves of the latest run, as VCD, which then begins with a reset; `vault`: its values by
    name, of an engine that has some (`models.shell.VaultValue`); `modes`: of all ports' memory.
    """

    capacity, apart = None, 0

    def __init__(
        self,
        engine: Any,
        ports: tuple[PortSpec, ...],
        memory: Memory | Mapping[str, Memory] | None = None,
        *,
        waves: str | Path | None = None,
        vault: Mapping[str, int] | None = None,
        modes: Mode = NO_MODES,
    ) -> None:
        self.register_map: RegisterMap = engine.register_map
        self.register_map.vault_words(vault or {})
        self._vault = vault or {}
        self._shell = Shell(engine, self.register_map)
        self._memory, self._waves = Windows(), waves
        timings = (
            memory
            if isinstance(memory, Mapping)
            else {f"m{k}": memory or FixedLatency() for k in range(len(ports))}
        )
        self._ports = [
            _Port(
                _Pins(self._shell, k),
                self._memory,
                fast(timings.get(f"m{k}", FixedLatency())),
                port.space,
                modes,
            )
            for k, port in enumerate(ports)
        ]
        self._simulator: Simulator | None = None
        self._changes: list[tuple[int, int, bytes, int]] = []
        self._began, self._cycle, self._running = 0, 0, False
        self._ended: tuple[HardwareError | None, int, dict[str, int]] | None = None

    def _simulated(self) -> Simulator:
        """Return a simulator that waits for a run; one that never runs would warn of its benches."""
        if self._simulator is not None:
            if self._ended is None or self._waves is not None:
                self._simulator.reset()
            return self._simulator
        with collector_off():
            self._simulator = simulator = Simulator(self._shell)
        simulator.add_clock(1e-6)
        for port in self._ports:
            if port.bus.signature.read:
                simulator.add_testbench(port.reads, background=True)
            if port.bus.signature.write:
                simulator.add_testbench(port.writes, background=True)
        simulator.add_testbench(self._bench)
        return simulator

    # control

    async def _tick(self, ctx: Any, *sampled: Any) -> Any:
        """Go on to the next cycle, in which memory may change; return what was sampled."""
        self._cycle += 1
        now = self._cycle - self._began
        # before the ports look at memory in the cycle that begins
        while self._started and self._changes and self._changes[0][0] <= now:
            at, data, space = self._changes.pop(0)[1:]
            self._memory.place(at, np.frombuffer(data, dtype=np.uint8), space)
        _, _, *values = await ctx.tick().sample(*sampled)
        return values

    async def _write(self, ctx: Any, name: str, value: int) -> None:
        register, pins = self.register_map[name], self._shell
        for half in range(register.bits // 32):
            ctx.set(pins.s_axil_awaddr, register.offset + 4 * half)
            ctx.set(pins.s_axil_wdata, value >> 32 * half & 0xFFFFFFFF)
            ctx.set(pins.s_axil_wstrb, 15)
            for signal in (pins.s_axil_awvalid, pins.s_axil_wvalid, pins.s_axil_bready):
                ctx.set(signal, 1)
            answered = False
            while not answered:
                aw, w, answered = await self._tick(
                    ctx,
                    pins.s_axil_awvalid & pins.s_axil_awready,
                    pins.s_axil_wvalid & pins.s_axil_wready,
                    pins.s_axil_bvalid,
                )
                if aw:
                    ctx.set(pins.s_axil_awvalid, 0)
                if w:
                    ctx.set(pins.s_axil_wvalid, 0)
                    if name == "control":
                        self._began, self._started = self._cycle - 1, True
                        for port in self._ports:
                            port.begin(self._began)  # where the engine's `start` is high
            ctx.set(pins.s_axil_bready, 0)

    async def _read(self, ctx: Any, name: str) -> int:
        register, pins, value = self.register_map[name], self._shell, 0
        for half in range(register.bits // 32):
            ctx.set(pins.s_axil_araddr, register.offset + 4 * half)
            ctx.set(pins.s_axil_arvalid, 1)
            ctx.set(pins.s_axil_rready, 1)
            answered = False
            while not answered:
                taken, answered, word = await self._tick(
                    ctx,
                    pins.s_axil_arvalid & pins.s_axil_arready,
                    pins.s_axil_rvalid,
                    pins.s_axil_rdata,
                )
                if taken:
                    ctx.set(pins.s_axil_arvalid, 0)
            ctx.set(pins.s_axil_rready, 0)
            value |= word << 32 * half
        return value

    async def _bench(self, ctx: Any) -> None:
        self._cycle = 0
        for name, value in ({**self._vault, "valid": 1} if self._vault else {}).items():
            ctx.set(getattr(self._shell, f"vault_{name}"), value)
        while True:
            await self._carry_out(ctx)
            self._running = False
            while not self._running:
                await self._tick(ctx)

    async def _carry_out(self, ctx: Any) -> None:
        self._started = False
        for name, value in self._registers.items():
            await self._write(ctx, name, value)
        await self._write(ctx, "interrupt", Interrupt.ENABLE | Interrupt.PENDING)
        await self._write(ctx, "control", Control.START)
        finished = False
        while not finished and self._cycle - self._began < self._limit:
            [finished] = await self._tick(ctx, self._shell.irq)
            if self._progress is not None and self._cycle % _REPORT == 0:
                self._progress(self._cycle - self._began)
        if not finished:
            return
        error = None
        status = Status(await self._read(ctx, "status"))
        if status & Status.ERROR:
            parts = ("code", "block", "line", "item")
            places = [await self._read(ctx, f"error_{part}") for part in parts]
            error = self.register_map.failure(status, *places)
        cycles = await self._read(ctx, "cycles")
        names = [counter.name for counter in self.register_map.counters]
        self._ended = (
            error,
            cycles,
            {name: await self._read(ctx, f"count_{name}") for name in names},
        )

    # a machine

    def reserve(self, at: int, size: int, *, space: int = 0) -> None:
        self._memory.reserve(at, size, space)

    def write(self, at: int, data: NDArray[np.uint8], *, space: int = 0) -> None:
        self._memory.place(at, data, space)

    def read(self, at: int, size: int, *, space: int = 0) -> NDArray[np.uint8]:
        return self._memory.read(at, size, space)

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
            raise Unsupported("Amaranth's simulator fills no ring", "the backends rtl and board do")
        self._registers = {**registers, "watchdog": watchdog}
        self._limit, self._progress = _LIMIT if limit is None else limit, progress
        for port in self._ports:
            port.r, port.w, port.transfers = [], [], []
        simulator = self._simulated()
        self._ended, self._running = None, True
        begin = perf_counter()
        waves = nullcontext() if self._waves is None else simulator.write_vcd(str(self._waves))
        with waves:
            while self._running:
                simulator.advance()
        seconds, self._changes = perf_counter() - begin, []
        if self._ended is None:
            raise Hung(f"not finished after {self._limit} cycles")
        error, cycles, counters = self._ended
        moved = [
            sum(port.bus.signature.data_bytes * len(beats) for port, beats in channel)
            for channel in (
                [(port, port.r) for port in self._ports],
                [(port, port.w) for port in self._ports],
            )
        ]
        return Ended(error, cycles, counters, moved[0], moved[1], seconds)

    def trace(self, port: int) -> list[Transfer]:
        return [
            Transfer(cycle - self._began, *rest) for cycle, *rest in self._ports[port].transfers
        ]

    def alter(self, cycle: int, at: int, data: bytes, *, space: int = 0) -> None:
        self._changes.append((cycle, at, data, space))
        self._changes.sort(key=lambda change: change[0])
