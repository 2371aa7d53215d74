"""Cores of all four engines behind a memory and a monitor that know nothing of Penstock: what AXI4 allows a subordinate
changes no result, and nothing is done that it forbids a manager."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from testbench.judges.cores import CORES, Core, core
from testbench.judges.standard import Event, Habit, Interrupted, JudgeMachine, Stalled
from testbench.wrapped import words_after_awready

HABITS = [Habit(0), *Habit]
EVENTS = ("read", "write", "soft", "hard")


@pytest.fixture(scope="module", params=CORES)
def judged(request: pytest.FixtureRequest) -> Iterator[tuple[Core, JudgeMachine]]:
    made = core(request.param)
    with JudgeMachine(made.verilog, made.ports, made.registers, made.vault) as machine:
        yield made, machine


def disturbed(made: Core, machine: JudgeMachine, seed: int, kind: str) -> bool:
    """Carry a run out that an event befalls; return whether it did."""
    draw = random.Random(seed)
    port = draw.randrange(len(made.ports)) if kind in ("read", "write") else 0
    count = int(10 ** draw.uniform(0, 3.3 if kind in ("soft", "hard") else 1))
    event = machine.event = Event(kind, count, port, draw.choice([2, 3]))
    machine.at_start = made.start
    try:
        made.check(machine)
    except Interrupted:
        pass
    except AssertionError as problem:
        # an error by its name, and no result; a stall, or what AXI4 forbids, is the judge's to tell
        if type(problem) is not AssertionError:
            raise
        assert event.happened, problem
    finally:
        machine.event = None
    return event.happened


def judge(made: Core, machine: JudgeMachine, habits: Habit, seeds: range) -> dict[str, int]:
    happened = dict.fromkeys(EVENTS, 0)
    for seed in seeds:
        draw, kind = random.Random(seed), EVENTS[seed % len(EVENTS)]
        stall, latency = draw.choice([0, 10, 40, 70]), draw.choice([1, 5, 30])
        machine.behave(seed, habits, stall, latency, made.calm)
        happened[kind] += disturbed(made, machine, seed, kind)
        made.check(machine)  # of a map: powered up anew, as its hint says
    return happened


@pytest.mark.parametrize("habits", HABITS, ids=str)
def test_habits(judged: tuple[Core, JudgeMachine], habits: Habit) -> None:
    made, machine = judged
    judge(made, machine, habits, range(3) if made.name != "omap" else range(1, 2))


def test_events_befall(judged: tuple[Core, JudgeMachine]) -> None:
    """Errors and resets do hit runs, among several habits at once."""
    made, machine = judged
    mixed = Habit.READY_AFTER_VALID | Habit.VISIBLE_AT_B | Habit.LATE_B
    seeds = range(8 if made.name == "omap" else 12)
    happened = judge(made, machine, mixed | Habit.DATA_FIRST, seeds)
    assert happened["read"] and happened["soft"] and happened["hard"], happened


@pytest.mark.long
@pytest.mark.parametrize("habits", HABITS, ids=str)
def test_all_habits(judged: tuple[Core, JudgeMachine], habits: Habit) -> None:
    made, machine = judged
    happened = judge(made, machine, habits, range(100, 120))
    assert sum(happened.values()) >= 8, happened


@pytest.mark.parametrize("habits", [Habit.ADDRESS_WAITS, Habit.DATA_FIRST], ids=str)
def test_words_that_wait_for_awready(habits: Habit) -> None:
    """A core so planted stalls, and the judge says which rule it breaks, within some thousand cycles."""
    made = core("analytics")
    verilog = words_after_awready(made.verilog)
    with JudgeMachine(verilog, made.ports, made.registers) as machine:
        machine.behave(1, Habit.LATE_B)
        made.check(machine)  # other memory does not see it
        machine.behave(1, habits)
        with pytest.raises(
            Stalled, match=r"^nothing moves: m0: AWVALID waits .* before WVALID \[A3\.3\.1\]$"
        ):
            made.check(machine)
        assert machine.cycle < 40_000
