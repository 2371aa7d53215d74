"""The command line without a simulation: whole messages, exit codes, reports."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
import penstock.api as api
from penstock.cli.main import main, run
from penstock.dsl.core.codes import codes
from penstock.engines.options import Request
from penstock.runs.failures import failure, public
from penstock.sim.native import BuildError
from testbench.command_line import KERNEL, differs, done, fill, reported, told


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fill(tmp_path)
    return tmp_path


SMALL = ("--dim", "d=4", "--format", "fixed:8,8", "--threads", "1", "--lanes", "1")
PASSES = """\
╭──────┬────────┬───────────────╮
│ axis │ passes │ forced by     │
├──────┼────────┼───────────────┤
│ d    │      2 │ ps.sum(w * x) │
╰──────┴────────┴───────────────╯
"""


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

    monkeypatch.setattr("penstock.runs.run.model", fail)
    assert told(
        ["model", "k.py", "--data", "random:rows=5", *SMALL, "--json", "r.json"], code
    ).startswith(text)
    assert "Traceback" not in capsys.readouterr().err
    report = json.loads(Path("r.json").read_text())
    assert report["errors"][0]["code"] == (
        text[6:10] if code == 1 else {2: "INTERNAL", 130: "INTERRUPTED"}[code]
    )
    assert "design" in report and "cycles" not in report


def test_traceback_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engines.analytics.design.assume", lambda *_: 1 // 0)
    assert "Traceback" in told(["model", "k.py", "--rows", "5", *SMALL, "-vv"], 2)


def test_passwords_are_not_shown() -> None:
    assert (
        public("postgresql://me:secret@host/db?table=t&password=secret")
        == "postgresql://me:***@host/db?table=t&password=***"
    )
    assert "secret" not in failure(MemoryError(), "postgresql://me:secret@host/db?table=t").text
    for password in ("se@cret", "se/cret", "se?cret"):  # not written as an address has them
        shown = public(f"postgresql://me:{password}@host/db?table=t")
        assert shown == "postgresql://me:***@host/db?table=t"


def test_control_characters_do_not_reach_the_terminal() -> None:
    Path("evil.csv").write_bytes(b"a,b\n1,2\n\x1b[2J,3,4\n")
    assert "\x1b" not in told("model k.py --data evil.csv", 1)


def test_what_a_terminal_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONIOENCODING=ascii ended in a UnicodeEncodeError, called a defect."""
    printed, said = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setattr(sys, "stderr", said)
    monkeypatch.setattr(sys, "argv", ["penstock", "check", "3\u00d73.psk"])
    with pytest.raises(SystemExit) as ended:
        main()
    said.seek(0)
    assert ended.value.code == 1
    assert said.read().startswith("error[E102]: there is no file 3\\xd73.psk\n")


def test_model_table(capsys: pytest.CaptureFixture[str]) -> None:
    done("model k.py --data table.csv --format fixed:8,8 --threads 1 --lanes 1 --profile")
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    for text in (
        "│ kernel       │ f (k.py) ",
        "small: 50 MHz (assumed), 1 memory port of 8 bytes",
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
        "schema",
        "command",
        "design",
        "table",
        "cycles",
        "seconds",
        "energy",
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
    assert set(report["cycles"]) == {"model", "bound", "bound_by", "bound_machine"}
    assert (
        set(report["resources"]) == {"lut", "ff", "dsp", "bram", "uram", "shares", "source"}
        and report["resources"]["source"] == "estimate"
    )
    assert report["errors"] == []


def test_json_of_mistakes() -> None:
    assert reported("model k.py --rows 5", 1) == {
        "schema": 1,
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
    assert reported("model k.py --data nulls.csv", 1)["errors"] == [
        {
            "code": "TUPLE_NULL",
            "message": "a used column is NULL",
            "address": "(0,3)",
            "block": 0,
            "line": 3,
            "column": "y",
            "diagnostic": "E814",
        }
    ]


def test_assumed_rows_cost_what_real_ones_do() -> None:
    def cycles(*source: str) -> int:
        return reported(["model", "k.py", *source, *SMALL, "-q"])["cycles"]["model"]

    assert [cycles("--rows", str(n)) for n in (1, 140, 1000)] == [
        cycles("--data", f"random:rows={n}") for n in (1, 140, 1000)
    ]


def test_model_at_full_size() -> None:
    """130,503 rows of 8,000 features: 4 GB of pages that nobody packs."""
    assert "130,503 rows in 130,503 pages of 32 KB, assumed" in told(
        "model k.py --rows 130503 --dim d=8000 --target vu9p --epochs 1"
    ).replace("│\n│              │ ", "")


def test_seed_goes_into_random_tables() -> None:
    assert Request("k", "random:rows=5", seed=3).source == "random:rows=5,seed=3"
    assert Request("k", "random:", seed=3).source == "random:seed=3"
    assert Request("k", "x.csv", seed=3).source == "x.csv"


def test_init_and_set() -> None:
    np.save("start.npy", np.array([1.0, 2.0]))
    assert run([*"check k.py --data table.csv --init w=start.npy --set rate=0.5 -q".split()]) == 0
    done("check k.py --data table.csv --init w=0.5 --bind x=b,a -q")
    assert run(["check", "k.py", "--data", "table.csv", "--init", "w=k.py", "-q"]) == 1


def test_check() -> None:
    assert told("check k.py") == PASSES + "k.py: the kernel f is fine\n"
    assert (
        told("check k.py --data table.csv --target ulx3s-85f")
        == """\
╭──────────┬────────┬────────┬──────────────╮
│ variable │ kind   │ shape  │ from         │
├──────────┼────────┼────────┼──────────────┤
│ x        │ input  │ [d=2]  │ columns a, b │
│ y        │ output │ scalar │ column y     │
│ w        │ model  │ [d=2]  │ starts at 0  │
│ rate     │ meta   │ scalar │ 0.1          │
╰──────────┴────────┴────────┴──────────────╯
"""
        + PASSES
        + "k.py: the kernel f is fine\n"
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
    assert "n.csv, row 2, column b" in told(f"check k.py --data n.csv{plan}", 1)


def test_version_targets_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in told("--version").splitlines()] == [
        "penstock",
        "python",
        "amaranth",
        "numpy",
        "verilator",
        "platform",
    ]
    assert {"small", "ulx3s-85f", "vu9p", "u55c"} <= set(told("targets").replace("│", " ").split())
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
        assert out.lstrip().startswith("Usage: penstock") and not err


@pytest.mark.parametrize("columns", [60, 80])
def test_a_table_wider_than_the_terminal_loses_nothing(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = told("targets").splitlines()
    assert max(map(len, lines)) <= columns
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("│"):
            cells = [cell.strip() for cell in line[1:-1].split("│")]
            if cells[1]:  # else the line goes on with the row above
                rows.append([""] * 8)
            rows[-1] = [*map("".join, zip(rows[-1], cells, strict=True))]
    assert ["vu9p", "150", "1", "9.6", "1,182,240", "2,364,480", "6,840", "2,160"] in rows


def test_explain_every_code() -> None:
    for code in codes():
        assert told(f"explain {code}").startswith(f"# {code}: ")


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
    done(["compile", "k.py", "--out", "new/design", *SMALL, "-q"])
    assert run(["compile", "k.py", "--out", "other", *SMALL, "--target", "none"]) == 1
    assert not Path("other").exists()


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ("", 0, "yes, bit for bit"),
        ("w", 3, "w: 1 of 4 values, first [0, 1]: golden "),
        ("cycles", 3, "cycles: model "),
    ],
)
def test_backends_that_disagree(
    change: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    choices = ps.Choices(threads=1, lanes=1)
    design = api.compile("k.py", None, None, "fixed:8,8", dims={"d": 4}, choices=choices)
    differs(change, design, monkeypatch)
    assert run(["simulate", "k.py", "--data", "random:rows=20", *SMALL, "--json", "r.json"]) == code
    out, err = capsys.readouterr()
    report = json.loads(Path("r.json").read_text())
    assert report["bit_exact"] is (change != "w")
    assert [entry["code"] for entry in report["errors"]] == (["DISAGREE"] if code else [])
    assert said in (err if code else out)
    assert err.startswith("error: backends disagree: ") == bool(code)
    assert ("NO, " in out) == bool(code)


def program(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli.main import main; main()", *arguments],
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
        "import penstock as ps\nimport time\nopen('begun', 'w').close()\n"
        # a signal between Python's last look and a sleep is seen after it
        "for _ in range(600):\n    time.sleep(0.1)\n",
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


#: the command `targets`, ended by Ctrl-C at its Nth import; N = 0 prints how many there are
_AT_IMPORT = """
import os, runpy, signal, sys
import penstock.__main__  # before that, the interpreter and its site packages start: not ours
number, seen = int(sys.argv.pop(1)), 0
def step(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(step)
try:
    penstock.__main__.main()
finally:
    if not number:
        print(seen, file=sys.stderr)
"""


def _interrupted(number: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", _AT_IMPORT, str(number), "targets"], capture_output=True, text=True
    )
    return done.returncode, done.stderr


def test_interrupt_while_modules_are_imported() -> None:
    code, said = _interrupted(0)
    assert code == 0
    most = int(said)
    assert most > 200  # or the moments below are not spread over them
    for number in (1, 2, *range(25, most, most // 5), most):
        assert _interrupted(number) == (130, "\ninterrupted\n"), number


def test_little_is_imported_before_an_interrupt_is_seen_to() -> None:
    root = Path(__file__).parents[3]
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"penstock": "penstock.__main__:main"}
    # what these bring is there in an editable installation before any of Penstock is
    quick = "import __future__, gc, importlib, os, signal, sys, warnings; old = {*sys.modules}"
    code = f"{quick}; import penstock.__main__; print(*{{*sys.modules}} - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = ("", ".__main__", ".hooks", ".models", ".models.plugins")
    assert {*done.stdout.split()} == {f"penstock{name}" for name in own}


def test_warnings_of_runs_are_lines() -> None:
    code = "import warnings, penstock.cli.main as cli; from penstock.errors import RunWarning; kinds = (RunWarning, UserWarning); "
    code += (
        "cli.run = lambda: [warnings.warn(f'a {k.__name__}', k) for k in kinds] and 0; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "warning: a RunWarning\n"


def test_kernel_files_stay_light() -> None:
    code = "import sys, penstock as ps; assert not {'penstock.api', 'amaranth', 'click', 'rich', 'pyarrow'} & set(sys.modules); ps.compile; ps.open_table"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numbers_that_the_format_cannot_hold() -> None:
    warning = "warning[W103]: the meta rate, 0.001, is too small for fixed:8,8 and becomes 0\n --> k.py:4:57\n"
    for command in (["check", "k.py"], ["model", "k.py", "--rows", "5"]):
        assert warning in told([*command, *SMALL, "--set", "rate=0.001"])
    assert "warning" not in told("check k.py --dim d=4 --set rate=0.001")


def test_the_same_value_twice_is_no_conflict() -> None:
    done("check k.py --dim d=4 --dim d=4 --format float32 --format float32 -q -q")


def test_rows_of_a_table_that_is_not_read_whole() -> None:
    assert json.loads(told("model k.py --data table.csv --rows 1000 --json - -q"))["table"] == {
        "name": "table",
        "rows": 1000,
        "pages": 6,
        "assumed": True,
    }
