# amaranth: UnusedElaboratable=no
"""The harness itself: what holds is proven, what does not is shown, and nothing is proven of what
never happens.
"""

from __future__ import annotations

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from harness import Bench, Defect, Problem, Proof, decide, directed, planted, play
from harness.report import failure
from judge import judged
from mutation.connections import connections
from mutation.copies import ROOT
from mutation.kinds import mutants

from penstock.hdl.stream import Spare


class Counter(wiring.Component):
    """Counts the cycles in which `step` is high, from 0 to 5 and around."""

    def __init__(self) -> None:
        super().__init__({"step": In(1), "count": Out(3)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.step):
            m.d.sync += self.count.eq(self.count + 1)
            with m.If(self.count == 5):
                m.d.sync += self.count.eq(0)
        return m


def bench(limit: int, *, stepping: bool = True, reach: int = 3) -> Bench:
    b = Bench()
    dut = b.m.submodules.dut = Counter()
    b.d.comb += dut.step.eq(b.free("step"))
    if not stepping:
        b.assume("nobody steps after the count was 3", ~b.past(dut.count == 3) | ~dut.step)
    b.show("count", dut.count)
    b.check(f"the count stays below {limit}", dut.count < limit)
    b.cover("it counts", dut.count == reach)
    return b


@pytest.mark.parametrize(("method", "depth"), [("pdr", 0), ("bounded", 20), ("induction", 4)])
def test_what_holds_is_proven(method: str, depth: int) -> None:
    verdict = decide(bench(6), method=method, depth=depth, covers=10)
    assert verdict.holds
    assert verdict.reached == {"it counts": 3}


def _two(*, late: bool = False, other: int = 0) -> Bench:
    """Two counters that are stepped together; `late`: one has a step less behind the second one; `other`: what is added to the
    second one's count."""
    b = Bench()
    one, two = b.m.submodules.one, b.m.submodules.two = Counter(), Counter()
    step, seen = b.free("step"), Signal(2)
    with b.m.If(step & (seen != 2)):
        b.d.sync += seen.eq(seen + 1)
    b.d.comb += [one.step.eq(step), two.step.eq(step & ~(late & (seen == 1)))]
    b.check("both count alike", one.count == two.count + other)
    b.cover("they count", one.count == 3)
    return b


def test_registers_of_two_runs_are_equal_or_nothing_is_said() -> None:
    assert decide(_two(), method="registers", covers=10).holds
    assert decide(_two(late=True), method="registers").holds is None
    assert decide(_two(other=1), method="registers").holds is None
    b, count = Bench(), Signal(4)  # it holds, and no two registers say so
    with b.m.If(b.free("step")):
        b.d.sync += count.eq(Mux(count == 5, 0, count + 1))
    b.check("the count is never 9", count != 9)
    b.cover("it counts", count == 5)
    assert decide(b, method="registers").holds is None and decide(b, method="pdr").holds


def test_induction_does_not_prove_what_fails_later() -> None:
    """The base holds, and no step follows from it."""
    assert decide(bench(5), method="bounded", depth=3).holds
    assert decide(bench(5), method="induction", depth=2).holds is None


class _Steps:
    """Steps in the cycles whose numbers the seed does not divide."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench, self.seed, self.cycle, self.seen = bench, seed, -1, []

    def give(self) -> dict[str, int]:
        self.cycle += 1
        return {"step": int(bool(self.seed and self.cycle % self.seed))}

    def see(self, get) -> None:
        self.seen.append(get(self.bench.shown["count"]))


def test_directed_runs_find_what_fails_and_what_is_reached() -> None:
    found = play(b := bench(6), player := _Steps(b, 100), 20)
    assert found.holds is None and found.reached == {"it counts": 4}
    assert player.seen[:8] == [0, 0, 1, 2, 3, 4, 5, 0]
    proof = Proof("a counter", "counts to 4", lambda: bench(5), (), player=_Steps, search=9)
    found = directed(proof)  # with none, none, every other one, two of three
    assert found.holds is False and found.depth == 8 and found.reached == {"it counts": 5}
    assert "fails in cycle 8: the count stays below 5" in failure(proof, found)
    assert len(found.trace["step"]) == 9


@pytest.mark.parametrize(("method", "depth"), [("pdr", 0), ("bounded", 20), ("induction", 6)])
def test_what_does_not_hold_is_shown(method: str, depth: int, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    proof = Proof("a counter", "counts to 4", lambda: bench(5), (), method=method, depth=depth)
    verdict = decide(proof.bench(), method=method, depth=depth)
    assert verdict.holds is False
    text = failure(proof, verdict)
    rows = [line.split() for line in text.splitlines() if line]
    assert "fails in cycle 5: the count stays below 5" in text
    assert next(row for row in rows if row[0] == "step")[1:6] == ["1"] * 5
    assert next(row for row in rows if row[0] == "count")[1:] == list("012345")
    assert next(tmp_path.rglob("*.vcd")).stat().st_size


def test_a_check_counts_only_while_all_assumptions_held() -> None:
    """An assumption that fails now and holds again is not forgotten."""
    assert (
        decide(bench(5, stepping=False), method="pdr").holds is False
    )  # from 3 one step may still follow
    b = Bench()
    dut = b.m.submodules.dut = Counter()
    b.d.comb += dut.step.eq(b.free("step"))
    b.assume("the first two counts are the last", (dut.count < 2) | ~dut.step)
    b.check("the count stays below 3", dut.count < 3)
    b.cover("it counts", dut.count == 2)
    assert decide(b, method="pdr").holds


def test_what_never_happens_is_not_reached() -> None:
    assert decide(bench(6, reach=6), method="pdr", covers=20).reached == {}


def test_a_bench_without_covers_is_refused() -> None:
    b = Bench()
    b.check("nothing", 1)
    with pytest.raises(Problem, match="covers that show that they are not empty"):
        decide(b, method="pdr")


def test_results_are_kept_by_what_was_asked(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path))
    first = decide(bench(6), method="pdr", covers=10)
    monkeypatch.setattr("harness.solve.yosys", lambda *_: pytest.fail("decided again"))
    assert decide(bench(6), method="pdr", covers=10) == first
    with pytest.raises(pytest.fail.Exception):
        decide(bench(7), method="pdr", covers=10)


def test_a_defect_is_planted_and_taken_away() -> None:
    defect = Defect("hdl.stream.queue", "held.eq(self.o.valid & ~self.o.ready)", "held.eq(0)")
    method, code = Spare.elaborate, Spare.elaborate.__code__
    with planted(defect):
        assert Spare.elaborate is method and Spare.elaborate.__code__ is not code
    assert Spare.elaborate.__code__ is code
    wrong = Defect("hdl.stream.queue", "no such line", "")
    with pytest.raises(Problem, match="'no such line' is 0 times in penstock"), planted(wrong):
        pass


def test_an_instance_has_any_value_and_a_constant_one() -> None:
    b = Bench()
    fixed, free, seen = b.constant("fixed", 2), b.free("free", 2), Signal(2)
    b.d.sync += seen.eq(fixed)
    b.check("it stays", b.first | (seen == fixed))
    b.cover("it differs from what is free", (fixed == 2) & (free == 1))
    assert decide(b, method="pdr", covers=4).holds


def test_a_drawn_defect_is_judged() -> None:
    file = "hdl/stream/queue.py"
    found = mutants(file, (ROOT / file).read_text(), connections)
    wanted = {
        "(self.i.valid | self.i.ready)": "caught",
        "(self.depth * width < DISTRIBUTED_BITS)": "MISSED",
    }
    # the same behaviour, in a block RAM or not: a matter of size
    assert {m.text: judged(m)["end"] for m in found if m.text in wanted} == wanted
