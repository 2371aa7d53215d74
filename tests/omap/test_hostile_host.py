# amaranth: UnusedElaboratable=no
"""A hostile host against maps in Verilator that outlive their devices: whatever it does, no item is read, changed
or rolled back without an error, and no (key, number) is sealed twice."""

from __future__ import annotations

from collections import Counter

import pytest
from harness import Defect, planted

from penstock.models.omap.sessions import Denied
from testbench.hostile_maps import Hostile
from testbench.kept_maps import SHAPE, Both, compiled
from testbench.quick_products import quick_products
from testbench.session_clients import by_another_library


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
        return Both(library, seed, root=bytes([which]) * 32, preset=False, pages=True)

    return sum((Hostile(up, seed).runs() for seed in seeds), Counter())


def test_a_hostile_host_of_hardware_reads_changes_and_rolls_back_nothing(library):
    counts = _runs(library, range(1, 4))
    needed = (
        "page",
        "cut",
        "damaged",
        "rolled back",
        "restored",
        "accepted",
        "opened",
        "stolen",
        "again",
    )
    assert min(counts[name] for name in needed) > 0, counts


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_three_hundred_runs_of_a_hostile_host(library, first):
    counts = _runs(library, range(first, first + 30))
    needed = ("damaged", "rolled back", "restored", "cut", "page", Denied.TAG, Denied.NUMBER)
    handshakes = ("opened", "again", "unopened", "stolen")
    assert min(counts[name] for name in (*needed, *handshakes)) > 0, counts


#: what the host must find
_BROKEN = {
    "tags of requests": Defect(
        "hdl.omap.envelopes",
        "o.p.fits.eq((core.tag == core.block) & ~text.number.all())",
        "o.p.fits.eq(~text.number.all())",
    ),
    "numbers of requests": Defect(
        "hdl.omap.requests", "m.Elif(head.number != self.received)", "m.Elif(0)"
    ),
    "roles": Defect(
        "hdl.omap.requests", "Mux(own & allowed, head.operation, 0)", "Mux(own, head.operation, 0)"
    ),
    "a session's role": Defect("hdl.omap.door", "table.put_role.eq(asked)", "table.put_role.eq(1)"),
    "a role's key": Defect(
        "hdl.omap.door",
        "{Role.WRITER: keys.writer, Role.KEEPER: keys.keeper}",
        "{Role.WRITER: keys.writer, Role.KEEPER: keys.writer}",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", _BROKEN)
def test_the_host_finds_what_is_not_checked(what):
    with planted(_BROKEN[what]):
        broken = compiled(SHAPE, handshakes=True, note=f", but for {what}")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _runs(broken, range(30))
