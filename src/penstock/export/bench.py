"""The vectors of a bench: a recorded run as a script of steps and the bytes that go with it. `exporter.recorded` carries out the run, and holds it
against the models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.models.memory import FixedLatency
from penstock.models.shell import IDENTITY, Control, Interrupt, RegisterMap, Status
from penstock.sim.machine import round_up
from penstock.sim.recorder import Read, Recorder, Started, Written

if TYPE_CHECKING:
    from penstock.sim.native import PortSpec

_PUT, _COMPARE, _SET = 1, 2, 3
_CHECK, _WAIT, _CYCLES = 4, 5, 6


@dataclass(frozen=True)
class BenchPort:
    """A memory port as the bench serves it: `latency` cycles to the first word, `interval` from one to the next."""

    name: str
    bytes: int
    read: bool
    write: bool
    space: int
    latency: int
    interval: int

    @property
    def size(self) -> int:
        """AxSIZE of its bursts."""
        return self.bytes.bit_length() - 1


@dataclass(frozen=True)
class _Step:
    """One step of the script: three words and a remark."""

    words: tuple[int, int, int]
    remark: str

    def __str__(self) -> str:
        return f"{' '.join(f'{word:016x}' for word in self.words)} // {self.remark}"


@dataclass(frozen=True)
class Bench:
    """What the bench replays. `sizes`: bytes of each memory; `offset_bits`: of a register's address; `starts`,
    `compared`, `cycles`: how many starts there are, bytes that are compared, cycles of all starts; `vault`: what its pins
    have from the beginning, as Verilog."""

    steps: Sequence[_Step]
    data: bytes
    sizes: Mapping[int, int]
    ports: Sequence[BenchPort]
    offset_bits: int
    starts: int
    compared: int
    cycles: int
    vault: Mapping[str, str]

    def files(self) -> dict[str, bytes]:
        """Return script and data as `$readmemh` reads them."""
        lines = [self.data[at : at + 32].hex(" ") for at in range(0, len(self.data) or 1, 32)]
        script = "".join(f"{step}\n" for step in self.steps)
        return {
            "script.hex": script.encode(),
            "data.hex": ("\n".join(lines if self.data else ["00"]) + "\n").encode(),
        }


def bench_of(
    recorder: Recorder,
    ports: Sequence[PortSpec],
    memory: Mapping[str, FixedLatency],
    vault: Mapping[str, int] | None = None,
) -> Bench:
    """Return the bench of a recorded run; `memory`: timing of the ports, by name; `vault`: its values."""
    steps: list[_Step] = []
    data: list[bytes] = []
    registers = recorder.register_map
    for step in recorder.steps:
        if isinstance(step, Started):
            steps += _run(registers, step)
            continue
        what, code = ("put", _PUT) if isinstance(step, Written) else ("compare", _COMPARE)
        assert isinstance(step, Written | Read)
        size = len(step.data)
        remark = f"{what} {size} bytes at {step.at:#x} of memory {step.space}"
        steps.append(_Step((step.space << 8 | code, step.at, size), remark))
        data.append(step.data)
    sizes = {port.space: 4096 for port in ports}
    sizes |= {space: round_up(size) for space, size in recorder.sizes.items() if size}
    served = [
        BenchPort(
            f"m{k}",
            port.data_bytes,
            port.read,
            port.write,
            port.space,
            memory[f"m{k}"].latency,
            memory[f"m{k}"].interval(port.data_bytes),
        )
        for k, port in enumerate(ports)
    ]
    return Bench(
        steps,
        b"".join(data),
        dict(sorted(sizes.items())),
        served,
        registers.address_width,
        sum(isinstance(step, Started) for step in recorder.steps),
        sum(len(step.data) for step in recorder.steps if isinstance(step, Read)),
        sum(step.ended.cycles for step in recorder.steps if isinstance(step, Started)),
        _pins(registers, vault or {}),
    )


def _pins(registers: RegisterMap, vault: Mapping[str, int]) -> dict[str, str]:
    """Return what the pins of a vault have, by their names, as Verilog."""
    if not registers.vault:
        return {}
    pins = {f"vault_{v.name}": f"{v.bits}'h{vault[v.name]:x}" for v in registers.vault}
    return {**pins, "vault_valid": "1'd1"}


def _words(registers: RegisterMap, code: int, name: str, value: int) -> Iterable[_Step]:
    register = registers[name]
    what = "set" if code == _SET else "check"
    for half in range(register.bits // 32):
        word = value >> 32 * half & 0xFFFFFFFF
        remark = f"{what} {name}{'[63:32]' if half else ''}"
        yield _Step((code, register.offset + 4 * half, word), remark)


def _run(registers: RegisterMap, run: Started) -> Iterable[_Step]:
    """One start, as `sim.native.session` does it."""
    for name, value in (("identity", IDENTITY), ("design", registers.design)):
        yield from _words(registers, _CHECK, name, value)
    for name, value in {**run.registers, "watchdog": run.watchdog}.items():
        yield from _words(registers, _SET, name, value)
    yield from _words(registers, _SET, "interrupt", Interrupt.ENABLE | Interrupt.PENDING)
    yield from _words(registers, _SET, "control", Control.START)
    cycles, error = run.ended.cycles, run.ended.error
    yield _Step((_WAIT, 2 * cycles + 10_000, 0), f"wait for the interrupt, {cycles:,} cycles")
    status = Status.IDLE | (Status.DONE if error is None else Status.ERROR)
    fields = (0, 0, 0, 0)
    if error is not None:
        fields = (int(error.code), error.block, error.line, error.item)
    yield from _words(registers, _CHECK, "status", status)
    for name, value in zip(("code", "block", "line", "item"), fields, strict=True):
        yield from _words(registers, _CHECK, f"error_{name}", value)
    yield from _words(registers, _CYCLES, "cycles", cycles)
    yield from _words(registers, _SET, "interrupt", Interrupt.PENDING)
