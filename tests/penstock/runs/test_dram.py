"""DRAM behind every engine: `--memory` by name; cycles of the hardware are those of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.host.workloads import Changes
from penstock.report.words import memory_text
from penstock.runs.outcome import differences
from penstock.targets import target_named, timing_of
from testbench.command_line import told

EXAMPLES = Path(__file__).parents[3] / "examples"

#: at the target's clock, and at ratios under which rows, refreshes and turns of the bus decide
MEMORIES = (
    "sdr-166",
    "ddr4-2400",
    "hbm2",
    "sdr-166,ratio=7/3,transit=5",
    "hbm3,ratio=3/7",
    "ddr4-2400,ratio=5/1",
)
#: of every engine: a kernel, its table and its target; the first has a test of convergence
KERNELS: dict[str, tuple[str, str | None, str]] = {
    "training": ("until.psk", "random:rows=40,seed=2", "small"),
    "keys": ("keys.psk", None, "small"),
    "columns": ("columns.psk", "random:rows=300,seed=2", "kcu105"),
}
UNTIL = """kernel logistic(x: input[6], y: output, w: model[6], rate: meta = 0.1)
  error = sigmoid(sum(w * x)) - y
  step  = merge(error * x, 16)
  w    <- w - rate * step
  until norm(step) < 0.9
  epochs 40
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("until.psk").write_text(UNTIL)
    Path("keys.psk").write_text(
        "fit keys(key: key)\n"
        '  model <- least_squares(window(key, 3), target=slot(key), method="gram", incremental=True)\n'
    )
    Path("columns.psk").write_text(
        "fit columns(x: input[2], y: output)\n  model <- least_squares(x, target=y)\n"
    )


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.long if kind != "training" else ()) for kind in KERNELS],
)
def test_cycles_are_the_models(kind: str) -> None:
    """One build, every memory, bit for bit and cycle for cycle; of training on every run."""
    kernel, source, target = KERNELS[kind]
    design = ps.compile(kernel, target, source)
    data: Any = source or design.refits(12, changes=Changes(1, 3, 10))  # type: ignore[attr-defined]
    golden = design.run(data)
    taken = set()
    for memory in MEMORIES:
        model = design.run(data, backend="model", memory=memory)
        rtl = design.run(data, backend="rtl", memory=memory)
        assert rtl.cycles == model.cycles, memory
        assert model.bound is not None and model.cycles >= model.bound.cycles > 0, memory
        assert golden.codes is not None and rtl.codes is not None
        for name, codes in golden.codes.items():
            assert (codes == rtl.codes[name]).all()
        taken.add(model.cycles)
    assert len(taken) == len(MEMORIES)  # each is another one


@pytest.mark.long
def test_amaranths_simulator() -> None:
    """The same timing where no tool is needed."""
    design = ps.compile("columns.psk", "ulx3s-25f", "random:rows=12,seed=2")
    golden, model, run = (
        design.run("random:rows=12,seed=2", backend=backend, memory="sdr-166,ratio=2/3")
        for backend in ("golden", "model", "pysim")
    )
    assert run.cycles == model.cycles and differences(golden, run) == []


def test_options() -> None:
    """Names and refusals of the option."""
    part = target_named("small")
    assert str(timing_of("hbm2", part)) == "hbm2-2000,ratio=1/20"
    assert str(timing_of("SDR-166", target_named("ulx3s-85f-sdram"))) == "sdr-166,ratio=9/25"
    assert str(timing_of("dram", target_named("ulx3s-85f-sdram"))) == "sdr-60,ratio=1/1,transit=13"
    assert timing_of("dram", target_named("u55c")).latency == 60
    for memory, message in {
        "dram": "small has no DRAM of its own",
        "ddr9": "there is no memory 'ddr9'; known are sdr-60, sdr-60x32, sdr-166",
        "hbm2,speed=4": "cannot read memory option 'speed=4' in 'hbm2,speed=4'",
        "hbm2,ratio=0": "memory ratio must be engine clock over DRAM clock as P/Q, not '0'",
    }.items():
        said = " ".join(
            told(f"model until.psk --rows 9 --memory {memory}", 1).replace("│", " ").split()
        )
        assert all(piece in said for piece in ("E604", *message.split("; ")))
    words = "2 bytes a cycle (3 were asked for, but a word takes whole cycles)"
    assert memory_text(timing_of("latency=9,bytes=3", part), 4) == f"9 cycles latency, {words}"
    assert (
        memory_text(timing_of("latency=9,bytes=2", part), 4) == "9 cycles latency, 2 bytes a cycle"
    )
