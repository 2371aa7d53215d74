"""`penstock simulate` on hardware: one small design, good and bad pages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from testbench.command_line import done

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""
SMALL = ("--format", "fixed:8,8", "--threads", "1", "--lanes", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("k.py").write_text(KERNEL)
    return tmp_path


def test_all_agree(capsys: pytest.CaptureFixture[str]) -> None:
    done([*"simulate k.py --data random:rows=250 --dim d=4".split(), *SMALL, "--json", "r.json"])
    out, err = capsys.readouterr()
    assert err == ""
    report = json.loads(Path("r.json").read_text())
    assert set(report) == {
        "schema",
        "command",
        "design",
        "table",
        "cycles",
        "bit_exact",
        "result",
        "memory",
        "simulation",
        "seconds",
        "energy",
        "resources",
        "counters",
        "errors",
    }
    cycles = report["cycles"]
    assert cycles["rtl"] == cycles["model"] >= cycles["bound"] > 0
    assert report["bit_exact"] is True and report["errors"] == []
    assert (
        report["memory"]["bytes_read"] >= 2 * report["table"]["pages"] * 8192
        and report["memory"]["bytes_written"] > 0
    )
    assert report["simulation"]["backend"] == "native" and report["simulation"]["cycles_per_s"] > 0
    for text in (
        "│ golden = RTL │ yes, bit for bit ",
        f"│ model = RTL  │ yes, {cycles['rtl']:,} cycles both ",
        "│ simulated in │ ",
        "│   no tuple   │ ",
        "│ w[4]         │ ",
    ):
        assert text in out
    design = ps.compile(
        "k.py", format="fixed:8,8", dims={"d": 4}, choices=ps.Choices(threads=1, lanes=1)
    )
    golden = design.run("random:rows=250").result
    assert golden is not None
    assert np.array_equal(report["result"]["w"], golden["w"])


def test_a_damaged_page_stops_golden_and_hardware_alike(capsys: pytest.CaptureFixture[str]) -> None:
    design = ps.compile(
        "k.py", format="fixed:8,8", dims={"d": 4}, choices=ps.Choices(threads=1, lanes=1)
    )
    table = ps.open_table("random:rows=250", design.plan.schema, design.labels)
    pages = table.pages.copy()
    pages[1, 24 + 4 * 6 : 24 + 4 * 7] = np.frombuffer(
        (10 << 17 | 1 << 15 | 24).to_bytes(4, "little"), np.uint8
    )
    Path("t.heap").write_bytes(pages.tobytes())
    table.schema.save("t.json")
    done(["simulate", "k.py", "--data", "heap:t.heap,t.json", *SMALL, "--json", "r.json"], 1)
    out, err = capsys.readouterr()
    assert err == (
        "error[E811]: LINE_BOUNDS: a line pointer points outside the page's tuples\n --> random, block 1, line pointer 7\n"
        "hint: the page is damaged, or it is no page of this table: PostgreSQL's pg_amcheck and pg_checksums look closer; "
        "in SQL the row is SELECT * FROM random WHERE ctid = '(1,7)'\n"
    )
    assert "yes, both stop with LINE_BOUNDS" in out
    report = json.loads(Path("r.json").read_text())
    assert [(e["code"], e["address"]) for e in report["errors"]] == [("LINE_BOUNDS", "(1,7)")]
    assert "result" not in report and "model" not in report["cycles"]


def test_a_device_that_runs_what_compile_wrote(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`compile` and `build` write designs of two digests for a board; a device may run either."""
    from penstock.host.device.errors import DeviceError
    from penstock.runs import devices

    words = "--data random:rows=10 --dim d=2 --format fixed:8,8 --target colorlight-i5".split()
    design = ps.compile("k.py", "colorlight-i5", format="fixed:8,8", dims={"d": 2})
    board = design.compiled.on_board(design.target)
    assert board.registers.design != design.registers.design
    met = []

    def refuse(url: str, **given: object) -> None:
        met.append(given["register_map"].design)  # type: ignore
        raise DeviceError("that is enough")

    monkeypatch.setattr(devices, "open_device", refuse)
    for runs in (design.registers.design, board.registers.design, 5):
        monkeypatch.setattr(devices, "running", lambda url, runs=runs, **_: runs)
        done(["simulate", "k.py", *words, "--backend", "board", "--device", "udp:127.0.0.1"], 1)
        assert "that is enough" in capsys.readouterr().err
    assert met == [
        design.registers.design,
        board.registers.design,
        board.registers.design,
    ]
