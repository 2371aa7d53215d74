"""Attention over two caches beside NumPy's float64, which knows nothing of the units."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import Simulator

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.core.text import parse_kernel
from penstock.engines.pim.design import recurrent_from
from penstock.hdl.pim.softmax import SoftmaxUnit
from penstock.models.pim.config import PimConfig
from penstock.models.pim.errors import PimError
from penstock.models.pim.rounds import round_cycles
from penstock.models.pim.rules import check
from penstock.models.pim.softmax import (
    ERROR,
    Softmax,
    Taken,
    fixed,
    powers,
    scales,
    summed,
    tiles,
)
from testbench.pim import encoded

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FORMATS = ("mx8", "float16")


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_powers_of_two():
    y = np.arange(-(3 << 16), 3 << 16)
    m, n = powers(y)
    exact = np.exp2(y / 65536)
    assert np.abs(np.ldexp(m / 65536, n) / exact - 1).max() <= ERROR
    assert m.min() >= 0.7 * 65536 and int(m.max()).bit_length() == 17


@pytest.mark.parametrize("format", FORMATS)
def test_weights_of_the_unit_alone(format):
    """Exact scores of any size: each weight within its coding of softmax, and nothing is infinite."""
    rng = np.random.default_rng(5)
    for scale in (0.0, 1.0, 30.0, 1e4, 1e12):
        scores = np.round(rng.normal(size=(3, 4096)) * min(scale, 1e4) * 1024) / 1024
        made = tiles(format, fixed(scores if scale < 1e12 else scores * 1e8)[0])
        sums = summed(made.exponent, made.total)
        weights = made.weights * scales(made.exponent)[..., None]
        weights = weights.reshape(3, -1) / sums[:, None]
        assert np.isfinite(weights).all() and (weights >= 0).all()
        if scale < 1e12:
            exact = softmax(scores * np.log(2))
            top = exact.reshape(3, -1, 16).max(axis=-1).repeat(16, axis=-1)
            tile = exact.reshape(3, -1, 64).max(axis=-1).repeat(64, axis=-1)
            coded = (1 / 63 if format == "mx8" else 2.0**-11) * top + 2.0**-13 * tile
            assert (np.abs(weights - exact) <= coded + 3 * ERROR * exact).all()


@pytest.mark.parametrize("keys", [1, 63, 64, 65])
def test_keys_that_a_tile_lacks_have_no_weight(keys):
    made = tiles("float16", fixed(np.full((1, keys), -5000.0))[0])
    assert made.weights.reshape(-1)[keys:].sum() == 0 and made.exponent.max() == -5000
    assert summed(made.exponent, made.total)[0] == pytest.approx(keys, rel=ERROR)


def attention(t, k, v):
    @ps.recurrence
    def attention(K: ps.Cache["t", "k"], V: ps.Cache["t", "v"], q: ps.Input["k"], scale: ps.Input):
        return ps.softmax(scale * (K @ q)) @ V

    return attention, {"t": t, "k": k, "v": v}


def drawn(rng, tokens, batch, heads, t, k, v, scale):
    lead = (batch, heads)
    return {
        "K": rng.normal(size=(*lead, t, k)),
        "V": rng.normal(size=(*lead, t, v)) + rng.normal(size=(*lead, 1, v)),
        "q": rng.normal(size=(tokens, *lead, k)),
        "scale": np.full((tokens, *lead), scale / np.sqrt(k)),
    }


def beside(data):
    scores = np.einsum("bhtk,nbhk->nbht", data["K"], data["q"]) * data["scale"][..., None]
    return np.einsum("nbht,bhtv->nbhv", softmax(scores), data["V"])


def judged(design, data, format, least):
    """Hold a golden run against float64: within the printed bound, and, where scores are small, near it."""
    outcome = design.run(data, backend="golden")
    found, exact = outcome.result["y"], beside(data)
    own = outcome.details["float64"]
    error = np.abs(found - exact)
    assert np.isfinite(found).all() and own["within_bound"]
    assert error.max() == pytest.approx(own["largest"], rel=1e-4, abs=1e-6)
    assert error.max() <= own["largest_bound"] <= own["bound"] < np.inf
    assert error.max() <= least * np.abs(exact).max()


@pytest.mark.parametrize("seed", range(12))
def test_random_caches_are_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    format = FORMATS[seed % 2]
    t, k, v = (int(rng.integers(1, high)) for high in (200, 150, 100))
    tokens, batch, heads = (int(n) for n in rng.integers(1, 4, size=3))
    kernel, dims = attention(t, k, v)
    scale = float(10.0 ** rng.uniform(0, 4 if seed % 3 == 0 else 0.7))
    data = drawn(rng, tokens, batch, heads, t, k, v, scale)
    design = ps.compile(kernel, target="u55c", dims=dims, batch=batch, heads=heads, format=format)
    near = {"mx8": 0.6, "float16": 0.03}[format]
    judged(design, data, format, 4.0 if scale > 5.1 else near)


def softmax_hides_behind_the_banks(workload):
    """One program, in which no word of the host's comes between scores and weights; its rounds take little more than they would alone."""
    [made] = workload.programs
    rounds = [step.round for step in workload.steps if step.round.mode != "load"]
    device = workload.design.device
    alone = sum(round_cycles(device, replace(one, totals=0)) for one in rounds)
    begin = made.schedule.starts[0][-len(rounds)]
    assert alone < made.schedule.length - begin <= 1.25 * alone
    assert not check(made.schedule)
    # behind the queries of a score nothing is written but what the unit gives
    names = [c.name for c in made.schedule.commands if c.cycle >= begin]
    scores = sum(one.mode == "score" for one in rounds)
    assert names.count("REG_WRITE") == scores * 2 * device.pairs and "WRITE" not in names


@pytest.mark.parametrize("format", FORMATS)
def test_4096_keys_of_128(format):
    kernel, dims = attention(4096, 128, 128)
    design = ps.compile(kernel, target="u55c", dims=dims, heads=1, format=format)
    for scale, least in ((1.0, {"mx8": 0.2, "float16": 0.002}[format]), (1e4, 4.0)):
        data = drawn(np.random.default_rng(1), 1, 1, 1, 4096, 128, 128, scale)
        judged(design, data, format, least)
    softmax_hides_behind_the_banks(design.run(data, backend="model").workload)


def test_the_unit_serves_all_banks_together():
    kernel, dims = attention(64, 32, 32)
    with pytest.raises(KernelError, match="not 4 staggered sets") as caught:
        ps.compile(kernel, target="u55c", dims=dims, schedule="quarters")
    assert caught.value.diagnostic.code == "E464"


def test_scores_beyond_the_range_are_an_error_or_counted():
    kernel, dims = attention(8, 32, 32)
    design = ps.compile(kernel, target="small", dims=dims, heads=1)
    data = drawn(np.random.default_rng(1), 1, 1, 1, 8, 32, 32, 1e9)
    ended = design.run(data, backend="golden")
    assert ended.errors[0].code == PimError.PIM_RANGE
    counted = design.run(data, backend="golden", on_overflow="saturate")
    assert np.isfinite(counted.result["y"]).all() and counted.counters["saturated_scores"] > 0


def test_the_example_is_the_same_in_both_languages():
    one = load_kernel(f"{EXAMPLES / 'attention.py'}:attention").trace()
    two = load_kernel(str(EXAMPLES / "attention.psk")).trace()
    assert one.mode == two.mode == "attention" and one.passes == two.passes
    assert [n.op for n in one.nodes] == [n.op for n in two.nodes]
    design = ps.compile(EXAMPLES / "attention.psk", target="small", dims={"t": 8, "k": 8, "v": 9})
    again = recurrent_from(json.loads(json.dumps(design.to_json()["recurrent"])))
    assert again == design.recurrent


HEAD = (
    "recurrence f(K: cache[t, k], V: cache[t, v], q: input[k], w: input[t], g: input[v])\n  y <- "
)
MISFITS = {
    "softmax(K @ q + w) @ V": "softmax of the result of",
    "softmax(w * (K @ q)) @ V": "softmax of the result of",
    "softmax(K @ q) @ V + sum(K @ q)": "does not fit",
    "(K @ q) @ V": "the output has no softmax",
    "softmax(w) @ V": "softmax of the result of",
    "softmax((K @ q) * sum(K @ q)) @ V": "sum of scores or of a cache",
    "g": "the output has no softmax",
    "softmax(softmax(K @ q)) @ V": "2 of softmax",
    "softmax(K @ q) @ exp(V)": "the values by weights @ V",
    "softmax(3) @ V": "softmax of a scalar",
}


@pytest.mark.parametrize("body", MISFITS)
def test_what_is_no_attention(body):
    with pytest.raises(KernelError, match=MISFITS[body]) as caught:
        parse_kernel(HEAD + body).trace()
    assert caught.value.diagnostic.code == "E462"


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        ("(e / sum(e)) @ V", "3 passes over t, forced by max(s), sum(e)"),
        ("(e @ V) / sum(e)", "2 passes over t, forced by max(s)"),
    ],
)
def test_passes_of_what_is_no_attention(output, passes):
    head = HEAD.replace("  y", "  s = K @ q\n  e = exp(s - max(s))\n  y")
    with pytest.raises(KernelError, match="as it is written it takes ") as caught:
        parse_kernel(head + output).trace()
    assert passes in caught.value.diagnostic.hint


@pytest.mark.parametrize(
    "header",
    [
        "K: cache[t, k]",
        "K: cache[t, k], V: cache[u, v]",
        "K: cache[t], V: cache[t]",
        "S: state[t, k], K: cache[t, k], V: cache[t, v]",
    ],
)
def test_caches_that_do_not_go_together(header):
    with pytest.raises(KernelError, match="no two caches") as caught:
        parse_kernel(f"recurrence f({header}, q: input[k])\n  y <- softmax(K @ q) @ V").trace()
    assert caught.value.diagnostic.code == "E463"


def test_a_gate_behind_attention():
    text = "recurrence f(K: cache[t, k], V: cache[t, v], q: input[k], g: input[v])\n  y <- sigmoid(g) * (softmax(-(K @ q) / 8) @ V)"
    design = ps.compile(
        parse_kernel(text),
        target="small",
        dims={"t": 40, "k": 32, "v": 48},
        heads=1,
        format="float16",
    )
    data = drawn(np.random.default_rng(2), 2, 1, 1, 40, 32, 48, 1.0)
    data["scale"] = np.full((2, 1, 1), -1 / 8)
    g = np.random.default_rng(3).normal(size=(2, 1, 1, 48))
    given = {n: x for n, x in data.items() if n != "scale"} | {"g": g}
    y = design.run(given, backend="golden").result["y"]
    assert np.abs(y - beside(data) / (1 + np.exp(-g))).max() < 0.02


def test_unit_gives_the_models_words():
    """The softmax unit alone: parts of scores of any size, tiles that lack keys, words within the cycles that it may take."""
    for format, items, parts in (
        ("mx8", 1, 1),
        ("mx8", 2, 3),
        ("float16", 1, 2),
        ("float16", 3, 1),
    ):
        config = PimConfig(format, groups=1, banks=4, soft_items=items, soft_parts=parts)
        unit, model = SoftmaxUnit(config), Softmax(config)
        rng = np.random.default_rng(items)

        async def bench(ctx, config=config, unit=unit, model=model, rng=rng):
            for turn in range(4):
                slots = [turn % 2 * config.soft_items + item for item in range(config.soft_items)]
                keys = int(rng.integers(1, 65)) if turn else 64
                for slot in slots:
                    for data, taken in parts_of(config, rng, slot, keys):
                        model.took(data, taken)
                        await given(ctx, unit, config, data, taken)
                    assert await asked(ctx, unit, slot * config.soft_words) is None
                for slot in slots:
                    await ctx.tick().repeat(config.tile_cycles)
                    for word, wanted in enumerate(model.words[slot]):
                        found = await asked(ctx, unit, slot * config.soft_words + word)
                        assert found == int.from_bytes(wanted.tobytes(), "little")

        simulator = Simulator(unit)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()


def parts_of(config, rng, slot, keys):
    """The parts of a tile's scores, some of them large."""
    scale = 10.0 ** rng.uniform(-3, 6)
    for chunk, part in np.ndindex(2, config.soft_parts):
        x = rng.normal(size=32) * (rng.random(32) < 0.9) * (scale * 1e4 ** (rng.random() < 0.2))
        last = chunk == 1 and part == config.soft_parts - 1
        place = (slot * 2 + chunk) * config.soft_parts_wide + part
        data = encoded(config, x.reshape(-1, config.lanes)).reshape(1, -1)
        yield data, Taken((place,), (slot,) if last else (), (keys,) if last else ())


async def asked(ctx, unit, word):
    """A word, None where it is not there yet."""
    ctx.set(unit.word, word)
    ctx.set(unit.ask, 1)
    await ctx.delay(1e-9)
    found = None if ctx.get(unit.o_early) else ctx.get(unit.o_word)
    ctx.set(unit.ask, 0)
    return found


async def given(ctx, unit, config, data, taken):
    for half, word in enumerate(data.reshape(-1, 32)):
        ctx.set(unit.take, 1)
        ctx.set(unit.place, taken.places[0] * config.result_reads + half)
        ctx.set(unit.data, int.from_bytes(word.tobytes(), "little"))
        ctx.set(unit.ends, bool(taken.ended) and half == config.result_reads - 1)
        ctx.set(unit.keys, taken.keys[0] - 1 if taken.keys else 0)
        await ctx.tick()
        ctx.set(unit.take, 0)


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_hardware_gives_goldens_bits_in_the_models_cycles(format):
    kernel, dims = attention(70, 40, 33)
    data = drawn(np.random.default_rng(4), 2, 1, 2, 70, 40, 33, 1.0)
    design = ps.compile(kernel, target="small", dims=dims, heads=2, banks=2, format=format)
    golden, model, rtl = (design.run(data, backend=name) for name in ("golden", "model", "rtl"))
    assert (golden.result["y"] == rtl.result["y"]).all() and model.cycles == rtl.cycles
