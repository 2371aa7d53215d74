"""Hardware of a map that only has a configuration."""

from __future__ import annotations

from penstock.host.omap.backends import MachineCarrier
from penstock.models.memory import FixedLatency
from penstock.models.omap.config import OmapConfig
from penstock.sim.machine import Machine

from .design import MapDesign

__all__ = ["open_machine"]


def open_machine(config: OmapConfig, backend: str, target: str = "u55c") -> Machine:
    """Return a machine of a backend of `penstock.run.MACHINES` with a map of this configuration.

    Memory: HBM keeps the deadline with half of it to spare, the host answers after 1.26 µs at 250 MHz.
    """
    bus = config.bus_bytes
    hbm, link = FixedLatency(config.deadline // 2, bus), FixedLatency(315, bus)
    design = MapDesign(target, hbm, "map", config, link)
    return design.machine(backend, MachineCarrier.memory_bytes(config))
