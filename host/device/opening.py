"""Devices on a serial port, and in simulation behind one. Which scheme opens which transport is `penstock.runs.devices.transports`."""

from contextlib import ExitStack
from functools import partial

from ...models.memory.sdram import Chip
from ...models.shell import RegisterMap
from .device import Device
from .uart import BAUD, Uart


def serial_device(
    path: str,
    *,
    baud: int = BAUD,
    timeout: float = 2.0,
    register_map: RegisterMap | None = None,
    resources: ExitStack | None = None,
) -> Device:
    """Return a device on a serial port, connected; `resources`: closed with it."""
    connect = partial(Uart, baud=baud, timeout=timeout)
    return Device(path, connect, register_map=register_map, resources=resources)


def simulated_device(
    source: str,
    register_map: RegisterMap,
    *,
    timeout: float | None = None,
    sdram: tuple[Chip, int] | None = None,
) -> Device:
    """Return a device in simulation, connected, from its Verilog (`sim.board.generate`); `sdram`: as of `sim.board.Board`.
    Raises BuildError where it cannot be built."""
    from ...sim.board import serve

    with ExitStack() as resources:
        path = resources.enter_context(serve(source, sdram))
        return serial_device(
            path,
            timeout=30.0 if timeout is None else timeout,
            register_map=register_map,
            resources=resources.pop_all(),
        )
