"""Data of recurrences: what check and simulate say of arrays, and of numbers that a format does not hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.cli.main import run
from penstock.host.sources import SourceError
from penstock.models.pim.errors import PimError
from testbench.command_line import reported, told

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RETNET = str(EXAMPLES / "retnet.psk")
HUGE = 1e39  # beyond float32's exponents, and so beyond MX8's


def arrays(tokens=2, requests=1, heads=2, k=5, v=7):
    rng, lead = np.random.default_rng(1), (tokens, requests, heads)
    return {
        "decay": rng.uniform(0.8, 1, size=lead),
        "key": rng.normal(size=(*lead, k)),
        "value": rng.normal(size=(*lead, v)),
        "query": rng.normal(size=(*lead, k)),
    }


def changed(name, value, index=(1, 0, 1, 2)):
    data = arrays()
    data[name][index] = value
    return data


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(data):
    np.savez("d.npz", **data)
    return ["--data", "d.npz"]


WRONG = {
    "nan": (lambda: changed("key", np.nan), "E842", "key[1, 0, 1, 2] is nan"),
    "infinity": (lambda: changed("key", np.inf), "E842", "key[1, 0, 1, 2] is inf"),
    "range": (lambda: changed("key", -HUGE), "E841", "key[1, 0, 1, 2] is -1e+39, which lies"),
    "decay": (lambda: changed("decay", 1e300, (1, 0, 1)), "E841", "decay[1, 0, 1] is 1e+300"),
    "state": (lambda: arrays() | {"S": np.full((1, 2, 5, 7), HUGE)}, "E841", "S[0, 0, 0, 0] is"),
    "missing": (lambda: {n: a for n, a in arrays().items() if n != "query"}, "E704", "'query'"),
    "unknown": (lambda: arrays() | {"foo": np.zeros(3)}, "E704", "'foo'"),
    "shape": (lambda: arrays() | {"key": np.zeros((2, 1, 2, 9)), "S": np.zeros((1, 2, 5, 7))},
              "E704", "the array 'key' has the shape (2, 1, 2, 9)"),
    "tokens": (lambda: arrays() | {"key": np.zeros((3, 1, 2, 5))}, "E704", "different numbers"),
    "none": (lambda: arrays(tokens=0), "E704", "the arrays have no tokens"),
    "text": (lambda: arrays() | {"decay": np.array([["a"]])}, "E704", "'decay' holds text"),
    "complex": (lambda: arrays() | {"decay": np.ones((2, 1, 2), complex)}, "E704",
                "'decay' holds complex numbers"),
    "objects": (lambda: arrays() | {"decay": np.array([None, 1])}, "E703", "no"),
}  # fmt: skip


@pytest.mark.parametrize("command", [
    ["check"], ["check", "--target", "small"], ["model"], ["simulate", "--backend", "golden"],
])  # fmt: skip
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore::penstock.errors.RunWarning")
def test_every_command_reads_the_data(case, command, capsys):
    data, code, words = WRONG[case]
    assert run([*command, RETNET, *saved(data())]) == 1
    said = capsys.readouterr()
    assert f"error[{code}]: " in said.err and words in said.err and "d.npz" in said.err
    assert "pickle" not in said.err and "is fine" not in said.out


def test_check_settles_the_sizes():
    said = told(["check", RETNET, *saved(arrays(tokens=3, heads=4))])
    assert "S[5, 7]" in said and "4 heads of 1 request" in said and "is fine" in said
    assert "have 3 tokens, not 9" in told(f"check {RETNET} --data d.npz --tokens 9", 1)


def test_files_that_are_none():
    Path("text.npz").write_text("hello")
    said = told(f"check {RETNET} --data text.npz", 1)
    assert "error[E703]: text.npz is not a NumPy archive" in said and "pickle" not in said
    np.save("one.npy", np.zeros(3))
    Path("one.npy").rename("one.npz")
    assert "error[E703]: one.npz is not a NumPy archive of plain arrays" in told(
        f"check {RETNET} --data one.npz", 1
    )
    assert "error[E702]: no such file: none.npz" in told(f"check {RETNET} --data none.npz", 1)


@pytest.mark.parametrize("format", ["mx8", "float16"])
def test_the_range_of_a_format(format):
    """The last number fits, and so does what rounds to it."""
    end = {"mx8": 63 * 2.0**122, "float16": 65504.0}[format]
    most = {"mx8": 63.5 * 2.0**122, "float16": 65520.0}[format]
    design = ps.compile(RETNET, table=arrays(), target="small", format=format)
    for held in (end, np.nextafter(most, 0)):
        assert not design.workload(given(changed("query", held))).course.beyond
    for beyond in (most, 2 * most):
        with pytest.raises(SourceError, match=f"beyond the range of {format}") as caught:
            design.run(changed("query", beyond))
        wider = "; --format mx8 has a wider range" if format == "float16" else ""
        assert caught.value.code == "E841" and (caught.value.hint or "").endswith(
            "counts it" + wider
        )
    clipped, at_end = (
        design.run(changed("query", x), on_overflow="saturate") for x in (7 * most, end)
    )
    assert (clipped.result["y"] == at_end.result["y"]).all()
    assert (clipped.counters["saturated_inputs"], at_end.counters["saturated_inputs"]) == (1, 0)


def given(data):
    from penstock.engines.base import Given

    return Given(data)


def test_saturation_is_a_choice():
    source = saved(changed("key", HUGE))
    for command in (
        ["check"],
        ["simulate", "--backend", "golden"],
        ["simulate", "--backend", "model"],
    ):
        assert "1 number beyond the format, taken as its end" in told(
            [*command, RETNET, *source, "--on-overflow", "saturate", "--json", "r.json"]
        )
    counters = json.loads(Path("r.json").read_text())["counters"]
    assert counters["saturated_inputs"] == 1 and counters["saturated"] == 0
    made = ps.compile(RETNET, table=arrays(), target="small", on_overflow="saturate")
    made.save("made")
    assert ps.load("made").run(changed("key", HUGE)).counters["saturated_inputs"] == 1


def test_what_saturates_inside_is_shown(capsys):
    data = {name: np.full_like(a, 1e30) for name, a in arrays().items() if name != "decay"}
    data["decay"] = np.full((2, 1, 2), 30.0)
    for backend in ("golden", "model"):
        words = ["--backend", backend, "--json", "r.json"]
        assert run(["simulate", RETNET, *saved(data), *words]) == 0
        count = json.loads(Path("r.json").read_text())["counters"]["saturated"]
        assert count > 0
        [line] = [x for x in capsys.readouterr().out.splitlines() if "saturated" in x]
        assert line.split("│")[2].strip() == str(count)


def test_rows_of_random_data_are_tokens():
    dims = ["--dim", "k=4", "--dim", "v=4", "--backend", "golden"]
    for words in (["random:rows=3,seed=2"], ["random:seed=2", "--tokens", "3"]):
        assert reported(["simulate", RETNET, *dims, "--data", *words])["table"]["rows"] == 3
    assert "--tokens 5 and 3 rows of random data are two numbers" in told(
        ["simulate", RETNET, *dims, "--data", "random:rows=3", "--tokens", "5"], 1
    )
    for wrong in ("rows=0", "rows=x", "rows=-1", "rows=²", "rows=1048577", "seed=²", "size=3"):
        assert f"random data of recurrences have no {wrong}" in told(
            ["simulate", RETNET, *dims, "--data", f"random:{wrong}"], 1
        )


def test_partial_sums_of_both_infinities():
    """Two slices of a head leave float16 on opposite sides: their sum is no number."""
    data = {name: np.full((1, 1, 1, 128), 300.0) for name in ("key", "query")}
    data["query"][..., 64:] *= -1
    data |= {"value": np.full((1, 1, 1, 4), 300.0), "decay": np.ones((1, 1, 1))}
    made = ps.compile(RETNET, table=data, target="small", format="float16", heads=1)
    ended = made.run(data)
    assert ended.errors[0].code == PimError.PIM_RANGE
    held = made.run(data, on_overflow="saturate")
    assert not held.result["y"].any() and held.counters["saturated"] > 0
    assert held.counters["saturated_sums"] == 4


def test_numbers_that_the_host_computes():
    kernel = "recurrence f(S: state[k, v], g: input, key: input[k], value: input[v], q: input[k])\n"
    kernel += "  S <- S / (1 + exp(g)) + outer(key * 1e39, value)\n  y <- q @ S\n"
    Path("f.psk").write_text(kernel)
    data = arrays()
    data = {"g": data["decay"], "key": data["key"], "value": data["value"], "q": data["query"]}
    design = ps.compile("f.psk", table=data, target="small")
    with pytest.raises(
        SourceError, match=r"the host computes, reach .* at token 0, request 0, head 0"
    ):
        design.run(data)
    # what never lies in the format may be anything
    held = design.run({**data, "g": data["g"] * 1e30, "key": data["key"] * 1e-30})
    assert not held.errors
    with pytest.raises(SourceError, match="element 4, which a block cannot hold") as caught:
        data["key"][1, 0, 0, 4] = 1e300
        design.run(data)
    assert caught.value.code == "E842"


def test_heads_may_be_left_out():
    data = {name: a[:, 0, 0] for name, a in arrays(heads=1).items()}
    data["key"][1, 2] = HUGE
    with pytest.raises(SourceError, match=r"key\[1, 2\] is 1e\+39"):
        ps.compile(RETNET, table=data, target="small").run(data)
    with pytest.raises(SourceError, match="different lengths"):
        ps.compile(RETNET, table={"key": [[1], [1, 2]]}, target="small").run({"key": [[1], [1, 2]]})
    with pytest.raises(SourceError, match="by name"):
        ps.compile(RETNET, table=[1, 2], target="small")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--format", ""], "E603]: units compute in mx8 or float16, not in ''", "write --format mx8"),
        (["--banks", "3"], "E464]: --banks 3: the number of banks is a power of two", "2 or 4"),
        (["--dram", "sdr-166"], "E464]: units of mx8 are too slow for sdr-166: a result is ready 15",
         "--dram takes ddr4-2400, "),
        (["--memory", "hbm2,ratio=a"], "E604]: memory ratio must be", "as in hbm2-2000,ratio=1/4"),
        (["--memory", "hbm2,transit=-1"], "E604]: memory transit", "as in hbm2-2000,transit=10"),
    ],
)  # fmt: skip
def test_options_that_there_are_not(words, message, hint):
    said = told(["check", RETNET, "--dim", "k=8", "--dim", "v=8", *words], 1)
    assert message in said and hint in said.partition("hint: ")[2]


@pytest.mark.parametrize("name", ["ddr4-2400", "ddr4-3200", "hbm2-2000", "hbm2e-3200", "hbm3-6400"])
def test_presets_that_the_hint_names(name, capsys):
    words = ["check", RETNET, "--dim", "k=8", "--dim", "v=8", "--dram"]
    run([*words, "sdr-60"])
    named = name in capsys.readouterr().err.partition("hint: ")[2]
    assert (run([*words, name]) == 0) == named


def test_help_names_what_there_is():
    said = " ".join(told("check --help").replace("│", " ").split())
    assert "for recurrences mx8 or float16, mx8 by default" in said and "a power of two" in said
