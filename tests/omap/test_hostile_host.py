# amaranth: UnusedElaboratable=no
"""A hostile host against maps in Verilator that outlive their devices: whatever it does, no item is read, changed
or rolled back without an error, and no (key, number) is sealed twice."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from harness import Defect, planted

from penstock.models.omap.sessions import Denied
from testbench.hostile_maps import Alone, Hostile
from testbench.kept_maps import SHAPE, Both, compiled
from testbench.quick_products import quick_products
from testbench.session_clients import by_another_library

#: what a host does in some runs, and what comes of it
_MET = ("damaged", "rolled back", "restored", "cut", "page", Denied.TAG, Denied.NUMBER)
_MET += ("opened", "again", "unopened", "stolen", ("files", 6), ("files", 7))
_MET += ("snapshot", "interrupted")


@pytest.fixture(scope="module")
def library():
    return compiled(SHAPE, handshakes=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    by_another_library(monkeypatch)
    quick_products(monkeypatch)


def _runs(library, seeds):
    """Return what came of all runs."""

    def up(which, seed):
        root = bytes([which]) * 32
        if library is None:
            return Alone(seed, root)
        return Both(library, seed, root=root, preset=False, pages=True)

    return sum((Hostile(up, seed).runs() for seed in seeds), Counter())


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 10_020, 1000))]
)
def test_a_hostile_host_of_the_device_in_c(first):
    counts = _runs(None, range(first, first + (1000 if first else 20)))
    assert min(counts[name] for name in _MET) > 0, counts


def test_a_hostile_host_of_hardware_reads_changes_and_rolls_back_nothing(library):
    counts = _runs(library, (256,))
    met = ("rolled back", "restored", "cut", "opened", "again", "unopened", "stolen")
    met += ("snapshot", "interrupted")
    assert min(counts[name] for name in met) > 0, counts


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 15))
def test_three_hundred_runs_of_a_hostile_host(first):
    library = compiled(SHAPE, handshakes=True, optimise="-O1")
    counts = _runs(library, range(first, first + 15))
    assert min(counts[name] for name in _MET) > 0, counts


_WALKED = "at = Signal(range(config.buckets + 1), reset_less=True)"
_FOLLOWS = "follows.eq(after & past.whole & (head.serial == self.serial))"
_OPENED, _SEALED = "Cat(counters.o.payload, commanded.o.payload)", "Cat(counter[:64], page)"


def _nonces(counter, page):
    """Pages whose nonces have these."""
    return [
        Defect(
            "hdl.omap.opening",
            f"text.nonce.eq({_OPENED})",
            f"text.nonce.eq(Cat({counter.format('counters.o.payload')}, commanded.o.payload{page}))",
        ),
        Defect(
            "hdl.omap.closing",
            f"sealer.i.p.nonce.eq({_SEALED})",
            f"sealer.i.p.nonce.eq(Cat({counter.format('counter[:64]')}, page{page}))",
        ),
    ]


#: what the host must find
_BROKEN = {
    "tags of requests": [
        Defect(
            "hdl.omap.envelopes",
            "o.p.fits.eq((core.tag == core.block) & ~text.number.all())",
            "o.p.fits.eq(~text.number.all())",
        )
    ],
    "numbers of requests": [
        Defect("hdl.omap.requests", "m.Elif(head.number != self.received)", "m.Elif(0)")
    ],
    "roles": [
        Defect(
            "hdl.omap.requests",
            "Mux(accept & allowed, head.operation, 0)",
            "Mux(accept, head.operation, 0)",
        )
    ],
    "a session's role": [
        Defect("hdl.omap.door", "table.put_role.eq(asked)", "table.put_role.eq(1)")
    ],
    "a role's key": [
        Defect(
            "hdl.omap.door",
            "{Role.WRITER: keys.writer, Role.KEEPER: keys.keeper}",
            "{Role.WRITER: keys.writer, Role.KEEPER: keys.writer}",
        )
    ],
    "tags of pages": [
        Defect(
            "hdl.omap.sealing",
            "fits.eq(good & (core.tag == core.block) & ~(final & padding.any()))",
            "fits.eq(good)",
        )
    ],
    "which page it is": _nonces("{}", " & 0"),
    "how often a page was written": _nonces("({} & 0) | 1", ""),
    "fresh bits": [Defect("hdl.omap.vault", '"entropy": self.entropy', '"entropy": Const(0, 256)')],
    "numbers of records": [
        Defect(
            "hdl.omap.past",
            "fits.eq(record.fits & (record.number == file.number + 1))",
            "fits.eq(record.fits)",
        )
    ],
    "the order of files": [Defect("hdl.omap.past", _FOLLOWS, _FOLLOWS.replace("after & ", ""))],
    "serials of files": [
        Defect("hdl.omap.past", _FOLLOWS, _FOLLOWS.replace(" & (head.serial == self.serial)", ""))
    ],
    "receipts": [Defect("hdl.omap.past", "fits.eq(seen <= self.serial + 1)", "fits.eq(1)")],
    "receipts of the past": [
        Defect(
            "hdl.omap.past",
            "fits.eq(link.there & is_of(link.incarnation) & (seen <= link.serial))",
            "fits.eq(link.there & is_of(link.incarnation))",
        )
    ],
    "a log's numbers, behind a reset": [
        Defect(
            "hdl.omap.answers",
            "number, ends = Signal(64, reset_less=True), Signal()",
            "number, ends = Signal(64), Signal()",
        )
    ],
    "where a snapshot is, behind a reset": [
        Defect("hdl.omap.walker", _WALKED, _WALKED.replace(", reset_less=True", ""))
    ],
    "a snapshot's end": [
        Defect(
            "hdl.omap.walker",
            "self.final.eq(at + self.count == config.buckets)",
            "self.final.eq(1)",
        )
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("what", _BROKEN)
def test_the_host_finds_what_is_not_checked(what):
    with ExitStack() as defects:
        for defect in _BROKEN[what]:
            defects.enter_context(planted(defect))
        broken = compiled(SHAPE, handshakes=True, note=repr(_BROKEN[what]), optimise="-O1")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _runs(broken, range(30))
