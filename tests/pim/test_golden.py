"""The golden model in C++ beside its specification in NumPy: banks, results and saturations, in every bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import penstock as ps
from penstock.engines.pim import golden
from penstock.engines.pim.golden import InCpp, golden_device, language_of
from penstock.models.pim import rate
from penstock.models.pim.config import Design, PimConfig
from penstock.models.pim.device import Device, Step, registers_of
from penstock.models.pim.rounds import Round
from penstock.sim.native.toolchain import BuildError

#: rounds of one device
ROUNDS = 5
MODES = ("update", "update", "score", "attend")


def drawn(rng, shape):
    """Bytes of any kind: all codes; numbers of one size, so that they meet; nothing; the largest."""
    data = rng.integers(0, 256, shape, dtype=np.uint8)
    match int(rng.integers(5)):
        case 0:
            data[..., [0, 16]] = rng.integers(110, 145, (*shape[:-1], 2))
        case 1:
            data[...] = 0
        case 2:
            data[..., [0, 16]] = 250 + rng.integers(0, 5, (*shape[:-1], 2))
        case 3:  # float16 from 2⁻⁸ to 2⁷, of either sign
            data[..., 1::2] = data[..., 1::2] & 0xBF | 0x20
    return data


def rates(rng, shape):
    """Registers of rates: any codes, exact ones, small ones, 0."""
    held = rng.integers(0, 1 << 16, shape, dtype=np.uint16)
    match int(rng.integers(4)):
        case 0:
            held[...] = rate.ONE
        case 1:
            held[...] = rate.codes(2.0 ** -rng.uniform(0, 24, shape))
        case 2:
            held[...] = 0
    return held.view(np.uint8)


def steps(rng, config):
    """Yield rounds of a set, with operands and seeds as they may come."""
    for number in range(ROUNDS):
        mode = str(rng.choice(MODES))
        first = number == 0 or bool(rng.integers(2))
        row = int(rng.integers(config.rows))
        reads = int(mode != "update" or rng.integers(3) > 0)
        chunk = Round(mode, row=row, reads=reads, first=first, rates=int(rng.integers(1, 3)))
        if config.format == "float16":
            chunk = replace(chunk, rates=1)
        names = registers_of(config, chunk)
        banks = config.groups * config.banks // config.sets
        data = drawn(rng, (banks, len(names), 32))
        for index, name in enumerate(names):
            if name[0] == "c":
                data[:, index] = rates(rng, (banks, 16))
        seeded = config.stochastic and (number == 0 or rng.integers(2))
        seeds = rng.integers(0, 256, (banks // 2, 32), dtype=np.uint8) if seeded else None
        yield Step(chunk, data, seeds)


def compare(seed):
    """Play rounds of one random device on both."""
    rng = np.random.default_rng(seed)
    form = str(rng.choice(["mx8", "float16"]))
    config = PimConfig(
        form,
        form == "mx8" and bool(rng.integers(2)),
        int(rng.choice([1, 2])),
        2,
        2,
        list(Design)[rng.integers(len(Design))],
    )
    sets = int(rng.choice([n for n in (1, 2) if config.groups % n == 0]))
    config = replace(config, sets=sets)
    theirs, ours = Device(config), InCpp(config)
    theirs.banks[:] = ours.banks[:] = drawn(rng, theirs.banks.shape)
    for number in range(sets):
        for at, step in enumerate(steps(rng, config)):
            said = f"seed {seed}, set {number}, round {at}: {form}, {step.round}"
            with np.errstate(all="ignore"):
                out = theirs.play(number, step)
            np.testing.assert_array_equal(ours.play(number, step), out, said)
            np.testing.assert_array_equal(ours.banks, theirs.banks, said)
            assert ours.saturated == theirs.saturated, said
    return sets * ROUNDS


@pytest.mark.parametrize("part", range(2))
def test_rounds(part):
    """300 rounds and more of all modes, formats, designs and roundings."""
    assert sum(compare(seed) for seed in range(25 * part, 25 * part + 25)) >= 125


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_many_rounds(part):
    """10,000 rounds and more."""
    assert sum(compare(1000 + 100 * part + n) for n in range(100)) >= 500


@pytest.mark.long
def test_without_vectors_of_the_machine(monkeypatch):
    """What is compiled for any processor of this kind computes the same."""
    plain = [flag for flag in golden.NATIVE if flag != "-march=native"]
    monkeypatch.setattr(golden, "NATIVE", plain)
    monkeypatch.setattr(golden, "_library", golden._library.__wrapped__)
    assert sum(compare(seed) for seed in range(20)) >= 100


def test_random_bits_go_on():
    """A stochastic round without seeds takes the bits that follow, and none before the first seeds."""
    config = PimConfig(stochastic=True, groups=1, banks=2, rows=1)
    step = Step(Round("update"), np.zeros((2, 1, 32), dtype=np.uint8))
    for kind in (Device, InCpp):
        with pytest.raises(KeyError):
            kind(config).play(0, step)


KERNEL = """import penstock as ps

@ps.recurrence
def f(S: ps.State["k", "v"], d: ps.Input, k: ps.Input["k"], v: ps.Input["v"], q: ps.Input["k"]):
    S = d * S + ps.outer(k, v)
    return S, q @ S
"""


def run(tmp_path):
    (tmp_path / "f.py").write_text(KERNEL)
    design = ps.compile(str(tmp_path / "f.py"), dims={"k": 8, "v": 8}, banks=2, heads=1)
    rng = np.random.default_rng(5)
    data = {name: rng.normal(size=(3, 1, 1, 8)) for name in "kvq"} | {"d": np.full((3, 1, 1), 0.9)}
    with design.open(backend="golden") as session:
        told = repr(session)
    return design.run(data, backend="golden"), told


def test_which_one_is_told(tmp_path, monkeypatch):
    """A run and a session say what computed; without g++ it is NumPy, the same bits and one line why."""
    ours, session = run(tmp_path)
    assert ours.details["golden"] == "C++" and session.endswith("golden in C++>")
    monkeypatch.setattr(golden, "_library", lambda: BuildError("simulation needs g++\nand more"))
    theirs, session = run(tmp_path)
    assert theirs.details["golden"] == "NumPy: simulation needs g++"
    assert "golden in NumPy: simulation needs g++" in session
    assert ours.facts == theirs.facts and (ours.result["y"] == theirs.result["y"]).all()
    assert language_of(golden_device(PimConfig())) == "NumPy: simulation needs g++"
    with pytest.raises(BuildError):
        InCpp(PimConfig())
