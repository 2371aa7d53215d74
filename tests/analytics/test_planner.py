"""The planner's plans beside sweeps of forced options, and what --prefer and --fill ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.api import Design, compile
from penstock.dsl.analytics.candidates import Maker
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.load import from_text, load_kernel
from penstock.models.target import Power
from penstock.targets import target_named
from testbench.sweep import judged, linear, modelled


@pytest.mark.parametrize(
    ("dims", "merge", "part"),
    [
        (2, 16, "ulx3s-85f-sdram"),
        (40, 4, "vu9p"),
        pytest.param(100, 256, "vu9p", marks=pytest.mark.long),
        pytest.param(1000, 16, "u55c", marks=pytest.mark.long),
    ],
)
def test_hardly_any_forced_plan_is_faster(dims: int, merge: int, part: str) -> None:
    """All of them, with the units that the planner gives them, where they fit."""
    assert judged(linear(merge), part, 5000, dims={"d": dims}).ratio <= 1.03


def test_threads_or_slots_where_tuples_wait() -> None:
    """One thread with 8 slots took 537,044 cycles: 8 tuples at a time were too few for the way through it."""
    design = compile(linear(256), "vu9p", dims={"d": 100})
    assert modelled(design, 50_000).cycles <= 380_000


def test_preferences() -> None:
    made = {
        prefer: compile(linear(16), "vu9p", dims={"d": 54}, choices=Choices(prefer=prefer))
        for prefer in ("time", "area", "energy")
    }
    cycles = {name: modelled(design, 5000).cycles for name, design in made.items()}
    assert min(cycles.values()) == cycles["time"] < cycles["area"] <= 2 * cycles["time"]
    assert made["area"].resources.lut < made["time"].resources.lut

    def joules(name: str) -> float:
        share = max(made[name].resources.shares(made[name].target).values())
        return cycles[name] * (35 + 125 * share)

    assert joules("energy") <= min(joules("time"), joules("area"))


def test_energy_is_that_of_the_record() -> None:
    """Of a card that takes nothing idle the smallest plans win, of one that always takes all of it the fastest; without watts they are assumed, and that is
    said."""
    made: dict[Power | None, Design] = {}
    for power in (Power(idle_w=0, max_w=100), Power(idle_w=100, max_w=100), None):
        part = replace(target_named("vu9p"), name="mine", power=power)
        choices = Choices(prefer="energy")
        design = made[power] = compile(linear(16), part, dims={"d": 54}, choices=choices)
        assert ("assumed" if power is None else "0 W idle, 100 W") in design.config()["planned_for"]
    idle, busy, _ = (modelled(design, 5000).cycles for design in made.values())
    small, large, _ = (design.resources.lut for design in made.values())
    assert small < large and busy < idle


def test_fill() -> None:
    """No resource beyond what is asked for, unless nothing else fits; more to take is no loss."""
    cycles = []
    for fill in (0.3, 0.8, 1.0):
        design = compile(linear(16), "u55c", dims={"d": 520}, choices=Choices(fill=fill))
        assert max(design.resources.shares(design.target).values()) <= fill
        cycles.append(modelled(design, 3000).cycles)
    assert cycles == sorted(cycles, reverse=True) and cycles[0] > cycles[2]
    full = compile(linear(4), "small", dims={"d": 2}, choices=Choices(fill=0.01))
    assert max(full.resources.shares(full.target).values()) > 0.01


ONE = "kernel one(x: input, w: model)\n  w <- w + merge(x, 4)\n"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("kernel", "dims", "part", "format", "choices", "chosen"),
    [
        ("linear", {"d": 3}, "vu9p", "float32", {"prefer": "area"}, (1, 4, 1, 4, 73, 39)),
        ("one", {}, "u55c", "float32", {"prefer": "area"}, (1, 1, 1, 1, 10, 24)),
        ("mlp", {"d": 9, "h": 6}, "vu9p", "bfloat16", {}, (9, 16, 1, 3, 126, 209)),
        ("svm", {"d": 54}, "u55c", "fixed:8,8", {}, (54, 16, 4, 1, 48, 164)),
        (
            "ridge",
            {"d": 33},
            "small",
            "float32",
            {"prefer": "energy", "lanes": 2},
            (2, 1, 1, 1, 119, 2),
        ),
    ],
)
def test_chosen(kernel, dims, part, format, choices, chosen, monkeypatch) -> None:
    """Lanes, threads, ports, Striders and cycles from batch to batch are what they were, and so are plans tried."""
    makers = []
    monkeypatch.setattr(
        "penstock.dsl.analytics.plan.Maker",
        lambda *given: makers.append(Maker(*given)) or makers[-1],
    )
    own = {"one": from_text(ONE), "linear": linear(64)}
    made = own.get(kernel) or load_kernel(EXAMPLES / f"{kernel}.py")
    plan = compile(made, part, dims=dims, format=format, choices=Choices(**choices)).plan
    found = plan.lanes, plan.threads, plan.ports, plan.walkers, plan.schedule.batch
    assert (*found, len(makers[-1]._made)) == chosen
