# amaranth: UnusedElaboratable=no
"""BlockRam and Spram: RLAST, B, order, bounds, and data by a symbolic address."""

from __future__ import annotations

import sys

from harness import Bench, Defect, Proof
from harness.environment import Manager, remember
from harness.small import shrunk

from penstock.hdl.memory import AXI4, BlockRam, Spram

WORDS = 4
_PORT = AXI4(address_width=12, data_bytes=4)


def block_ram() -> tuple:
    """Of four words."""
    dut = BlockRam(_PORT, 4096)
    dut.size = 4 * WORDS
    return dut, dut


def spram() -> tuple:
    """With cells of four words."""
    return shrunk(
        sys.modules["penstock.hdl.memory.spram"], lambda: Spram(_PORT, 4 * WORDS), SPRAM_WORDS=WORDS
    )


def control(make, bound: int, *, writes_first: bool = False, **bursts: int) -> Bench:
    """`bursts`: how many are open, and of how many beats."""
    b = Bench()
    dut, b.m.submodules.dut = make()
    manager = Manager(b, dut.bus, address_bits=3, fair=1, **bursts)
    manager.check_answers(b, dut.bus, bound=bound, data=0, writes_first=writes_first)
    b.check(
        "bursts beyond the end answer SLVERR, all others OKAY",
        ~dut.bus.bvalid | (dut.bus.bresp[0] == 0),
    )
    b.cover("SLVERR is read", dut.bus.rvalid & (dut.bus.rresp == 2))
    return b


def answers() -> Bench:
    """Bursts of one beat, W of which may be early, and the answers of which nobody need take."""
    b = Bench()
    dut, b.m.submodules.dut = block_ram()
    manager = Manager(b, dut.bus, address_bits=1, opened=7, beats=1, early=True)
    unanswered = manager.unanswered
    b.within(
        b.check, "B comes within 4 cycles of the last W", (unanswered != 0) & ~dut.bus.bvalid, 4
    )
    b.check("W is taken only after its AW", ~manager.w | (manager.lacking != 0))
    b.cover("W comes before its AW", dut.bus.wvalid & (manager.owed == 0))
    b.cover("five bursts wait for their answers", unanswered == 5)
    return b


def word(make) -> Bench:
    b = Bench()
    dut, b.m.submodules.dut = make()
    manager = Manager(b, dut.bus, address_bits=3, data=0, opened=2)
    remember(b, manager, dut.bus, words=WORDS, shift=2, opened=2)
    return b


_RAM, _SPRAM = "hdl.memory.blockram", "hdl.memory.spram"
_RULES = "R and B: order, RLAST, B after W, steady, within {} cycles; answers taken within 1; "
_ANSWERS = _RULES + "3 bursts open, ≤ 2 beats"
_DATA = (
    "what is read of any byte is what was written last, SLVERR beyond the end; 4 words of 4 bytes, "
    "any strobes, bursts ≤ 2 beats"
)

PROOFS = [
    Proof(
        "hdl.memory.BlockRam",
        _ANSWERS.format(8),
        lambda: control(block_ram, 8),
        Defect(_RAM, "final.eq(burst.p.length == 0)", "final.eq(0)"),
    ),
    Proof(
        "hdl.memory.BlockRam",
        _RULES.format(8) + "1 burst open, ≤ 4 beats",
        lambda: control(block_ram, 8, opened=1, beats=4),
        Defect(_RAM, "left.eq(left - 1), ", ""),
    ),
    Proof(
        "hdl.memory.BlockRam",
        "W waits for its AW; each write has its answer within 4 cycles, however long answers wait; "
        "7 bursts open, of 1 beat",
        answers,
        Defect(_RAM, "burst.valid & (under_way != _ANSWERS)", "burst.valid"),
    ),
    Proof(
        "hdl.memory.BlockRam",
        _DATA,
        lambda: word(block_ram),
        Defect(_RAM, "with m.If(~kept.valid):", "with m.If(kept.valid):"),
    ),
    Proof(
        "hdl.memory.Spram",
        _ANSWERS.format(10) + "; writes go first",
        lambda: control(spram, 10, writes_first=True),
        Defect(_SPRAM, "late.eq(self.writing & self.bus.wlast)", "late.eq(self.writing)"),
    ),
    Proof(
        "hdl.memory.Spram",
        _DATA,
        lambda: word(spram),
        Defect(
            _SPRAM,
            "target.eq(self.bus.awaddr >> self.shift)",
            "target.eq(self.bus.araddr >> self.shift)",
        ),
    ),
]
