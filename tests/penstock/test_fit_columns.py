"""Fits over the columns of a table, on the command line and through the API."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.cli import run
from penstock.fit_columns import ColumnsDesign
from penstock.host.workloads import Changes

DIABETES = Path(__file__).parents[2] / "examples" / "data" / "diabetes"
SOURCE = f"heap:{DIABETES}.heap,{DIABETES}.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("f.psk").write_text("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n")
    Path("t.csv").write_text("y,a,b\n" + "".join(f"{n % 7 - 2 * (n % 5) + 0.5},{n % 7},{n % 5}\n" for n in range(200)))
    Path("n.csv").write_text("y,a,b\n1,2,3\n0,,4\n1,5,6\n2,3,3\n")


def test_closed_form_of_a_real_table() -> None:
    design = ps.compile("f.psk", "vu9p", SOURCE, "fixed:5,12")
    assert isinstance(design, ColumnsDesign) and design.config.n == 11 and design.config.row_cycles == 1
    table = ps.open_table(SOURCE)
    whole = design.run(table, changes=Changes(1, 0)).result
    values = table.columns()
    a, b = np.column_stack([np.ones(442), values["x"]]), np.asarray(values["y"], dtype=float)
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    assert whole is not None
    found = np.concatenate([whole["bias"], whole["weights"]])
    assert np.abs(a @ found - a @ best).max() < 1e-3
    # rows that came later, one by one or at once, give nearly the same (the offsets are those of the first rows)
    later = design.run(table, changes=Changes(1, 10, 20)).result
    assert later is not None and np.abs(a[:, 1:] @ (later["weights"] - whole["weights"])).max() < 1e-3


def test_commands() -> None:
    assert run("simulate f.psk --data t.csv --backend model --refits 5 --new 10 --gone 4 --json r.json -q".split()) == 0
    report = json.loads(Path("r.json").read_text())
    assert report["design"]["engine"] == "qr" and report["design"]["format"] == "fixed:8,8" and report["design"]["config"]["n"] == 3
    assert report["result"]["weights"] == pytest.approx([1, -2]) and report["result"]["bias"] == pytest.approx([0.5])
    assert report["cycles"]["model"] >= report["cycles"]["bound"] > 0 and report["counters"]["rows"] == 200 - 20
    assert run(["check", "f.psk", "--data", "t.csv", "-q"]) == 0 and run(["check", "f.psk", "-q"]) == 0
    assert run("model f.psk --data random:rows=300,regression --dim d=4 -q".split()) == 0


def test_every_fit_anew_takes_longer() -> None:
    Path("g.psk").write_text("fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y, incremental=False)\n")
    again, anew = (ps.compile(name, "vu9p", SOURCE) for name in ("f.psk", "g.psk"))
    table, changes = ps.open_table(SOURCE), Changes(1, 10, 5, 5)
    a, b = again.run(table, "model", changes=changes), anew.run(table, "model", changes=changes)
    assert a.bytes_read < b.bytes_read and a.cycles <= b.cycles


MESSAGES = [
    ("simulate f.psk --data t.csv", "error[E606]: there is no hardware for a fit over columns yet\n --> f.psk:1:5\n  |\n1 | fit f(x: input[d], y: output)\n"
     "  |     ^\nhint: --backend golden runs it, --backend model predicts its cycles as well\n"),
    ("compile f.psk --out o", "error[E606]: there is no hardware for a fit over columns yet\n --> f.psk:1:5\n  |\n1 | fit f(x: input[d], y: output)\n"
     "  |     ^\nhint: penstock model predicts its cycles, penstock simulate --backend golden runs it\n"),
    ("model f.psk --rows 7", "error[E904]: a fit over columns needs its table\n --> penstock model\n"
     "hint: give --data SRC, for example --data random:rows=8000\n"),
    ("model f.psk --data t.csv --groups 3", "error[E902]: --groups is for fits of keys\n --> penstock model\n"
     "hint: leave --groups out: a table is one group of rows\n"),
    ("model f.psk --data t.csv --new 90", "error[E701]: 200 rows are too few for 4 refits with 90 new ones each\n --> t.csv\n"
     "hint: more rows, or fewer --refits or --new\n"),
    ("model f.psk --data t.csv --format fixed:9,9", "error[E603]: values are fixed point of at most 17 bits, not fixed:9,9\n --> --format\n"
     "hint: as in --format fixed:8,8, which is what there is without\n"),
    ("model f.psk --data random:rows=400", "error[E505]: the size of dimension d is not known\n --> f.psk:1:7\n  |\n1 | fit f(x: input[d], y: output)\n"
     "  |       ^^^^^^^^^^^\nhint: give it with --dim d=SIZE\n"),
    ("model f.psk --data n.csv --refits 0", "error[E814]: a used column is NULL in row 2\n --> n\nhint: --on-null skip leaves such rows out\n"),
    ("model f.psk --data t.csv --set a=3", "error[E902]: --set is not for fit kernels\n --> penstock model\n"
     "hint: leave --set out: a fit has a window, a target and a method, all in the kernel\n"),
]


@pytest.mark.parametrize(("line", "message"), MESSAGES, ids=[line for line, _ in MESSAGES])
def test_messages(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 1
    assert capsys.readouterr().err == message


def test_nulls_can_be_left_out() -> None:
    assert run("model f.psk --data n.csv --refits 0 --on-null skip -q".split()) == 0
