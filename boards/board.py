"""What a board is."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..models.target import TARGETS, Target
from .device import DEVICES, Device
from .tools import ToolMissing

__all__ = ["Board", "Memory"]


@dataclass(frozen=True)
class Memory:
    """The memory that holds pages and results, behind the engine's AXI port.

    `kind`: "block RAM", "SPRAM", "SDRAM", "DDR4" or "HBM2"; `latency` in cycles and `bytes_per_cycle` of a port are what a plan reckons with.
    """

    kind: str
    bytes: int
    latency: int
    bytes_per_cycle: int


@dataclass(frozen=True)
class Board:
    """One board.

    Parameters
    ----------
    name, title
        As users type it, and what it is.
    device
        Key of `device.DEVICES`.
    package, speed
        The part's package and speed grade as the place-and-route tool calls them.
    memory
        What holds pages.
    bus_bytes, ports
        The engine's memory ports.
    clock_mhz
        The clock that plans are made for; `oscillator_mhz` is what the board supplies.
    link
        How a host talks to it.
    platform
        "module:Class" of an Amaranth platform; None for boards that only get a vendor's project.
    clock, uart
        Names of the platform's resources; `uart_pins` (rx, tx) where it has no UART of its own: header pins that a serial adapter is put on.
    loader
        What openFPGALoader calls the board.
    reserve
        Look-up tables, flip-flops, multiplier blocks and block RAMs that are for something else than Penstock's own link and memory.
    lean
        Plans get what is for small parts; see `models.analytics.config.AnalyticsPlan`.
    page_size
        Of tables that Penstock packs itself.
    options
        Keyword arguments of the platform.
    status
        What has been shown: see `docs/boards.md`.
    """

    name: str
    title: str
    device: str
    package: str
    speed: str
    memory: Memory
    bus_bytes: int
    clock_mhz: float
    oscillator_mhz: float
    platform: str | None
    clock: str = ""
    uart: str = "uart"
    uart_pins: tuple[str, str] | None = None
    link: str = "UART"
    baud: int = 1_000_000
    loader: str = ""
    ports: int = 1
    reserve: tuple[int, int, int, int] = (0, 0, 0, 0)
    lean: bool = False
    page_size: int = 8192
    status: str = "not placed yet"
    options: tuple[tuple[str, str], ...] = field(default=())

    @property
    def part(self) -> Device:
        return DEVICES[self.device]

    @property
    def open(self) -> bool:
        """Whether the open tool chain makes its bitstreams."""
        return self.platform is not None

    @property
    def target(self) -> Target:
        """What a plan for this board may use."""
        return TARGETS[self.name] if self.name in TARGETS else self.budget

    @property
    def budget(self) -> Target:
        """The device's resources, whatever the name is registered for; link and memory are part of what a plan takes of them."""
        part = self.part
        lut, ff, dsp, bram = (
            have - kept
            for have, kept in zip(
                (part.lut, part.ff, part.dsp, part.bram), self.reserve, strict=True
            )
        )
        return Target(
            self.name,
            self.title,
            self.clock_mhz,
            self.bus_bytes,
            self.memory.bytes_per_cycle,
            self.memory.latency,
            self.ports,
            shared=(self.memory.bytes if self.memory.kind == "block RAM" else 0)
            if self.open
            else None,
            lean=self.lean,
            page_size=self.page_size,
            family=part.family,
            lut=lut,
            ff=ff,
            dsp=dsp,
            bram=bram,
            bram_bits=part.bram_bits,
            multiplier=part.multiplier,
        )

    def make_platform(self) -> Any:
        """Return a new Amaranth platform of the board. Raises LookupError for boards without one, ToolMissing where its package is not installed."""
        if self.platform is None:
            raise LookupError(f"{self.name} has no open tool chain")
        module, _, name = self.platform.partition(":")
        try:
            kind: Callable[..., Any] = getattr(importlib.import_module(module, __package__), name)
        except ModuleNotFoundError as problem:
            if (problem.name or "").partition(".")[0] != "amaranth_boards":
                raise
            raise ToolMissing("amaranth-boards") from None
        return kind(**dict(self.options))
