"""Small cores of all four engines, each with a run whose result golden says: what judges are tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from penstock.api import compile
from penstock.engines.workload import Given
from penstock.models.memory import FixedLatency
from penstock.models.omap.golden import Map
from penstock.runs.outcome import differences
from penstock.runs.run import golden, hardware
from testbench.omap import KEYS, Board, config, expected, map_verilog, requests

__all__ = ["CORES", "Core", "core"]

_KERNELS = Path(__file__).parents[3] / "proofs" / "kernels"
#: a kernel, what it is compiled for, the source of its run
_COMPILED: dict[str, tuple[str, dict[str, Any], str | None, int]] = {
    "analytics": (
        "logistic.psk",
        {"target": "hx8k-evn", "format": "fixed:8,8"},
        "random:rows=24",
        0,
    ),
    "qr": ("columns.psk", {"target": "small"}, "random:rows=9", 0),
    "pim": ("gla.psk", {"target": "small", "dims": {"k": 16, "v": 16}}, None, 3),
}
CORES = (*_COMPILED, "omap")


@dataclass(frozen=True)
class Core:
    """`check` carries the run out on a machine, and asserts that it gives golden's result; `start`: the
    first start that moves data; `calm`: ports whose memory may not be late, as bits."""

    name: str
    verilog: str
    ports: tuple[Any, ...]
    registers: Any
    vault: Mapping[str, int] | None
    check: Callable[[Any], None]
    start: int = 0
    calm: int = 0


@cache
def core(name: str) -> Core:
    """Return one of `CORES`."""
    return _map() if name == "omap" else _of_kernel(name)


def _of_kernel(name: str) -> Core:
    file, options, source, rows = _COMPILED[name]
    design = compile(_KERNELS / file, **options)
    given = design.opened(Given(source, source, rows=rows or None))
    workload = design.held(given)
    expectation = golden(workload)

    def check(machine: Any) -> None:
        run = hardware("rtl", workload, machine)
        assert differences(expectation, run) == [], run.errors

    return Core(name, design.verilog, tuple(design.bus_ports), design.registers, None, check)


def _map() -> Core:
    """A map, powered up for each run: none goes on behind one that did not come to its end. HBM has a deadline."""
    shape = config()
    verilog, ports, registers = map_verilog(shape)
    made = requests(shape, 12, seed=8)
    answers = expected(made, list(Map(shape, KEYS).run(made)))
    free = FixedLatency()

    def check(machine: Any) -> None:
        machine.power_up()
        board = Board(shape, None, free, free, machine=machine)
        ended = board.run(made)
        assert ended.error is None, ended
        assert board.responses(len(made)) == answers

    vault = {"root": 0, "entropy": 0, "generation": 0}
    calm = sum(1 << k for k, port in enumerate(ports) if port.space)
    return Core("omap", verilog, tuple(ports), registers, vault, check, 1, calm)
