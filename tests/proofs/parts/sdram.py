# amaranth: UnusedElaboratable=no
"""SdramController: every rule of the chip's data sheet, as `testbench.sdram.Sdram` has them,
AXI's rules, an answer within a bound, and data by a symbolic address.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from amaranth.hdl import Array, Cat, Mux, Signal, Value
from harness import Bench, Defect, Proof
from harness.environment import Manager, remember
from harness.small import shrunk

from penstock.hdl.memory import AXI4, SdramController
from penstock.models.memory.sdram import Chip, Command, Cycles

#: words of four bytes that the chip is said to have
WORDS = 8


class _Few(Chip):
    """A chip of so few words that bursts reach beyond its end."""

    @property
    def bytes(self) -> int:
        return 4 * WORDS


#: a chip of two banks with rows of four columns, at 100 MHz; 11 pins, for A10 means all banks
CHIP = _Few(
    row_bits=11,
    column_bits=2,
    bank_bits=1,
    rcd=20,
    rp=20,
    ras=40,
    rc=80,
    rfc=30,
    wr=20,
    mrd=4,
    interval=400,
    power_up=30,
    latency=2,
)
#: the same, whose masks nobody drives
TIED = replace(CHIP, masks=False, interval=600)
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


#: refreshes at power-up, for the sake of depth, instead of 8
REFRESHES = 1


def _made(b: Bench, chip: Chip = CHIP) -> tuple[SdramController, dict[Command, Signal]]:
    """The controller, and the command that is on its pins."""
    dut, b.m.submodules.dut = shrunk(
        sys.modules["penstock.hdl.memory.sdram"],
        lambda: SdramController(AXI4(address_width=12, data_bytes=4), clock_hz=HZ, chip=chip),
        _FIRST_REFRESHES=REFRESHES,
        _WORDS=1,
    )
    pins = dut.pins
    code = Cat(pins.we_n, pins.cas_n, pins.ras_n)
    b.show("command", code)
    b.show("bank", pins.ba)
    b.show("A", pins.a)
    on = {command: Signal(name=command.name) for command in Command}
    for command, signal in on.items():
        b.d.comb += signal.eq(~pins.cs_n & (code == command))
    return dut, on


def controller(chip: Chip = CHIP) -> Bench:
    b = Bench()
    dut, on = _made(b, chip)
    manager = Manager(b, dut.bus, address_bits=5, opened=1)
    manager.check_answers(b, dut.bus, data=0)
    b.d.comb += dut.pins.dq_i.eq(b.free("dq_i", 2))
    _check(b, dut.pins, on, chip.cycles(HZ), REFRESHES)
    return b


def answers(bound: int) -> Bench:
    """Bursts are begun and answered within `bound` cycles, refreshes and power-up included, by a
    manager that gives within a cycle and takes within three, so that words have to wait.
    """
    b = Bench()
    dut, on = _made(b)
    bus = dut.bus
    manager = Manager(b, bus, address_bits=3, opened=1, fair=3)
    b.d.comb += dut.pins.dq_i.eq(b.free("dq_i", 2))
    b.within(b.assume, "W is given within 2 cycles", (manager.owed != 0) & ~bus.wvalid, 1)
    for text, waits in {
        "R comes": (manager.reading != 0) & ~bus.rvalid,
        "W is taken, once its AW is,": bus.wvalid & ~bus.wready & (manager.lacking != 0),
        "B comes after the last W": (manager.unanswered != 0) & ~bus.bvalid,
        "AR or AW is taken while nothing is open": Cat(bus.arvalid, bus.awvalid).any()
        & ~Cat(manager.ar, manager.aw).any()
        & (Cat(manager.reading, manager.writing) == 0),
    }.items():
        waited = b.within(b.check, f"{text} within {bound} cycles", waits, bound)
        if not text.startswith("B"):
            b.cover(f"{text} after {bound // 4} cycles", waited == bound // 4)
    refreshed = Signal()
    with b.m.If(on[Command.REFRESH]):
        b.d.sync += refreshed.eq(manager.reading != 0)
    with b.m.Elif(manager.reading == 0):
        b.d.sync += refreshed.eq(0)
    b.cover("a refresh comes in the midst of a burst", refreshed & bus.rvalid)
    return b


def turns(bound: int) -> Bench:
    """Neither direction waits for the other for ever: AR and AW are taken within `bound` cycles."""
    b = Bench()
    dut, _ = _made(b)
    bus = dut.bus
    manager = Manager(b, bus, address_bits=2, opened=1, fair=1)
    b.d.comb += dut.pins.dq_i.eq(b.free("dq_i", 2))
    b.within(b.assume, "W is given within 2 cycles", (manager.owed != 0) & ~bus.wvalid, 1)
    for channel in ("ar", "aw"):
        waits = getattr(bus, f"{channel}valid") & ~getattr(bus, f"{channel}ready")
        waited = b.within(
            b.check, f"{channel.upper()} is taken within {bound} cycles", waits, bound
        )
        b.cover(f"{channel.upper()} waits {bound // 5} cycles", waited == bound // 5)
    return b


def word(chip: Chip = CHIP) -> Bench:
    """A chip that keeps one bit, of one byte of one column, and says anything of all others."""
    b = Bench()
    dut, on = _made(b, chip)
    pins, rules = dut.pins, CHIP.cycles(HZ)
    manager = Manager(b, dut.bus, address_bits=4, data=0, opened=1)
    place, lane = remember(b, manager, dut.bus, words=WORDS, shift=2, opened=1)
    # the column's address: which half of the word; then columns, banks, rows
    target = Cat(lane[1], place)
    column, bank, row = (
        target[: CHIP.column_bits],
        target[CHIP.column_bits],
        target[CHIP.column_bits + 1 :],
    )
    rows = [Signal(len(pins.a), name=f"row{k}") for k in range(1 << len(pins.ba))]
    for k, signal in enumerate(rows):
        with b.m.If(on[Command.ACTIVATE] & (pins.ba == k)):
            b.d.sync += signal.eq(pins.a)
    open_row = Array(rows)[bank]
    beyond = Array(rows)[pins.ba] >= 2 * WORDS >> CHIP.bank_bits + CHIP.column_bits
    b.check("rows beyond the end stay as they are", ~on[Command.WRITE] | ~beyond)
    b.cover(
        "a row beyond the end is opened to write",
        on[Command.ACTIVATE] & dut.bus.wvalid & (pins.a >= 2),
    )
    here, kept = Signal(), Signal(8, name="kept_by_the_chip")
    b.d.comb += here.eq((pins.ba == bank) & (open_row == row) & (pins.a == column))
    byte = lambda pair: pair.word_select(lane[0], 8)
    masked = Mux(lane[0], pins.dqm[1], pins.dqm[0])
    with b.m.If(on[Command.WRITE] & here & ~masked):
        b.d.sync += kept.eq(byte(pins.dq_o))
    given, free = Signal(8 * rules.latency), b.free("dq_i", 2)
    comes = Signal(rules.latency)
    b.d.sync += [
        comes.eq(Cat(on[Command.READ] & here, comes)),
        given.eq(Cat(kept, given)),
    ]
    mine = [comes[-1] & (lane[0] == k) for k in range(2)]
    for k in range(2):
        b.d.comb += pins.dq_i.word_select(k, 8).eq(Mux(mine[k], given[-8:], free[k].replicate(8)))
    return b


def _check(b: Bench, pins, on: dict[Command, Signal], rules: Cycles, refreshes: int) -> None:
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
        "tRCD, tRP, tRAS, tRC, tRFC, tWR, tMRD, refresh interval, power-up, open and closed banks, "
        "who drives DQ; AXI's R, RLAST and B; 2 banks, rules of few cycles",
        controller,
        Defect(_NAME, "(self.ras == 0) & (self.recover == 0)", "self.ras == 0"),
        covers=40,
        search=60,
    ),
    Proof(
        "hdl.memory.SdramController",
        "R, W, B, and AR or AW where nothing is open, within 40 cycles, refreshes and power-up "
        "among them; bursts ≤ 2 beats, the manager fair within 3",
        lambda: answers(40),
        Defect(
            _NAME,
            "with m.If((self.wait == 0) & (self.sub == 0) & self.due):",
            "with m.If((self.wait == 0) & (self.sub == 0) & (self.due | self.rc.any())):",
        ),
        method="bounded",
        depth=75,
        covers=45,
        search=80,
    ),
    Proof(
        "hdl.memory.SdramController",
        "reads and writes have their turns within 60 cycles; bursts ≤ 2 beats, the manager fair "
        "within 1",
        lambda: turns(60),
        Defect(_NAME, "~self.bus.bvalid & ~(self.bus.arvalid & self.writing)", "~self.bus.bvalid"),
        method="bounded",
        depth=90,
        covers=60,
        search=120,
    ),
    Proof(
        "hdl.memory.SdramController",
        f"what is read of any byte is what was written last, SLVERR and no write beyond the end; {WORDS} words of "
        "4 bytes, any strobes, bursts ≤ 2 beats, over row ends, banks and refreshes",
        word,
        Defect(_NAME, "Mux(self.outside, Command.NOP, Command.WRITE)", "Command.WRITE"),
        method="bounded",
        depth=45,
        covers=45,
        search=45,
    ),
    Proof(
        "hdl.memory.SdramController",
        "the chip's rules as above, where its masks are tied: words that are written in part are read before",
        lambda: controller(TIED),
        Defect(_NAME, "with m.Elif(self.returns.idle):", "with m.Else():"),
        covers=60,
        search=80,
    ),
    Proof(
        "hdl.memory.SdramController",
        f"what is read of any byte is what was written last, as above, where the chip's masks are tied; {WORDS} words",
        lambda: word(TIED),
        Defect(_NAME, "byte(self.returns.gathered, k)", "byte(self.returns.gathered, 0)"),
        method="bounded",
        depth=40,
        covers=50,
        search=40,
    ),
]
