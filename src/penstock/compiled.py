"""What designs of all engines have in common: their Verilog, their netlist, the device around them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.models.numerics.formats import Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target

if TYPE_CHECKING:
    from penstock.host.device import Device
    from penstock.sim.native import Library, PortSpec

__all__ = ["Compiled"]


class Compiled(ABC):
    """A design: what its engine makes known of itself, and what follows from that. Verilog is made when it is first asked for."""

    given_verilog: str | None

    @property
    @abstractmethod
    def digest(self) -> str:
        """A digest of engine and target: the same for the same kernel, table schema and target."""

    @property
    @abstractmethod
    def target(self) -> Target: ...

    @property
    @abstractmethod
    def format(self) -> Format:
        """The widest numbers that the hardware computes with."""

    @property
    @abstractmethod
    def registers(self) -> RegisterMap: ...

    @property
    @abstractmethod
    def bus_ports(self) -> tuple[PortSpec, ...]:
        """The memory ports of the top."""

    @abstractmethod
    def hardware(self) -> tuple[Any, Any]:
        """Return the engine, not elaborated yet, and the library of its modules, for `Soc`."""

    @abstractmethod
    def resources_on(self, part: Target) -> Resources:
        """Return what the design is expected to take on another part, or on this one without what is around the engine."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what the report says of the design: the kernel, and by name what the plan decided."""

    @abstractmethod
    def manifest(self) -> dict[str, Any]:
        """Return what makes the design again (`penstock.load`), as plain data."""

    def images(self) -> dict[str, bytes]:
        """Return what goes into the device's memory before a run, by the file's name."""
        return {}

    @property
    def identity(self) -> int:
        """The 32 bits of the digest that the hardware's `design` register shows."""
        return int(self.digest[:8], 16)

    @cached_property
    def resources(self) -> Resources:
        return self.resources_on(self.target)

    @cached_property
    def verilog(self) -> str:
        """The engine's Verilog."""
        if self.given_verilog:
            return self.given_verilog
        from penstock.cache import remembered
        from penstock.sim.shelled import verilog
        return remembered(self.digest, lambda: verilog(*self.hardware()))

    def library(self, **options: Any) -> Library:
        """Return the design compiled for simulation (from the cache where it was compiled before); `options` as `sim.native.build`."""
        from penstock.sim.native import build
        return build(self.verilog, ports=self.bus_ports, register_map=self.registers, **options)

    def netlist(self, family: str | None = None) -> str:
        """Return what Yosys makes of the engine for a family's cells (the target's family without), as Verilog with the engine's ports; kept in the cache.

        Raises KernelError: E829 for families without models of their cells, E822 and E826 where Yosys is missing or fails.
        """
        from penstock.netlists import netlist
        return netlist(self.verilog, self.target, family)

    def netlist_library(self, family: str | None = None, **options: Any) -> Library:
        """Return the design's netlist compiled for simulation. Raises as `netlist`."""
        from penstock.netlists import family_of
        from penstock.sim.netlist import build
        return build(self.netlist(family), family_of(self.target, family), ports=self.bus_ports, register_map=self.registers, **options)

    def runs_on(self, device: Device) -> Device:
        """Return the device. Raises DeviceError where it runs another design."""
        from penstock.host.device import DeviceError
        if device.design != self.identity:
            raise DeviceError(f"{device.path}: the device runs design {device.design:08x}, not {self.identity:08x}")
        return device

    def device_in_simulation(self, memory_bytes: int, memory: str = "block RAM") -> Device:
        """Return the whole device in simulation, connected, with so much memory of that kind."""
        from penstock.cache import remembered
        from penstock.host.device import simulated_device
        from penstock.sim.board import generate
        source = remembered(f"{self.digest} board {memory_bytes} {memory}", lambda: generate(*self.hardware(), memory_bytes=memory_bytes, memory=memory))
        return simulated_device(source, self.registers)
