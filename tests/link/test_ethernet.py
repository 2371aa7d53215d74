"""hdl/link/station.py and mac.py beside models/link/ethernet.py, cycle for cycle; both judged by Scapy."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.models.link.ethernet import Burst, Clocked, Given, Taken, on_wire, sound, taken
from testbench.frames import HOST, STATION, drawn, play, spoilt, wire


def traffic(seed: int, count: int, bad: float) -> tuple[list[Burst], list[tuple[int, Given]]]:
    """Frames as close as a line has them, or apart; answers meanwhile."""
    rng, bursts, answers, at = np.random.default_rng(seed), [], [], 5
    for _ in range(count):
        frame = drawn(rng, int(rng.choice([2, 90, 90, 400])))
        if rng.random() < bad:
            frame = spoilt(rng, frame)
        bursts.append(wire(rng, frame, at, bad / 2))
        at += len(bursts[-1].data) + int(rng.choice([1, 2, 12, 12, 300]))
        if rng.random() < 0.4:
            answers.append((at + int(rng.integers(-50, 400)), Given(HOST, rng.bytes(int(rng.choice([1, 18, 19, 66, 500]))))))
    return bursts, sorted(answers, key=lambda one: one[0])


@pytest.mark.parametrize(
    ("seed", "count", "bad"),
    [(1, 20, 0.0), (2, 50, 0.6), *(pytest.param(k, 200, 0.5, marks=pytest.mark.long) for k in (3, 4))],
)
def test_rtl_is_golden(seed: int, count: int, bad: float) -> None:
    bursts, answers = traffic(seed, count, bad)
    golden = Clocked(STATION, list(answers))
    for came in taken(bursts):
        golden.receive(came)
    golden.finish()
    sent, given = play(bursts, answers)
    assert given == [(at, one.peer.encode() + one.data) for at, one in golden.given]
    assert sent == golden.sent
    assert len(sent) > count / 5 and (bad or len(given) > count / 4)
