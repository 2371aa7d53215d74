"""Devices with state-update units in simulation: steps on the RTL beside the golden device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.pim.engine import PimEngine
from penstock.hdl.shell.top import shelled
from penstock.models.memory import FixedLatency
from penstock.models.numerics.floating import float16
from penstock.models.numerics.lfsr import seed_words
from penstock.models.numerics.mx import FAMILY
from penstock.models.pim import rate
from penstock.models.pim.config import COLUMNS, PimConfig
from penstock.models.pim.device import Device, Step, registers_of
from penstock.models.pim.program import Program, cycles_of, program, register_map
from penstock.models.pim.resources import memories
from penstock.models.pim.rounds import Round
from penstock.sim.machine import PAGE, round_up
from penstock.sim.native import Library, PortSpec
from penstock.sim.native import build as build_native
from penstock.sim.native.machine import NativeMachine
from testbench.memories import filled

MX8 = FAMILY["mx8"]


def build(config: PimConfig) -> Library:
    """Compile a device for simulation."""
    library = ModuleLibrary()
    verilog = filled(shelled(PimEngine(config, 0, library), library), memories(config))
    return build_native(
        verilog,
        ports=(PortSpec("m0_axi", config.bus, True, True),),
        register_map=register_map(config),
    )


def encoded(config: PimConfig, values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return numbers (…, lanes) as bytes (…, 32)."""
    if config.format == "mx8":
        return MX8.pack(MX8.encode(values))
    return float16.encode(values).astype("<u2").view(np.uint8)


def step(config: PimConfig, given: Round, rng: np.random.Generator, scale: float = 1.0) -> Step:
    """Return a round with random data."""
    banks = config.groups * config.banks // config.sets
    draw = lambda *shape: rng.normal(size=(*shape, config.lanes)) * scale
    if given.mode == "load":
        return Step(given, encoded(config, draw(banks, COLUMNS)))
    names = registers_of(config, given)
    data = np.zeros((banks, len(names), 32), dtype=np.uint8)
    for index, name in enumerate(names):
        if name[0] == "c":
            data[:, index] = rates(rng, (banks, 16)).astype("<u2").view(np.uint8)
        else:
            data[:, index] = encoded(config, draw(banks))
    if not given.seeds:
        return Step(given, data)
    words = seed_words(int(rng.integers(1 << 30)), np.arange(banks))
    return Step(given, data, words.astype("<u8").view(np.uint8).reshape(banks // 2, 32))


def rates(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Return rates: of long and short memories, some that are 0, 1 or subnormal, and a few beyond 2."""
    near = 2.0 ** rng.uniform(-26, 0, size=shape)
    kind = rng.random(shape)
    wide = rng.normal(size=shape) * 2.0 ** rng.integers(-3, 15, size=shape[:-1])[..., None]
    groups = rng.random(shape[:-1])[..., None] < 0.3
    made = np.where(groups & (kind < 0.4), np.clip(wide, -6e4, 6e4), near)
    codes = rate.codes(np.where(kind > 0.95, 0, np.where(kind > 0.9, 1, made)))
    begun = (
        rng.random(shape[:-1])[..., None] < 0.1
    )  # whole registers of ones: the old state counts as zeros
    return np.where(begun, np.uint16(rate.ONE), codes)


def golden(config: PimConfig, made: Program, steps: Sequence[Sequence[Step]]) -> tuple[Any, Device]:
    """Return what the device sends to memory, in order, and the device behind it."""
    device = Device(config)
    outs = [[device.play(number, one) for one in own] for number, own in enumerate(steps)]
    rows = [outs[a][b][c] for a, b, c in made.order]
    return np.array(rows, dtype=np.uint8).reshape(-1, 32), device


def compare(
    config: PimConfig,
    library: Library,
    steps: Sequence[Sequence[Step]],
    memory: FixedLatency | None = None,
) -> Any:
    """Play steps on the RTL; its bytes and cycles must be those of the models."""
    timing = memory or FixedLatency()
    made = program(config, steps)
    results = round_up(made.words.nbytes)
    count = int(made.reads.sum())
    with NativeMachine(library, timing) as machine:
        machine.write(0, made.words.view(np.uint8))
        machine.reserve(results, round_up(32 * count + 1))
        ended = machine.run(
            {
                "program": 0,
                "words": made.beats,
                "results": results,
                "result_words": made.result_beats,
            },
            limit=10_000_000,
        )
        assert ended.error is None, ended.error
        out = machine.read(results, 32 * count).reshape(-1, 32)
    expected, device = golden(config, made, steps)
    model = cycles_of(made, {"m0": timing}, 0, results)
    wrong = np.flatnonzero((out != expected).any(axis=1))
    assert not len(wrong), (
        len(wrong),
        [made.order[n] for n in wrong[:4]],
        out[wrong[:2]],
        expected[wrong[:2]],
    )
    assert ended.cycles == model.total
    assert ended.counters["stalled"] == model.stalled
    assert ended.counters["saturated"] == device.saturated
    return ended


__all__ = ["PAGE", "build", "compare", "encoded", "golden", "rates", "step"]
