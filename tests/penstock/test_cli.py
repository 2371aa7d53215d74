"""The command line without a simulation: whole messages, exit codes, reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
import penstock.api as api
from penstock.cli import run
from penstock.discovery import engines
from penstock.dsl.core.codes import codes
from penstock.engines.base import Workload
from penstock.failures import failure, hardware_failure, public
from penstock.models.errors import ErrorCode, HardwareCode, HardwareError
from penstock.models.qr.errors import FitError
from penstock.models.strider.errors import PageError
from penstock.options import Request
from penstock.run import golden, model
from penstock.sim.native import BuildError

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)
"""
#: all that hardware may report
HARDWARE = [code for kind in (ErrorCode, PageError, FitError) for code in kind if code]
SMALL = ("--dim", "d=4", "--format", "fixed:8,8", "--threads", "1", "--lanes", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a kernel and some data, good and bad."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("k.py").write_text(KERNEL)
    Path("folder").mkdir()
    Path("table.csv").write_text("y,a,b\n1,2,3\n0,3,4\n1,5,6\n")
    Path("nulls.csv").write_text("y,a,b\n1,2,3\n0,3,4\n,5,6\n")
    Path("empty.csv").write_text("")
    Path("utf16.csv").write_text("y,a\n1,2\n", encoding="utf-16")
    Path("junk.npz").write_bytes(bytes(range(256)))
    Path("junk.heap").write_bytes(bytes(range(256)))
    Path("schema.json").write_text(json.dumps({"columns": [{"name": "y", "type": "float4"}]}))
    return tmp_path


def usage(command: str, message: str) -> str:
    return f"error[E902]: {message}\n --> penstock{command}\nhint: penstock{command} --help lists what it takes\n"


def conflict(command: str, message: str, hint: str = "leave one of them out") -> str:
    return f"error[E902]: {message}\n --> penstock {command}\nhint: {hint}\n"


A_KERNEL = "hint: name a file with a kernel in it, such as linear.py or linear.psk; paths are taken from the current folder\n"
MESSAGES = [
    ("nosuch", usage("", "no such command 'nosuch'")),
    ("model", usage(" model", "missing argument 'KERNEL'")),
    ("compile k.py", usage(" compile", "missing option '--out'")),
    (
        "model k.py --rows many",
        usage(
            " model",
            "invalid value for '--rows': it must be a whole number from 1 to 1,099,511,627,776, not 'many'",
        ),
    ),
    (
        "model k.py --threads 0",
        usage(
            " model",
            "invalid value for '--threads': it must be a whole number from 1 to 256, not '0'",
        ),
    ),
    (
        "model k.py --dim d",
        usage(" model", "invalid value for '--dim': 'd' is not of the form d=54"),
    ),
    (
        "model k.py --on-null maybe",
        usage(" model", "invalid value for '--on-null': 'maybe' is not one of 'error', 'skip'"),
    ),
    (
        "model k.py",
        "error[E904]: model needs a table, or the number of rows\n --> penstock model\nhint: give --data SRC, or --rows N\n",
    ),
    (
        "simulate k.py",
        "error[E904]: simulate needs a table\n --> penstock simulate\n"
        "hint: give --data SRC, for example --data random:rows=1000\n",
    ),
    ("check nofile.py", f"error[E102]: there is no file nofile.py\n --> nofile.py\n{A_KERNEL}"),
    (
        "check folder",
        f"error[E108]: folder is not a kernel: its suffix must be .py or .psk\n --> folder\n{A_KERNEL}",
    ),
    ("check k.psk", "error[E102]: there is no file k.psk\n --> k.psk\nhint: did you mean k.py?\n"),
    (
        "explain E999",
        "error[E901]: there is no diagnostic E999\n --> explain\nhint: docs/diagnostics.md lists them all\n",
    ),
    (
        "model k.py --rows 5",
        "error[E505]: the size of dimension d is not known\n --> k.py:4:7\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |       ^^^^^^^^^^^^^^^^\nhint: give it with --dim d=SIZE\n',
    ),
    (
        "model k.py --rows 5 --dim d=4 --target vup9",
        "error[E602]: there is no target 'vup9'\n --> --target\nhint: did you mean vu9p?\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --format fixed:8.8",
        "error[E603]: 'fixed:8.8' is not a number format\n --> --format\nhint: write float32, bfloat16, float16 or fixed:I,F (as in fixed:8,24)\n",
    ),
    (
        "check k.py --dim d=4 --format flaot32",
        "error[E603]: 'flaot32' is not a number format\n --> --format\nhint: did you mean float32?\n",
    ),
    (
        "check k.py --dim d=4 --format fixed:8,40",
        "error[E603]: 'fixed:8,40': a fixed-point format has 2 to 32 bits, not 48\n --> --format\n"
        "hint: float32, bfloat16, float16 and fixed:8,24 are such formats\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --memory latency=0",
        "error[E604]: memory latency must be an integer from 1 to 1000000, not 0\n --> --memory\n"
        "hint: as in --memory latency=20,bytes=8, which is what small has\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --memory bytes=16",
        "error[E604]: a memory port of small is 8 bytes wide; it cannot carry 16 bytes a cycle\n"
        " --> --memory\nhint: write bytes=8, or choose a target with wider ports: kcu105, u55c, vu9p\n",
    ),
    (
        "check k.py --dim d=4 --format FLOAT32",
        "error[E603]: 'FLOAT32' is not a number format\n --> --format\nhint: did you mean float32?\n",
    ),
    (
        "check k.py --dim d=4 --target VU9P",
        "error[E602]: there is no target 'VU9P'\n --> --target\nhint: did you mean vu9p?\n",
    ),
    (
        "check k.py:",
        "error[E104]: no kernel is named behind the colon of k.py:\n --> k.py\nhint: write k.py:f, or leave the colon out\n",
    ),
    (
        "check k.py/k.py",
        "error[E102]: k.py/k.py cannot be read: Not a directory\n --> k.py/k.py\n"
        "hint: name a file with a kernel in it, such as linear.py or linear.psk\n",
    ),
    (
        "check k.py --data random:rows=0",
        "error[E701]: random: rows must be at least 1 and seed at least 0\n --> random:rows=0\n"
        "hint: as in random:rows=1000,seed=1\n",
    ),
    (
        "check k.py --data random:rows=2000000000000",
        "error[E701]: random: 2000000000000 rows are too many: the most is 1099511627776\n"
        " --> random:rows=2000000000000\nhint: penstock model --rows N needs no table at all\n",
    ),
    (
        "check k.py --data random:rows=1,rows=2",
        "error[E701]: random: rows is given twice\n --> random:rows=1,rows=2\nhint: leave one of them out\n",
    ),
    (
        "check k.py --data random",
        "error[E701]: unknown data source 'random'\n --> random\nhint: is something missing behind random:? Known are: "
        "heap:FILE,SCHEMA.json · postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · FILE.arrow · FILE.feather · random:rows=1000,seed=1\n",
    ),
    (
        "check k.py --data http://x/y.csv",
        "error[E701]: unknown data source 'http://x/y.csv'\n --> http://x/y.csv\n"
        "hint: only postgresql:// is read over the network: fetch the file first\n",
    ),
    (
        "check k.py --data postgresql://[::1/db?table=t",
        "error[E701]: this is no address of a server: Invalid IPv6 URL\n"
        " --> postgresql://[::1/db?table=t\nhint: the form is postgresql://user@host/database?table=NAME, or ?query=SELECT … in place of the table\n",
    ),
    (
        "check k.py --data utf16.csv",
        "error[E703]: utf16.csv is not text\n --> utf16.csv\n"
        "hint: is it a CSV file? If it is, save it as UTF-8, not as UTF-16\n",
    ),
    (
        "compile k.py --dim d=4 --out " + 300 * "x",
        "error[E903]: nothing can be written there: File name too long\n --> output\nhint: choose another name\n",
    ),
    (
        "check k.py --json a\0b",
        "error[E903]: nothing can be written there: embedded null byte\n --> output\nhint: choose another name\n",
    ),
    (
        "check k.py --dim d=4 --ports 2",
        "error[E605]: no plan has any number of threads on 2 memory ports of small for batches of 4\n --> k.py:4:39\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 39
        * " "
        + "^^^^^^^^^^^^^^^^\n"
        "hint: small has 1 memory port: leave --ports out\n",
    ),
    (
        "check k.py --dim d=4 --threads 64",
        "error[E601]: kernel 'f' does not fit on small: the smallest engine found needs 260 DSP, the part has 156\n"
        ' --> k.py:4:39\n  |\n4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 39
        * " "
        + "^^^^^^^^^^^^^^^^\n"
        "hint: leave --threads 64 out, so that the planner finds what fits; models w[4] in float32: a smaller dimension, a narrower format (--format) or a "
        "larger target (--target, --board) would help\n",
    ),
    (
        "check k.py --data table.csv --bind x=a,b --dim d=5",
        "error[E615]: x is [d=5] and takes 5 elements, but its columns have 2: a, b\n --> k.py:4:7\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |       ^^^^^^^^^^^^^^^^\n'
        "note: d was given as 5\n --> k.py:4:5\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |     ^\n'
        "hint: write --dim d=2, or name columns of 5 elements together in --bind x=…; its numeric columns are y, a, b\n",
    ),
    (
        "check k.py --data table.csv --bind y=a,b",
        "error[E614]: y is a scalar and takes 1 element, but its columns have 2: a, b\n --> k.py:4:25\n  |\n"
        '4 | def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):\n  |'
        + 25
        * " "
        + "^^^^^^^^^^^^\n"
        "hint: y is one number: name one column; its numeric columns are y, a, b\n",
    ),
    ("check k.py --dim d=3 --dim d=4", conflict("check", "--dim d is given twice: 3 and 4")),
    (
        "check k.py --set rate=1 --set rate=2",
        conflict("check", "--set rate is given twice: 1 and 2"),
    ),
    (
        "check k.py --init w=1 --init w=start.npy",
        conflict("check", "--init w is given twice: 1.0 and start.npy"),
    ),
    ("check k.py --bind x=a,b --bind x=a", conflict("check", "--bind x is given twice: a,b and a")),
    (
        "check k.py --format float32 --format bfloat16",
        conflict("check", "--format is given twice: float32 and bfloat16"),
    ),
    ("model k.py --rows 5 --rows 6", conflict("model", "--rows is given twice: 5 and 6")),
    (
        "model k.py --rows 5 --data random:rows=9 --dim d=4",
        conflict(
            "model",
            "--rows 5 and --data random:rows=9 both say how many rows there are",
            "leave --data out: --rows assumes a table of the kernel's shapes",
        ),
    ),
    (
        "simulate k.py --seed 4 --data random:rows=9,seed=3 --dim d=4",
        conflict(
            "simulate", "--seed 4 and --data random:rows=9,seed=3 both say which seed there is"
        ),
    ),
    (
        "simulate k.py --seed 4 --data table.csv",
        conflict(
            "simulate",
            "--seed 4 and --data table.csv: nothing is drawn at random",
            "leave --seed out, or give --data random:rows=1000",
        ),
    ),
    (
        "model k.py --seed 4 --rows 9 --dim d=4",
        conflict(
            "model",
            "--seed 4 and no random data: nothing is drawn at random",
            "leave --seed out, or give --data random:rows=1000",
        ),
    ),
    (
        "model k.py --rows 5 --dim d=4 --set rat=1",
        "error[E501]: rat is not a meta of the kernel f\n --> --set\nhint: did you mean rate?\n",
    ),
    (
        "model k.py --rows 5 --dim d=9000",
        "error[E704]: a row of these columns fits no page: a row of 36052 bytes does not fit a page of 32768: "
        "the most is 32736\n --> --data\nhint: a row lies in one page of at most 32 KB\n",
    ),
    (
        "model k.py --data table.xlsx",
        "error[E701]: unknown data source 'table.xlsx'\n --> table.xlsx\nhint: known are: heap:FILE,SCHEMA.json · "
        "postgresql://…?table=NAME · FILE.csv · FILE.npz · FILE.parquet · FILE.arrow · FILE.feather · random:rows=1000,seed=1\n",
    ),
    (
        "model k.py --data no.csv",
        "error[E702]: no such file: no.csv\n --> no.csv\nhint: paths are taken from the current folder\n",
    ),
    (
        "model k.py --data tabel.csv",
        "error[E702]: no such file: tabel.csv\n --> tabel.csv\nhint: did you mean table.csv?\n",
    ),
    (
        "model k.py --data empty.csv",
        "error[E702]: empty.csv is empty\n --> empty.csv\n"
        "hint: was it written to its end? A table needs at least one row\n",
    ),
    (
        "model k.py --data heap:junk.heap,folder",
        "error[E702]: folder is not a file\n --> heap:junk.heap,folder\nhint: name a file in it\n",
    ),
    (
        "model k.py --data junk.npz",
        "error[E703]: junk.npz is not a NumPy archive of plain arrays\n --> junk.npz\n"
        "hint: write it with numpy.savez(file, name=array, …)\n",
    ),
    (
        "model k.py --data heap:junk.heap,schema.json",
        "error[E703]: junk.heap has 256 bytes, which is not a whole number of pages of 8192 bytes\n"
        " --> heap:junk.heap,schema.json\nhint: is page_size in schema.json the server's block_size, and the file complete?\n",
    ),
    (
        "model k.py --data random:rows=many --dim d=4",
        "error[E701]: random: rows must be a whole number, not 'many'\n --> random:rows=many\n"
        "hint: as in random:rows=1000\n",
    ),
    (
        "model k.py --data nulls.csv",
        "error[E814]: TUPLE_NULL: a used column is NULL\n --> nulls.csv, row 3\n"
        "hint: --on-null skip leaves such rows out; or fill the column first\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --json folder",
        "error[E903]: folder is a folder\n --> output\nhint: name a file\n",
    ),
    (
        "model k.py --rows 5 --dim d=4 --json no/x.json",
        "error[E903]: there is no folder no\n --> output\nhint: make it first\n",
    ),
    (
        "compile k.py --dim d=4 --out k.py",
        "error[E903]: k.py is a file\n --> output\nhint: name a folder that does not exist yet\n",
    ),
    (
        "compile k.py --dim d=4 --out .",
        "error[E903]: the folder . holds other files (empty.csv, …)\n --> output\n"
        "hint: name a folder that does not exist yet\n",
    ),
    (
        "simulate k.py --data random:rows=5 --dim d=4 --waves no/w.fst",
        "error[E903]: there is no folder no\n --> output\nhint: make it first\n",
    ),
]


@pytest.mark.parametrize(
    ("line", "message"), MESSAGES, ids=[line[:60].replace("\0", "NUL") for line, _ in MESSAGES]
)
def test_messages(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(line.split()) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", message)
    assert err.count("error[") == 1 and "\nhint: " in err


@pytest.mark.parametrize(
    "line", ["check k.py --format=", "check k.py --target=", "check k.py --memory="]
)
def test_empty_options_are_no_defaults(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*line.split(), "--dim", "d=4"]) == 1
    assert capsys.readouterr().err.startswith("error[E60")


def test_every_diagnostic_that_is_raised_here_has_its_page() -> None:
    raised = (
        {message[6:10] for _, message in MESSAGES}
        | {code.page for code in HARDWARE}
        | {"E801", "E802", "E804"}
    )
    assert raised <= set(codes())
    registered = {kind for engine in engines().values() for kind in engine.errors}
    assert {PageError, FitError} <= registered and len({int(code) for code in HARDWARE}) == len(
        HARDWARE
    )


@pytest.mark.parametrize("code", HARDWARE)
def test_hardware_errors(code: HardwareCode, capsys: pytest.CaptureFixture[str]) -> None:
    found = hardware_failure(HardwareError(code, 3, 7), "houses", server=True)
    assert found.text.startswith(f"error[{code.page}]: {code.name}: ")
    assert "\n --> houses, block 3, line pointer 7\nhint: " in found.text
    assert found.exit_code == (2 if code.value >= 64 else 1)
    assert (found.errors[0]["code"], found.errors[0]["address"]) == (code.name, "(3,7)")
    assert run(["explain", code.name.lower()]) == 0
    assert capsys.readouterr().out.startswith(f"# {code.page}: ")


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (
            MemoryError(),
            1,
            "error[E802]: there is not enough memory for this table\n --> random:rows=5\n",
        ),
        (
            BuildError("simulation needs g++; on Debian or Ubuntu: apt-get install g++"),
            1,
            "error[E801]: simulation needs g++; on Debian or Ubuntu: apt-get install g++\n --> simulation\n",
        ),
        (
            OSError(28, "No space left on device", "cache"),
            1,
            "error[E804]: cache: No space left on device\n --> system\n"
            "hint: make room, or choose folders on another disk: TMPDIR, where builds are made, and PENSTOCK_CACHE, where they are kept\n",
        ),
        (KeyboardInterrupt(), 130, "\ninterrupted\n"),
        (
            ZeroDivisionError("oops"),
            2,
            "internal error: ZeroDivisionError: oops; this is a defect in Penstock: please report it with the command, its input "
            "and `penstock --version` (-vv shows where)\n",
        ),
    ],
)
def test_what_happens_on_the_way(
    problem: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr("penstock.run.model", fail)
    assert run(["model", "k.py", "--data", "random:rows=5", *SMALL, "--json", "r.json"]) == code
    assert capsys.readouterr().err.startswith(text)
    assert "Traceback" not in capsys.readouterr().err
    report = json.loads(Path("r.json").read_text())
    assert report["errors"][0]["code"] == (
        text[6:10] if code == 1 else {2: "INTERNAL", 130: "INTERRUPTED"}[code]
    )
    assert "design" in report and "cycles" not in report


def test_traceback_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.engines.analytics.design.assume", lambda *_: 1 // 0)
    assert run(["model", "k.py", "--rows", "5", *SMALL, "-vv"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_passwords_are_not_shown() -> None:
    assert (
        public("postgresql://me:secret@host/db?table=t&password=secret")
        == "postgresql://me:***@host/db?table=t&password=***"
    )
    assert "secret" not in failure(MemoryError(), "postgresql://me:secret@host/db?table=t").text


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Path("evil.csv").write_bytes(b"a,b\n1,2\n\x1b[2J,3,4\n")
    assert run(["model", "k.py", "--data", "evil.csv"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_model_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                "model",
                "k.py",
                "--data",
                "table.csv",
                "--format",
                "fixed:8,8",
                "--threads",
                "1",
                "--lanes",
                "1",
                "--profile",
            ]
        )
        == 0
    )
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    for text in (
        "│ kernel       │ f (k.py) ",
        "small: 50 MHz, 1 memory port of 8 bytes",
        "│ format       │ fixed:8,8 ",
        "1 thread × 1 lane, 1 port with ",
        "│ table        │ table: 3 rows in 1 page of 8 KB ",
        "│ epochs       │ 2 ",
        "cycles ÷ bound = ",
        " at 50 MHz: ",
        "│   memory     │ ",
        "│   Striders   │ ",
        "│   engine     │ ",
        "│   new model  │ ",
        "estimated ",
        "│    5 │ return w - rate * ps.merge((",
    ):
        assert text in out


@pytest.mark.parametrize(("options", "shown"), [((), True), (("-q",), False)])
def test_quiet(options: tuple[str, ...], shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "k.py", "--rows", "5", *SMALL, *options]) == 0
    out, err = capsys.readouterr()
    assert (bool(out), err) == (shown, "")


def test_json_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "k.py", "--rows", "500", *SMALL, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert "cycles ÷ bound" in err  # the table makes room for the report
    assert set(report) == {
        "command",
        "design",
        "table",
        "cycles",
        "resources",
        "counters",
        "errors",
    }
    assert {key: report["design"][key] for key in ("engine", "kernel", "target", "format")} == {
        "engine": "analytics",
        "kernel": "f",
        "target": "small",
        "format": "fixed:8,8",
    }
    assert len(report["design"]["digest"]) == 64
    assert {"threads", "lanes", "ports", "walkers", "interval"} <= set(report["design"]["config"])
    assert report["table"] == {"name": "random", "rows": 500, "pages": 5, "assumed": True}
    assert set(report["cycles"]) == {"model", "bound", "bound_by"}
    assert (
        set(report["resources"]) == {"lut", "ff", "dsp", "bram", "source"}
        and report["resources"]["source"] == "estimate"
    )
    assert report["errors"] == []


def test_json_of_mistakes() -> None:
    assert run(["model", "k.py", "--rows", "5", "--json", "r.json"]) == 1
    assert json.loads(Path("r.json").read_text()) == {
        "command": "model",
        "errors": [
            {
                "code": "E505",
                "message": "the size of dimension d is not known",
                "address": "k.py:4:7",
                "hint": "give it with --dim d=SIZE",
            }
        ],
    }
    assert run(["model", "k.py", "--data", "nulls.csv", "--json", "r.json"]) == 1
    assert json.loads(Path("r.json").read_text())["errors"] == [
        {
            "code": "TUPLE_NULL",
            "message": "a used column is NULL",
            "address": "(0,3)",
            "block": 0,
            "line": 3,
            "diagnostic": "E814",
        }
    ]


def test_assumed_rows_cost_what_real_ones_do() -> None:
    def cycles(*source: str) -> int:
        assert run(["model", "k.py", *source, *SMALL, "--json", "r.json", "-q"]) == 0
        return json.loads(Path("r.json").read_text())["cycles"]["model"]

    assert [cycles("--rows", str(n)) for n in (1, 140, 1000)] == [
        cycles("--data", f"random:rows={n}") for n in (1, 140, 1000)
    ]


def test_model_at_full_size(capsys: pytest.CaptureFixture[str]) -> None:
    """130,503 rows of 8,000 features: 4 GB of pages that nobody packs."""
    assert (
        run(
            [
                "model",
                "k.py",
                "--rows",
                "130503",
                "--dim",
                "d=8000",
                "--target",
                "vu9p",
                "--epochs",
                "1",
            ]
        )
        == 0
    )
    assert "130,503 rows in 130,503 pages of 32 KB, assumed" in capsys.readouterr().out.replace(
        "│\n│              │ ", ""
    )


def test_seed_goes_into_random_tables() -> None:
    assert Request("k", "random:rows=5", seed=3).source == "random:rows=5,seed=3"
    assert Request("k", "random:", seed=3).source == "random:seed=3"
    assert Request("k", "x.csv", seed=3).source == "x.csv"


def test_init_and_set() -> None:
    np.save("start.npy", np.array([1.0, 2.0]))
    assert (
        run(
            [
                "check",
                "k.py",
                "--data",
                "table.csv",
                "--init",
                "w=start.npy",
                "--set",
                "rate=0.5",
                "-q",
            ]
        )
        == 0
    )
    assert (
        run(["check", "k.py", "--data", "table.csv", "--init", "w=0.5", "--bind", "x=b,a", "-q"])
        == 0
    )
    assert run(["check", "k.py", "--data", "table.csv", "--init", "w=k.py", "-q"]) == 1


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "k.py"]) == 0
    assert capsys.readouterr().out == "k.py: the kernel f is fine\n"
    assert run(["check", "k.py", "--data", "table.csv", "--target", "ulx3s-85f"]) == 0
    assert (
        capsys.readouterr().out
        == """\
╭──────────┬────────┬────────┬──────────────╮
│ variable │ kind   │ shape  │ from         │
├──────────┼────────┼────────┼──────────────┤
│ x        │ input  │ [d=2]  │ columns a, b │
│ y        │ output │ scalar │ column y     │
│ w        │ model  │ [d=2]  │ starts at 0  │
│ rate     │ meta   │ scalar │ 0.1          │
╰──────────┴────────┴────────┴──────────────╯
k.py: the kernel f is fine
"""
    )
    assert run(["check", "k.py:g"]) == 1
    assert run(["check", "k.py", "--dim", "d=4", "--target", "nosuch"]) == 1


@pytest.mark.parametrize("plan", ["", " --target ulx3s-85f"])
def test_check_reads_the_rows(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("n.csv").write_text("a,b,y\n1,2,3\n4,,5\n6,7,8\n")
    assert run(f"check k.py --data n.csv{plan}".split()) == 1
    said = capsys.readouterr()
    assert "error[E814]: TUPLE_NULL" in said.err and "n.csv, row 2" in said.err
    assert "is fine" not in said.out
    assert run(f"check k.py --data n.csv --on-null skip{plan}".split()) == 0
    Path("n.csv").write_text("a,b,y\n1,2,3\n4,nan,5\n")
    assert run(f"check k.py --data n.csv{plan}".split()) == 1
    assert "n.csv, row 2, column b" in capsys.readouterr().err


def test_version_targets_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "penstock",
        "python",
        "amaranth",
        "numpy",
        "verilator",
        "platform",
    ]
    assert run(["targets"]) == 0
    assert {"small", "ulx3s-85f", "vu9p", "u55c"} <= set(
        capsys.readouterr().out.replace("│", " ").split()
    )
    for line in (
        [],
        ["--help"],
        *(
            [command, "-h"]
            for command in ("check", "compile", "model", "simulate", "explain", "targets")
        ),
    ):
        assert run(line) == 0
        out, err = capsys.readouterr()
        assert out.startswith("Usage: penstock") and not err


def test_explain_every_code(capsys: pytest.CaptureFixture[str]) -> None:
    for code in codes():
        assert run(["explain", code]) == 0
        assert capsys.readouterr().out.startswith(f"# {code}: ")


def test_compile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.Design, "verilog", "module penstock; endmodule\n")
    assert run(["compile", "k.py", "--out", "new/design", *SMALL, "--json", "r.json"]) == 0
    assert sorted(path.name for path in Path("new").iterdir()) == ["design"]
    assert sorted(path.name for path in Path("new/design").iterdir()) == [
        "boot.bin",
        "manifest.json",
        "penstock.v",
        "strider.asm",
    ]
    assert "penstock.v" in capsys.readouterr().out
    assert (
        json.loads(Path("r.json").read_text())["design"]["digest"] == api.load("new/design").digest
    )
    assert (
        run(["compile", "k.py", "--out", "new/design", *SMALL, "-q"]) == 0
    )  # an earlier design is replaced
    assert run(["compile", "k.py", "--out", "other", *SMALL, "--target", "none"]) == 1
    assert not Path("other").exists()


def _disagreeing(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let RTL be golden with one thing changed."""
    design = api.compile(
        "k.py", None, None, "fixed:8,8", dims={"d": 4}, choices=ps.Choices(threads=1, lanes=1)
    )

    def hardware(backend: str, workload: Workload, *_: object, **__: object) -> api.Run:
        run, cycles = golden(workload), model(workload, design.memory).cycles
        assert run.codes is not None and cycles is not None
        rtl = replace(
            run, backend=backend, cycles=cycles, seconds=1.0, bytes_read=0, bytes_written=0
        )
        if change == "bit":
            codes = {"w": run.codes["w"] ^ np.array([[0, 0, 1, 0]])}
            return replace(rtl, codes=codes, result=workload.values(codes))
        return replace(rtl, cycles=cycles + 1) if change == "cycle" else rtl

    monkeypatch.setattr(api.Design, "verilog", "")
    monkeypatch.setattr(api.Design, "machine", lambda *_, **__: nullcontext())
    monkeypatch.setattr("penstock.run.hardware", hardware)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("", 0, "yes, bit for bit"),
        ("bit", 3, "w: 1 of 4 values, first [0, 2]: golden "),
        ("cycle", 3, "cycles: model "),
    ],
)
def test_backends_that_disagree(
    change: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _disagreeing(change, monkeypatch)
    assert run(["simulate", "k.py", "--data", "random:rows=20", *SMALL, "--json", "r.json"]) == code
    out, err = capsys.readouterr()
    report = json.loads(Path("r.json").read_text())
    assert report["bit_exact"] is (change != "bit")
    assert [entry["code"] for entry in report["errors"]] == (["DISAGREE"] if code else [])
    assert said in (err if code else out)
    assert err.startswith("error: backends disagree: ") == bool(code)
    assert ("NO, " in out) == bool(code)


# as a program


def program(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", *arguments],
        text=True,
        stderr=subprocess.PIPE,
        **{"stdout": subprocess.PIPE, **options},
    )  # type: ignore[call-overload]


def test_broken_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with program("targets", stdout=writer) as process:
        os.close(writer)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_interrupt(folder: Path) -> None:
    slow = KERNEL.replace(
        "import penstock as ps\n",
        "import penstock as ps\nimport time\nopen('begun', 'w').close()\ntime.sleep(60)\n",
    )
    Path("slow.py").write_text(slow)
    with program("check", "slow.py", "--json", "r.json", cwd=folder) as process:
        while not Path("begun").exists():
            pass
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.read() == "\ninterrupted\n"
    assert process.returncode == 130
    assert json.loads(Path("r.json").read_text())["errors"][0]["code"] == "INTERRUPTED"


def test_kernel_files_stay_light() -> None:
    code = "import sys, penstock as ps; assert not {'penstock.api', 'amaranth', 'click', 'rich', 'pyarrow'} & set(sys.modules); ps.compile; ps.open_table"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numbers_that_the_format_cannot_hold(capsys: pytest.CaptureFixture[str]) -> None:
    warning = "warning[W103]: the meta rate, 0.001, is too small for fixed:8,8 and becomes 0\n --> k.py:4:57\n"
    for command in (["check", "k.py"], ["model", "k.py", "--rows", "5"]):
        assert run([*command, *SMALL, "--set", "rate=0.001"]) == 0
        assert capsys.readouterr().err.startswith(warning)
    assert (
        run(["check", "k.py", "--dim", "d=4", "--set", "rate=0.001"]) == 0
    )  # no format, nothing to say
    assert capsys.readouterr().err == ""


def test_the_same_value_twice_is_no_conflict() -> None:
    assert (
        run(
            [
                "check",
                "k.py",
                "--dim",
                "d=4",
                "--dim",
                "d=4",
                "--format",
                "float32",
                "--format",
                "float32",
                "-q",
                "-q",
            ]
        )
        == 0
    )


def test_rows_of_a_table_that_is_not_read_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "k.py", "--data", "table.csv", "--rows", "1000", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == {
        "name": "table",
        "rows": 1000,
        "pages": 6,
        "assumed": True,
    }
