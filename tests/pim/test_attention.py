"""Attention over two caches beside NumPy's float64, which knows nothing of the units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.core.text import parse_kernel
from penstock.engines.pim.design import recurrent_from
from penstock.models.pim.errors import PimError
from penstock.models.pim.softmax import ERROR, fixed, powers, tiles

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
        made = tiles(format, fixed(scores if scale < 1e12 else scores * 1e8))
        weights = (made.weights * made.scales[..., None]).reshape(3, -1) / made.sums[:, None]
        assert np.isfinite(weights).all() and (weights >= 0).all()
        if scale < 1e12:
            exact = softmax(scores * np.log(2))
            top = exact.reshape(3, -1, 16).max(axis=-1).repeat(16, axis=-1)
            tile = exact.reshape(3, -1, 64).max(axis=-1).repeat(64, axis=-1)
            coded = (1 / 63 if format == "mx8" else 2.0**-11) * top + 2.0**-13 * tile
            assert (np.abs(weights - exact) <= coded + 3 * ERROR * exact).all()


@pytest.mark.parametrize("keys", [1, 63, 64, 65])
def test_keys_that_a_tile_lacks_have_no_weight(keys):
    made = tiles("float16", fixed(np.full((1, keys), -5000.0)))
    assert made.weights.reshape(-1)[keys:].sum() == 0 and made.exponent.max() == -5000
    assert made.sums[0] == pytest.approx(keys, rel=ERROR)


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


@pytest.mark.parametrize("format", FORMATS)
def test_4096_keys_of_128(format):
    kernel, dims = attention(4096, 128, 128)
    design = ps.compile(kernel, target="u55c", dims=dims, heads=1, format=format)
    for scale, least in ((1.0, {"mx8": 0.2, "float16": 0.002}[format]), (1e4, 4.0)):
        judged(
            design, drawn(np.random.default_rng(1), 1, 1, 1, 4096, 128, 128, scale), format, least
        )


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


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_hardware_gives_goldens_bits_in_the_models_cycles(format):
    kernel, dims = attention(70, 40, 33)
    data = drawn(np.random.default_rng(4), 2, 1, 2, 70, 40, 33, 1.0)
    design = ps.compile(kernel, target="small", dims=dims, heads=2, banks=2, format=format)
    golden, model, rtl = (design.run(data, backend=name) for name in ("golden", "model", "rtl"))
    assert (golden.result["y"] == rtl.result["y"]).all() and model.cycles == rtl.cycles
