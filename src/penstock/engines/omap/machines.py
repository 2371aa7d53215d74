"""Hardware of a map that only has a configuration."""

import secrets
from typing import Any

from penstock.host.omap.devices import MachineDevice, Powers
from penstock.models.memory import FixedLatency
from penstock.models.omap.config import OmapConfig
from penstock.runs.run import MACHINES, check_options
from penstock.targets import target_named

from .design import MapDesign


def hardware(backend: str, *, target: str = "u55c", state: bool = False, **options: Any) -> Powers:
    """Return what powers hardware up, for `penstock.host.omap.ObliviousMap` and the devices of a server.

    * `backend`: "rtl", "netlist" or "pysim".
    * `target`: what it is made for.
    * `state`: its map can be kept (`penstock serve --state`): records of what it does leave it, and come back.
    * `options`: the machine's, as `Design.run` takes them: `family` and `waves` of a netlist, and so on.

    HBM keeps the map's deadline with half of it to spare, the host answers after 1.26 µs at 250 MHz.
    Raises ValueError for a backend that is no hardware or has one memory, which its host reads, and for
    options that it does not take.
    """
    if backend not in MACHINES or backend == "board":
        names = [name for name in MACHINES if name != "board"]
        raise ValueError(f"hardware is one of {', '.join(names)}, not {backend!r}")
    check_options(backend, options)

    def powers(config: OmapConfig, root: bytes, generation: int = 0) -> MachineDevice:
        hbm = FixedLatency(config.access.deadline // 2, config.bus_bytes)
        link = FixedLatency(315, config.host_bus_bytes)
        design = MapDesign(target_named(target), hbm, "map", config, link, state)
        vault = {
            "root": int.from_bytes(root, "little"),
            "entropy": secrets.randbits(256),
            "generation": generation,
        }
        return MachineDevice(config, design.machine(backend, 0, vault=vault, **options), state)

    return powers
