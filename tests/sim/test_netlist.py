"""Models of cells against plain ones, and netlists of whole designs against golden, model and RTL."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from penstock.sim.netlist import cell_models
from penstock.sim.netlist.cells import LINT
from penstock.sim.vectors import run_vectors

# cells


class PlainRam:
    """A block RAM as a list of bits: what the docstring of `cells/ram.v` says, in another way."""

    def __init__(self, byte: int, widths: tuple[int, int], modes: tuple[int, int], guard: bool, content: int) -> None:
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
        return seen, seen if count == 1 else [k for k in seen if address >> (k - first) // self.byte & 1]

    def step(self, ports: list[tuple[int, int, int, int, int]]) -> list[int]:
        """Take (enable, write, reset, address, data) of each port; return their outputs after the clock."""
        places = [self._place(port, ports[port][3]) for port in (0, 1)]
        changed = [set(places[k][1]) if en and we and not (self.guard and rst) else set() for k, (en, we, rst, _, _) in enumerate(ports)]
        fresh = list(self.bits)
        for k, (_, _, _, _, data) in enumerate(ports):
            for n, bit in enumerate(places[k][0]):
                if bit in changed[k]:
                    fresh[bit] = data >> n & 1
        for k, (en, we, rst, _, _) in enumerate(ports):
            if rst:
                self.out[k] = 0
            elif en and not (we and self.modes[k] == 0):
                seen = [fresh[b] if self.modes[k] == 1 and b in changed[k] else self.bits[b] ^ (b in changed[1 - k]) for b in places[k][0]]
                self.out[k] = sum(bit << n for n, bit in enumerate(seen))
        self.bits = fresh
        return list(self.out)


#: (byte, widths of the ports, write modes) of block RAMs
RAMS = [(9, (18, 18), (0, 1)), (9, (9, 18), (2, 0)), (9, (36, 36), (0, 0)), (9, (36, 9), (0, 0)), (9, (1, 4), (1, 2)), (9, (2, 18), (0, 0)),
        (8, (16, 16), (0, 1)), (8, (8, 1), (1, 0)), (8, (2, 4), (0, 1)), (8, (32, 32), (0, 0)), (8, (4, 32), (0, 0)), (8, (16, 8), (0, 0))]
WRITE_MODES = ("NORMAL", "WRITETHROUGH", "READBEFOREWRITE")


def content(byte: int) -> int:
    return random.Random(byte).getrandbits(2048 * byte)


class Cells(wiring.Component):
    """Block RAMs of a family side by side, with the same inputs; outputs `q<n>_a` and `q<n>_b`."""

    def __init__(self, family: str, rams: list[tuple[int, tuple[int, int], tuple[int, int]]]) -> None:
        self.family, self.rams = family, rams
        inputs = {"addr": 14, "d": 36, "en": 1, "we": 1, "rst": 1}
        super().__init__({f"{name}_{p}": In(width) for name, width in inputs.items() for p in "ab"}
                         | {f"q{n}_{p}": Out(36) for n in range(len(rams)) for p in "ab"})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for n, (byte, widths, modes) in enumerate(self.rams):
            q_a, q_b = getattr(self, f"q{n}_a"), getattr(self, f"q{n}_b")
            m.submodules[f"ram{n}"] = dp16kd(self, q_a, q_b, widths, modes) if self.family == "ecp5" else gowin_ram(self, q_a, q_b, byte, widths, modes)
        return m


def dp16kd(ports: Any, q_a: Any, q_b: Any, widths: tuple[int, int], modes: tuple[int, int]) -> Instance:
    bits = content(9)
    words = [sum((bits >> 18 * (16 * row + k) & 0x3FFFF) << 20 * k for k in range(16)) for row in range(64)]
    pins: dict[str, Any] = {f"p_INITVAL_{row:02X}": Const(word, 320) for row, word in enumerate(words)}
    for n, p in enumerate("AB"):
        pins |= {f"p_DATA_WIDTH_{p}": widths[n], f"p_WRITEMODE_{p}": WRITE_MODES[modes[n]], f"i_CLK{p}": ClockSignal(), f"i_OCE{p}": Const(1)}
        pins |= {f"i_{name}{p}": getattr(ports, f"{what}_{p.lower()}") for name, what in (("CE", "en"), ("WE", "we"), ("RST", "rst"))}
        pins |= {f"i_AD{p}{k}": getattr(ports, f"addr_{p.lower()}")[k] for k in range(14)}
        data = ports.d_a[18:] if p == "B" and widths[0] == 36 else getattr(ports, f"d_{p.lower()}")      # a word's upper half
        if p == "B" and 36 in widths:
            pins["i_WEB"] = Const(0)
        pins |= {f"i_DI{p}{k}": data[k] for k in range(18)}
    high, low = q_b[18:], q_b[:18]
    if widths[1] == 36:
        pins |= {f"o_DOA{k}": low[k] for k in range(18)} | {f"o_DOB{k}": high[k] for k in range(18)}
    else:
        pins |= {f"o_DOA{k}": q_a[k] for k in range(18)} | {f"o_DOB{k}": low[k] for k in range(18)}
    return Instance("DP16KD", **pins)


def gowin_ram(ports: Any, q_a: Any, q_b: Any, byte: int, widths: tuple[int, int], modes: tuple[int, int]) -> Instance:
    bits = content(byte)
    pins: dict[str, Any] = {f"p_INIT_RAM_{row:02X}": Const(bits >> 32 * byte * row & ((1 << 32 * byte) - 1), 32 * byte) for row in range(64)}
    pins |= {f"i_CLK{p}": ClockSignal() for p in "AB"} | {"i_CEA": ports.en_a, "i_CEB": ports.en_b, "i_RESETA": ports.rst_a, "i_RESETB": ports.rst_b}
    pins |= {"i_ADA": ports.addr_a, "i_ADB": ports.addr_b, "p_BIT_WIDTH_0": widths[0], "p_BIT_WIDTH_1": widths[1],
             "i_BLKSELA": Const(0, 3), "i_BLKSELB": Const(0, 3)}
    if max(widths) == 4 * byte:                              # one port writes, the other reads
        assert modes == (0, 0)
        return Instance("SDPX9B" if byte == 9 else "SDPB", **pins, i_DI=ports.d_a[:4 * byte], i_OCE=Const(1), o_DO=q_b[:4 * byte])
    pins |= {"i_WREA": ports.we_a, "i_WREB": ports.we_b, "i_DIA": ports.d_a[:2 * byte], "i_DIB": ports.d_b[:2 * byte], "i_OCEA": Const(1), "i_OCEB": Const(1),
             "o_DOA": q_a[:2 * byte], "o_DOB": q_b[:2 * byte], "p_WRITE_MODE0": Const(modes[0], 2), "p_WRITE_MODE1": Const(modes[1], 2)}
    return Instance("DPX9B" if byte == 9 else "DPB", **pins)


@pytest.mark.parametrize("family", ["ecp5", "gowin"])
def test_block_rams(family: str) -> None:
    """Every width and write mode, byte enables, resets, content at the start, both ports at the same bits: as the plain model."""
    rams = [ram for ram in RAMS if family == "gowin" or ram[0] == 9]
    rng = np.random.default_rng(3)
    count = 4000
    near = rng.choice([0, 16, 512, 0x3FE0], size=(2, count)) + rng.integers(0, 16, size=(2, count))     # where the ports meet
    inputs = {"addr_a": near[0], "addr_b": near[1], "d_a": rng.integers(0, 1 << 36, count), "d_b": rng.integers(0, 1 << 36, count)}
    inputs |= {f"{name}_{p}": (rng.random(count) < share).astype(np.int64) for name, share in (("en", 0.8), ("we", 0.4), ("rst", 0.1)) for p in "ab"}
    inputs["we_b"] &= ~((near[0] >> 5 == near[1] >> 5) & inputs["we_a"] & 1)           # what two writes to one bit do is nobody's promise
    outputs = [f"q{n}_{p}" for n in range(len(rams)) for p in "ab"]
    found = run_vectors(Cells(family, rams), inputs, outputs, 1, modules=LINT + cell_models(family))
    for n, (byte, widths, modes) in enumerate(rams):
        wide = 4 * byte in widths                                # the ECP5's port B, and the Gowin's reading port, do not write then
        single = wide and family == "gowin"
        plain = PlainRam(byte, widths, modes, family == "ecp5", content(byte))
        shown = [0 if single else (1 << min(widths[0], 18)) - 1, (1 << widths[1]) - 1]
        if widths[1] == 4 * byte:
            shown[0] = 0
        for t in range(count):
            stimulus = [tuple(int(inputs[f"{name}_{p}"][t]) for name in ("en", "we", "rst", "addr", "d")) for p in "ab"]
            if wide and not single:
                stimulus[1] = (stimulus[1][0], 0, *stimulus[1][2:])
            if single:
                stimulus = [(stimulus[0][0], 1, *stimulus[0][2:]), (stimulus[1][0], 0, *stimulus[1][2:])]
            expected = plain.step(stimulus)                      # type: ignore[arg-type]
            seen = [int(found[f"q{n}_{p}"][t]) for p in "ab"]
            assert [x & mask for x, mask in zip(seen, shown, strict=True)] == [x & mask for x, mask in zip(expected, shown, strict=True)], (byte, widths, t)
