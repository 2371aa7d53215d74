"""Devices by address: boards on a serial port or a network, and designs as whole devices in simulation."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from penstock.api import opened
from penstock.engines.base import Design
from penstock.host.device.device import Device
from penstock.host.device.driver import Driver
from penstock.host.device.emulation import emulated
from penstock.host.device.errors import DeviceError
from penstock.host.device.opening import serial_device, simulated_device
from penstock.host.device.transport import Transport
from penstock.host.device.uart import BAUD
from penstock.host.device.udp import Udp
from penstock.host.device.xdma import Xdma
from penstock.models.plugins import Unusable, absent, load
from penstock.models.shell import RegisterMap

#: bytes of memory of a device in simulation whose board is not known, or has SDRAM
_LITTLE = 1 << 18
#: most bytes of memory of a card in simulation, where nobody asks for more
_SPARED = 1 << 28
#: opens what an address says behind its scheme; with the seconds of silence to allow, None for what suits it
Opener = Callable[[str, float | None], Transport]


@cache
def transports() -> dict[str, Opener]:
    """Return what opens an address, by its scheme: `udp`, `xdma`, and those of other packages (`penstock.transports`)."""
    known: dict[str, Opener] = {"udp": Udp, "xdma": Xdma}

    def accept(point: EntryPoint, opener: Any) -> None:
        if point.name in (*known, "serial", "sim"):
            raise Unusable("there is a transport of this name")
        if not callable(opener):
            raise Unusable("it is not a function")
        known[point.name] = opener

    load("penstock.transports", "transport", accept)
    return known


def open_device(
    url: str,
    *,
    design: str | Path | None = None,
    register_map: RegisterMap | None = None,
    baud: int | None = None,
    timeout: float | None = None,
    memory_bytes: int | None = None,
    trust: bool = False,
) -> Device:
    """Connect to a device.

    Parameters: `url`: `serial:PATH` for a board on a serial port, `udp:HOST[:PORT]` for one on a
    network (port 5004), `xdma:/dev/xdma0` for one behind PCIe, by AMD's driver, `sim:DIR` for the design in DIR as a device in simulation, with
    `?link=udp` behind a socket, with `?link=xdma` behind the files of AMD's driver; `design`: folder of the design that the board runs, for its register
    map; without it the common block is known; `register_map`: the same, at hand: a device that runs
    another design is refused; `baud`: of a board, `host.device.uart.BAUD` unless the design's folder
    says otherwise; `timeout`: seconds of silence after which the device is given up: 2, and 30 in
    simulation, which may be slow; `memory_bytes`: of a device in simulation, a multiple of 4096 of
    block RAM; without it what the design's folder says (a card: at most 256 MiB), or 256 KiB, as for a board with SDRAM;
    `trust`: take a folder's Verilog as it is, as `penstock.load` does.

    Raises DeviceError (LinkError where nothing answers), FolderError (E806) where a folder holds no
    design, or another than was saved, and BuildError where the simulation cannot be built.
    """
    kind, place = _parts(url)
    link = "uart"
    if kind == "sim":
        place, link = _simulated(place)
    folder = Path(place) if kind == "sim" else None if design is None else Path(design)
    manifest: dict[str, Any] = {}
    described: Design | None = None
    if folder is not None:
        described, manifest = opened(folder, trust)
        registers = described.registers
        other = register_map is not None and register_map.design != registers.design
        if kind == "sim" and register_map is not None and other:
            wanted = f"{register_map.design:08x}"
            raise DeviceError(f"the design in {folder} is {registers.design:08x}, not {wanted}")
        register_map = register_map or registers
    board = manifest.get("board", {})
    if kind == "serial":
        baud = (board.get("baud") or BAUD) if baud is None else baud
        silence = 2.0 if timeout is None else timeout
        return serial_device(place, baud=baud, timeout=silence, register_map=register_map)
    if described is None or kind != "sim":
        opener = transports()[kind]
        if kind == "xdma":  # which does not say so itself
            opener = partial(Xdma, memory_bytes=board.get("memory_bytes"))
        return Device(place, lambda at: opener(at, timeout), register_map=register_map)
    if link == "xdma":
        return _behind_files(described, board, memory_bytes, timeout)
    source = generated(described, board, link, memory_bytes)
    if link == "uart":
        return simulated_device(source, described.registers, timeout=timeout)
    return _behind_a_socket(source, described.registers, timeout)


def running(url: str, *, baud: int | None = None, trust: bool = False) -> int:
    """Return the first 32 bits of the digest of the design that a device runs. Raises as `open_device`."""
    kind, place = _parts(url)
    if kind == "sim":  # without building it
        return opened(_simulated(place)[0], trust)[0].registers.design
    with open_device(url, baud=baud) as device:
        return device.design


def _parts(url: object) -> tuple[str, str]:
    """Return an address's scheme and what is behind it. Raises DeviceError."""
    kind, _, place = url.partition(":") if isinstance(url, str) else ("", "", "")
    if kind not in (*transports(), "serial", "sim") or not place:
        hint = "a board has a serial port or an address, a simulated device its design's folder"
        message = f"{url!r} is not a device; serial:/dev/ttyUSB0, udp:HOST and sim:DIR are"
        raise DeviceError(message, hint + absent())
    return kind, place


def _simulated(place: str) -> tuple[str, str]:
    """Return folder and link of `sim:`'s place. Raises DeviceError."""
    folder, mark, query = place.partition("?")
    if not mark:
        return folder, "uart"
    if query not in ("link=uart", "link=udp", "link=xdma"):
        message = f"a simulated device has no {query!r}"
        raise DeviceError(message, "sim:DIR?link=uart, sim:DIR?link=udp or sim:DIR?link=xdma")
    return folder, query.removeprefix("link=")


def _behind_a_socket(source: str, registers: RegisterMap, timeout: float | None) -> Device:
    """Return a device in simulation behind a UDP socket on loopback, from its Verilog. Raises BuildError."""
    silence = 30.0 if timeout is None else timeout
    with ExitStack() as resources:
        place = f"127.0.0.1:{resources.enter_context(emulated(source))}"
        connect, held = lambda at: Udp(at, silence), resources.pop_all()
        return Device(place, connect, register_map=registers, resources=held)


def _behind_files(
    described: Design, board: dict[str, Any], memory_bytes: int | None, timeout: float | None
) -> Device:
    """Return a design's engine in simulation behind the files of AMD's driver. Raises as `open_device`."""
    from penstock.sim.native.machine import NativeMachine

    size = _memory_of(board, memory_bytes)
    if memory_bytes is None:  # a card has more than a host may spare
        size = min(size, _SPARED)
    silence = 30.0 if timeout is None else timeout
    with ExitStack() as resources:
        machine = resources.enter_context(described.machine("rtl", size))
        assert isinstance(machine, NativeMachine)
        files = Driver(machine.session, size)
        return Device(
            "/dev/xdma0",
            lambda at: Xdma(at, silence, memory_bytes=size, files=files),
            register_map=described.registers,
            resources=resources.pop_all(),
        )


def _memory_of(board: dict[str, Any], memory_bytes: int | None) -> int:
    """Return the bytes of memory of a device in simulation; little of block RAM stands for a chip of SDRAM. Raises DeviceError."""
    default = board.get("memory_bytes", _LITTLE) if board.get("memory") != "SDRAM" else _LITTLE
    size = default if memory_bytes is None else memory_bytes
    if not isinstance(size, int) or size < 4096 or size % 4096:
        raise DeviceError(f"a device has a multiple of 4096 bytes of memory, not {size!r}")
    return size


def generated(
    described: Design,
    board: dict[str, Any],
    link: str,
    memory_bytes: int | None = None,
    *,
    address: bytes | None = None,
) -> str:
    """Return a design as a whole device; `board`: what its folder's manifest says of one; `link`: "uart" or "udp"; `address`: of IPv4, for Ethernet."""
    from penstock.models.link.ethernet import addressed
    from penstock.sim import board as boards
    from penstock.sim import frames

    engine, library = described.hardware()
    # single-port RAM has a timing of its own
    single = memory_bytes is None and board.get("memory") == "SPRAM"
    size = _memory_of(board, memory_bytes)
    sizes: dict[str, Any] = {"memory_bytes": size, "memory": "SPRAM" if single else "block RAM"}
    if address is not None:
        station = addressed(described.registers.design, address)
        return frames.generate(engine, library, station, **sizes)
    baud = boards.BAUD if link == "uart" else None
    return boards.generate(engine, library, **sizes, baud=baud)
