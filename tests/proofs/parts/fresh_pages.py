# amaranth: UnusedElaboratable=no
"""The oblivious map's pages: no (page, piece, count) is sealed twice under the page's key, which is of one
power-up. A bin's record counts how often its page was written; each source of the nonce is proven alone.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import (
    Cat,
    ResetInserter,
    Signal,
    Value,
)
from harness import Bench, Defect, Proof
from harness.small import made
from harness.substitute import anything, replaced

from penstock.hdl.omap.closing import PageClosing, ticket_layout
from penstock.hdl.omap.completion import Completion
from penstock.hdl.omap.item_reader import ItemReader
from penstock.hdl.omap.pairs import PairGenerators
from penstock.hdl.omap.sealing import Sealer

from .fresh_messages import core
from .omap import SMALL


def once() -> Bench:
    """Any operations, one of them marked, between the back's first stage and its last."""
    b, ticket = Bench(), ticket_layout(SMALL)
    reader, last = ItemReader(SMALL, ticket), Completion(SMALL, ticket)
    reset = b.free("reset")
    for name, unit in (("reader", reader), ("last", last)):
        b.m.submodules[name] = ResetInserter(reset)(made(unit))
    mark, marked, sealed = Signal(), Signal(), Signal()
    b.d.comb += [
        last.ends.eq(reader.o.ends),
        last.i.eq(reader.o.stage),
        reader.i.valid.eq(b.free("valid")),
        reader.go.eq(b.free("go")),
        mark.eq(b.free("this operation") & ~marked),
    ]
    for name in ("ticket", "request"):
        bits = Value.cast(getattr(reader, name))
        b.d.comb += bits.eq(b.free(name, len(bits)))
    for name in ("page", "data", "found", "kept"):
        for k, side in enumerate(getattr(reader, name)):
            b.d.comb += Value.cast(side).eq(b.free(f"{name} {k}", len(Value.cast(side))))
    for side in reader.i.p.sides:
        b.d.comb += [side.counter.eq(mark), side.page.eq(mark)]
    b.d.sync += marked.eq(marked | (mark & reader.i.valid & reader.i.ready))
    of_mark = Signal()
    sides = last.stage.op.sides
    b.d.comb += of_mark.eq(last.sealed & sides[0].counter[0])
    b.d.sync += sealed.eq(sealed | of_mark)
    b.check("an operation's pages are sealed once", ~sealed | ~of_mark)
    b.check(
        "each page goes with its count",
        ~last.sealed | Cat(side.page[0] == of_mark for side in sides).all(),
    )
    b.cover("its pages are sealed, and then another one's", sealed & last.sealed)
    return b


def handed() -> Bench:
    """Whole pages on their way to sealers."""
    b, sealers = Bench(), []

    def sealer(stub, m, free) -> dict[str, Any]:
        sealers.append(stub)
        return {}

    with replaced({"hdl.omap.closing": {"Sealer": anything(b, sealer)}}):
        dut = PageClosing(SMALL)
        b.m.submodules.dut = made(dut)
    closing = Value.cast(dut.closing)
    b.d.comb += [dut.sealed.eq(b.free("sealed")), closing.eq(b.free("places", len(closing)))]
    nonces = []
    for k in range(2):
        b.d.comb += [
            dut.hosts[k].eq(b.free(f"host {k}")),
            dut.pages[k].eq(b.free(f"page {k}", SMALL.bin_bits)),
            dut.counters[k].eq(b.free(f"count {k}", 64)),
        ]
        nonces.append(Cat((dut.counters[k] + 1)[:64], dut.pages[k]))
    hosts = [dut.sealed & dut.hosts[k] for k in range(2)]
    b.assume(
        "both pages have sealers of their own",
        ~(hosts[0] & hosts[1]) | (dut.closing.sealers[0] != dut.closing.sealers[1]),
    )
    for stub in sealers:
        fits = [hosts[k] & (stub.i.p.nonce == nonces[k]) for k in range(2)]
        b.check(
            "what is sealed is a page's number and its count", ~stub.i.valid | fits[0] | fits[1]
        )
    given = sum(stub.i.valid for stub in sealers)
    b.check("each page is given once", given <= hosts[0] + hosts[1])
    b.cover("both are", given == 2)
    return b


def pieces() -> Bench:
    """Texts of two pieces, all of one page and count."""
    b, cores = Bench(), []

    def behave(stub, m, free) -> dict[str, Any]:
        cores.append(stub)
        return core(stub, m, free)

    with replaced({"hdl.omap.sealing": {"Sponge": anything(b, behave)}}):
        dut = Sealer(bus_bytes=16, chunks=2, blocks=1, rounds=4)
        part = made(dut)
    b.m.submodules.dut = ResetInserter(reset := b.free("reset"))(part)
    nonce, piece = b.constant("page and count", 96), Signal()
    b.d.comb += [
        dut.i.valid.eq(b.free("valid")),
        dut.i.p.nonce.eq(nonce),
        dut.o.ready.eq(b.free("ready")),
        dut.taken.eq(b.free("taken")),
    ]
    begins = cores[0].start
    b.d.sync += piece.eq((piece ^ begins) & ~reset)
    b.check(
        "a piece's nonce has its page, count and number",
        ~begins | (cores[0].nonce == Cat(nonce, piece)),
    )
    b.cover("a second piece begins", begins & piece)
    return b


def pairs() -> Bench:
    """Pairs of any words."""
    b = Bench()
    words = lambda m, words, *rest: [b.free(f"word {k}", len(word)) for k, word in enumerate(words)]
    with replaced({"hdl.omap.pairs": {"permuted": lambda _: words}}):
        dut = PairGenerators(SMALL)
        b.m.submodules.dut = ResetInserter(b.free("reset"))(made(dut))
    b.d.comb += [dut.start.eq(b.free("start")), dut.o.ready.eq(b.free("ready"))]
    o = dut.o.p
    b.check(
        "the bins of a pair differ", ~dut.o.valid | ((o.new0 != o.new1) & (o.shown0 != o.shown1))
    )
    b.cover("a pair is there", dut.o.valid)
    return b


PROOFS = [
    Proof(
        "hdl.omap.PairGenerators",
        "the bins of a pair differ",
        pairs,
        Defect("hdl.omap.pairs", "(high < config.bins) & (low != high)", "(high < config.bins)"),
        cuts=("the permutation gives any words",),
    ),
    Proof(
        "hdl.omap.Completion",
        "behind `ItemReader`: each operation's pages are sealed at most once, each with its count, under any "
        "soft resets",
        once,
        Defect(
            "hdl.omap.completion",
            "self.sealed.eq(self.answer & (self.at == 0))",
            "self.sealed.eq(self.answer)",
        ),
        cuts=("pages and frames come at any times",),
    ),
    Proof(
        "hdl.omap.PageClosing",
        "each page is given to one sealer, with its number and one more than its count as the nonce",
        handed,
        Defect("hdl.omap.closing", "Mux(two, self.pages[1], self.pages[0])", "self.pages[0]"),
        cuts=("sealers do anything",),
    ),
    Proof(
        "hdl.omap.Sealer",
        "the nonces of a page's pieces have its number, its count and the piece in bits of their own; two pieces",
        pieces,
        Defect(
            "hdl.omap.sealing",
            "m.d.sync += chunk.eq(Mux(final, 0, chunk + 1))",
            "m.d.sync += chunk.eq(0)",
        ),
        cuts=("the cipher ends at any times",),
    ),
]
