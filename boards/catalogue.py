"""Which boards there are: Penstock's own, and those that other packages offer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from ..models import plugins
from ..models.memory import ON_CHIP
from ..models.target import TARGETS, register
from .board import Board, Memory
from .device import DEVICES

__all__ = ["BOARDS", "GROUP", "boards"]

#: entry points under which packages offer boards: each names a `Board`, or a list of them
GROUP = "penstock.boards"


def _on_chip(kind: str, size: int, bus_bytes: int) -> Memory:
    """A memory of the device itself, with the timing of its hardware (`hdl.memory`)."""
    timing = ON_CHIP[kind](bus_bytes)
    return Memory(kind, size, timing.latency, bus_bytes)


def _ecp5(
    name: str,
    title: str,
    device: str,
    package: str,
    speed: str,
    memory: int,
    oscillator: float,
    platform: str,
    **more: Any,
) -> Board:
    return Board(
        name,
        title,
        device,
        package,
        speed,
        _on_chip("block RAM", memory, 8),
        8,
        60.0,
        oscillator,
        platform,
        lean=True,
        status="placed",
        **more,
    )


def _ulx3s(size: str, memory: int) -> Board:
    return _ecp5(
        f"ulx3s-{size.lower()}",
        f"ULX3S with Lattice ECP5-{size}",
        f"LFE5U-{size}",
        "CABGA381",
        "6",
        memory,
        25.0,
        f"amaranth_boards.ulx3s:ULX3S_{size}_Platform",
        clock="clk25",
        loader="ulx3s",
    )


def _ulx3s_sdram(size: str) -> Board:
    """The same with pages and results in the SDRAM: a word of the bus takes four of its columns, a burst some ten cycles more."""
    plain = _ulx3s(size, 0)
    return replace(
        plain,
        name=f"{plain.name}-sdram",
        title=f"{plain.title}, tables in its SDRAM",
        memory=Memory("SDRAM", 32 << 20, 12, 2),
        status="simulated, not placed",
    )


BOARDS: tuple[Board, ...] = (
    _ulx3s("12F", 16 << 10),
    _ulx3s("25F", 32 << 10),
    _ulx3s("45F", 64 << 10),
    _ulx3s("85F", 128 << 10),
    _ulx3s_sdram("25F"),
    _ulx3s_sdram("85F"),
    _ecp5(
        "orangecrab-r0.2",
        "OrangeCrab r0.2 with ECP5-25F",
        "LFE5U-25F",
        "CSFBGA285",
        "8",
        32 << 10,
        48.0,
        "amaranth_boards.orangecrab_r0_2:OrangeCrabR0_2_25FPlatform",
        clock="clk",
        uart_pins=("N17", "M18"),
        loader="orangecrab",
        link="UART: header pins 0 (RX), 1 (TX)",
    ),
    _ecp5(
        "colorlight-i5",
        "Colorlight i5 (ECP5-25F) on its extension board",
        "LFE5U-25F",
        "CABGA381",
        "6",
        32 << 10,
        25.0,
        ".platforms:ColorlightI5Platform",
        clock="clk25",
        loader="colorlight-i5",
    ),
    _ecp5(
        "ecp5-evn",
        "Lattice ECP5 Evaluation Board (ECP5-5G-85F)",
        "LFE5UM5G-85F",
        "CABGA381",
        "8",
        128 << 10,
        12.0,
        "amaranth_boards.ecp5_5g_evn:ECP55GEVNPlatform",
        clock="clk12",
        loader="ecp5_evn",
    ),
    Board(
        "icebreaker",
        "iCEBreaker with iCE40UP5K",
        "iCE40UP5K",
        "sg48",
        "",
        _on_chip("SPRAM", 64 << 10, 4),
        4,
        12.0,
        12.0,
        "amaranth_boards.icebreaker:ICEBreakerPlatform",
        clock="clk12",
        baud=500_000,
        loader="ice40_generic",
        lean=True,
        page_size=1024,
        status="placed",
    ),
    Board(
        "hx8k-evn",
        "Lattice iCE40-HX8K Breakout Board",
        "iCE40HX8K",
        "ct256",
        "",
        _on_chip("block RAM", 8 << 10, 4),
        4,
        24.0,
        12.0,
        "amaranth_boards.ice40_hx8k_b_evn:ICE40HX8KBEVNPlatform",
        clock="clk12",
        loader="ice40_generic",
        lean=True,
        page_size=1024,
        status="placed",
    ),
    Board(
        "tang-nano-9k",
        "Sipeed Tang Nano 9K with Gowin GW1NR-9",
        "GW1NR-9C",
        "QN88P",
        "C6/I5",
        _on_chip("block RAM", 16 << 10, 4),
        4,
        27.0,
        27.0,
        "amaranth_boards.tang_nano_9k:TangNano9kPlatform",
        clock="clk27",
        loader="tangnano9k",
        lean=True,
        page_size=1024,
        status="placed",
    ),
    Board(
        "crosslink-nx-evn",
        "Lattice CrossLink-NX Evaluation Board",
        "LIFCL-40",
        "BG400",
        "9",
        _on_chip("block RAM", 32 << 10, 8),
        8,
        12.0,
        12.0,
        ".platforms:CrossLinkNXEVNPlatform",
        clock="clk12",
        baud=500_000,
        loader="crosslinknx_evn",
        lean=True,
        status="placed",
    ),
    Board(
        "arty-a7-100t",
        "Digilent Arty A7-100T (Artix-7)",
        "XC7A100T",
        "csg324",
        "-1",
        _on_chip("block RAM", 256 << 10, 8),
        8,
        100.0,
        100.0,
        None,
        loader="arty_a7_100t",
        reserve=(1_200, 900, 0, 64),
        status="project folder, unplaced",
    ),
    Board(
        "kcu105",
        "AMD KCU105 (Kintex UltraScale KU040)",
        "XCKU040",
        "ffva1156",
        "-2",
        _on_chip("block RAM", 1 << 20, 32),
        32,
        125.0,
        125.0,
        None,
        reserve=(1_200, 900, 0, 240),
        status="project folder, unplaced",
    ),
    Board(
        "u55c",
        "AMD Alveo U55C shell",
        "XCU55C",
        "fsvh2892",
        "-2L",
        Memory("HBM2", 16 << 30, 60, 32),
        32,
        250.0,
        100.0,
        None,
        link="PCIe",
        ports=32,
        status="project folder, unplaced",
    ),
)


@cache
def boards() -> dict[str, Board]:
    """Return all boards by name: Penstock's own, then those of installed packages' entry points; each becomes a target."""
    found = {board.name: board for board in BOARDS}

    def accept(point: EntryPoint, offered: Any) -> None:
        more = {b.name: b for b in ([offered] if isinstance(offered, Board) else offered)}
        if unknown := [board.device for board in more.values() if board.device not in DEVICES]:
            raise LookupError(f"there is no device {unknown[0]}")
        for name, board in more.items():
            if found.get(name, board) != board:
                raise plugins.Unusable(f"there is a board {name} already")
        found.update(more)

    plugins.load(GROUP, "set of boards", accept)
    for board in found.values():
        if board.name not in TARGETS:
            register(board.target)
    return found
