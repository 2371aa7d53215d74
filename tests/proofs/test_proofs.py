# amaranth: UnusedElaboratable=no
"""Each proof holds, its covers are reached, and its planted defects break it."""

from __future__ import annotations

import pytest
from harness import Defect, Proof, Verdict, decide, directed, planted
from harness.report import failure
from parts import PROOFS
from parts.copiers import copiers


def cases() -> list:
    return [
        pytest.param(proof, id=proof.name, marks=[pytest.mark.long] if proof.long else [])
        for proof in PROOFS
    ]


def defects() -> list:
    """The first defect of each component on every run, all others with --long."""
    found, parts = [], set()
    for proof in PROOFS:
        for defect in proof.defects:
            long = bool(proof.long) or proof.part in parts
            if not long:
                parts.add(proof.part)
            found.append(
                pytest.param(
                    proof,
                    defect,
                    id=f"{proof.name} | {defect}",
                    marks=[pytest.mark.long] if long else [],
                )
            )
    return found


@pytest.mark.parametrize("proof", cases())
def test_holds(proof: Proof) -> None:
    bench = proof.bench()
    verdict = decide(
        bench,
        method=proof.method,
        depth=proof.depth,
        covers=0 if proof.player else proof.covers,
        seconds=proof.seconds,
        merge=proof.merge,
    )
    assert verdict.holds, failure(proof, verdict)
    if proof.player:
        played = directed(proof)
        assert played.holds is None, failure(proof, played)
        verdict.reached = played.reached
    assert not [text for text in bench.covers if text not in verdict.reached], (
        "the proof says nothing of what never happens"
    )


def _searched(proof: Proof) -> Verdict:
    """Look for a failure of a proof."""
    if proof.player:
        return directed(proof)
    return decide(
        proof.bench(),
        method="bounded",
        depth=proof.search,
        seconds=proof.seconds,
        merge=proof.merge,
    )


@pytest.mark.parametrize(("proof", "defect"), defects())
def test_a_planted_defect_is_caught(proof: Proof, defect: Defect) -> None:
    with planted(defect):
        verdict = _searched(proof)
        assert verdict.holds is False, f"{defect} changes nothing that {proof.name} looks at"
        assert "fails in cycle" in failure(proof, verdict)


def test_two_copiers_with_less_than_a_burst_wait_for_each_other() -> None:
    """What `Arbiter` refuses with `copiers` is real."""
    assert decide(copiers(kept=(1, 1)), method="bounded", depth=30).holds is False


def test_there_are_at_least_thirty_defects() -> None:
    """One a property, and as many lines of components: what two properties plant counts once."""
    assert all(proof.defects for proof in PROOFS)
    assert len({(defect.module, defect.line) for proof in PROOFS for defect in proof.defects}) >= 30
