"""What a run says of its numbers: errors beside float64, heads that collapse, sums that leave float32; and its random bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.dsl.core.operations import ELEMENTWISE, apply
from penstock.engines.pim.spans import _error
from penstock.errors import RunWarning
from penstock.models.pim.errors import PimError
from testbench.command_line import reported, told

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RETNET = str(EXAMPLES / "retnet.psk")


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_how_errors_go_through_operations(name: str) -> None:
    """What operands within their errors give lies within the result's error."""
    random = np.random.default_rng(1)
    run = lambda op, *arrays: apply(op, arrays, {})
    values = [random.uniform(0.2, 3, 200) for _ in ELEMENTWISE[name].operands]
    errors = [random.uniform(0, 0.1, 200) for _ in values]
    value = run(name, *values)
    error = _error(name, values, errors, value, run)
    for _ in range(20):
        moved = [v + e * random.uniform(-1, 1, 200) for v, e in zip(values, errors, strict=True)]
        assert (np.abs(run(name, *moved) - value) <= error + 1e-12).all()
    assert (error < 10).all()


def test_an_operation_of_which_no_error_is_known() -> None:
    with pytest.raises(LookupError, match="goes through larger is not known"):
        _error("larger", [np.ones(1)] * 2, [np.zeros(1)] * 2, np.ones(1), None)


def arrays(tokens=5, heads=4, k=40, v=33, decays=None):
    rng, lead = np.random.default_rng(1), (tokens, 1, heads)
    decay = 1 - 2.0 ** -(5 + np.arange(heads)) if decays is None else np.asarray(decays)
    return {
        "decay": np.broadcast_to(decay, lead),
        "key": rng.normal(size=(*lead, k)),
        "value": rng.normal(size=(*lead, v)),
        "query": rng.normal(size=(*lead, k)),
    }


def in_float64(data):
    """RetNet as its authors write it."""
    state, out = np.zeros((4, 40, 33)), []
    for token in range(len(data["key"])):
        d, k, v, q = (data[n][token, 0] for n in ("decay", "key", "value", "query"))
        state = d[:, None, None] * state + k[:, :, None] * v[:, None, :]
        out.append(np.einsum("hk,hkv->hv", q, state))
    return np.array(out)[:, None], state


@pytest.mark.parametrize("format", ["mx8", "float16"])
def test_errors_are_those_beside_float64(format):
    data = arrays()
    run = ps.compile(RETNET, table=data, target="small", format=format).run(data)
    exact, _ = in_float64(data)
    error, own = np.abs(run.result["y"] - exact), run.details["float64"]
    assert (own["heads"], own["of"]) == (4, 4) and own["within_bound"]
    assert own["largest"] == pytest.approx(error.max(), rel=1e-6)
    assert tuple(own["largest_at"]) == np.unravel_index(error.argmax(), error.shape)
    assert own["rms"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-6)
    assert own["rms_of_output"] == pytest.approx(own["rms"] / np.sqrt((exact**2).mean()), rel=1e-6)
    assert own["largest"] <= own["largest_bound"] <= own["bound"]
    assert run.details["collapsed"] == []


def test_errors_are_those_of_what_the_host_makes_of_results(tmp_path):
    """Not those of the unit's sum."""
    text, data = Path(RETNET).with_suffix(".psk").read_text(), arrays()
    assert text.count("query @ S") == 1
    (tmp_path / "k.psk").write_text(
        text.replace("query @ S", "exp(decay) * (query @ S) - 1000 * value")
    )
    run = ps.compile(tmp_path / "k.psk", table=data, target="small").run(data)
    wide = np.exp(data["decay"])[..., None]
    exact = wide * in_float64(data)[0] - 1000 * data["value"]
    error, own = np.abs(run.result["y"] - exact), run.details["float64"]
    assert own["largest"] == pytest.approx(error.max(), rel=1e-6) and own["within_bound"]
    assert own["rms_of_output"] == pytest.approx(
        np.sqrt((error**2).mean() / (exact**2).mean()), rel=1e-6
    )


def test_a_sample_of_heads_is_stated(monkeypatch):
    data = arrays()
    monkeypatch.setattr("penstock.engines.pim.accuracy.MOST", 2 * 40 * 33 * 5 + 1)
    own = ps.compile(RETNET, table=data, target="small").run(data).details["float64"]
    assert (own["heads"], own["of"]) == (2, 4)


def test_every_report_has_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", **arrays(decays=[0.9, 1 - 2.0**-30, 1, 1 - 2.0**-14]))
    command = ["simulate", RETNET, "--data", "d.npz", "--backend", "golden"]
    said = told(command)
    assert "RMS error" in said and "of the output's (all heads)" in said
    assert "largest error" in said and "bound " in said and "yes, every output" in said
    assert "over ten times the output's own size" not in said
    assert "request 0 head 1 (9.31e-10)" in said and "head 3" not in said.split("collapsed")[1]
    details = reported(command)["details"]
    assert details["collapsed"] == [{"request": 0, "head": 1, "rate": 2.0**-30}]
    assert details["float64"]["within_bound"] and details["float64"]["heads"] == 4
    data = dict(np.load("d.npz"))
    run = ps.compile(RETNET, table=data, target="small").run(data)
    assert [n["head"] for n in run.details["collapsed"]] == [1]
    assert "collapsed" in run._repr_html_()


def steps(design, data, seed, **options):
    """One run for each token, each from the state that the one before gave."""
    state, out = None, []
    for token in range(len(data["key"])):
        own = {n: x[token : token + 1] for n, x in data.items()}
        own |= {} if state is None else {"S": state}
        run = design.run(own, seed=seed, first=token, **options)
        state = run.result["S"]
        out.append(run.result["y"])
    return np.concatenate(out), state


def test_a_bound_that_says_little(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", **arrays(tokens=400, heads=1, k=4, v=4, decays=[1 - 2.0**-12]))
    said = told(["simulate", RETNET, "--data", "d.npz", "--backend", "golden"])
    assert "over ten times the output's own size" in " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize("format", ["mx8", pytest.param("float16", marks=pytest.mark.long)])
def test_one_run_is_as_many_steps(format):
    """Bit for bit, for any seed and whoever the neighbours are."""
    data = arrays(tokens=60, heads=2, k=40, v=5, decays=[0.97, 1 - 2.0**-9])
    design = ps.compile(RETNET, table=data, target="small", format=format)
    whole = design.run(data, seed=7).result
    y, state = steps(design, data, 7)
    assert (y == whole["y"]).all() and (state == whole["S"]).all()
    other = design.run(data, seed=8).result["y"]
    assert (other == whole["y"]).all() == (format == "float16")


def test_random_bits_are_a_requests_own():
    """Other banks, and a further request, change no bit."""
    data = arrays(heads=3)
    alone = ps.compile(RETNET, table=data, target="u55c", banks=4).run(data).result
    more = {n: np.concatenate([x, x[::-1]], axis=1) for n, x in data.items()}
    beside = ps.compile(RETNET, table=more, target="u55c", banks=16).run(more).result
    assert (beside["y"][:, :1] == alone["y"]).all() and (beside["S"][:1] == alone["S"]).all()


def test_a_state_without_the_number_of_its_token_is_warned_of():
    data = arrays()
    design = ps.compile(RETNET, table=data, target="small")
    with pytest.warns(RunWarning, match="without the number of its first token"):
        design.run(data | {"S": np.zeros((1, 4, 40, 33))})


@pytest.mark.parametrize("backend", ["golden", pytest.param("rtl", marks=pytest.mark.long)])
def test_sums_beyond_float32(backend):
    """Parts that the units hold, but not their sum: an error with its place, or the end of the range, counted."""
    data = arrays(tokens=2, heads=2, k=70, v=3)
    for name in ("key", "value"):
        data[name][1, 0, 1] = 1e19
    data["query"][1, 0, 1] = 3.0
    design = ps.compile(RETNET, table=data, target="small", rounding="nearest")
    run = design.run(data, backend)
    assert run.errors[0].code == PimError.PIM_RANGE
    assert (run.errors[0].block, run.errors[0].line) == (1, 1)
    held = design.run(data, backend, on_overflow="saturate")
    assert held.counters["saturated_sums"] == 3
    assert (held.result["y"][1, 0, 1] == np.finfo(np.float32).max).all()


def test_a_slow_schedule_is_warned_of():
    said = told(
        f"check {RETNET} --schedule halves --banks 16 --target u55c --dram ddr4-2400 --heads 32"
    )
    assert "warning[W465]: 2 staggered sets of bank groups take " in said
    assert "all banks together, as published, " in said
    assert "W465" not in told(f"check {RETNET} --schedule halves --banks 16 --target u55c")
    own = "--dram on-chip --target u55c --heads 4 --dim k=256 --dim v=256 --schedule quarters"
    said = told(f"check {RETNET} {own}")
    assert "warning[W465]: 4 staggered sets of bank groups take " in said
    own = "--dram on-chip --target u55c --heads 2 --dim k=32 --dim v=32 --schedule quarters"
    said = told(f"check {EXAMPLES / 'deltanet.py'} {own}")
    assert "warning[W465]: 4 staggered sets of bank groups take " in said
