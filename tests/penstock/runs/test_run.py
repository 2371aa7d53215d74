"""Runs of designs on every backend, through the API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.api import assume
from penstock.engines.base import Given
from penstock.host.sources import Table
from penstock.models.errors import HardwareError
from penstock.models.memory import FixedLatency
from penstock.models.strider.errors import PageError
from penstock.runs.outcome import differences
from penstock.runs.run import BACKENDS, MACHINES, Run, carry_out

KERNEL = "kernel f(x: input, w: model)\n  epochs 2\n  w <- w - merge(w - x, 2) / 4\n"


@pytest.fixture
def design(tmp_path: Path) -> ps.Design:
    file = tmp_path / "f.psk"
    file.write_text(KERNEL)
    return ps.compile(
        file, "small", None, "fixed:4,4", choices=ps.Choices(threads=1, lanes=1, walkers=1)
    )


def table() -> Table:
    return Table.from_columns(
        {"x": np.array([1, 2, -1, 3, 0.5], dtype=np.float32)}, "t", page_size=1024
    )


@pytest.fixture
def small(tmp_path: Path) -> ps.Design:
    """A design for pages of 1 KiB, which Amaranth's simulator walks soon."""
    file = tmp_path / "f.psk"
    file.write_text(KERNEL)
    return ps.compile(
        file, "ulx3s-85f", table(), "fixed:4,4", choices=ps.Choices(threads=1, lanes=1, walkers=1)
    )


def test_every_backend_agrees(small: ps.Design) -> None:
    """Golden, RTL, netlist, Amaranth's simulator and a whole device: the same bits and facts; the model's cycles wherever memory has one timing."""
    golden = small.run(table())
    assert golden.codes is not None and golden.epochs == 2
    family = {"netlist": {"family": "ice40"}}  # Yosys takes a fifth of the time that an ECP5 takes
    runs = {backend: small.run(table(), backend, **family.get(backend, {})) for backend in BACKENDS}
    for backend, run in runs.items():
        assert run.backend == backend and run.errors == ()
        if backend in MACHINES:
            assert differences(golden, run) == []
            assert (
                run.result is not None
                and golden.result is not None
                and np.array_equal(run.result["w"], golden.result["w"])
            )
            memory = small.device_timing("block RAM") if backend == "board" else small.memory
            assert run.cycles == small.run(table(), "model", memory=memory).cycles
            assert (run.counters["tuples"], run.counters["epochs"]) == (10, 2)
    assert runs["pysim"].bytes_read == runs["rtl"].bytes_read


def test_a_workload_is_carried_out_again(design: ps.Design) -> None:
    workload = design.workload(Given("random:rows=30", "random:rows=30"))
    fast, slow = (
        carry_out(design, workload, "model", FixedLatency(latency, 8)) for latency in (3, 300)
    )
    assert fast.cycles is not None and slow.cycles is not None and fast.cycles < slow.cycles
    assert carry_out(design, workload, "golden").facts == workload.golden().facts


@pytest.mark.parametrize("options", [{"changes": 3}, {"metas": {"a": 1}}, {"familiy": "ecp5"}])
def test_unknown_options(design: ps.Design, options: dict[str, object]) -> None:
    for backend in BACKENDS:
        with pytest.raises(ValueError, match=f"a run of f takes no {next(iter(options))}\n"):
            design.run(table(), backend, **options)


@pytest.mark.parametrize(
    "backend, option, takers",
    [
        ("pysim", {"family": "ecp5"}, "netlist"),
        ("rtl", {"device": "sim:d"}, "board"),
        ("board", {"waves": "w.fst"}, "rtl, netlist, pysim"),
        ("golden", {"waves": "w.fst"}, "rtl, netlist, pysim"),
        ("pysim", {"seed": 2}, "rtl, netlist"),
    ],
)
def test_options_of_other_backends(
    design: ps.Design, backend: str, option: dict[str, object], takers: str
) -> None:
    said = f"a run on {backend} takes no {next(iter(option))}: it is for {takers}\n"
    with pytest.raises(ValueError, match=said):
        design.run(table(), backend, **option)


@pytest.mark.parametrize(
    "backend, options, said",
    [
        ("pysim", {"family": "ecp5"}, "a run on pysim takes no family: it is for netlist"),
        ("rtl", {"bogus": 1}, "a run on rtl takes no bogus"),
        ("golden", {"bogus": 1}, "a run on golden takes no bogus"),
        (
            "fpga",
            {},
            "backend must be one of golden, model, rtl, netlist, pysim, board, not 'fpga'",
        ),
    ],
)
def test_what_is_carried_out_takes_its_own_options(
    design: ps.Design, backend: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=rf"^error\[E609\]: {said}\n"):
        carry_out(
            design, design.workload(Given("random:rows=9", "random:rows=9")), backend, **options
        )
    if backend != "golden":
        with pytest.raises(ValueError, match=said.replace("golden, model, ", "")):
            design.machine(backend, 4096, **options)


def test_amaranths_simulator_writes_vcd_alone(small: ps.Design, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"writes waves as VCD, not into .*w\.fst\n"):
        small.run(table(), "pysim", waves=str(tmp_path / "w.fst"))
    assert not (tmp_path / "w.fst").exists()


def test_unknown_backends(design: ps.Design) -> None:
    for wrong in ("fpga", "", "RTL"):
        with pytest.raises(
            ValueError,
            match=f"backend must be one of golden, model, rtl, netlist, pysim, board, not {wrong!r}\n",
        ):
            design.run(table(), wrong)


def test_assumed_rows(design: ps.Design) -> None:
    """As many cycles as real ones; no results."""
    rows = assume(design.plan.schema, 400)
    assert design.run(rows, "model").cycles == design.run("random:rows=400", "model").cycles
    assert design.run(rows, "model", epochs=5).epochs == 5
    with pytest.raises(ValueError, match="assumed rows have no values"):
        design.run(rows)


def test_a_run_in_one_line(design: ps.Design) -> None:
    run = Run("rtl", {"w": np.zeros(3), "b": np.zeros(())}, {}, 12345, {})
    assert repr(run) == "<Run on rtl: done, 12,345 cycles, result w, b>"
    assert repr(
        Run("golden", None, None, None, {}, (HardwareError(PageError.PAGE_BOUNDS, 3),))
    ).startswith("<Run on golden: PAGE_BOUNDS")
    for backend in ("golden", "model"):
        text = repr(design.run("random:rows=2000", backend))
        assert text.startswith(f"<Run on {backend}: done") and "\n" not in text and len(text) < 100


def test_a_result_that_is_missing_is_a_difference(small: ps.Design) -> None:
    whole = small.run(table())
    assert differences(whole, whole) == []
    none = replace(whole, codes=None)
    assert differences(whole, none) == ["w: golden (1, 1), RTL None"]
    assert differences(none, whole) == ["w: golden None, RTL (1, 1)"]
    facts = replace(none, facts={"epochs": 9})
    assert differences(none, facts) == ["epochs: golden 2, RTL 9"]


def test_equal_designs(design: ps.Design, tmp_path: Path) -> None:
    again, other = (
        ps.compile(
            tmp_path / "f.psk",
            "small",
            None,
            "fixed:4,4",
            init=start,
            choices=ps.Choices(threads=1, lanes=1, walkers=1),
        )
        for start in (None, {"w": 2.0})
    )
    assert design == again and hash(design) == hash(again) and design != other and design != 3


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (
            "library",
            {"bus": 8},
            "error[E609]: a library takes no bus\n --> bus\nhint: it takes optimise, random, trace",
        ),
        (
            "library",
            {"traces": "fst"},
            "error[E609]: a library takes no traces\n --> traces\nhint: did you mean trace?",
        ),
        (
            "netlist_library",
            {"optimize": "-O1"},
            "error[E609]: a netlist's library takes no optimize\n --> optimize\nhint: did you mean optimise?",
        ),
        (
            "library",
            {"trace": "vdc"},
            "error[E609]: trace must be one of fst, vcd, not 'vdc'\n --> trace\nhint: did you mean vcd?",
        ),
        (
            "netlist_library",
            {"optimise": "fast"},
            "error[E609]: optimise must be one of -O0, -O1, -O2, -O3, not 'fast'\n --> optimise\nhint: choose one of them",
        ),
    ],
)
def test_options_of_libraries(
    design: ps.Design, made: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ps.KernelError) as caught:
        getattr(design, made)(**options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("cycles", "lines", "expected"),
    [(1000, 12_000, "-O0"), (10**6, 12_000, "-O1"), (10**6, 1000, "-O0"), (None, 1000, "-O1")],
)
def test_simulate_compiles_for_the_cycles_that_the_model_expects(
    monkeypatch: pytest.MonkeyPatch, cycles: int | None, lines: int, expected: str
) -> None:
    from contextlib import nullcontext
    from types import SimpleNamespace

    from penstock.commands import simulate

    monkeypatch.delenv("PENSTOCK_OPTIMISE")
    monkeypatch.setattr("penstock.runs.run.hardware", lambda *_, **__: None)
    asked: list[object] = []

    def machine(backend: str, needed: int, **options: object) -> object:
        asked.append((backend, options["optimise"]))
        return nullcontext()

    model = None if cycles is None else SimpleNamespace(cycles=cycles)
    record = SimpleNamespace(
        workload=SimpleNamespace(memory_bytes=lambda: 8, vault=None, set_up=0), model=model
    )
    steps = SimpleNamespace(step=lambda *_: nullcontext())
    how = SimpleNamespace(backend="rtl", waves=None, device=None)
    simulate.run_hardware(
        SimpleNamespace(record=record, steps=steps),  # type: ignore[arg-type]
        SimpleNamespace(verilog="\n" * lines, machine=machine),  # type: ignore[arg-type]
        how,  # type: ignore[arg-type]
    )
    assert asked == [("rtl", expected)]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"epochs": "x"}, "E609", "epochs: it must be a whole number from 1 to"),
        ({"seed": -1}, "E609", "seed: it must be a whole number from 0, not -1"),
        ({"stall_percent": 100}, "E609", "stall_percent: it must be a whole number from 0 to 99"),
        ({"limit": "x"}, "E609", "limit: it must be a whole number from 0, not 'x'"),
        ({"watchdog": 2**32}, "E609", "watchdog: it must be a whole number from 0 to 4,294,967,295"),
        ({"memory": 3}, "E609", "memory: it must be the name of a memory, or a Memory, not 3"),
    ],
)  # fmt: skip
def test_values_that_options_of_a_run_do_not_have(
    design: ps.Design, options: dict[str, Any], code: str, said: str
) -> None:
    """Before anything is compiled, whatever the backend."""
    with pytest.raises(ps.KernelError) as caught:
        design.run("random:rows=9,seed=1", "rtl", **options)
    assert caught.value.diagnostic.code == code
    assert caught.value.diagnostic.message.startswith(said)
