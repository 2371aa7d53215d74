"""Caches that grow by a row each token, and heads that share them, beside NumPy's float64: causal decoding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.text import parse_kernel
from penstock.engines.pim.design import recurrent_from
from penstock.host.sources.errors import SourceError
from penstock.models.pim.rules import check

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

FORMATS = ("mx8", "float16")
HEAD = "recurrence decode(K: cache[t, k], V: cache[t, v], key: input[k], value: input[v], q: input[k])\n"
TEXT = HEAD + "  K <- append(K, key)\n  V <- append(V, value)\n  y <- softmax(0.3 * (K @ q)) @ V\n"


@ps.recurrence
def decode(
    K: ps.Cache["t", "k"],
    V: ps.Cache["t", "v"],
    key: ps.Input["k"],
    value: ps.Input["v"],
    q: ps.Input["k"],
):
    K = ps.append(K, key)
    V = ps.append(V, value)
    return ps.softmax(0.3 * (K @ q)) @ V


def drawn(rng, tokens, batch, heads, few, k, v):
    lead = (tokens, batch)
    return {
        "key": rng.normal(size=(*lead, few, k)),
        "value": rng.normal(size=(*lead, few, v)) + 1,
        "q": rng.normal(size=(*lead, heads, k)),
    }


def beside(data):
    """Each token reads the keys up to its own; neighbouring heads share a cache, as `repeat_interleave` has it."""
    group = data["q"].shape[2] // data["key"].shape[2]
    keys, values = (np.repeat(data[n], group, axis=2) for n in ("key", "value"))
    found = []
    for token, q in enumerate(data["q"]):
        scores = 0.3 * np.einsum("tbhk,bhk->tbh", keys[: token + 1], q)
        weights = np.exp(scores - scores.max(axis=0))
        found.append(np.einsum("tbh,tbhv->bhv", weights / weights.sum(axis=0), values[: token + 1]))
    return np.array(found)


@pytest.mark.parametrize("seed", range(6))
def test_tokens_read_the_rows_up_to_their_own(seed):
    rng = np.random.default_rng(seed)
    tokens, k, v = (int(rng.integers(1, high)) for high in (100, 100, 80))
    batch, few, group = (int(n) for n in rng.integers(1, 3, size=3))
    data = drawn(rng, tokens, batch, few * group, few, k, v)
    design = ps.compile(
        decode,
        target="u55c",
        banks=4,
        dims={"t": tokens + int(rng.integers(0, 9)), "k": k, "v": v},
        batch=batch,
        heads=few * group,
        kv_heads=few,
        format=FORMATS[seed % 2],
    )
    outcome, exact = design.run(data, backend="golden"), beside(data)
    own, error = outcome.details["float64"], np.abs(outcome.result["y"] - exact)
    assert own["within_bound"] and error.max() <= own["bound"]
    assert error.max() == pytest.approx(own["largest"], rel=1e-4, abs=1e-6)
    assert error.max() <= (0.4, 0.03)[seed % 2] * np.abs(exact).max()


def test_a_run_goes_on_where_another_ended():
    """With the rows that are held, whatever lies behind them, a run gives the bits of one run."""
    data = drawn(np.random.default_rng(1), 68, 1, 2, 1, 40, 33)
    kernel, dims = parse_kernel(TEXT), {"t": 68, "k": 40, "v": 33}
    design = ps.compile(kernel, target="small", dims=dims, heads=2, kv_heads=1)
    whole = design.run(data, backend="golden").result["y"]
    for first in (1, 63, 64):
        held = {
            cache: np.concatenate([data[row][:first], np.full_like(data[row][first:], 9.0)])
            for cache, row in (("K", "key"), ("V", "value"))
        }
        given = {name: np.moveaxis(x, 0, 2) for name, x in held.items()}
        rest = {name: x[first:] for name, x in data.items()}
        again = design.run({**rest, **given}, first=first, backend="golden").result["y"]
        assert (again == whole[first:]).all(), first


def test_schedules_keep_the_rules():
    data = drawn(np.random.default_rng(2), 66, 1, 2, 1, 40, 33)
    dims = {"t": 66, "k": 40, "v": 33}
    design = ps.compile(decode, target="small", dims=dims, heads=2, kv_heads=1)
    [made] = design.run(data, backend="model").workload.programs
    assert not check(made.schedule)
    writes = sum(c.name == "WRITE" for c in made.schedule.commands)
    # a key is a transfer to both banks; each of two slices of a value is one to one of them, but the first of 64 writes both whole
    assert writes == 2 * (63 + 3 * 32) + 2 * (64 + 2 * 64)


def test_both_languages_say_the_same():
    one, two = decode.trace(), parse_kernel(TEXT).trace()
    assert one.passes == two.passes and one.grows
    assert [n.op for n in one.nodes] == [n.op for n in two.nodes]
    assert one.of_cache == {"K", "V", "key", "value"}
    design = ps.compile(decode, target="small", dims={"t": 8, "k": 8, "v": 9}, kv_heads=1)
    again = recurrent_from(json.loads(json.dumps(design.to_json()["recurrent"])))
    assert again == design.recurrent


def test_a_full_cache_is_one_message():
    design = ps.compile(decode, target="small", dims={"t": 8, "k": 8, "v": 8}, heads=1)
    rng = np.random.default_rng(1)
    with pytest.raises(SourceError, match=r"K and V are full: they have room for 8 rows") as caught:
        design.run(drawn(rng, 9, 1, 1, 1, 8, 8), backend="golden")
    assert caught.value.code == "E460"
    data, cache = drawn(rng, 1, 1, 1, 1, 8, 8), np.zeros((1, 1, 8, 8))
    for given, first in (({"K": cache, "V": cache}, 0), ({}, 3), ({"K": cache}, 3)):
        with pytest.raises(SourceError, match="the number of rows that they hold") as caught:
            design.run({**data, **given}, first=first, backend="golden")
        assert caught.value.code == "E460"


def compiled(format="mx8", tokens=70, batch=3, **more):
    dims = {"t": tokens, "k": 40, "v": 33}
    return ps.compile(
        decode, target="small", dims=dims, batch=batch, heads=2, kv_heads=1, format=format, **more
    )


def alone(design, tokens, seed):
    """Arrays of a request without an axis of requests, and what one run of it alone gives."""
    data = drawn(np.random.default_rng(seed), tokens, 1, 2, 1, 40, 33)
    single = compiled(design.compiled.device.format, batch=1)
    y = single.run(data, backend="golden").result["y"][:, 0]
    return {name: x[:, 0] for name, x in data.items()}, y


def cut(data, begin, end):
    return {name: x[begin:end] for name, x in data.items()}


def arrivals(session, own, others):
    """A prompt of two requests of different lengths; steps; one leaves, and another takes its seat; the bits are those of runs alone."""
    (data, y), (more, z), (last, w) = own, *others
    a, b = session.join(), session.join()
    made = session.step({a: cut(data, 0, 3), b: cut(more, 0, 5)})
    found = [made[a]]
    assert (made[b] == z[:5]).all()
    session.leave(b)
    for n in range(3, 6):
        found.append(session.step({a: cut(data, n, n + 1)})[a])
    c = session.join()
    made = session.step({c: cut(last, 0, 2), a: cut(data, 6, 7)})
    found.append(made[a])
    assert (made[c] == w[:2]).all() and (np.concatenate(found) == y[:7]).all()
    assert session.errors["within_bound"]
    return session.snapshot(a)


@pytest.mark.parametrize("format", FORMATS)
def test_a_session_gives_the_bits_of_runs_alone(format):
    design = compiled(format)
    own, *others = (alone(design, 68 if n == 0 else 5, n) for n in range(3))
    with design.open(backend="model") as session:
        saved = arrivals(session, own, others)
        assert session.cycles > 0
    data, y = own
    other = compiled(format, batch=4, banks=2)
    # elsewhere, behind a request that it does not know, over the end of a tile
    with other.open() as session:
        session.step({session.join(): cut(others[0][0], 0, 1)})
        request = session.join(state=saved)
        found = session.step({request: cut(data, 7, 66)})[request]
        assert (found == y[7:66]).all() and session.errors["within_bound"]
        again = session.join(state=session.snapshot(request))
        found = session.step({request: cut(data, 66, 67), again: cut(data, 66, 67)})
        assert (found[request] == y[66:67]).all() and (found[again] == y[66:67]).all()
        with pytest.raises(SourceError, match="room for 70 rows, hold 67, and 4 come") as caught:
            session.step({request: cut(data, 0, 4)})
        assert caught.value.code == "E460"
        assert (session.step({request: cut(data, 67, 68)})[request] == y[67:68]).all()


def test_requests_that_are_moved_keep_their_bits():
    options = {"batch": 8, "heads": 2, "kv_heads": 1, "banks": 8}
    dims = {"t": 70, "k": 40, "v": 33}
    design = ps.compile(decode, target="u55c", dims=dims, **options)
    own, done = [alone(design, 5, n) for n in range(8)], [0] * 8
    with design.open() as session:
        requests = [session.join() for _ in range(8)]
        for which in (range(8), [0, 7], [1, 6, 3], range(8), [0, 4], [2, 5], range(8)):
            given = {requests[n]: cut(own[n][0], done[n], done[n] + 1) for n in which}
            found = session.step(given)
            for n in which:
                assert (found[requests[n]] == own[n][1][done[n] : done[n] + 1]).all()
                done[n] += 1
        assert session.counters["moved"] > 0


@pytest.mark.long
def test_a_session_on_hardware():
    own, *others = (alone(compiled(), 7 if n == 0 else 5, n) for n in range(3))
    saved = []
    for backend in ("model", "rtl"):
        with compiled().open(backend=backend) as session:
            saved.append((arrivals(session, own, others), session.cycles))
    assert saved[0] == saved[1]


RETNET = """recurrence retnet(S: state[k, v], key: input[k], value: input[v], q: input[k])
  S <- 0.97 * S + outer(key, value)
  y <- q @ S
"""


def mixed(format, backend):
    """Three tokens in a layer of a state and in one of caches, beside block RAM; cycles, snapshot and outputs."""
    kernels, dims = [parse_kernel(RETNET), parse_kernel(TEXT)], {"t": 70, "k": 40, "v": 33}
    design = ps.compile(
        kernels, target="small", dims=dims, heads=2, kv_heads=1, format=format, dram="on-chip"
    )
    rng = np.random.default_rng(5)
    states, caches = (drawn(rng, 3, 1, 2, few, 40, 33) for few in (2, 1))
    with design.open(backend=backend) as session:
        request = session.join()
        found = [
            session.step(
                {request: {name: x[n : n + 1, 0] for name, x in data.items()}}, layer=layer
            )
            for n in range(3)
            for layer, data in enumerate((states, caches))
        ]
        assert session.errors["within_bound"]
        y = np.array([one[request][0] for one in found])
        assert np.abs(y[1::2] - beside(caches)[:, 0]).max() < 0.3
        return session.cycles, session.snapshot(request), y.tobytes()


@pytest.mark.parametrize("format", FORMATS)
def test_layers_of_both_kinds(format):
    assert mixed(format, "golden")[1:] == mixed(format, "model")[1:]


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_layers_of_both_kinds_in_a_session_on_hardware(format):
    assert mixed(format, "rtl") == mixed(format, "model")


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_halves_beside_block_ram_session_on_hardware(format):
    options = {"dram": "on-chip", "schedule": "halves", "banks": 4, "format": format}
    dims = {"k": 40, "v": 70}
    design = ps.compile(parse_kernel(RETNET), target="u55c", dims=dims, heads=2, **options)
    runs = [design.run("random:rows=3,seed=1", backend=name) for name in ("golden", "model", "rtl")]
    golden, model, rtl = runs
    assert (golden.result["y"] == rtl.result["y"]).all() and model.cycles == rtl.cycles


@pytest.mark.parametrize("backend", ["model", pytest.param("rtl", marks=pytest.mark.long)])
@pytest.mark.parametrize("refresh", ["all-bank", "per-bank"])
def test_caches_grow_between_refreshes(refresh, backend):
    dims = {"t": 20, "k": 8, "v": 8}
    own, other = (
        ps.compile(decode, target="small", dims=dims, heads=2, refresh=one)
        for one in (refresh, "none")
    )
    run, plain = (one.run("random:seed=1", tokens=20, backend="model") for one in (own, other))
    assert not any(check(made.schedule) for made in run.workload.programs)
    assert run.cycles > plain.cycles
    if backend == "rtl":
        golden, rtl = (own.run("random:seed=1", tokens=20, backend=b) for b in ("golden", "rtl"))
        assert rtl.cycles == run.cycles and (rtl.result["y"] == golden.result["y"]).all()


def test_block_ram_is_not_refreshed():
    with pytest.raises(KernelError, match="block RAM is not refreshed") as caught:
        ps.compile(decode, target="small", dram="on-chip", refresh="all-bank")
    assert caught.value.diagnostic.code == "E464"


def test_units_that_read_no_cache():
    """Whichever kernel comes first."""
    kernels = [EXAMPLES / "attention.py:decoding", EXAMPLES / "retnet.psk"]
    for some in (kernels, kernels[::-1]):
        with pytest.raises(KernelError, match="which units of the kind hbm-pim cannot") as caught:
            ps.compile([*map(str, some)], unit="hbm-pim", heads=2, dims={"t": 16, "k": 8, "v": 8})
        assert caught.value.diagnostic.code == "E464"


def test_scores_far_below_nothing():
    """Tiles that a token does not have count nothing, however small the weights of those are that it has."""
    ones, x = np.ones((3, 1, 1, 8)), np.arange(3.0).reshape(3, 1, 1, 1)
    design = ps.compile(decode, target="small", dims={"t": 70, "k": 8, "v": 8}, heads=1)
    data = {"key": -50 * ones, "value": x * ones, "q": 50 * ones}
    y = design.run(data, backend="golden").result["y"]
    assert np.abs(y - x / 2).max() < 0.02


MISFITS = {
    "  K <- append(K, key)\n  y <- softmax(K @ q) @ V": "caches grow together",
    "  K2 = append(K, key)\n  V <- append(V, value)\n  y <- softmax(K @ q) @ V": "caches grow together",
    "  K <- append(append(K, key), key)\n  y <- softmax(K @ q) @ V": "append to",
    "  K <- append(K, value)\n  y <- softmax(K @ q) @ V": "append to",
    "  K <- 2 * K\n  y <- softmax(K @ q) @ V": "the cache K grows by a row alone",
    "  K <- append(K, key)\n  V <- append(V, softmax(K @ q) @ V)\n  y <- softmax(K @ q) @ V": "softmax",
}


@pytest.mark.parametrize("body", MISFITS)
def test_what_does_not_grow(body):
    with pytest.raises(KernelError, match=MISFITS[body]) as caught:
        parse_kernel(HEAD + body).trace()
    assert caught.value.diagnostic.code == "E462"


@pytest.mark.parametrize(
    ("heads", "few", "said"), [(4, 3, "cannot share 3 caches alike"), (2, 4, "cannot share")]
)
def test_heads_that_cannot_share(heads, few, said):
    with pytest.raises(KernelError, match=said) as caught:
        ps.compile(decode, target="small", heads=heads, kv_heads=few)
    assert caught.value.diagnostic.code == "E464"


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_hardware_gives_goldens_bits_in_the_models_cycles(format):
    data = drawn(np.random.default_rng(4), 68, 1, 4, 2, 40, 33)
    dims = {"t": 70, "k": 40, "v": 33}
    design = ps.compile(
        decode, target="small", dims=dims, heads=4, kv_heads=2, banks=2, format=format
    )
    golden, model, rtl = (design.run(data, backend=name) for name in ("golden", "model", "rtl"))
    assert (golden.result["y"] == rtl.result["y"]).all() and model.cycles == rtl.cycles
