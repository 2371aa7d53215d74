"""Fit kernels on the command line and through the API: checks, models, golden refits, whole messages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import penstock as ps
from penstock.boards.catalogue import boards
from penstock.cli.main import run
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.load import load_kernel
from penstock.dsl.qr.plan import Load, cost, lower
from penstock.host.device.errors import DeviceError
from penstock.host.learned_index import LearnedIndex
from penstock.host.workloads import Changes
from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency, block_ram
from penstock.models.qr.cycles import run as run_jobs
from penstock.models.qr.job import Label
from penstock.models.qr.resources import estimate
from penstock.models.qr.shell import FitError
from penstock.models.resources import AIM, FILL
from penstock.models.shell import Status
from penstock.runs.run import Run
from penstock.sim.machine import Hung
from penstock.targets import target_named as target
from testbench.command_line import differs, done, reported, told
from testbench.fit_kernels import SMALL, fill, written
from testbench.learned_index import SMALL as LAYOUT


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    fill(tmp_path)
    return tmp_path


EXAMPLES = Path(__file__).parents[4] / "examples"


def test_examples() -> None:
    slots, text = (
        ps.compile(EXAMPLES / name) for name in ("rank_model.py:slots", "rank_model.psk")
    )
    assert slots.plan == text.plan and slots.plan.n_max == 33 and slots.plan.target is Label.SLOT
    assert ps.compile(EXAMPLES / "rank_model.py:rank_model").plan.target is Label.RANK
    source = f"heap:{EXAMPLES / 'data' / 'diabetes'}.heap,{EXAMPLES / 'data' / 'diabetes'}.json"
    a, b = (
        ps.compile(EXAMPLES / name, "vu9p", source)
        for name in ("closed_form.py", "closed_form.psk")
    )
    assert a.plan.columns == b.plan.columns and a.plan == b.plan and a.plan.columns.n == 11


@pytest.mark.long
def test_hardware_equals_golden_and_model() -> None:
    """From the kernel to the simulated engine: same bits, same cycles, trainings and refits, with and without a pass for the bounds."""
    written(length=5)
    Path("r.psk").write_text(
        "fit f(key: key)\n  model <- least_squares(window(key, 5), target=rank(key), incremental=False)\n"
    )
    written("g.py", options="(method='givens')", length=5)
    Path("s.psk").write_text(
        'fit f(key: key)\n  model <- least_squares(window(key, 5), target=rank(key), incremental=False, method="givens")\n'
    )
    for kernel in ("f.py", "r.psk", "g.py", "s.psk"):
        line = f"simulate {kernel} --target small --data random:rows=200 --groups 4 --refits 3 --new 6 --gone 2 -q --json r.json"
        assert run(line.split()) == 0
        report = json.loads(Path("r.json").read_text())
        assert (
            report["bit_exact"] is True
            and report["cycles"]["rtl"] == report["cycles"]["model"] > report["cycles"]["bound"]
        )
        assert (
            report["memory"]["bytes_read"] > 0
            and report["simulation"]["cycles_per_s"] > 0
            and report["counters"]["jobs_ended"] == 16
        )


@pytest.mark.parametrize(
    "options",
    [
        "target=rank(key), incremental=False",
        pytest.param('target=slot(key), method="givens"', marks=pytest.mark.long),
    ],
)
def test_hardware_in_amaranths_simulator(options: str) -> None:
    Path("r.psk").write_text(
        f"fit f(key: key)\n  model <- least_squares(window(key, 3), {options})\n"
    )
    line = "simulate r.psk --target small --data random:rows=30 --groups 2 --refits 1 --new 3 --gone 1 --backend pysim -q --json r.json"
    assert run(line.split()) == 0
    report = json.loads(Path("r.json").read_text())
    assert (
        report["bit_exact"] is True
        and report["cycles"]["rtl"] == report["cycles"]["model"]
        and report["simulation"]["backend"] == "pysim"
    )


def test_plans_fit_and_are_the_smallest_of_the_fastest() -> None:
    graph = load_kernel(written(length=32)).trace()
    for name in ("vu9p", "kcu105", "u55c"):
        part, load = target(name), Load()
        memory = FixedLatency(part.latency, part.bytes_per_cycle)
        config = lower(graph, part)
        assert estimate(config, part).fits(part) is None and config.bus_bytes == part.bus_bytes
        # no engine with more of everything that still fits is much faster
        for solvers in (1, 2, 3, 4, 6, 8):
            other = replace(config, gram_lanes=561, solvers=solvers, row_units=2)
            assert (
                cost(config, load, memory) <= 1.1 * cost(other, load, memory)
                or estimate(other, part).fits(part) is not None
            )


def test_what_plans_have_room_for() -> None:
    """Jobs while a solver waits; where several Striders walk, all rows of a page."""
    keys = ps.compile(load_kernel(f"{EXAMPLES}/rank_model.py:slots"), "u55c").plan
    assert (keys.contexts, keys.solvers, keys.jobs) == (4, 4, 24)
    columns = ps.compile(load_kernel(EXAMPLES / "closed_form.py"), "u55c", dims={"d": 4}).plan
    assert (columns.walkers, columns.slots) == (3, 107 + 1)


def test_ports_to_memory_on_the_part_are_as_wide_as_refits_want() -> None:
    """The goal of the ECP5-85F: a refit of 500 rows and 9 columns, 50 of them new, is faster than the best CPU core's 3.8 us."""
    part, load = boards()["ulx3s-85f"], Load(rows=500)
    design = ps.compile(load_kernel(written(length=8)), part, load=load)
    config = design.plan
    assert (
        config.bus_bytes > part.bus_bytes
        and design.memory == block_ram(config.bus_bytes)
        and estimate(config, part).fits(part) is None
    )
    assert (
        run_jobs(config, [load.work(config)] * 64, design.memory).total / 64 / part.clock_mhz < 3.8
    )
    assert (
        ps.compile(load_kernel("f.py"), part, memory="latency=4,bytes=8").plan.bus_bytes
        == part.bus_bytes
    )


def test_a_part_is_left_room_to_be_routed() -> None:
    """Of engines that fit, one with room; a part so small that none has any is filled."""
    graph, part = load_kernel(written(length=8)).trace(), boards()["ulx3s-85f"]

    def share(lut: int) -> float:
        try:
            return estimate(lower(graph, replace(part, lut=lut)), part).lut / lut
        except KernelError:
            return 2.0

    shares = [share(lut) for lut in range(52_000, part.lut, 1000)]
    assert share(part.lut) <= AIM and sum(AIM < s <= FILL for s in shares) >= 3
    first = next(k for k, s in enumerate(shares) if s <= AIM)
    assert all(s <= AIM for s in shares[first:]) and all(s > AIM for s in shares[:first])


@pytest.mark.parametrize(
    ("label", "method"),
    [
        ("slot", "gram"),
        ("rank", "gram"),
        ("slot", "givens"),
        pytest.param("rank", "givens", marks=pytest.mark.long),
    ],
)
def test_the_planners_cost_is_about_the_cycles(method: str, label: str) -> None:
    graph = load_kernel(written(options=f"(method={method!r})", length=8, label=label)).trace()
    part, load = target("vu9p"), Load(rows=500)
    config, memory = lower(graph, part, load=load), FixedLatency(part.latency, part.bytes_per_cycle)
    works = [load.work(config)] * 64
    assert works[0].rescanned == (label == "rank")
    exact = run_jobs(config, works, memory).total / 64
    assert 0.8 < cost(config, load, memory) / exact < 1.1
    # rows a cycle in passes, where there are any
    more = replace(config, row_units=8)
    assert run_jobs(more, works, memory).total / 64 > exact / 1.1


def test_too_large_names_the_longest_window(tmp_path: Path) -> None:
    tight = tmp_path / "tight.toml"
    tight.write_text('[target]\nname = "test-tight"\nbase = "kcu105"\nreserve = { lut = 170_000 }')
    said = told(["check", written(length=32), "--target", str(tight)], 1)
    assert said.startswith(
        "error[E601]: kernel 'f' does not fit on test-tight: the smallest engine for windows of 32 bytes needs "
    )
    assert f"LUT, the part has 72,400, of which {FILL:.0%} can be routed\n" in said
    longest = int(
        said.partition("the longest window that fits is window(key, ")[2].partition(")")[0]
    )
    assert 1 < longest < 32
    assert run(["check", written(length=longest), "--target", str(tight), "-q"]) == 0
    assert run(["check", written(length=longest + 1), "--target", str(tight), "-q"]) == 1
    assert "a window of 9 bytes is wider than its memory port of 8 bytes" in told(
        ["check", written(length=9), "--target", "small"], 1
    )
    assert "its memory port is 4 bytes wide, a refit's sums have 8" in told(
        ["check", written(length=8), "--target", "icebreaker"], 1
    )


def test_the_longest_window_whose_run_fits(tmp_path: Path) -> None:
    tight = tmp_path / "tight.toml"
    tight.write_text(
        '[target]\nname = "test-tight"\nbase = "kcu105"\nreserve = { lut = 170_000 }\n'
        'memory = { kind = "DDR4", timing = "ddr4-2400", bytes = 12_000 }'
    )
    rest = ["--target", str(tight), "--rows", "400", "--groups", "1", "--refits", "1"]
    said = told(["model", written(length=32), *rest], 1)
    longest = int(
        said.partition("the longest window that fits is window(key, ")[2].partition(")")[0]
    )
    assert run(["model", written(length=longest), *rest, "-q"]) == 0
    assert "error[E610]" in told(["model", written(length=longest + 1), *rest], 1)


def test_model_and_golden(capsys: pytest.CaptureFixture[str]) -> None:
    for line in (
        "model f.py --rows 400",
        "model f.py --data random:rows=400,seed=1",
        "simulate f.py --data random:rows=400 --backend model",
    ):
        report = reported(f"{line} --groups 4 --refits 2 --new 10 --gone 3")
        assert report["design"]["engine"] == "qr" and report["design"]["config"]["window"] == 8
        assert (
            report["cycles"]["model"] >= report["cycles"]["bound"] > 0
            and report["cycles"]["bound_by"]
        )
        counters = report["counters"]
        assert (counters["groups"], counters["refits"], counters["jobs"]) == (
            4,
            8,
            12,
        ) and counters["rows"] == 400 + 4 * 2 * 7
        assert (
            report["memory"]["bytes_read"] > 0
            and report["resources"]["source"] == "estimate"
            and report["errors"] == []
        )
    assert np.array(report["result"]["weights"]).shape == (4, 9)
    capsys.readouterr()


def test_keys_of_a_table() -> None:
    report = reported(
        "simulate f.py --data keys.csv --backend golden --groups 3 --refits 2 --new 20 -q"
    )
    assert report["table"]["rows"] == 600 - 120 and report["counters"]["rows"] == 600
    assert run("check f.py --data keys.csv -q".split()) == 0


def _hardware(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hardware be the golden model with one thing changed, or fail."""
    differs(change, ps.compile("f.py"), monkeypatch)

    def fails(*_: object, **__: object) -> Run:
        if change == "hung":
            raise Hung("a report")
        return Run("rtl", None, None, 5, {}, (HardwareError(FitError.QR_MEMO, 3),))

    if change in ("hung", "error"):
        monkeypatch.setattr("penstock.runs.run.hardware", fails)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("", 0, "yes, bit for bit"),
        ("weights", 3, "weights: 1 of "),
        ("memos", 3, "memos: 1 of "),
        ("bounds", 3, "bounds: 1 of "),
        ("cycles", 3, "cycles: model "),
        ("error", 3, "QR_MEMO: the memo is of another method"),
        ("hung", 2, "the simulated hardware hung"),
    ],
)
def test_backends_that_disagree(
    change: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _hardware(change, monkeypatch)
    done("simulate f.py --data random:rows=90 --groups 3 --refits 1 --new 5 --json r.json", code)
    out, err = capsys.readouterr()
    assert said in (err if code else out)
    report = json.loads(Path("r.json").read_text())
    if code != 2:
        assert report["bit_exact"] is (change in ("", "cycles"))
    assert bool(report["errors"]) == bool(code)


def test_refit_options_are_for_fits(capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.psk").write_text("kernel k(x: input, w: model)\n  w <- w - x\n")
    for option in ("--groups 3", "--new 5"):
        assert run(f"model k.psk --rows 9 {option}".split()) == 1
        flag = option.split()[0]
        assert capsys.readouterr().err == (
            f"error[E902]: {flag} is not for the engine analytics\n --> penstock model\n"
            f"hint: leave {flag} out: it is for qr\n"
        )
    assert run("simulate k.psk --data random:rows=9 --backend golden".split()) == 0


def test_api_runs_and_explains() -> None:
    design = ps.compile("f.py", "vu9p", memory="latency=10,bytes=16")
    refits = design.refits(300, changes=Changes(groups=3, refits=1, new=5))
    exact, counted = design.run(refits), design.run(refits, "model")
    assert (
        exact.result is not None
        and exact.codes is not None
        and exact.codes["weights"].shape == (6, 9)
        and counted.cycles
    )
    assert (exact.result["low"] <= exact.result["high"]).all()
    slow = design.run(refits, "model", memory="latency=400,bytes=16")
    assert slow.cycles is not None and slow.cycles > counted.cycles
    assert ps.compile("f.py", "vu9p", format="float32") == ps.compile("f.py", "vu9p")
    for wrong in ({"format": "bfloat16"}, {"epochs": 3}, {"metas": {"a": 1}}, {"dims": {"d": 3}}):
        with pytest.raises(ValueError, match=f"the fit kernel f takes no {next(iter(wrong))}"):
            ps.compile("f.py", "vu9p", **wrong)
    assert ps.compile("f.py", "vu9p", "keys.csv") == ps.compile("f.py", "vu9p")
    with pytest.raises(KernelError, match="the column id is not of text"):
        ps.compile("f.py", "vu9p", "keys.csv", bind={"key": ("id",)})
    with pytest.raises(KernelError, match="E604"):
        ps.compile("f.py", "vu9p", memory="bytes=1000")


def test_api_runs_on_the_keys_that_it_is_given() -> None:
    design, changes = ps.compile("f.py", "vu9p"), Changes(groups=2, refits=1, new=5)
    keys = {"id": [1] * 90, "name": [f"k{number * 7919 % 997}" for number in range(90)]}
    given = design.run(design.refits(keys=[key.encode() for key in keys["name"]], changes=changes))
    for table in (keys, ps.open_table(keys)):
        run = design.run(table, changes=changes)
        assert run.codes is not None and given.codes is not None
        assert np.array_equal(run.codes["weights"], given.codes["weights"])
    with pytest.raises(KernelError, match="the column id is not of text"):
        design.run(keys, bind={"key": ["id"]})
    with pytest.raises(ps.SourceError, match=r"no such file: nowhere\.csv"):
        design.run("nowhere.csv")
    with pytest.raises(ps.SourceError, match="a table is not made of an int"):
        design.run(5)


def test_refits_that_make_no_sense() -> None:
    design = ps.compile("f.py", "small")
    assert design.refits(changes=Changes(groups=2)).rows == 2000
    for wrong, said in (
        ({"rows": 0}, "rows must be at least 1, not 0"),
        ({"rows": -5}, "rows must be at least 1, not -5"),
        ({"rows": 9, "keys": [b"a", b"b"]}, "rows is for random keys: leave it or keys out"),
    ):
        with pytest.raises(ValueError, match=f"^{said}$"):
            design.refits(**wrong)
    for name, least in (("groups", 1), ("refits", 0), ("new", 0), ("gone", 0)):
        with pytest.raises(ValueError, match=f"^{name} must be at least {least}, not -1$"):
            Changes(**{name: -1})


def test_seeds_of_random_keys() -> None:
    def weights(options: str) -> object:
        return reported(
            f"simulate f.py --backend golden --groups 2 --refits 0 -q --data {options}"
        )["result"]

    assert (
        weights("random:rows=60 --seed 0")
        == weights("random:rows=60,seed=0")
        != weights("random:rows=60")
    )
    assert (
        reported("model f.py --data random:seed=3 --rows 60 --groups 2 --refits 0 -q")["table"][
            "rows"
        ]
        == 60
    )


@pytest.mark.long  # tests/penstock/engines/qr/test_fit_columns.py opens a device on every run
def test_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock build` of a fit writes a design that a device in simulation refits by, behind its serial pins: bit for bit, in the model's cycles. The tools
    of place and route do nothing here."""
    from penstock.boards import build as building
    from penstock.boards.build import Build
    from penstock.models.resources import Resources

    assert "error[E601]: kernel 'f' does not fit on icebreaker" in told(
        "build f.py --board icebreaker --out o", 1
    )
    Path("small.py").write_text(SMALL)
    bitstream = Build(
        "ulx3s-85f",
        40.0,
        47.0,
        "",
        "",
        1,
        Resources(1, 1, 1, 1),
        ((1, 47.0, 1.0),),
        1.0,
        {},
        {},
        "0",
        {"penstock.bit": b""},
    )
    monkeypatch.setattr(building, "elaborate", lambda *a, **k: None)
    monkeypatch.setattr(building, "build", lambda *a, **k: bitstream)
    assert "4 columns, 1 solver" in told("build small.py --board ulx3s-85f --out out")
    refits = "simulate small.py --target ulx3s-85f --data random:rows=24 --groups 2 --refits 1 --new 4 --gone 1 --backend board"
    report = reported(f"{refits} --device sim:out -q")
    assert report["bit_exact"] is True and report["cycles"]["rtl"] == report["cycles"]["model"] > 0
    assert report["simulation"]["backend"] == "board" and report["counters"]["from_memo"] == 2
    with ps.open("sim:out") as device:
        trainer = ps.load("out").trainer("board", device=device)
        index, golden = (
            LearnedIndex(trainer=each, layout=LAYOUT)
            for each in (trainer, ps.load("out").trainer())
        )
        for each in (index, golden):
            each.update({b"%03d" % n: n for n in range(0, 300, 5)})
            each.retrain(every=True)
            each.update({b"%02d7" % n: n for n in range(0, 30, 3)})
            each.retrain(every=True)
        assert (
            trainer.incremental > 0 and trainer.backend.cycles > 0 and dict(index) == dict(golden)
        )
        assert all(
            np.array_equal(a.model.fit.weights, b.model.fit.weights)
            for a, b in zip(index._groups, golden._groups, strict=True)
        )
    design = ps.load("out")
    little = SimpleNamespace(
        identity=SimpleNamespace(memory_bytes=4096),
        design=design.identity,
        register_map=design.registers,
        read_register=lambda name: Status.IDLE,
    )
    with pytest.raises(DeviceError, match="the device runs design 00000005, not"):
        design.trainer("board", device=SimpleNamespace(design=5, path="elsewhere"))
    with pytest.raises(
        DeviceError, match=r"^the run takes \d+ bytes of memory; the device has 4096$"
    ):
        design.run(design.refits(3000, changes=Changes(groups=2, refits=0)), "board", device=little)
