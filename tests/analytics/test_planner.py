"""The planner's plans beside sweeps of forced options, and what --prefer and --fill ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.api import Design, compile
from penstock.dsl.analytics.candidates import Maker
from penstock.dsl.analytics.plan import Choices
from penstock.dsl.core.load import from_text, load_kernel
from penstock.engines.base import Given
from penstock.engines.discovery import engine_of
from penstock.models.strider.layout import beats_of, place
from penstock.models.target import RESOURCES, Clock, Power, Storage, Target
from penstock.passes.compiling import compiled
from penstock.targets import target_named
from testbench.sweep import judged, linear, modelled


@pytest.mark.parametrize(
    ("dims", "merge", "part"),
    [
        (2, 16, "ulx3s-85f-sdram"),
        (1, 256, "vu9p"),  # a row and its label in one beat
        pytest.param(40, 4, "vu9p", marks=pytest.mark.long),
        pytest.param(100, 256, "vu9p", marks=pytest.mark.long),
        pytest.param(1000, 16, "u55c", marks=pytest.mark.long),
    ],
)
def test_hardly_any_forced_plan_is_faster(dims: int, merge: int, part: str) -> None:
    """All of them, with the units that the planner gives them, where they fit."""
    assert judged(linear(merge), part, 5000, dims={"d": dims}).ratio <= 1.03


@pytest.mark.parametrize(
    ("dims", "merge", "part", "most"),
    [
        (10, 256, "vu9p", 8_800),  # lanes for a whole tuple: 11,080 with 10
        (5, 3, "vu9p", 121_000),  # threads of a whole batch: 123,680 with 2
        (30, 300, "u55c", 8_000),  # threads that four ports share: 10,750 with 4, 7,930 with 60
    ],
)
def test_lanes_and_threads_between_powers_of_two(dims, merge, part, most) -> None:
    assert modelled(compile(linear(merge), part, dims={"d": dims}), 5000).cycles <= most


def test_threads_where_one_waits_for_its_units() -> None:
    """A batch of 256 tuples in one thread takes 537,044 cycles."""
    text = (EXAMPLES / "logistic.psk").read_text().replace("x, 16", "x, 256")
    design = compile(from_text(text), "vu9p", dims={"d": 100})
    assert modelled(design, 50_000).cycles <= 380_000


def test_a_small_table_decides_how_many_ports_there_are() -> None:
    """Else threads are idle on ports without pages: 16 ports take 7,164 cycles for these rows."""
    kernel, part = (
        load_kernel(Path(__file__).parents[2] / "examples/linear.py"),
        target_named("u55c"),
    )

    def cycles(rows: int | None, **fixed: int) -> int:
        options = {"dims": {"d": 10}, "choices": Choices(**fixed)}
        given = Given(rows=rows, format="bfloat16", memory="dram", options=options)
        return modelled(compiled(engine_of(kernel), kernel, part, given), 300).cycles

    own = cycles(300)
    assert own <= 2_321 < cycles(None, ports=16)
    for ports, threads, lanes in ((1, 12, 12), (1, 8, 5), (1, 16, 10), (2, 8, 5), (4, 16, 10)):
        assert own <= 1.03 * cycles(None, ports=ports, threads=threads, lanes=lanes)


def test_beats_are_those_of_the_layout() -> None:
    random = Random(7)
    for _ in range(300):
        shapes = {
            str(n): (random.choice((1, 1, 3)), random.choice((1, 1, 2, 9, 40))) for n in range(5)
        }
        for lanes in (1, 2, 7, 16, 64):
            assert beats_of(shapes, lanes) == place(shapes, lanes)[0]


DEEP = """kernel deep(x: input[d], y: output, A: model[h, d], B: model[h], rate: meta = 0.02)
  t    = tanh(A @ x)
  e    = sum(B * t) - y
  back = e * B * (1 - t * t)
  A   <- A - rate * merge(outer(back, x), 32)
  B   <- B - rate * merge(e * t, 32)
"""


def test_plans_that_are_nearly_full() -> None:
    """They are compared by time at the clock that so full a part has; what is forced is planned with one unit of each kind, too."""
    slow = Target(
        **{name: getattr(target_named("ulx3s-25f"), name) for name in RESOURCES},
        **{name: getattr(target_named("ulx3s-25f"), name) for name in ("family", "bram_bits")},
        multiplier=(18, 18),
        name="slow",
        clock=Clock(mhz=40),
        bus_bytes=16,
        memory=Storage(kind="DDR4", timing="latency=9,bytes=8"),
    )

    def seconds(lanes: int | None) -> float:
        choices = Choices(threads=lanes and 1, lanes=lanes)
        design = compile(from_text(DEEP), slow, dims={"d": 44, "h": 2}, choices=choices)
        assert 0.8 < max(design.resources.shares(design.target).values()) < 0.97
        return modelled(design, 300).cycles / design.target.clock_mhz

    assert seconds(None) == seconds(1) < seconds(2)


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
        ("linear", {"d": 3}, "vu9p", "float32", {"prefer": "area"}, (2, 4, 1, 4, 68, 48)),
        ("one", {}, "u55c", "float32", {"prefer": "area"}, (1, 1, 1, 1, 10, 24)),
        ("mlp", {"d": 9, "h": 6}, "vu9p", "bfloat16", {}, (10, 16, 1, 5, 126, 223)),
        ("svm", {"d": 54}, "u55c", "fixed:8,8", {}, (54, 16, 4, 1, 48, 167)),
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
        lambda *given, **more: makers.append(Maker(*given, **more)) or makers[-1],
    )
    own = {"one": from_text(ONE), "linear": linear(64)}
    made = own.get(kernel) or load_kernel(EXAMPLES / f"{kernel}.py")
    plan = compile(made, part, dims=dims, format=format, choices=Choices(**choices)).plan
    found = plan.lanes, plan.threads, plan.ports, plan.striders.walkers, plan.schedule.batch
    assert (*found, len(makers[-1]._made)) == chosen
