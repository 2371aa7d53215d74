"""Models of cells against plain ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.sim.netlist import cell_models
from penstock.sim.netlist.cells import LINT
from testbench.vectors import run_vectors


class PlainRam:
    """A block RAM as a list of bits: what the docstring of `cells/ram.v` says, in another way."""

    def __init__(
        self, byte: int, widths: tuple[int, int], modes: tuple[int, int], guard: bool, content: int
    ) -> None:
        self.byte, self.widths, self.modes, self.guard = byte, widths, modes, guard
        self.bits = [content >> k & 1 for k in range(2048 * byte)]
        self.out = [0, 0]

    def _place(self, port: int, address: int) -> tuple[list[int], list[int]]:
        """Return the bits that a port sees at an address, and those of them that a write changes."""
        width = self.widths[port]
        if width < self.byte:
            first = (address >> 3) * self.byte + (address & 7) // width * width
            return [*range(first, first + width)], [*range(first, first + width)]
        count = width // self.byte
        first = (address >> 3) // count * count * self.byte
        seen = [*range(first, first + width)]
        return seen, seen if count == 1 else [
            k for k in seen if address >> (k - first) // self.byte & 1
        ]

    def step(self, ports: list[tuple[int, int, int, int, int]]) -> list[int]:
        """Take (enable, write, reset, address, data) of each port; return their outputs after the clock."""
        places = [self._place(port, ports[port][3]) for port in (0, 1)]
        changed = [
            set(places[k][1]) if en and we and not (self.guard and rst) else set()
            for k, (en, we, rst, _, _) in enumerate(ports)
        ]
        fresh = list(self.bits)
        for k, (_, _, _, _, data) in enumerate(ports):
            for n, bit in enumerate(places[k][0]):
                if bit in changed[k]:
                    fresh[bit] = data >> n & 1
        for k, (en, we, rst, _, _) in enumerate(ports):
            if rst:
                self.out[k] = 0
            elif en and not (we and self.modes[k] == 0):
                seen = [
                    fresh[b]
                    if self.modes[k] == 1 and b in changed[k]
                    else self.bits[b] ^ (b in changed[1 - k])
                    for b in places[k][0]
                ]
                self.out[k] = sum(bit << n for n, bit in enumerate(seen))
        self.bits = fresh
        return list(self.out)


#: (byte, widths of the ports, write modes) of block RAMs
RAMS = [
    (9, (18, 18), (0, 1)),
    (9, (9, 18), (2, 0)),
    (9, (36, 36), (0, 0)),
    (9, (36, 9), (0, 0)),
    (9, (1, 4), (1, 2)),
    (9, (2, 18), (0, 0)),
    (8, (16, 16), (0, 1)),
    (8, (8, 1), (1, 0)),
    (8, (2, 4), (0, 1)),
    (8, (32, 32), (0, 0)),
    (8, (4, 32), (0, 0)),
    (8, (16, 8), (0, 0)),
]
WRITE_MODES = ("NORMAL", "WRITETHROUGH", "READBEFOREWRITE")


def reset_mode(widths: tuple[int, int]) -> str:
    """Both are tried; seen at the clock they differ in that a reset at once does not stop a write."""
    return "ASYNC" if widths[0] == widths[1] else "SYNC"


def content(byte: int) -> int:
    return random.Random(byte).getrandbits(2048 * byte)


@dataclass(frozen=True)
class Family:
    """What is tried of a family: block RAMs (byte, widths, write modes), look-up tables (inputs, content), multipliers (bits)."""

    name: str
    rams: list[tuple[int, tuple[int, int], tuple[int, int]]]
    tables: list[tuple[int, int]]
    sizes: tuple[int, ...]


class Cells(wiring.Component):
    """Cells of a family side by side, with the same inputs."""

    def __init__(self, family: Family) -> None:
        self.family = family
        inputs = {"addr": 14, "d": 36, "en": 1, "we": 1, "rst": 1, "signed": 1}
        super().__init__(
            {f"{name}_{p}": In(width) for name, width in inputs.items() for p in "ab"}
            | {f"q{n}_{p}": Out(36) for n in range(len(family.rams)) for p in "ab"}
            | {f"lut{n}": Out(1) for n in range(len(family.tables))}
            | {f"{half}{n}": Out(36) for n in family.sizes for half in ("low", "high")}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        family = self.family
        for n, (byte, widths, modes) in enumerate(family.rams):
            q_a, q_b = getattr(self, f"q{n}_a"), getattr(self, f"q{n}_b")
            m.submodules += (
                dp16kd(self, q_a, q_b, widths, modes)
                if family.name == "ecp5"
                else gowin_ram(self, q_a, q_b, byte, widths, modes)
            )
        for n, (size, table) in enumerate(family.tables):
            name, pins, out, init = {
                "ecp5": (f"LUT{size}", "ABCD", "Z", "INIT"),
                "ice40": ("SB_LUT4", ("I0", "I1", "I2", "I3"), "O", "LUT_INIT"),
                "gowin": (f"LUT{size}", ("I0", "I1", "I2", "I3"), "F", "INIT"),
            }[family.name]
            inputs: dict[str, Any] = {
                f"i_{pin}": self.addr_a[k] for k, pin in enumerate(pins[:size])
            }
            m.submodules += Instance(
                name,
                **{f"p_{init}": Const(table, 1 << size), f"o_{out}": getattr(self, f"lut{n}")},
                **inputs,
            )
        for size in family.sizes:
            a, b, out = (
                self.d_a[:size],
                self.d_b[:size],
                Cat(getattr(self, f"low{size}"), getattr(self, f"high{size}"))[: 2 * size],
            )
            if family.name == "gowin":
                m.submodules += Instance(
                    f"MULT{size}X{size}",
                    i_A=a,
                    i_B=b,
                    i_ASIGN=self.signed_a,
                    i_BSIGN=self.signed_b,
                    o_DOUT=out,
                )
            else:
                pins = (
                    {f"i_A{k}": a[k] for k in range(size)}
                    | {f"i_B{k}": b[k] for k in range(size)}
                    | {f"o_P{k}": out[k] for k in range(36)}
                )
                m.submodules += Instance(
                    "MULT18X18D", **pins, i_SIGNEDA=self.signed_a, i_SIGNEDB=self.signed_b
                )
        return m


def dp16kd(
    ports: Any, q_a: Any, q_b: Any, widths: tuple[int, int], modes: tuple[int, int]
) -> Instance:
    bits = content(9)
    words = [
        sum((bits >> 18 * (16 * row + k) & 0x3FFFF) << 20 * k for k in range(16))
        for row in range(64)
    ]
    pins: dict[str, Any] = {
        f"p_INITVAL_{row:02X}": Const(word, 320) for row, word in enumerate(words)
    }
    pins["p_RESETMODE"] = reset_mode(widths)
    for n, p in enumerate("AB"):
        pins |= {
            f"p_DATA_WIDTH_{p}": widths[n],
            f"p_WRITEMODE_{p}": WRITE_MODES[modes[n]],
            f"i_CLK{p}": ClockSignal(),
            f"i_OCE{p}": Const(1),
        }
        pins |= {
            f"i_{name}{p}": getattr(ports, f"{what}_{p.lower()}")
            for name, what in (("CE", "en"), ("WE", "we"), ("RST", "rst"))
        }
        pins |= {f"i_AD{p}{k}": getattr(ports, f"addr_{p.lower()}")[k] for k in range(14)}
        data = (
            ports.d_a[18:] if p == "B" and widths[0] == 36 else getattr(ports, f"d_{p.lower()}")
        )  # a word's upper half
        if p == "B" and 36 in widths:
            pins["i_WEB"] = Const(0)
        pins |= {f"i_DI{p}{k}": data[k] for k in range(18)}
    high, low = q_b[18:], q_b[:18]
    if widths[1] == 36:
        pins |= {f"o_DOA{k}": low[k] for k in range(18)} | {f"o_DOB{k}": high[k] for k in range(18)}
    else:
        pins |= {f"o_DOA{k}": q_a[k] for k in range(18)} | {f"o_DOB{k}": low[k] for k in range(18)}
    return Instance("DP16KD", **pins)


def gowin_ram(
    ports: Any, q_a: Any, q_b: Any, byte: int, widths: tuple[int, int], modes: tuple[int, int]
) -> Instance:
    bits = content(byte)
    pins: dict[str, Any] = {
        f"p_INIT_RAM_{row:02X}": Const(bits >> 32 * byte * row & ((1 << 32 * byte) - 1), 32 * byte)
        for row in range(64)
    }
    pins |= {f"i_CLK{p}": ClockSignal() for p in "AB"} | {
        "i_CEA": ports.en_a,
        "i_CEB": ports.en_b,
        "i_RESETA": ports.rst_a,
        "i_RESETB": ports.rst_b,
    }
    pins |= {
        "i_ADA": ports.addr_a,
        "i_ADB": ports.addr_b,
        "p_BIT_WIDTH_0": widths[0],
        "p_BIT_WIDTH_1": widths[1],
        "i_BLKSELA": Const(0, 3),
        "i_BLKSELB": Const(0, 3),
        "p_RESET_MODE": reset_mode(widths),
    }
    if max(widths) == 4 * byte:  # one port writes, the other reads
        assert modes == (0, 0)
        return Instance(
            "SDPX9B" if byte == 9 else "SDPB",
            **pins,
            i_DI=ports.d_a[: 4 * byte],
            i_OCE=Const(1),
            o_DO=q_b[: 4 * byte],
        )
    pins |= {
        "i_WREA": ports.we_a,
        "i_WREB": ports.we_b,
        "i_DIA": ports.d_a[: 2 * byte],
        "i_DIB": ports.d_b[: 2 * byte],
        "i_OCEA": Const(1),
        "i_OCEB": Const(1),
        "o_DOA": q_a[: 2 * byte],
        "o_DOB": q_b[: 2 * byte],
        "p_WRITE_MODE0": Const(modes[0], 2),
        "p_WRITE_MODE1": Const(modes[1], 2),
    }
    return Instance("DPX9B" if byte == 9 else "DPB", **pins)


LUTS = {"ecp5": (2, 4), "ice40": (4,), "gowin": (1, 2, 3, 4)}
EDGES = (0, 1, 255, 256, 1 << 17, (1 << 18) - 1, 1 << 35, (1 << 36) - 1)


@pytest.mark.parametrize(
    "name", ["ecp5", *(pytest.param(k, marks=pytest.mark.long) for k in ("ice40", "gowin"))]
)
def test_cells(name: str) -> None:
    """Block RAMs of every width and write mode with byte enables, resets, content at the start and both ports at the same bits; tables; products."""
    rng = np.random.default_rng(3)
    count = 2000
    rams = [ram for ram in RAMS if name == "gowin" or (name == "ecp5" and ram[0] == 9)]
    tables = [(size, int(rng.integers(1 << (1 << size)))) for size in LUTS[name] for _ in range(8)]
    family = Family(name, rams, tables, {"ecp5": (18,), "ice40": (), "gowin": (9, 18, 36)}[name])
    near = rng.choice([0, 16, 512, 0x3FE0], size=(2, count)) + rng.integers(
        0, 16, size=(2, count)
    )  # where the ports meet
    inputs = {
        "addr_a": near[0],
        "addr_b": near[1],
        "d_a": rng.integers(0, 1 << 36, count),
        "d_b": rng.integers(0, 1 << 36, count),
    }
    shares = {"en": 0.8, "we": 0.4, "rst": 0.1, "signed": 0.5}
    inputs |= {
        f"{what}_{p}": (rng.random(count) < share).astype(np.int64)
        for what, share in shares.items()
        for p in "ab"
    }
    inputs["we_b"] &= ~(
        (near[0] >> 5 == near[1] >> 5) & inputs["we_a"] & 1
    )  # what two writes to one bit do is nobody's promise
    for k, pair in enumerate((x, y) for x in EDGES for y in EDGES):
        inputs["d_a"][k], inputs["d_b"][k] = pair
    late = {f"q{n}_{p}": 1 for n in range(len(rams)) for p in "ab"}
    now = {f"lut{n}": 0 for n in range(len(tables))} | {
        f"{half}{size}": 0 for size in family.sizes for half in ("low", "high")
    }
    found = run_vectors(
        Cells(family), inputs, [*late, *now], late | now, modules=LINT + cell_models(name)
    )
    for n, (size, table) in enumerate(tables):
        assert np.array_equal(found[f"lut{n}"], table >> (near[0] & ((1 << size) - 1)) & 1)
    for size in family.sizes:
        check_products(size, inputs, found)
    for n, ram in enumerate(rams):
        check_ram(name, ram, inputs, [found[f"q{n}_{p}"] for p in "ab"])


def check_products(size: int, inputs: dict[str, Any], found: dict[str, Any]) -> None:
    mask = (1 << size) - 1
    value = lambda code, signed: code - (1 << size) if signed and code >> size - 1 else code
    for t in range(len(inputs["d_a"])):
        a, b = (value(int(inputs[f"d_{p}"][t]) & mask, inputs[f"signed_{p}"][t]) for p in "ab")
        assert (int(found[f"high{size}"][t]) << 36 | int(found[f"low{size}"][t])) == a * b & (
            (1 << 2 * size) - 1
        ), (size, a, b)


def check_ram(
    family: str,
    ram: tuple[int, tuple[int, int], tuple[int, int]],
    inputs: dict[str, Any],
    found: list[Any],
) -> None:
    byte, widths, modes = ram
    wide = 4 * byte in widths  # port B only reads then, and the Gowin's port A only writes
    plain = PlainRam(
        byte, widths, modes, family == "ecp5" and reset_mode(widths) == "SYNC", content(byte)
    )
    shown = [
        (1 << widths[0]) - 1 if 4 * byte != widths[1] and not (wide and family == "gowin") else 0,
        (1 << widths[1]) - 1,
    ]
    for t in range(len(inputs["d_a"])):
        first, second = (
            tuple(int(inputs[f"{what}_{p}"][t]) for what in ("en", "we", "rst", "addr", "d"))
            for p in "ab"
        )
        if wide:
            first, second = (
                (first[0], first[1] if family == "ecp5" else 1, *first[2:]),
                (second[0], 0, *second[2:]),
            )
        expected = plain.step([first, second])  # type: ignore[list-item]
        assert [int(q[t]) & m for q, m in zip(found, shown, strict=True)] == [
            x & m & 0x3FFFF if k == 0 else x & m
            for k, (x, m) in enumerate(zip(expected, shown, strict=True))
        ], (ram, t)
