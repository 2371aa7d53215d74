"""Reports as HTML: whole pages of commands, fragments for notebooks, charts of extreme numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import penstock as ps
from penstock.boards.build import Build
from penstock.cli.main import State, program, run
from penstock.models.errors import HardwareError
from penstock.models.resources import Resources
from penstock.models.strider.errors import PageError
from penstock.report.charts import KINDS, draw
from penstock.report.common import bound_terms, shared_charts
from penstock.report.html import of_design, of_run, page
from penstock.report.parts import Chart, Column, Facts, Grid, Part, Row, Share, Verdict
from penstock.report.words import resource_text
from penstock.runs.outcome import Outcome
from penstock.runs.run import Run
from penstock.targets import target_named
from testbench.command_line import differs, told

KERNEL = """import penstock as ps

@ps.kernel(epochs=2)
def f(x: ps.Input["d"], y: ps.Output, w: ps.Model["d"], rate: ps.Meta = 0.1):
    return w - rate * ps.merge((ps.sum(w * x) - y) * x, 4)  # <b>&"$x_1$"
"""
KEYS = """import penstock as ps

@ps.fit(method="gram", incremental=True)
def f(key: ps.Key):
    return ps.least_squares(ps.window(key, 3), target=ps.slot(key))
"""
COLUMNS = "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
SMALL = "--dim d=4 --format fixed:8,8 --threads 1 --lanes 1"
PATH = (
    "engine.a to engine.b, 5 cells, 12.3 ns "
    "(0.5 ns out of a register, 4.0 ns logic, 7.6 ns routing)"
)
VOID = {"meta", "link", "br", "img", "input", "hr"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNEL)
    Path("keys.py").write_text(KEYS)
    Path("columns.psk").write_text(COLUMNS)
    return tmp_path


@dataclass
class Page(HTMLParser):
    """A page that is read: every element is closed, no `id` is there twice. `text`: what is shown;
    `tags`: how often which element is there."""

    text: str = ""
    tags: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, text: str) -> Page:
        made = cls()
        made.feed(text)
        made.close()
        assert made.open == []
        assert len(set(made.ids)) == len(made.ids)
        assert set(re.findall(r"url\(#([^)]*)\)", text)) <= set(made.ids)
        assert [link for link in made.links if not link.startswith(("#", "data:,"))] == []
        assert "http" not in re.sub(r"<pre>.*</pre>", "", text, flags=re.S)
        assert "@import" not in text and "<script" not in text
        return made

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "data", "srcset"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data + " "

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def shown(part: Part) -> Iterable[str]:
    """Yield the texts that a printer must show of a part."""
    if isinstance(part, Facts):
        for row in part.rows:
            yield row.name
            yield row.value.text if isinstance(row.value, Verdict) else str(row.value)
    elif isinstance(part, Grid):
        yield from (cell for row in part.rows for cell in row)
        yield from (part.title, part.caption)
    else:
        yield from (part.title, part.note)


def written(command: str, code: int = 0) -> tuple[Page, State]:
    """Run a command with a report; return the page and what the command knew."""
    state = State()
    line = [*command.split(), "--report", "r.html"]
    if code:
        assert run(line) == code
    else:
        assert not program.main(line, standalone_mode=False, obj=state)
        assert state.outcome is not None
        Path("r.html").write_text(page(state.outcome, state.report))
    text = Path("r.html").read_text()
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>")
    return Page.of(text), state


MODEL = {
    "analytics": (f"model k.py --rows 500 {SMALL}", ["Roofline", "Static schedule"]),
    "keys": ("model keys.py --rows 400 --groups 2 --refits 1", ["Roofline"]),
    "columns": ("model columns.psk --rows 500 --dim d=3", ["Roofline"]),
}
SIMULATE = {
    "golden": f"simulate k.py --data random:rows=8,seed=1 {SMALL} --backend golden --profile",
    "pysim": f"simulate k.py --data random:rows=4,seed=1 {SMALL} --backend pysim",
    "keys": "simulate keys.py --data random:rows=24 --groups 2 --refits 1 --backend golden",
    "columns": "simulate columns.psk --data random:rows=500,seed=1 --dim d=3 --backend golden",
}


def complete(read: Page, state: State) -> None:
    """Assert that a page has all that the terminal has, and all charts."""
    assert state.outcome is not None
    for part in [*state.report, *shared_charts(state.outcome, state.report)]:
        for text in shown(part):
            assert " ".join(text.split()) in read.words
    assert all(line.strip() in read.text for line in state.outcome.source.splitlines())


@pytest.mark.parametrize("name", MODEL)
def test_model(name: str) -> None:
    command, titles = MODEL[name]
    read, state = written(command)
    complete(read, state)
    for title in [*titles, "Cycles by what they wait for", "Resources"]:
        assert title in read.words
    assert "nothing was simulated" in read.words
    assert read.tags.count("svg") == len(titles) + 2


@pytest.mark.parametrize("name", SIMULATE)
def test_simulate(name: str) -> None:
    read, state = written(SIMULATE[name])
    complete(read, state)
    agree = "✓ Models and hardware agree: results bit for bit and cycles one by one."
    assert (agree in read.words) == (name == "pysim")
    assert ("✓ yes" in read.words) == (name == "pysim")


@pytest.mark.parametrize("kernel", ["k.py --dim d=4 --format fixed:8,8", "keys.py"])
def test_build(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = Resources(9_000, 4_000, 200, 30)
    made = Build(
        "ulx3s-85f",
        40.0,
        47.0,
        PATH,
        "a register near engine.c",
        1,
        placed,
        ((1, 47.0, 1.0),),
        1.0,
        {},
        {},
        "0",
        {"penstock.bit": b""},
    )
    monkeypatch.setattr("penstock.boards.build.elaborate", lambda *a, **k: None)
    monkeypatch.setattr("penstock.boards.build.build", lambda *a, **k: made)
    read, state = written(f"build {kernel} --board ulx3s-85f --out out")
    complete(read, state)
    for text in (
        "✓ Placed for ulx3s-85f, 47 MHz reached.",
        "from engine.a",
        "to engine.b",
        "logic: 4.0 ns",
        "setup: 0.2 ns",
        "clock asked: 40 MHz, 25.0 ns; reached: 47 MHz",
        "9,000 of 83,640 (11%)",
        "200 of 156 (128%)",
        "Next step for a faster clock: a register near engine.c.",
    ):
        assert text in read.words


def test_failures_are_pages() -> None:
    read, _ = written("simulate k.py --data random:rows=4 --backend golden", 1)
    assert "✗ Stopped: E505." in read.words and "give it with --dim d=SIZE" in read.words
    Path("t.csv").write_text("y,a\n1,2\n,5\n")
    read, _ = written("simulate k.py --data t.csv --bind x=a --dim d=1 --backend golden", 1)
    assert "✗ Stopped: TUPLE_NULL." in read.words and "kernel f (k.py)" in read.words


@pytest.mark.parametrize(
    "options, said",
    [
        ("--report r.pdf", "--report r.pdf: the page is HTML, in a file whose suffix says so"),
        ("--report -", "--report -: the page is HTML, in a file whose suffix says so"),
        ("--report r.html --json ./r.html", "--json and --report both write r.html"),
    ],
)
def test_files_that_are_no_pages(options: str, said: str) -> None:
    assert told(f"model k.py --rows 500 {options}", 1).startswith(f"error[E902]: {said}\n")
    assert not Path("r.html").exists()


def test_backends_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"format": "fixed:8,8", "dims": {"d": 4}}
    differs("w", ps.compile("k.py", choices=ps.Choices(threads=1, lanes=1), **options), monkeypatch)
    read, _ = written(SIMULATE["pysim"], 3)
    assert "✗ The backends disagree: this is a defect in Penstock." in read.words
    assert "✗ NO" in read.words and "DISAGREE" in read.words


def test_what_users_type_is_escaped() -> None:
    evil = "<script>alert(1)</script>&\"'\x00"
    parts: list[Part] = [
        Facts.of((evil, evil), ("same", Verdict(False, evil)), ("much", Share(3, 2)), title=evil),
        Grid((Column(evil, True, True),), ((evil,),), evil, evil),
        Chart("gantt", evil, {"units": [evil], "bars": [_bar(0)], "lines": {1: evil}}, evil),
        Chart("roofline", evil, ROOFLINE | {"name": evil, "operation": evil}),
        Chart("shares", evil, {"total": 5, "parts": {evil: 5}}),
        Chart("path", evil, PATHS | {"first": evil, "last": evil}),
    ]
    errors = [{"code": evil, "message": evil, "address": evil, "hint": evil}]
    text = page(Outcome("model", evil, evil, errors=errors), parts)
    Page.of(text)
    assert "\x00" not in text and text.encode().decode() == text
    assert "&lt;script&gt;" in text and text.count("<script") == 0
    assert text.count('style="width: 100.0%"') == 1


def test_a_table_named_script() -> None:
    Path("<script>.csv").write_text("y,a\n1,2\n0,5\n")
    command = "simulate k.py --data <script>.csv --bind x=a --dim d=1 --backend golden"
    read, _ = written(command)
    assert "<script>: 2 rows" in read.words


def test_equal_inputs_give_equal_pages() -> None:
    state = written(MODEL["analytics"][0])[1]
    assert state.outcome is not None
    first, second = (page(state.outcome, state.report) for _ in range(2))
    assert first == second


# notebooks


@pytest.mark.parametrize("name", ["k.py", "keys.py", "columns.psk"])
def test_notebooks(name: str) -> None:
    dims = {} if name == "keys.py" else {"d": 3}
    design = ps.compile(name, dims=dims)
    text = design._repr_html_()
    assert text == of_design(design.compiled) and text.startswith('<div class="penstock">')
    read = Page.of(text)
    assert Path(name).read_text().splitlines()[-1].strip() in read.text
    assert "Resources" in read.words and repr(design).count("\n") == 0
    for backend in ("golden", "model"):
        done = design.run("random:rows=500,seed=1", backend)
        read = Page.of(done._repr_html_())
        assert design.name in read.words
        if backend == "model":
            assert f"{done.cycles:,}" in read.words and "Roofline" in read.words


def test_a_run_without_its_design() -> None:
    error = HardwareError(PageError.TUPLE_NULL, 3, 4)
    read = Page.of(of_run(Run("golden", None, None, None, {}, (error,))))
    assert "Stopped: TUPLE_NULL." in read.words


# charts


def _bar(n: int, unit: int = 0, length: int = 3) -> dict[str, Any]:
    return {"unit": unit, "start": 2 * n, "length": length, "line": n + 1}


ROOFLINE: dict[str, Any] = {
    "name": "f",
    "operation": "operations",
    "point": (10.0, 1.0),
    "peak": 4,
    "bandwidth": 1.0,
    "ceilings": {"operations": 2.0, "recurrence": 2.004, "sums": 2.008},
}
PATHS: dict[str, Any] = {
    "first": "a",
    "last": "b",
    "parts": {"logic": 3.0, "routing": 9.0},
    "period": 10.0,
    "reached": 12.0,
}


def test_shares_of_a_part() -> None:
    part = target_named("u55c")
    assert resource_text(Resources(233_716, 64_787, 0, 876), part) == (
        "LUT 233,716 (20%) · FF 64,787 (3%) · DSP 0 (0%) · BRAM 876 (50%), estimated"
    )
    assert resource_text(Resources(1, 1, 0, 0, 96), part).endswith("URAM 96 (10%), estimated")


ROW = {"name": "LUT", "capacity": 100, "estimated": 50, "placed": 60}
CHARTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "one op": ("gantt", {"units": ["mul"], "bars": [_bar(0)], "lines": {1: "a"}}, "line 1: a"),
    "no op": ("gantt", {"units": [], "bars": [], "lines": {}}, "there are no operations"),
    "500 ops": (
        "gantt",
        {
            "units": [f"unit {n}" for n in range(20)],
            "bars": [_bar(n, n % 20) for n in range(500)],
            "lines": {},
            "interval": 1,
            "batch": 900,
            "repeats": "a tuple",
        },
        "initiation interval: 1 cycle",
    ),
    "zero length": (
        "gantt",
        {"units": ["a"], "bars": [_bar(0, length=0)], "lines": {}},
        "cycles after the start",
    ),
    "roofline": ("roofline", ROOFLINE, "all units busy: 4"),
    "compute": ("roofline", ROOFLINE | {"point": (1e6, 1.0), "bandwidth": 1e-5}, "f: 1"),
    "no cycles": ("roofline", ROOFLINE | {"point": (10.0, 0.0)}, "no roofline"),
    "no bytes": ("roofline", ROOFLINE | {"bandwidth": 0}, "no roofline"),
    "huge": ("roofline", ROOFLINE | {"point": (1e15, 1e12), "bandwidth": 0.01}, "memory"),
    "shares": ("shares", {"total": 7, "parts": {"memory": 9, "b": 0}}, "9 (129%)"),
    "shares of much": ("shares", {"total": 10**13, "parts": {"m": 10**12}}, "(10%)"),
    "shares of none": ("shares", {"total": 0, "parts": {"m": 0}}, "no shares"),
    "fits": ("resources", {"part": "p", "rows": [ROW]}, "60 of 100 (60%)"),
    "too large": ("resources", {"part": "p", "rows": [ROW | {"placed": 990}]}, "(990%)"),
    "none there": ("resources", {"part": "p", "rows": [ROW | {"capacity": 0}]}, "none there"),
    "path": ("path", PATHS, "routing: 9.0 ns"),
    "path of a name": ("path", PATHS | {"parts": {}, "last": ""}, "path: 12.0 ns"),
    "no path": ("path", PATHS | {"parts": {}, "reached": None}, "not known"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts(name: str) -> None:
    kind, data, text = CHARTS[name]
    chart = Chart(kind, "a <title>", data)
    drawn, _ = draw(chart)
    read = Page.of(drawn)
    assert text in read.words and 'aria-label="a &lt;title&gt;"' in drawn
    assert draw(chart) == (drawn, draw(chart)[1])
    for number in re.findall(r'(?<![\w-])(?:x|y|width|height|d)="([^"]*)"', drawn):
        assert "nan" not in number and "inf" not in number


def test_long_schedules_are_cut() -> None:
    bars = [_bar(n, n % 60) for n in range(1000)]
    data = {"units": [f"u{n}" for n in range(60)], "bars": bars, "lines": {}}
    drawn, note = draw(Chart("gantt", "t", data))
    assert note == (
        "the 40 busiest of 60 units; the first 600 of 680 operations; the legend has 16 of 600 lines"
    )
    assert len(drawn) < 500_000


def test_labels_do_not_overlap() -> None:
    drawn, _ = draw(Chart("roofline", "t", ROOFLINE))
    names = ("operations: ", "recurrence: ", "sums: ", "all units busy: ")
    places = [
        float(y)
        for y, text in re.findall(r'<text[^>]*? y="([\d.]+)"[^>]*>([^<]*)<', drawn)
        if text.startswith(names)
    ]
    assert len(places) == 4
    ordered = sorted(places)
    assert all(b - a >= 12 for a, b in pairwise(ordered))


def test_other_processes_draw_the_same() -> None:
    script = (
        "import sys, penstock.cli.main as cli\n"
        "assert cli.run('model k.py --rows 9 --dim d=2 -q'.split()) == 0\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from penstock.report.charts import draw\n"
        "from penstock.report.parts import Chart\n"
        f"print(draw(Chart('path', 't', {PATHS}))[0])\n"
    )
    home = {"HOME": "/nowhere", "MPLCONFIGDIR": "/nowhere", "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | home, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (draw(Chart("path", "t", PATHS))[0] + "\n", "")


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="no kind of chart 'pie': it is one of bars, gantt"):
        draw(Chart("pie", "t"))
    assert sorted(KINDS) == ["bars", "gantt", "path", "resources", "roofline", "scatter", "shares"]


def test_matplotlib_is_left_as_it_was() -> None:
    import matplotlib

    matplotlib.rcParams["font.size"] = 33
    try:
        draw(Chart("path", "t", PATHS))
        assert matplotlib.rcParams["font.size"] == 33
    finally:
        matplotlib.rcdefaults()


# engines of others


@dataclass
class _Least:
    cycles: int
    by: str


def test_any_engine_has_charts() -> None:
    part = SimpleNamespace(name="p", lut=100, ff=100, dsp=0, bram=4, uram=0)
    design = SimpleNamespace(
        name="toy",
        engine_name="toy",
        part="p",
        format_name="int",
        digest="0" * 64,
        target=part,
        refused=None,
        resources=Resources(150, 1, 0, 1),
    )
    model = SimpleNamespace(cycles=20, bound=_Least(15, "port a"), errors=(), counters={})
    outcome: Any = Outcome("model", "toy.psk", design=design, model=model)  # type: ignore[arg-type]
    assert bound_terms(outcome) == {"port a": 15}
    read = Page.of(page(outcome, [Facts((Row("kernel", "toy"),))]))
    assert "15 (75%)" in read.words and "150 of 100 (150%)" in read.words
    assert read.tags.count("svg") == 2
