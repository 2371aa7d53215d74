"""iCE40 bitstreams, turned back into Verilog, behind their serial pins: what was placed computes what golden says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

import penstock as ps
from penstock import Choices
from penstock.api import Table, compile
from penstock.boards.board import make_platform
from penstock.boards.build import elaborate
from penstock.boards.catalogue import boards
from penstock.boards.flow import NAME, Sources, place, synthesise
from penstock.boards.top import BoardTop
from penstock.hdl.link.uart import UartReceiver, UartTransmitter
from penstock.host.device.opening import serial_device
from penstock.models.analytics.shell import register_map
from penstock.models.memory import block_ram
from penstock.models.target import Target
from penstock.sim.board import Board as Simulated
from penstock.sim.board import build
from penstock.sim.serial import SerialServer
from testbench.bitstream import device_verilog

# the platforms' resources are asked for with buffers, as long as Amaranth 0.5 has that
pytestmark = pytest.mark.filterwarnings("ignore:Using platform.request without:DeprecationWarning")

#: straight from the oscillator, at the simulation's 4 cycles a bit, with memory for a page or two beside program and result
_HX8K = boards()["hx8k-evn"]
BOARD = replace(_HX8K, link=replace(_HX8K.link, baud=3_000_000))
MHZ = BOARD.pins.oscillator_mhz


def sources(soc: Any, board: Target = BOARD) -> Sources:
    """Return what is placed for anything with `rx` and `tx`."""
    made = make_platform(board).prepare(BoardTop(board, soc, None), NAME, emit_src=False)
    text = {
        name: data.decode() if isinstance(data, bytes) else data
        for name, data in made.files.items()
    }
    constraints = next(text[name] for name in text if name.endswith((".pcf", ".lpf")))
    return Sources(text[f"{NAME}.il"], constraints)


def placed(made: Sources, folder: Path) -> Path:
    """Place a device; return the library of what its bitstream does."""
    (result,) = place(BOARD, folder, synthesise(BOARD, made, folder), MHZ, [1], 1)
    return build(device_verilog(result.bitstream, made.constraints, BOARD))


class Lookup(wiring.Component):
    """Answers every byte with its entry in a table, plus the number of bytes so far: look-up tables, carries, flip-flops, a block RAM with content."""

    def __init__(self, table: list[int]) -> None:
        self.table = table
        super().__init__({"rx": In(1, init=1), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(4)
        m.submodules.transmitter = transmitter = UartTransmitter(4)
        m.submodules.memory = memory = Memory(shape=8, depth=512, init=self.table)
        read = memory.read_port()
        count, fresh = Signal(8), Signal()
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            read.addr.eq(receiver.o.payload),
            read.en.eq(receiver.o.valid & ~fresh),
            transmitter.i.payload.eq(read.data + count),
            transmitter.i.valid.eq(fresh),
            receiver.o.ready.eq(~fresh),
        ]
        with m.If(receiver.o.valid & receiver.o.ready):
            m.d.sync += fresh.eq(1)
        with m.If(fresh & transmitter.i.ready):
            m.d.sync += [fresh.eq(0), count.eq(count + 1)]
        return m


def test_a_small_bitstream(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    table = rng.integers(0, 256, 512).tolist()
    asked = rng.integers(0, 256, 300)
    with Simulated(placed(sources(Lookup(table)), tmp_path)) as device:
        device.exchange(b"")  # the reset after configuration
        answer = b"".join(device.exchange(data) for data in (bytes(asked.tolist()), *[b""] * 20))
    assert answer == bytes((table[byte] + k) % 256 for k, byte in enumerate(asked.tolist()))


def test_the_tools_of_ecp5(tmp_path: Path) -> None:
    """From netlist to bitstream: there is no way back to Verilog here, so what was placed is counted."""
    board = boards()["ulx3s-12f"]
    made = sources(Lookup([7 * k % 251 for k in range(512)]), board)
    mhz = board.pins.oscillator_mhz
    (result,) = place(board, tmp_path, synthesise(board, made, tmp_path), mhz, [1], 1)
    # part name, in the bitstream's comments
    assert b"LFE5U-12F" in result.bitstream and len(result.bitstream) > 100_000
    found = result.resources
    assert (found.dsp, found.bram) == (0, 1) and 20 < found.lut < 300 and 30 < found.ff < 200
    assert result.timing.fmax_mhz is not None and result.timing.fmax_mhz > mhz


@ps.kernel(epochs=2)
def linear(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)


@ps.kernel(epochs=1, init={"w": 0.25})
def perceptron(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.25):
    return w + rate * ps.where(ps.sum(w * x) * y < 0.5, y, 0.0) * x


@ps.kernel(epochs=2)
def centre(x: ps.Input["d"], w: ps.Model["d"], rate: ps.Meta = 0.125):
    return w - rate * ps.merge(w - x, 4)


@ps.kernel(epochs=1)
def largest(x: ps.Input["d"], w: ps.Model["d"]):
    return ps.where(ps.merge(ps.abs(x), 5, op="max") > w, ps.merge(ps.abs(x), 5, op="max"), w)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "format", "d"),
    [
        (largest, "fixed:3,3", 1),
        (centre, "fixed:3,3", 1),
        (centre, "fixed:4,6", 2),
        (linear, "fixed:3,3", 1),
        (perceptron, "fixed:4,4", 1),
    ],
)
def test_training(kernel: Any, format: str, d: int, tmp_path: Path) -> None:
    """The whole device trains as golden does, bit for bit, in the model's cycles."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(30, d)).astype(np.float32)
    columns = {"y": np.sign(x.sum(axis=1)).astype(np.float32)} | {
        f"x{k}": x[:, k] for k in range(d)
    }
    table = Table.from_columns(columns, "small", page_size=1024)
    bound = {"x": tuple(f"x{k}" for k in range(d))} | (
        {"y": ("y",)} if kernel in (linear, perceptron) else {}
    )
    design = compile(
        kernel,
        "small",
        table,
        format,
        bind=bound,
        choices=Choices(lanes=1, threads=1, walkers=1),
    )
    plan = replace(design.plan, striders=replace(design.plan.striders, lean=True))
    design = replace(design, plan=plan, memory=block_ram(plan.bus_bytes))
    library = placed(elaborate(design.hardware, BOARD, setting=None), tmp_path)
    golden, model = design.run(table, "golden"), design.run(table, "model")
    registers = register_map(plan, design.identity)
    with (
        Simulated(library) as board,
        SerialServer(board) as server,
        serial_device(server.path, timeout=120, register_map=registers) as device,
    ):
        found = design.run(table, "board", device=device)
    assert golden.codes is not None and found.codes is not None
    for name, codes in golden.codes.items():
        assert np.array_equal(found.codes[name], codes), name
    assert found.cycles == model.cycles
