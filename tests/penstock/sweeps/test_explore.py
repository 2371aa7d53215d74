"""Sweeps: rows are what `penstock model` says of each point, wherever and however often they are computed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import penstock as ps
import penstock.sweeps.explore as sweeps
from penstock.cli.main import run as command
from penstock.dsl.core.diagnostics import KernelError
from penstock.engines.options import Option
from penstock.sweeps import results
from penstock.sweeps.crews import Crew
from penstock.sweeps.grid import _values, listed
from penstock.sweeps.points import plain
from testbench.command_line import KERNEL, differs, reported, told
from testbench.outside import KERNEL as SUMS
from testbench.outside import commands, installed

MAP = "map m(key: u64, value: bytes[8])\n  capacity = 2**10\n"
SMALL = "explore k.py --rows 200 --dim d=3"
SWEEP = f"{SMALL} --target small,vu9p --format float32,fixed:8,24 --sweep threads=1..3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a kernel, and an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    Path("k.py").write_text(KERNEL)
    return tmp_path


class Here(Crew):
    """Computes in this process. `ends`: how often the worker ends with the points of one thread."""

    ends = 0

    def __init__(self, task: Any, count: int) -> None:
        super().__init__()
        self.task, self.count, self.given = task, count, list[Any]()

    def free(self) -> bool:
        return len(self.given) < self.count

    def give(self, point: Any) -> None:
        self.given.append(point)

    def done(self) -> Any:
        point = self.given.pop(0)
        if point.options.get("threads") == 1 and Here.ends:
            Here.ends -= 1
            return [(point, None)]
        self.begun = True
        return [(point, self.task.row(point))]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> type[Here]:
    """Let sweeps be computed in this process."""
    monkeypatch.setattr(sweeps, "Processes", Here)
    monkeypatch.setattr(Here, "ends", 0)
    return Here


def explored(line: str, code: int = 0, out: str = "out") -> list[dict[str, Any]]:
    """Run a sweep; return its rows."""
    assert command([*line.split(), "--out", out, "-q"]) == code
    return json.loads(Path(out, "points.json").read_text())["points"]


def bytes_of(out: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(out).iterdir()}


def test_rows_are_what_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = explored(SWEEP)
    assert [row["key"] for row in rows] == sorted({row["key"] for row in rows})
    asked = {(row["target"], row["format"], row["threads"]) for row in rows}
    assert asked == set(product(("small", "vu9p"), ("float32", "fixed:8,24"), (1, 2, 3)))
    for row in rows[:3]:
        line = f"model k.py --rows 200 --dim d=3 --target {row['target']} --format {row['format']}"
        said = reported(f"{line} --threads {row['threads']} -q")
        config = said["design"]["config"]
        assert row["status"] == "fits" and row["cycles"] == said["cycles"]["model"]
        assert [row["bound"], row["bound_by"]] == [said["cycles"][n] for n in ("bound", "bound_by")]
        assert row["engine_seconds"] == row["cycles"] / (config["clock_mhz"] * 1e6)
        assert row["seconds"] == said["seconds"]["total"]
        assert row["joules"] == said["energy"].get("joules")
        assert row["bound_machine"] == said["cycles"]["bound_machine"] <= row["bound"]
        assert json.loads(row["plan"]).items() <= config.items()
        for name in ("lut", "ff", "dsp", "bram"):
            have = getattr(ps.compile("k.py", row["target"], dims={"d": 3}).target, name)
            assert row[name] == said["resources"][name]
            assert row[f"{name}_share"] == row[name] / have
    # all files hold the same rows
    table = pyarrow.parquet.read_table("out/points.parquet")
    assert table.to_pylist() == rows == pyarrow.csv.read_csv("out/points.csv").to_pylist()
    page = Path("out/pareto.html").read_text()
    assert page.count("<svg") == 1 and "http" not in page.replace("http://www.w3.org", "")
    # again: from the cache, by no worker, to the byte; through Python as well
    first = bytes_of("out")
    assert explored(SWEEP, out="again") == rows and bytes_of("again") == first
    options = {"rows": 200, "dims": {"d": 3}, "sweep": {"threads": range(1, 4)}}
    formats = ["float32", "fixed:8,24"]
    assert ps.explore("k.py", ["small", "vu9p"], formats, **options, jobs=1).equals(table)
    assert {path.name for path in Path().iterdir()} == {"k.py", "cache", "out", "again", "r.json"}


@pytest.mark.parametrize(
    ("kernel", "given", "swept"),
    [
        ("mamba2.py", "--tokens 3 --batch 2 --target vu9p", "banks=2,4"),
        ("rank_model.py:slots", "--rows 300 --seed 4", "refits=1,2"),
        ("closed_form.py", "--dim d=3 --data random:rows=40 --new 5", "refits=0,1"),
        ("m.psk", "--ops 50 --load 2.5", "window=16,32"),
    ],
)
def test_every_engine(kernel: str, given: str, swept: str, here: type[Here]) -> None:
    Path("m.psk").write_text(MAP)
    file = kernel if kernel == "m.psk" else f"{Path(__file__).parents[3] / 'examples' / kernel}"
    rows = explored(f"explore {file} {given} --sweep {swept}")
    name, _, values = swept.partition("=")
    assert {str(row[name]) for row in rows} == set(values.split(","))
    for row in rows:
        said = reported(f"model {file} {given} --{name} {row[name]} -q")
        assert row["cycles"] == said["cycles"]["model"], row
        assert row["lut"] == said["resources"]["lut"]


def test_an_engine_from_outside(tmp_path: Path) -> None:
    Path("sums.py").write_text(SUMS)
    with commands(installed(tmp_path / "site")) as run:
        line = [
            "explore",
            "sums.py",
            "--rows",
            "40",
            "--sweep",
            "memory=latency=3,bytes=8|ddr4-2400",
        ]
        code, out, err = run(*line, "--sweep", "fault=1,2", "--out", "out", "--jobs", "1")
        assert code == 0, out + err
        rows = json.loads(Path("out/points.json").read_text())["points"]
        assert [row["status"] for row in rows] == ["fits"] * 4
        for row in rows:
            given = ["--memory", row["memory"], "--fault", str(row["fault"]), "--json", "r.json"]
            assert run("model", "sums.py", "--rows", "40", *given)[0] == 0
            assert row["cycles"] == json.loads(Path("r.json").read_text())["cycles"]["model"]


def test_a_kernel_of_a_program_with_a_table() -> None:
    rate, table = 0.25, {"x": np.ones((60, 2)), "y": np.arange(60.0)}

    @ps.kernel
    def local(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
        return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)

    found = ps.explore(local, "small", sweep={"threads": [1, 2]}, table=table, jobs=1)
    for row in found.to_pylist():
        design = ps.compile(local, "small", table, choices=ps.Choices(threads=row["threads"]))
        assert row["cycles"] == design.run(table, "model").cycles


def betters(one: Any, other: Any, names: Sequence[str]) -> bool:
    pairs = [(one[name], other[name]) for name in names]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def test_the_front_is_what_no_point_betters() -> None:
    draw = random.Random(5)
    for count, names in product((0, 1, 5, 40), (("a",), ("a", "b"), ("c", "a", "b"))):
        rows = [
            {"key": f"{n:03}", "status": draw.choice(["fits"] * 4 + ["refused: E601 x"])}
            | {name: draw.choice([None, *range(6)]) for name in "abc"}
            for n in range(count)
        ]
        able = [r for r in rows if r["status"] == "fits" and all(r[n] is not None for n in names)]
        front = {r["key"] for r in able if not any(betters(other, r, names) for other in able)}
        assert results._front(rows, names) == front


def test_keys_follow_what_decides_a_row(here: type[Here]) -> None:
    def keys(line: str = SMALL) -> set[str]:
        return {row["key"] for row in explored(line)}

    base = keys()
    text = Path("k.py").read_text()
    Path("k.py").write_text("# a comment\n" + text.replace("rate", "pace"))
    assert keys() != base  # a meta's name is what `--set` takes
    Path("k.py").write_text("# a comment\n\n" + text)
    assert keys() == base
    Path("help.py").write_text("N = 4\n")
    Path("k.py").write_text("from help import N\n" + text.replace("x, 4", "x, N"))
    assert keys() == base
    Path("helped.py").write_text("N = 8\n")
    Path("k.py").write_text("from helped import N\n" + text.replace("x, 4", "x, N"))
    assert keys() != base
    Path("k.py").write_text(text)
    for more in ("--format bfloat16", "--target vu9p", "--memory latency=9,bytes=8", "--epochs 3"):
        assert keys(f"{SMALL} {more}") != base, more
    assert keys(SMALL.replace("200", "201")) != base != keys(SMALL.replace("d=3", "d=4"))
    np.save("w.npy", np.zeros(3))
    before = keys(f"{SMALL} --init w=w.npy")
    np.save("w.npy", np.ones(3))
    assert keys(f"{SMALL} --init w=w.npy") != before
    Path("200").write_text("a file that no option names")
    assert keys() == base


@pytest.mark.parametrize("ends", [2, 3])
def test_a_point_whose_worker_ends(ends: int, here: type[Here]) -> None:
    line = f"{SMALL} --sweep threads=1,2 --jobs 1"
    good = explored(line, out="good")
    for file in Path("cache").glob("point-*"):
        file.unlink()
    here.ends = ends
    rows = explored(line)
    if ends < 3:
        assert rows == good and bytes_of("out") == bytes_of("good")
        return
    status = {row["threads"]: row["status"] for row in rows}
    assert status == {1: "failed: its worker ended 3 times", 2: "fits"}
    assert explored(line) == good  # what failed is not kept


def test_only_what_is_missing_is_computed(
    here: type[Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = explored(SWEEP)
    lost, damaged = rows[3]["key"], rows[7]["key"]
    Path("cache", f"point-{lost}").unlink()
    Path("cache", f"point-{damaged}").write_bytes(b'{"status": "fits"}')
    given: list[str] = []
    give = Here.give
    monkeypatch.setattr(Here, "give", lambda self, p: (given.append(p.key), give(self, p)))
    assert explored(SWEEP) == rows and sorted(given) == sorted([lost, damaged])


def test_no_hardware_is_loaded_for_what_the_cache_has() -> None:
    """A third of the time of a sweep that is there already was Amaranth's."""
    explored(SMALL)
    text = f"from penstock.cli.main import run; code = run({[*SMALL.split(), '-q']})"
    script = (
        f"import sys; {text}; print(code, *{{'amaranth', 'jinja2', 'pandas'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0", done


#: a kernel whose function ends each worker's process, or waits, when it is traced there
DEADLY = """import os, signal, time
from pathlib import Path
import penstock as ps

HERE, FOLDER = os.getpid(), Path(__file__).parent

@ps.kernel
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"]):
    if os.getpid() != HERE:
        (FOLDER / f"traced{time.monotonic_ns()}").touch()
        CASE
    return w - 0.1 * ps.merge((ps.sum(w * x) - y) * x, 4)
"""


def deadly(case: str) -> str:
    Path("deadly.py").write_text(DEADLY.replace("CASE", case))
    return "explore deadly.py --rows 200 --dim d=3 --sweep threads=1..6"


def test_processes_that_are_killed() -> None:
    line = deadly("if len(list(FOLDER.glob('traced*'))) == 3: os.kill(os.getpid(), 9)")
    rows = explored(f"{line} --jobs 1")
    assert len(rows) == 6 and {row["status"] for row in rows} == {"fits"}


def test_workers_that_never_begin(here: type[Here]) -> None:
    here.ends = 9
    text = told(f"{SMALL} --sweep threads=1 --jobs 1", 1)
    assert "error[E906]: the kernel cannot be taken to other processes: they end before" in text


def test_interrupted() -> None:
    line = deadly("time.sleep(0.3); Path('pid').write_text(str(os.getpid()))")
    words = [*line.split(), "--jobs", "1", "--out", "out"]
    command = [sys.executable, "-m", "penstock", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    until = monotonic() + 60
    while len(list(Path("cache").glob("point-*"))) < 2 and monotonic() < until:
        sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.decode().strip() == "interrupted"
    kept = {path.name for path in Path("cache").glob("point-*")}
    assert 2 <= len(kept) < 6 and not Path("out").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)
    traced = len(list(Path().glob("traced*")))
    rows = explored(f"{line} --jobs 1")
    assert kept <= {f"point-{row['key']}" for row in rows}
    # the planner traces twice
    assert len(list(Path().glob("traced*"))) - traced == 2 * (6 - len(kept))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--sweep thread=1..4", "the engine analytics has no option thread that can be swept"),
        ("--sweep thread=1..4", "hint: did you mean threads?"),
        ("--sweep epoch=2 --sweep dims=3", "has no option"),
        ("--sweep refits=1,2", "the engine analytics has no option refits"),
        ("--sweep pages=1", "has no option pages that can be swept"),
        ("--sweep threads=1..", "'1..' is neither a value nor a range"),
        ("--sweep threads=1,,2", "'' is neither a value nor a range"),
        ("--sweep threads=1..9:0", "'1..9:0' is neither a value nor a range"),
        ("--sweep threads=4..1", "the range 4..1 is empty"),
        ("--sweep threads=0..2", "it must be a whole number from 1 to 256, not '0'"),
        ("--sweep threads=many", "a value of threads: it must be a whole number"),
        ("--sweep threads=1..3,2", "2 stands twice"),
        ("--sweep threads=1 --sweep threads=2", "an option is swept twice"),
        ("--sweep threads=1,2 --threads 2", "threads is swept, and fixed as well"),
        ("--sweep memory=hbm2 --memory hbm2", "memory is swept, and fixed as well"),
        (
            "--sweep threads=1..256 --sweep lanes=1..128 --sweep walkers=1..4",
            "these are 131,072 points",
        ),
        ("--sweep epochs=1..999999999999", "a sweep has at most 100,000"),
        ("--sweep threads", "'threads' is not of the form threads=1..16"),
        ("--target small,small", "small stands twice"),
        ("--target small,smal", "there is no target 'smal'"),
        ("--target ,", "a name is missing"),
        ("--format float32,float32", "float32 stands twice"),
        ("--pareto second", "'second' is no figure of a point"),
        ("--pareto seconds,seconds", "names figures, each once"),
        ("--pareto bound_by", "'bound_by' is no figure"),
        ("--out k.py", "k.py is a file"),
        ("--dim d=x", "d"),
        ("--jobs 0", "it must be a whole number from 1"),
    ],
)
def test_sweeps_that_cannot_be_made(more: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "Processes", None)  # nothing is computed
    text = told(f"{SMALL} {more}", 1)
    assert said in text and text.count("error[") == 1 and "hint: " in text, text


def test_other_mistakes() -> None:
    assert "explore needs a table, or the number of rows" in told("explore k.py --dim d=3", 1)
    assert "error[E505]" in told("explore k.py --rows 9", 1)
    hold = "import threading\nimport penstock as ps\nL = threading.Lock()\n"
    body = KERNEL.partition("\n")[2].replace("    return", "    L.locked()\n    return")
    Path("held.py").write_text(hold + body)
    text = told("explore held.py --rows 9 --dim d=3", 1)
    assert "cannot be taken to other processes: TypeError: cannot pickle '_thread.lock'" in text
    for wrong in ({"rows": 3, "thread": 2}, {}, {"rows": 3, "sweep": {"threads": []}}):
        with pytest.raises(KernelError):
            ps.explore("k.py", dims={"d": 3}, **wrong)
    with pytest.raises(KernelError, match="a name is missing"):
        ps.explore("k.py", [], dims={"d": 3}, rows=3)


def test_nothing_fits(here: type[Here]) -> None:
    line = (
        "explore k.py --rows 200 --dim d=3000 --target hx8k-evn,icebreaker --format float32,float99"
    )
    text = told(f"{line} --out out", 1)
    assert "error[E908]: none of 4 points fits: 2 × refused: E601; 2 × refused: E603" in text
    rows = json.loads(Path("out/points.json").read_text())["points"]
    assert all(row["cycles"] is None and row["pareto"] is False for row in rows)
    assert "<svg" not in Path("out/pareto.html").read_text()
    assert pyarrow.csv.read_csv("out/points.csv").num_rows == 4
    assert sum("not a number format" in row["status"] for row in rows) == 2


def test_a_figure_that_is_not_known(here: type[Here]) -> None:
    said = told(f"{SMALL} --target small,vu9p --pareto cost,lut")
    assert "unknown" in said and "cost of 1 point, not compared" in said


def test_what_the_part_has_too_little_of(here: type[Here]) -> None:
    file = Path(__file__).parents[3] / "examples" / "mamba2.py"
    rows = explored(f"explore {file} --tokens 2 --sweep banks=2,8")
    status = {row["banks"]: row["status"][:13] for row in rows}
    assert status == {2: "fits", 8: "refused: E601"}


def test_a_defect_is_a_row(here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.engines.analytics.registration import AnalyticsEngine
    from penstock.engines.discovery import engine_named

    first, *others = engine_named("analytics").passes

    def bind(request: Any) -> Any:
        if request.args.option("threads") == 2:
            raise ZeroDivisionError("a\nb")
        return first(request)

    monkeypatch.setattr(AnalyticsEngine, "passes", (bind, *others))
    status = {row["threads"]: row["status"] for row in explored(f"{SMALL} --sweep threads=1,2")}
    assert status == {1: "fits", 2: "failed: ZeroDivisionError: a b"}
    monkeypatch.undo()


@pytest.mark.parametrize(("change", "code"), [("", 0), ("w", 3), ("cycles", 3)])
def test_confirm(change: str, code: int, here: type[Here], monkeypatch: pytest.MonkeyPatch) -> None:
    def rtl(design: Any, workload: Any, backend: str) -> Any:
        from penstock.runs.run import hardware

        return hardware(backend, workload)  # type: ignore[call-arg]

    design = ps.compile("k.py", dims={"d": 3})
    differs(change, design, monkeypatch)
    monkeypatch.setattr("penstock.sweeps.confirm.carry_out", rtl)
    monkeypatch.setattr("penstock.runs.run.hardware.__kwdefaults__", {}, raising=False)
    text = told(f"{SMALL} --sweep threads=1..3 --confirm 2 --confirm-rows 30 --out out", code)
    held = json.loads(Path("out/points.json").read_text())["confirmed"]
    assert [each["rows"] for each in held] == [30, 30] and len({each["key"] for each in held}) == 2
    assert all(bool(each["differs"]) == bool(change) for each in held)
    assert text.count("golden = RTL = model") == 2 and ("NO" in text) == bool(change)


def test_what_cannot_be_cut(here: type[Here]) -> None:
    Path("m.psk").write_text(MAP)
    text = told("explore m.psk --ops 50 --confirm 1 --confirm-rows 20", 1)
    assert "error[E906]: the run of 50 rows cannot be cut to 20" in text
    assert "give --confirm-rows 50" in text


def test_values_and_lists() -> None:
    number, word = Option("n", int, None, ""), Option("w", None, None, "")
    assert _values("n", "1..3, 8 ,-2..2:2", number) == [1, 2, 3, 8, -2, 0, 2]
    assert _values("n", range(2), number) == [0, 1] and _values("n", 5, number) == [5]
    assert _values("w", "a=1,b=2|c", word) == ["a=1,b=2", "c"]
    given = "fixed:8,24, float32,float:5,10,fixed:16,16"
    assert listed(given) == ["fixed:8,24", "float32", "float:5,10", "fixed:16,16"]


def test_plain_data() -> None:
    one, other = plain({"b": np.arange(3), "a": (1, 2.5, None)}), plain({"a": [1, 2.5, None]})
    assert list(one) == ["a", "b"] and one["a"] == other["a"] == [1, 2.5, None]
    assert plain(np.arange(3)) != plain(np.arange(3.0)) != plain(np.arange(3).reshape(1, 3))
    Path("f").write_text("x")
    assert plain("f") == "f" != plain("f", True) and plain("g", True) == "g"


def test_a_page_of_many_targets() -> None:
    from penstock.report.charts import draw
    from penstock.report.parts import Chart

    groups = {f"target-{n}": [(1.0 + n, 10.0 * n, n == 3)] for n in range(40)}
    svg, note = draw(Chart("scatter", "t", {"x": "seconds", "y": "lut", "groups": groups}))
    assert svg.count("target-") < 40 and "more have no room" in note
    empty, _ = draw(Chart("scatter", "t", {"x": "seconds", "y": "lut", "groups": {}}))
    assert "no point" in empty
