"""Devices by address: boards on a serial port, and designs as whole devices in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.api import opened
from penstock.engines.base import Design
from penstock.host.device import BAUD, Device, DeviceError, simulated_device
from penstock.models.shell import RegisterMap

__all__ = ["open_device"]


def open_device(
    url: str,
    *,
    design: str | Path | None = None,
    register_map: RegisterMap | None = None,
    baud: int | None = None,
    timeout: float | None = None,
    memory_bytes: int | None = None,
) -> Device:
    """Connect to a device.

    Parameters: `url`: `serial:PATH` for a board on a serial port, `sim:DIR` for the design in DIR
    as a device in simulation; `design`: folder of the design that the board runs, for its register
    map; without it the common block is known; `register_map`: the same, at hand: a device that runs
    another design is refused; `baud`: of a board, `host.device.BAUD` unless the design's folder
    says otherwise; `timeout`: seconds of silence after which the device is given up: 2, and 30 in
    simulation, which may be slow; `memory_bytes`: of a device in simulation, a multiple of 4096 of
    block RAM; without it what the design's folder says, or 256 KiB.

    Raises DeviceError (LinkError where nothing answers), FolderError (E806) where a folder holds no
    design, or another than was saved, and BuildError where the simulation cannot be built.
    """
    kind, _, place = url.partition(":") if isinstance(url, str) else ("", "", "")
    if kind not in ("serial", "sim") or not place:
        hint = "a board has a serial port, a simulated device its design's folder"
        message = f"{url!r} is not a device; serial:/dev/ttyUSB0 and sim:DIR are"
        raise DeviceError(message, hint)
    folder = Path(place) if kind == "sim" else None if design is None else Path(design)
    manifest: dict[str, Any] = {}
    described: Design | None = None
    if folder is not None:
        described, manifest = opened(folder)
        own = described.registers
        other = register_map is not None and register_map.design != own.design
        if kind == "sim" and register_map is not None and other:
            what = f"the design in {folder} is {own.design:08x}, not {register_map.design:08x}"
            raise DeviceError(what)
        register_map = register_map or own
    board = manifest.get("board", {})
    if kind == "serial":
        return Device(
            place,
            baud=board.get("baud", BAUD) if baud is None else baud,
            timeout=2.0 if timeout is None else timeout,
            register_map=register_map,
        )
    assert described is not None and register_map is not None
    return simulated_device(
        _generated(described, board, memory_bytes), register_map, timeout=timeout
    )


def _generated(described: Design, board: dict[str, Any], memory_bytes: int | None) -> str:
    """Return a design as a whole device; `board`: what its folder's manifest says of one."""
    from penstock.sim.board import generate

    engine, library = described.hardware()
    size = board.get("memory_bytes", 1 << 18) if memory_bytes is None else memory_bytes
    if not isinstance(size, int) or size < 4096 or size % 4096:
        raise DeviceError(f"a device has a multiple of 4096 bytes of memory, not {size!r}")
    # single-port RAM has a timing of its own
    single = memory_bytes is None and board.get("memory") == "SPRAM"
    memory = "SPRAM" if single else "block RAM"
    return generate(engine, library, memory_bytes=size, memory=memory)
