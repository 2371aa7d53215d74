# amaranth: UnusedElaboratable=no
"""Walker: reads its own page alone, and always gets on, whatever the words of a page say."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from harness import Bench, Defect, Proof
from harness.small import made

from penstock.hdl.modules import Submodules
from penstock.hdl.strider.decode import Kind
from penstock.hdl.strider.pipeline import StriderPipeline
from penstock.models.numerics.formats import parse_format
from penstock.models.strider.program import port_config
from testbench.strider_cases import regular_case


class FreeBanks(Submodules):
    """Parts as submodules, but for the banks of the page buffers: these read what they like. What
    is asked of them is kept.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.asked: list[dict] = []

    def instance(self, m: Module, label: str, name: str, make, *, reset=None, **inputs):
        if name != "penstock_bank":
            return super().instance(m, label, name, make, reset=reset, **inputs)
        seen = {}
        for port, value in inputs.items():
            seen[port] = Signal(len(Cat(value)), name=f"{label}_{port}")
            m.d.comb += seen[port].eq(value)
        self.asked.append(seen)
        return {"read": self.words[len(self.asked) - 1]}


def walker(
    *,
    bus_bytes: int = 16,
    features: int = 2,
    lean: bool = True,
    array: bool = False,
    bound: int | None = None,
    latency: int = 4,
    page_size: int = 128,
) -> Bench:
    b = Bench()
    case = regular_case(
        1, features=features, lanes=2, format=parse_format("float32"), page_size=1024, array=array
    )
    config = port_config(case.walk, bus_bytes, lean=lean, latency=latency)
    object.__setattr__(config, "page_size", page_size)  # smaller than a port's may be
    parts = FreeBanks(b)
    parts.words = [b.free(f"word {k}", 8 * bus_bytes) for k in range(2)]
    dut = StriderPipeline(config, parts)
    b.m.submodules.dut = made(dut)
    pages = dut.pages
    write, room = b.free("write"), b.free("room")
    words = config.page_size // bus_bytes
    # whole pages, the word that comes next, pages written and freed
    full, place, freed, target = (
        Signal(range(config.buffers + 1)),
        Signal(range(words)),
        Signal(range(config.buffers)),
        Signal(range(config.buffers)),
    )
    done = write & (place == words - 1)
    b.d.comb += [dut.write.eq(write), dut.room.eq(room)]
    b.d.sync += [full.eq(full + done - dut.freed), place.eq(place + write)]
    if not lean:
        b.d.comb += [dut.program_length.eq(b.constant("program_length", len(dut.program_length)))]
    after = lambda index: Mux(index == config.buffers - 1, 0, index + 1)
    with b.m.If(done):
        b.d.sync += target.eq(after(target))
    with b.m.If(dut.freed):
        b.d.sync += freed.eq(after(freed))
    b.assume("room stays until it is used", ~b.past(room & ~dut.taken) | room)
    b.assume("pages come by credits", ~write | (full != config.buffers))
    for name, value in (
        ("pages that are there", full),
        ("taken", dut.taken),
        ("freed", dut.freed),
        ("kind", dut.tag.kind),
        ("code", dut.code),
    ):
        b.show(name, value)
    alive = Signal()
    b.d.comb += alive.eq(dut.code == 0)
    if bound is None:
        b.check("a page is freed only when there is one", ~dut.freed | (full != 0))
        b.check("a slot is used only where there is room", ~dut.taken | room)
        # a window's words are asked for two cycles before it is looked at, from the oldest page
        there, mine = b.past(b.past(full != 0)), b.past(b.past(pages.page == freed))
        if latency > 4:
            there, mine = b.past(there), b.past(mine)
        looked = dut.tag.kind != Kind.NONE
        b.check("what is looked at was read from a page that is there", ~(alive & looked) | there)
        b.check("what is looked at was read from the oldest page", ~(alive & looked) | mine)
        for seen in parts.asked:
            bits = (config.buffers - 1).bit_length()
            b.check(
                "words are read inside the page buffer that is chosen",
                seen["place"][len(seen["place"]) - bits :] == pages.page,
            )
            b.check(
                "words are written where the page is filled",
                ~seen["write"] | (seen["to"][len(seen["to"]) - bits :] == target),
            )
        b.check(
            "it never reads from a page that is being filled",
            (full == 0) | (full == config.buffers) | (pages.page != target),
        )
        b.cover("data are looked at", alive & (dut.tag.kind == Kind.DATA))
    else:
        moved = Signal()
        b.d.comb += moved.eq(dut.taken | dut.freed | ~alive | (dut.entry != b.past(dut.entry)))
        b.within(
            b.check,
            f"within {bound} cycles it uses a line pointer, gives a tuple, ends the page or fails",
            (full != 0) & room & ~moved,
            bound,
        )
        first = 24 // 4
        b.check(
            "line pointers are inside the page",
            (dut.entry >= first) & (dut.entry <= config.page_size // 4),
        )
        b.check(
            "line pointers are used in turn",
            ~(alive & (dut.entry < b.past(dut.entry, init=first))) | (dut.entry == first),
        )
        b.cover("a tuple is given", dut.taken & ~dut.freed & alive)
    b.cover("a page ends", dut.freed)
    b.cover("a page is at fault", ~alive)
    return b


_FRONT, _WALKER, _PAGES = "hdl.strider.front", "hdl.strider.pipeline", "hdl.strider.pages"
_FREE = "with every word read free; 2 columns, program built in, page of 128 bytes, 16-byte bus"

PROOFS = [
    Proof(
        "hdl.strider.StriderPipeline",
        f"reads pages that are there, the oldest alone, {_FREE}",
        walker,
        (
            Defect(_WALKER, "self.page_ready = full != 0", "self.page_ready = full == full"),
            Defect(
                _WALKER,
                "self.pages.page == self.config.buffers - 1, 0, self.pages.page + 1",
                "self.pages.page == self.config.buffers - 1, 1, self.pages.page + 1",
            ),
        ),
        covers=40,
    ),
    Proof(
        "hdl.strider.StriderPipeline",
        f"within 24 cycles it uses a line pointer, gives a tuple, ends the page or fails, {_FREE}",
        lambda: walker(bound=24),
        (
            Defect(
                _FRONT,
                "with m.If(d.pointers):\n            m.d.sync += self.queue_busy.eq(0)",
                "with m.If(d.pointers & self.known):\n            m.d.sync += self.queue_busy.eq(0)",
            ),
        ),
        method="bounded",
        depth=46,
        search=46,
    ),
]
