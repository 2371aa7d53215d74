# amaranth: UnusedElaboratable=no
"""SdramController: every rule of the chip's data sheet, as `models.memory.sdram.Sdram` has them,
and AXI's rules.
"""

from __future__ import annotations

import sys

from amaranth.hdl import Cat, Signal, Value
from harness import Bench, Defect, Proof
from harness.environment import Manager
from harness.small import shrunk

from penstock.hdl.memory import AXI4, SdramController
from penstock.models.memory.sdram import Chip, Command, Cycles

#: a chip of two banks with rows of four columns, at 100 MHz; 11 pins, for A10 means all banks
CHIP = Chip(
    row_bits=11,
    column_bits=2,
    bank_bits=1,
    rcd=20,
    rp=20,
    ras=40,
    rc=80,
    rfc=30,
    wr=20,
    mrd=2,
    interval=400,
    power_up=30,
    latency=2,
)
HZ = 100_000_000


def _since(b: Bench, event: Value, most: int) -> Signal:
    """Cycles since an event, 1 in the cycle after it; `most` stands for that and more, and for
    never.
    """
    cycles = Signal(range(most + 1), init=most)
    with b.m.If(event):
        b.d.sync += cycles.eq(1)
    with b.m.Elif(cycles != most):
        b.d.sync += cycles.eq(cycles + 1)
    return cycles


def controller(*, refreshes: int = 1) -> Bench:
    """`refreshes` at power-up, for the sake of depth, instead of 8."""
    b = Bench()
    dut, b.m.submodules.dut = shrunk(
        sys.modules["penstock.hdl.memory.sdram"],
        lambda: SdramController(AXI4(address_width=12, data_bytes=4), clock_hz=HZ, chip=CHIP),
        _FIRST_REFRESHES=refreshes,
        _WORDS=4,
    )
    pins, rules = dut.pins, CHIP.cycles(HZ)
    manager = Manager(b, dut.bus, address_bits=5, opened=1)
    manager.check_answers(b, dut.bus, data=0)
    b.d.comb += pins.dq_i.eq(b.free("dq_i", 2))
    code = Cat(pins.we_n, pins.cas_n, pins.ras_n)
    b.show("command", code)
    b.show("bank", pins.ba)
    b.show("A", pins.a)
    _check(b, pins, code, rules, refreshes)
    return b


def _check(b: Bench, pins, code: Value, rules: Cycles, refreshes: int) -> None:
    on = {command: Signal(name=command.name) for command in Command}
    for command, signal in on.items():
        b.d.comb += signal.eq(~pins.cs_n & (code == command))
    every = pins.a[10]
    some = ~(on[Command.NOP] | on[Command.STOP])
    age = Signal(range(rules.power_up + 1))
    with b.m.If(age != rules.power_up):
        b.d.sync += age.eq(age + 1)
    b.check("power-up time", ~some | (age == rules.power_up))
    since_refresh, since_mode = (
        _since(b, on[Command.REFRESH], rules.interval + 1),
        _since(b, on[Command.MODE], rules.mrd),
    )
    b.check("tRFC: no command after REFRESH", ~some | (since_refresh >= rules.rfc))
    b.check("tMRD: no command after MODE", ~some | (since_mode >= rules.mrd))
    seen, moded = Signal(range(refreshes + 1)), Signal()
    with b.m.If(on[Command.REFRESH] & (seen != refreshes)):
        b.d.sync += seen.eq(seen + 1)
    with b.m.If(on[Command.MODE]):
        b.d.sync += moded.eq(1)
    late = (seen != 0) & (since_refresh == rules.interval + 1)
    b.check("a refresh comes within the interval", ~late)
    b.check(
        "ACTIVATE after the chip is set up", ~on[Command.ACTIVATE] | (moded & (seen == refreshes))
    )
    closed_for = []
    opened = []
    for bank in range(1 << len(pins.ba)):
        mine = pins.ba == bank
        active, close = Signal(name=f"active{bank}"), Signal(name=f"close{bank}")
        row_open = Signal(name=f"open{bank}")
        passed = Signal(name=f"passed{bank}")
        b.d.comb += [
            active.eq(on[Command.ACTIVATE] & mine),
            close.eq(on[Command.PRECHARGE] & (every | mine)),
            passed.eq((on[Command.READ] | on[Command.WRITE]) & mine),
        ]
        since_active, since_close = _since(b, active, rules.rc), _since(b, close, rules.rp)
        since_write = _since(b, on[Command.WRITE] & mine, rules.wr)
        with b.m.If(active):
            b.d.sync += row_open.eq(1)
        with b.m.Elif(close):
            b.d.sync += row_open.eq(0)
        b.check(f"bank {bank}: ACTIVATE of a closed bank", ~active | ~row_open)
        b.check(f"bank {bank}: tRP before ACTIVATE", ~active | (since_close >= rules.rp))
        b.check(f"bank {bank}: tRC from ACTIVATE to ACTIVATE", ~active | (since_active >= rules.rc))
        b.check(
            f"bank {bank}: tRAS before PRECHARGE", ~(close & row_open) | (since_active >= rules.ras)
        )
        b.check(
            f"bank {bank}: tWR before PRECHARGE", ~(close & row_open) | (since_write >= rules.wr)
        )
        b.check(f"bank {bank}: READ and WRITE of an open row", ~passed | row_open)
        b.check(f"bank {bank}: tRCD before READ and WRITE", ~passed | (since_active >= rules.rcd))
        closed_for.append(since_close >= rules.rp)
        opened.append(row_open)
    quiet = ~Cat(opened).any() & Cat(closed_for).all()
    b.check(
        "REFRESH and MODE with all banks closed, tRP before",
        ~(on[Command.REFRESH] | on[Command.MODE]) | quiet,
    )
    b.check("auto-precharge is not used", ~(on[Command.READ] | on[Command.WRITE]) | ~every)
    b.check(
        "the mode: single columns, the latency",
        ~on[Command.MODE] | ((pins.a[:3] == 0) & (pins.a[4:7] == rules.latency)),
    )
    b.check("WRITE drives its data", ~on[Command.WRITE] | pins.dq_oe)
    comes = Signal(rules.latency)
    b.d.sync += comes.eq(Cat(on[Command.READ], comes))
    b.check(
        "the controller does not drive while the chip does",
        ~(pins.dq_oe & comes[rules.latency - 1]),
    )
    b.cover("a column is read", on[Command.READ])
    b.cover("a column is written", on[Command.WRITE])
    b.cover("a refresh behind a burst", on[Command.REFRESH] & moded)


_NAME = "hdl.memory.sdram"

PROOFS = [
    Proof(
        "hdl.memory.SdramController",
        "tRCD, tRP, tRAS, tRC, tRFC, tWR, tMRD, refresh interval, power-up, open and closed banks; "
        "RLAST, B, order; 2 banks, rules of few cycles",
        controller,
        (
            Defect(_NAME, "(self.ras == 0) & (self.recover == 0)", "self.ras == 0"),
            Defect(_NAME, "with m.If(self.rc == 0):", "with m.If(1):"),
            Defect(_NAME, "self.wait.eq(self.cycles.rcd - 1)", "self.wait.eq(0)"),
        ),
    ),
]
