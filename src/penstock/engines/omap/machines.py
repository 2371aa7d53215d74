"""Hardware of a map that only has a configuration."""

from __future__ import annotations

import secrets
from typing import Any, TypeVar

from penstock.host.omap.backends import MachineCarrier, Opens
from penstock.host.omap.devices import MachineDevice, Powers
from penstock.models.memory import FixedLatency
from penstock.models.omap.config import OmapConfig
from penstock.models.omap.messages import Keys
from penstock.run import MACHINES, check_options
from penstock.targets import target_named

from .design import MapDesign, SessionDesign

_Design = TypeVar("_Design", bound=MapDesign)

__all__ = ["hardware", "powered"]


def hardware(backend: str, *, target: str = "u55c", **options: Any) -> Opens:
    """Return what opens hardware for `penstock.host.omap.ObliviousMap`.

    Parameters
    ----------
    backend
        "rtl", "netlist", "pysim" or "board".
    target
        What it is made for.
    options
        The machine's, as `Design.run` takes them: `family` and `waves` of a netlist, and so on.

    HBM keeps the map's deadline with half of it to spare, the host answers after 1.26 µs at 250 MHz.
    Raises ValueError for a backend that is no hardware, and for options that it does not take.
    """
    if backend not in MACHINES:
        raise ValueError(f"hardware is one of {', '.join(MACHINES)}, not {backend!r}")
    check_options(backend, options)

    def opens(config: OmapConfig, keys: Keys) -> MachineCarrier:
        design = _design(MapDesign, target, config)
        machine = design.machine(backend, MachineCarrier.memory_bytes(config), **options)
        return MachineCarrier(config, machine, keys)

    return opens


def powered(backend: str, *, target: str = "u55c", **options: Any) -> Powers:
    """Return what powers hardware up whose sessions end in it, for `penstock.host.omap.devices`.
    Parameters, timings and errors are those of `hardware`; "board" is none of them."""
    check_options(backend, options)

    def powers(config: OmapConfig, root: bytes) -> MachineDevice:
        design = _design(SessionDesign, target, config)
        vault = {"root": int.from_bytes(root, "little"), "entropy": secrets.randbits(256)}
        machine = design.machine(backend, 0, vault=vault, **options)
        return MachineDevice(config, machine)

    return powers


def _design(kind: type[_Design], target: str, config: OmapConfig) -> _Design:
    hbm = FixedLatency(config.deadline // 2, config.bus_bytes)
    link = FixedLatency(315, config.host_bus_bytes)
    return kind(target_named(target), hbm, "map", config, link)
