"""Sessions: requests whose states stay in the banks give what they give alone, wherever they sit and whoever is beside them."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import penstock as ps
from penstock.engines.pim.registration import PimEngine
from penstock.engines.pim.snapshot import packed, unpacked
from penstock.engines.session import SessionError
from penstock.errors import Conflict, OptionError
from penstock.host.sources.errors import SourceError
from testbench.arrivals import RETNET, SEED, Pool, arrive, data_of, designed, in_float64, part

FORMATS = ("mx8", "float16")


# -- the same bits


def whole_run(format, tokens, heads=2, k=20, v=5):
    """A request's arrays, and the outputs of one run of it alone."""
    data = data_of(3, tokens, heads, k, v)
    run = designed(heads, k, v, format=format, batch=1).run(
        {n: x[:, None] for n, x in data.items()}, seed=SEED
    )
    return data, run.result["y"][:, 0]


def stepped(session, others, data, begin, end, state=None):
    """A request's tokens one by one, beside others that step now and then; its outputs, and a snapshot."""
    beside = [session.join(seed=n) for n in range(others)]
    own = session.join(seed=0) if state is None else session.join(state=state)
    if beside:
        session.step({beside[0]: part(data, 0, 1)})
        session.leave(beside.pop(0))
    out = []
    for at in range(begin, end):
        given = {own: part(data, at, at + 1)}
        given |= {r: part(data, at, at + 1) for n, r in enumerate(beside) if (at + n) % 3 == 0}
        out.append(session.step(given)[own])
    return out, session.snapshot(own)


@pytest.mark.parametrize("format", FORMATS)
def test_200_tokens_are_200_steps(format):
    """In one step; one by one beside others; the second half from a snapshot, on other banks and another target."""
    data, whole = whole_run(format, 200)
    small = designed(2, 20, 5, format=format, batch=3)
    with small.open(seed=SEED) as session:
        request = session.join(seed=0)
        assert (session.step({request: data})[request] == whole).all()
        last = session.snapshot(request)
    large = designed(2, 20, 5, "u55c", format=format, batch=5, banks=8)
    with small.open(seed=SEED) as first, large.open(seed=1) as second:
        out, saved = stepped(first, 2, data, 0, 100)
        more, end = stepped(second, 4, data, 100, 200, saved)
        assert (np.concatenate(out + more) == whole).all()
        assert end == last
        for session in (first, second):
            assert session.errors["within_bound"] and not session.counters["saturated"]


@pytest.mark.parametrize(("schedule", "most"), [("together", 8_600), ("halves", 6_900)])
def test_the_first_token_costs_what_the_others_cost(schedule, most):
    """32 heads of 128 × 64 beside 16 banks: nothing is loaded first, nothing stored behind."""
    design = designed(32, 128, 64, "u55c", banks=16, batch=1, schedule=schedule)
    data, cycles = data_of(3, 3, 32, 128, 64), [0]
    with design.open("model") as session:
        request = session.join()
        for token in range(3):
            session.step({request: part(data, token, token + 1)})
            cycles.append(session.cycles)
    [each] = {after - before for before, after in pairwise(cycles)}
    assert each <= most


@pytest.mark.parametrize("backend", ["rtl", pytest.param("board", marks=pytest.mark.long)])
def test_20_tokens_on_a_device(backend):
    """Bits on RTL, and on a board in simulation, are golden's, cycles the model's; a snapshot goes from golden to it and back."""
    data, whole = whole_run("mx8", 20)
    design = designed(2, 20, 5, batch=2, banks=4)
    with design.open(seed=SEED) as session:
        _, state = stepped(session, 0, data, 0, 10)
    memory = design.device_timing("block RAM") if backend == "board" else design.memory
    ends = []
    for device, options in ((backend, {}), ("model", {"memory": memory})):
        with design.open(device, seed=SEED, **options) as session:
            out, last = stepped(session, 1, data, 0, 20)
            assert (np.concatenate(out) == whole).all(), device
            for request in session.requests:
                session.leave(request)
            more, end = stepped(session, 0, data, 10, 15, state)
            assert (np.concatenate(more) == whole[10:15]).all(), device
            ends.append((session.cycles, last, end))
    assert ends[0] == ends[1]
    with design.open(seed=SEED) as session:
        more, _ = stepped(session, 0, data, 15, 20, ends[0][2])
        assert (np.concatenate(more) == whole[15:]).all()


def test_idle_requests_keep_infinities():
    """A state beyond float16, beside a request that steps in the same row."""
    data, design = data_of(5, 3, 1), designed(1, 20, 5, batch=4, banks=4, format="float16")
    for name in ("key", "value"):
        data[name][0] *= 1e3
    with design.open(on_overflow="saturate") as session:
        own, beside = session.join(), session.join()
        session.step({own: part(data, 0, 1)})
        before, lost = session.snapshot(own), session.counters["saturated"]
        assert lost and session.errors["within_bound"] is False
        session.step({beside: part(data, 1, 3)})
        assert session.snapshot(own) == before
        again = session.join(state=before)
        first, second = session.step({again: part(data, 1, 2), own: part(data, 1, 2)}).values()
        assert (first == second).all() and not session.errors["within_bound"]


# -- plans


def pools(format):
    """Few banks and many; requests of one slot, of three, and of two parts a head."""
    made = designed(1, 20, 5, format=format, batch=4, banks=4)
    many = designed(3, 20, 5, "u55c", format=format, batch=5, banks=8)
    wide = designed(1, 70, 5, "u55c", format=format, batch=3, banks=4)
    return [Pool(made), Pool(many), Pool(wide, k=70)]


@pytest.mark.parametrize("format", FORMATS)
def test_plans(format):
    """150 for each format."""
    held, moved = pools(format), 0
    for seed in range(150):
        moved += arrive(held[seed % 8 % 3], Random(seed), "golden")[1]["moved"]
    assert moved > 100


@pytest.mark.long
@pytest.mark.parametrize("format", FORMATS)
def test_many_plans(format):
    held = pools(format)
    for seed in range(3000):
        arrive(held[seed % 3], Random(1000 + seed), "golden")


def on_rtl(plans):
    """Plans on RTL and model: the same cycles, counters and snapshots."""
    pool = Pool(designed(1, 20, 5, batch=4, banks=4))
    for seed in plans:
        memory = ("latency=20,bytes=8", "hbm2", "ddr4-2400", "latency=3,bytes=2")[seed % 4]
        rtl, model = (arrive(pool, Random(seed), b, memory=memory) for b in ("rtl", "model"))
        assert rtl == model, seed


def test_plans_on_rtl():
    """Ten, and one in which nobody comes."""
    on_rtl([*range(10), 178])


@pytest.mark.long
def test_many_plans_on_rtl():
    on_rtl(range(100, 300))


@pytest.mark.long
@pytest.mark.parametrize(("schedule", "banks"), [("halves", 4), ("quarters", 8)])
def test_plans_on_staggered_sets(schedule, banks):
    pool = Pool(designed(1, 20, 5, "u55c", batch=6, banks=banks, schedule=schedule))
    for seed in range(5):
        rtl, model = (arrive(pool, Random(seed), b) for b in ("rtl", "model"))
        assert rtl == model, seed


def test_the_example(monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(RETNET).parent)
    assert importlib.import_module("serving").main()
    assert ": 1 request, " in capsys.readouterr().out


# -- layers


TWO = """recurrence first(S: state[k, v], d: input[k], key: input[k], x: input[v], q: input[k])
  S <- d[:, None] * S + outer(key, x)
  y <- q @ S
"""
TURNED = """recurrence second(T: state[a, b], gate: input, u: input[a], w: input[b])
  T <- (1 - gate) * T + outer(u, w)
  y <- T @ w
"""


def stacked(folder, **options):
    """Two recurrences in three layers."""
    for name, text in (("first", TWO), ("second", TURNED)):
        (folder / f"{name}.psk").write_text(text)
    both = [folder / "first.psk", folder / "second.psk"]
    dims = {"k": 24, "v": 9, "a": 35, "b": 11}
    return ps.compile(both, layers=[0, 1, 0], dims=dims, heads=2, **options)


def layer_data(layer, tokens):
    rng = np.random.default_rng(layer)
    draw = lambda *shape: rng.normal(size=(tokens, 2, *shape))
    if layer == 1:
        return {"gate": rng.uniform(0, 0.2, (tokens, 2)), "u": draw(35), "w": draw(11)}
    return {"d": rng.uniform(0.8, 1, (tokens, 2, 24)), "key": draw(24), "x": draw(9), "q": draw(24)}


def test_layers(tmp_path):
    """Each layer gives what a design of its recurrence alone gives; they step in any order, and a snapshot has all."""
    design = stacked(tmp_path, target="small", batch=2, format="float16")
    data = [layer_data(n, 6) for n in range(3)]
    names = ("first", "second", "first")
    alone = []
    for name, own in zip(names, data, strict=True):
        one = ps.compile(
            tmp_path / f"{name}.psk",
            table={n: x[:, None] for n, x in own.items()},
            format="float16",
        )
        alone.append(one.run({n: x[:, None] for n, x in own.items()}).result["y"][:, 0])
    with design.open() as session:
        request, other = session.join(), session.join()
        for layer in (1, 0, 2):
            session.step({other: part(data[layer], 0, 2)}, layer=layer)
            y = session.step({request: part(data[layer], 0, 3)}, layer=layer)[request]
            assert (y == alone[layer][:3]).all()
        session.step({request: part(data[1], 3, 4)}, layer=1)
        saved = session.snapshot(request)
    again = PimEngine().load(json.loads(json.dumps(design.manifest())))
    with again.open() as session:
        again = session.join(state=saved)
        for layer, begin in ((2, 3), (1, 4), (0, 3)):
            y = session.step({again: part(data[layer], begin, 6)}, layer=layer)[again]
            assert (y == alone[layer][begin:]).all()
        with pytest.raises(SessionError, match="no layer 3"):
            session.step({again: part(data[0], 0, 1)}, layer=3)


# -- what is refused


def small(**options):
    return designed(2, 20, 5, **{"batch": 2, "banks": 2, **options})


def refused(call, kind, code, *words):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code and caught.value.hint
    for word in words:
        assert word in str(caught.value), caught.value


def _forged(saved):
    """Yield snapshots with a right digest, which anybody can compute, that say what no session says."""
    tensors, said = unpacked(saved)
    name = next(iter(tensors))
    for key, values in (
        ("seed", ("x", None, 1.5)),
        ("request", ([],)),
        ("tokens", (None, [], ["x"], [-1], [1] * 99, [[1]])),
    ):
        for value in values:
            yield packed(tensors, said | {key: value})
        yield packed(tensors, {k: v for k, v in said.items() if k != key})
    yield packed({}, said)
    yield packed(tensors | {name: tensors[name][:0]}, said)


def test_bad_input_changes_nothing():
    data, design = data_of(1, 8, 2), small()
    with design.open(seed=SEED) as session, design.open(seed=SEED) as other:
        own, beside = session.join(seed=0), session.join()
        stranger, left = other.join(), other.join()
        other.leave(left)
        first = session.step({own: part(data, 0, 4)})[own]
        saved = session.snapshot(own)
        nan = part(data, 4, 5) | {"key": np.full((1, 2, 20), np.nan)}
        huge = part(data, 4, 5) | {"key": np.full((1, 2, 20), 1e39)}
        step = lambda given: lambda: session.step(given)
        join = lambda state: lambda: session.join(state=state)
        for call, kind, code, *words in (
            (step({stranger: part(data, 4, 5)}), SessionError, "E466", "not in this session"),
            (step({"a": part(data, 4, 5)}), SessionError, "E466", "'a' names no request"),
            (step([own]), SessionError, "E466", "arrays by request, not list"),
            (lambda: other.step({left: data}), SessionError, "E466", "request 1", "it left"),
            (lambda: other.snapshot(left), SessionError, "E466", "it left"),
            (lambda: other.leave(left), SessionError, "E466", "it left"),
            (session.join, SessionError, "E466", "2 requests fit, and 2 are seated"),
            (step({beside: part(data, 4, 5), own: nan}), SourceError, "E842", "request 0: key[0, 0, 0] is nan"),
            (step({own: huge}), SourceError, "E841", "request 0: key[0, 0, 0] is 1e+39"),
            (step({own: part(data, 4, 4)}), SourceError, "E704", "no tokens"),
            (step({own: {"key": 1}}), SourceError, "E704", "request 0: the data have no array 'decay'"),
            (step({own: part(data, 4, 5) | {"S": np.zeros((2, 20, 5))}}), SourceError, "E704", "which the session keeps"),
            (step({own: {n: x[:, None] for n, x in data.items()}}), SourceError, "E704", "request 0: the array 'decay' has the shape (8, 1, 2)"),
            (lambda: session.join(seed=1, state=saved), OptionError, "E609", "both given"),
            (lambda: session.join(seed="x"), OptionError, "E609", "'x'"),
            (join(saved[:-1]), SessionError, "E467", "bytes of it are missing"),
            (join(saved[:100]), SessionError, "E467", "the beginning of one"),
            (join(b""), SessionError, "E467", "no file of safetensors"),
            (join(saved[:300] + b"x" + saved[301:]), SessionError, "E467"),
            (join(saved[:-9] + b"x" + saved[-8:]), SessionError, "E467", "others than were written"),
            (join(b"\x02" + bytes(7) + b"{}" + bytes(99)), SessionError, "E467", "no session wrote it"),
            (join("text"), SessionError, "E467", "bytes, not str"),
            *((join(text), SessionError, "E467", "no session wrote it") for text in _forged(saved)),
        ):  # fmt: skip
            refused(call, kind, code, *words)
        assert session.snapshot(own) == saved
        more = session.step({own: part(data, 4, 8)})[own]
        assert (np.concatenate([first, more]) == whole_of(data)).all()
        assert session.counters["saturated_inputs"] == 0


def whole_of(data):
    one = designed(2, 20, 5, batch=1)
    return one.run({n: x[:, None] for n, x in data.items()}, seed=SEED).result["y"][:, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "float16"}, "its format are float16, the session's mx8"),
        ({"rounding": "nearest"}, "its rounding are nearest"),
        ({"heads": 1}, "its heads are 1, the session's 2"),
        ({"v": 6}, ", 20, 6, False]]"),
        ({"unit": "per-bank"}, "its units are [1, 1], the session's [2, 1]"),
        ({"unit": "per-bank", "format": "float16"}, "its format are float16"),
    ],
)
def test_snapshots_of_other_designs(options, words):
    heads, v = options.pop("heads", 2), options.pop("v", 5)
    with designed(heads, 20, v, batch=1, **options).open() as session:
        request = session.join()
        session.step({request: data_of(1, 2, heads, 20, v)})
        saved = session.snapshot(request)
    with small().open() as session:
        refused(lambda: session.join(state=saved), SessionError, "E467", words)
        session.step({session.join(): data_of(1, 2, 2)})


def test_snapshots_of_other_kernels(tmp_path):
    """Of one name and of the same sizes."""
    (tmp_path / "k.psk").write_text(
        Path(RETNET).read_text().replace("decay * S", "(1 - decay) * S")
    )
    sizes = {"heads": 2, "batch": 1, "dims": {"k": 20, "v": 5}}
    with ps.compile(tmp_path / "k.psk", target="small", **sizes).open() as session:
        request = session.join()
        session.step({request: data_of(1, 2, 2)})
        saved = session.snapshot(request)
    with small().open() as session:
        refused(
            lambda: session.join(state=saved), SessionError, "E467", "its layers are [['retnet "
        )
        assert not session.requests


def test_a_snapshot_before_the_first_token():
    data = data_of(1, 3, 2)
    with small().open(seed=SEED) as session:
        saved = session.snapshot(session.join(seed=0))
    with small().open(seed=1) as session:
        request = session.join(state=saved)
        assert (session.step({request: data})[request] == whole_of(data)).all()


def test_sessions_that_there_are_not(tmp_path):
    design = small()
    refused(lambda: design.open("fast"), OptionError, "E609", "backend must be one of")
    refused(lambda: design.open("rtl", colour=1), OptionError, "E609", "takes no colour")
    refused(lambda: design.open(family="ecp5"), OptionError, "E609", "takes no family")
    closed = design.open()
    with closed:
        request = closed.join()
    refused(lambda: closed.snapshot(request), SessionError, "E466", "it is closed")
    refused(closed.join, SessionError, "E466", "it is closed")
    refused(small(refresh="all-bank").open, SessionError, "E466", "refresh 'all-bank'")
    cache = ps.compile(str(Path(RETNET).with_name("attend.psk")))
    refused(cache.open, SessionError, "E466", "attend reads a cache that does not grow")
    kernel = Path(RETNET).with_name("linear.psk")
    refused(lambda: ps.compile([kernel, RETNET]), ps.Error, "E609", "linear is compiled alone")
    refused(lambda: ps.compile([RETNET, kernel]), ps.Error, "E609", "retnet is compiled alone")
    for layers in ([0, 1], []):
        refused(lambda n=layers: ps.compile([RETNET], layers=n), OptionError, "E609", "layers must")
    both = [RETNET, str(Path(RETNET).with_name("mamba2.psk"))]
    refused(lambda: ps.compile(both, layers=[0, 0]), OptionError, "E609", "each of them")
    refused(lambda: ps.compile([]), OptionError, "E609", "a kernel, several in a list")
    two = ps.compile([RETNET], layers=2)
    with pytest.raises(Conflict, match="has 2 layers; a run has one"):
        two.run("random:seed=1")


def test_sums_beyond_float32():
    """The error comes after the step; a session that saturates counts."""
    data, design = data_of(2, 2, 2, 70, 3), designed(2, 70, 3, batch=1, rounding="nearest")
    for name in ("key", "value"):
        data[name][1, 1] = 1e19
    data["query"][1, 1] = 3.0
    with design.open() as session:
        request = session.join()
        step = lambda: session.step({request: data})
        refused(step, SourceError, "E841", "request 0, token 1, head 1: a sum")
        saved = session.snapshot(request)
    sound = data_of(9, 2, 2, 70, 3)
    two = designed(2, 70, 3, batch=2, rounding="nearest")
    with two.open() as session, two.open() as alone:
        one, other, only = session.join(), session.join(), alone.join()
        with pytest.raises(SourceError, match="request 0, token 1, head 1: a sum") as caught:
            session.step({one: data, other: sound})
        [(who, y)] = caught.value.outputs.items()
        assert who is other and np.array_equal(y, alone.step({only: sound})[only])
    with design.open(on_overflow="saturate") as session:
        request = session.join()
        y = session.step({request: data})[request]
        assert (y[1, 1] == np.finfo(np.float32).max).all()
        assert session.counters["saturated_sums"] == 3
        assert session.snapshot(request) == saved


def test_what_is_said():
    """Errors beside float64, heads that collapse; which requests there are."""
    design, data = small(), data_of(4, 3, 2)
    data["decay"] = np.array([[0.9, 1 - 2.0**-30]] * 3)
    with design.open() as session:
        assert session.errors["rms"] == 0 and session.errors["within_bound"]
        request = session.join()
        y = session.step({request: data})[request]
        said, error = session.errors, np.abs(y - in_float64(data))
        assert session.step({}) == {}
        assert session.requests == (request,) and session.free == 1
        assert repr(session) == "<Session of retnet: 1 request, golden in C++>"
    assert said["largest"] == pytest.approx(error.max(), rel=1e-6)
    assert said["rms"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
    token, head, column = np.unravel_index(error.argmax(), error.shape)
    assert said["largest_at"] == [0, 0, token, head, column]
    assert said["collapsed"] == [{"layer": 0, "request": 0, "head": 1, "rate": 2.0**-30}]
