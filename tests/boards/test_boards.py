"""The catalogue: platforms construct, boards are targets, others may add theirs; the commands' listing and diagnostics."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
import penstock.api as api
from penstock.boards.board import make_platform
from penstock.boards.build import _digest, elaborate
from penstock.boards.catalogue import boards, targets
from penstock.boards.clocks import chosen_clock
from penstock.boards.flow import Sources
from penstock.boards.top import clock_setting
from penstock.cli.main import run
from penstock.designs.folder import sealed
from penstock.dsl.core.diagnostics import KernelError
from penstock.models import plugins
from penstock.models.link.ethernet import addressed
from penstock.models.link.timing import divisor
from penstock.models.numerics.formats import float32
from penstock.models.target import RESOURCES, Link, Target
from penstock.output import write_folder
from testbench.command_line import told

BOARDS = tuple(boards().values())
NAMED = {
    "ulx3s-12f",
    "ulx3s-25f",
    "ulx3s-45f",
    "ulx3s-85f",
    "orangecrab-r0.2",
    "ecp5-evn",
    "ecpix5-85f",
    "colorlight-i5",
    "colorlight-i5-sdram",
    "icebreaker",
    "hx8k-evn",
    "tang-nano-9k",
    "crosslink-nx-evn",
    "arty-a7-100t",
    "kcu105",
    "u55c",
    "ulx3s-25f-sdram",
    "ulx3s-85f-sdram",
}
LOGISTIC = str(Path(__file__).parents[2] / "examples" / "logistic.py")


def test_names() -> None:
    assert boards().keys() == NAMED
    assert {*NAMED, "small", "vu9p"} == targets().keys()


@pytest.mark.parametrize("board", [b for b in BOARDS if b.shared is not None], ids=lambda b: b.name)
def test_platform(board: Target) -> None:
    platform, pins = make_platform(board), board.pins
    assert abs(platform.lookup(pins.clock).clock.frequency / 1e6 - pins.oscillator_mhz) < 1e-6
    if pins.uart_pins is None:
        assert platform.lookup(pins.uart, 0) is not None


@pytest.mark.parametrize("target", targets().values(), ids=lambda target: target.name)
def test_a_plan_gets_what_is_left(target: Target) -> None:
    for name in RESOURCES:
        left = getattr(target.device, name) - getattr(target.reserve, name)
        assert getattr(target, name) == left


def test_what_fills_a_device_asks_for_less() -> None:
    board = boards()["ulx3s-85f"]
    assert [chosen_clock(board, float32, lut) for lut in (6_500, 50_000, 50_001)] == [60, 60, 39]
    assert chosen_clock(boards()["icebreaker"], float32, 5_000) == boards()["icebreaker"].clock_mhz
    assert chosen_clock(board, float32, 30_000, {("ecp5", "6"): 15.0}) == 15
    assert chosen_clock(board, float32, 30_000, {("ecp5", "8"): 20.0}) == 60
    for each in BOARDS:
        for lut in (5_000, 60_000) if each.shared is not None else ():
            setting = clock_setting(
                each, chosen_clock(each, float32, lut)
            )  # an SDRAM is slow at nothing below 40
            assert (
                divisor(
                    round((setting.output_mhz if setting else each.pins.oscillator_mhz) * 1e6),
                    each.link.baud,
                )
                >= 1
            )


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards of another package are targets; what cannot be used is left out, with the reason."""

    class Point:
        def __init__(self, name: str, offered: Any) -> None:
            self.name, self.offered = name, offered
            self.value, self.dist = f"them:{name}", None

        def load(self) -> Any:
            if isinstance(self.offered, Exception):
                raise self.offered
            return self.offered

    taken, fresh = replace(BOARDS[0], title="another"), replace(BOARDS[0], name="fresh")
    other = replace(BOARDS[0], name="somebodys-board")
    points = [
        Point("absent", ModuleNotFoundError("No module named 'them'")),
        Point("odd", 7),
        Point("part", tmp_path / "odd.toml"),
        Point("same", [fresh, taken]),
        Point("somebody", other),
    ]
    (tmp_path / "odd.toml").write_text('[target]\nname = "odd"\npart = "LFE5U-99F"\n')
    offered = {"penstock.boards": points}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: offered.get(group, []))
    monkeypatch.setattr(plugins, "_LEFT", {})
    monkeypatch.setattr(plugins, "_WARNED", set())
    with pytest.warns(UserWarning, match="the installed set of boards"):
        found = targets.__wrapped__()
    assert found == {**targets(), other.name: other} and found[other.name].board == other.board
    whys = (
        "ModuleNotFoundError: No module named 'them'",
        "TypeError: 'int' object is not iterable",
        f"{tmp_path}/odd.toml: target.part: expected one of small, ",
        f"there is a target {taken.name} already",
    )
    left = "the installed set of boards {} is left out: {}"
    for said, point, why in zip(plugins.left_out(), points, whys, strict=False):
        assert said.startswith(left.format(point.name, why))
    assert "there is a target" in told(f"build {LOGISTIC} --board fresh --dim d=4 --out o", 1)


def test_listing() -> None:
    found = {b["name"]: b for b in json.loads(told("boards --json"))}
    assert found.keys() >= NAMED
    counts = {"lut": 7680, "ff": 7680, "dsp": 0, "bram": 32, "uram": 0}
    assert found["hx8k-evn"]["resources"] == counts
    assert "icebreaker" in told("boards")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--board ulx3s --dim d=4", "E821"),
        ("--board ulx3s-12f --dim d=4 --clock 1000", "E825"),
        ("--board ulx3s-12f --dim d=4 --format fixed:8,8 --clock 0", "E825"),
        ("--board ulx3s-12f --dim d=4 --format fixed:8,8 --clock 12.5", "E825"),  # 1,000,000 baud
        ("--board ulx3s-25f-sdram --dim d=4 --format fixed:8,8 --clock 20", "E825"),
        ("--board ulx3s-12f --dim d=4 --target small", "E902"),
        ("--board arty-a7-100t --dim d=4 --clock 50", "E902"),
        ("--board arty-a7-100t --dim d=4 --seeds 2", "E902"),
        ("--board ulx3s-12f --dim d=4096", "E601"),
        ("program o --board arty-a7-100t", "E827"),
        ("program o --board icebreaker", "E827"),
    ],
)
def test_diagnostics(
    options: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = options.split()
    line = words if words[0] == "program" else ["build", LOGISTIC, *words, "--out", "o"]
    said = told(line, 1)
    assert f"error[{code}]" in said and "hint:" in said
    assert not (tmp_path / "o").exists()
    if code == "E601":
        assert "the largest d that fits is about" in said


@pytest.mark.parametrize(
    "shapes,words,message",
    [
        (
            'ps.Input["d"], y: ps.Output["k"], w: ps.Model["k", "d"]',
            "--dim d=400 --dim k=400",
            "the largest d and k that fit are about ",
        ),
        (
            "ps.Input[40], y: ps.Output[40], w: ps.Model[40, 40]",
            "",
            "the kernel's sizes are written in it",
        ),
    ],
)
def test_sizes_that_fit(shapes: str, words: str, message: str, tmp_path: Path) -> None:
    """What is said where no dimension alone makes the kernel fit, and where there is none."""
    (tmp_path / "k.py").write_text(f"""import penstock as ps

@ps.kernel(epochs=1)
def f(x: {shapes}, rate: ps.Meta = 0.1):
    return w - rate * ps.merge(ps.outer(ps.sum(w * x, axis=1) - y, x), 4)
""")
    assert message in told(
        f"build {tmp_path / 'k.py'} {words} --board ulx3s-12f --out {tmp_path / 'o'}", 1
    )


def test_sizes_that_fit_of_columns(tmp_path: Path) -> None:
    """Plain columns need more of a part than an array does: the size is one that fits with them."""
    columns = ",".join(f"c{k}" for k in range(40))
    line = f"build {LOGISTIC} --board icebreaker --bind x={columns} --bind y=y --dim d=40 --format fixed:4,6"
    said = " ".join(told(f"{line} --out {tmp_path / 'o'}", 1).split())
    found = re.search(r"the largest d that fits is about (\d+)", said)
    assert found is not None
    d = int(found[1])
    assert api.compile(
        LOGISTIC,
        boards()["icebreaker"],
        None,
        "fixed:4,6",
        dims={"d": d},
        bind={"x": columns.split(",")[:d], "y": ["y"]},
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"platform": "nowhere:Platform"},
        {"platform": "amaranth_boards.ulx3s:Nothing"},
        {"uart": "serial"},
        {"clock": "clk7"},
    ],
)
def test_boards_described_wrongly(
    wrong: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = boards()["ulx3s-12f"]
    board = replace(known, board=replace(known.pins, **wrong))
    monkeypatch.setattr("penstock.commands.boards.boards", lambda: {board.name: board})
    said = told(
        f"build {LOGISTIC} --board {board.name} --dim d=2 --format fixed:4,4 --out {tmp_path / 'o'}",
        1,
    )
    assert (
        "error[E821]: ulx3s-12f is described wrongly" in said
        and "hint: the package that offers it" in said
    )
    assert not (tmp_path / "o").exists()


def test_digests() -> None:
    """Whatever a build is made of makes another digest."""
    board, sources = BOARDS[0], Sources("module", "pins")
    others = [
        (sources, replace(board, name="other"), 40.0, [1]),
        (replace(sources, constraints="none"), board, 40.0, [1]),
        (sources, board, 41.0, [1]),
        (sources, board, 40.0, [1, 2]),
        (sources, board, 40.0, [1]),
    ]
    assert (
        len(
            {_digest(*other, {"yosys": "0.1"}) for other in others}
            | {_digest(sources, board, 40.0, [1], {"yosys": "0.2"})}
        )
        == 6
    )


def test_a_part_that_is_nearly_full() -> None:
    """A device is not filled to its last look-up table: the message says so where the need alone is smaller than the part."""
    part, choices = boards()["ulx3s-85f"], ps.Choices(lanes=1, threads=1)
    options = {"format": "fixed:8,8", "dims": {"d": 2}, "choices": choices}
    need = ps.compile(LOGISTIC, part, **options).resources_on(part).lut
    with pytest.raises(KernelError, match=r"the part has [0-9,]+, of which 97% can be filled"):
        ps.compile(LOGISTIC, replace(part, lut=need + 10), **options)


def test_without_the_tool_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who did not install the extra is told so, for boards of both kinds of platform; no folder is left."""
    monkeypatch.chdir(tmp_path)
    for name in [
        name
        for name in sys.modules
        if name.startswith(("amaranth_boards", "penstock.boards.platforms"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "amaranth_boards", None)
    for board in ("ulx3s-25f", "colorlight-i5"):
        said = told(
            f"build {LOGISTIC} --board {board} --dim d=4 --format fixed:8,8 --clock 40 --out out -q",
            1,
        )
        assert (
            "error[E822]" in said
            and "needs the package amaranth-boards" in said
            and "hint: pip install" in said
        )
        assert not Path("out").exists()


@pytest.mark.parametrize(
    "script,message",
    [
        (None, "error[E828]: openFPGALoader is not installed"),
        ("#!/bin/sh\necho; echo 'no cable' >&2; echo; exit 1", "could not load it: no cable\n"),
        ("#!/bin/sh\nkill -9 $$", "could not load it: no output\n"),
        ("#!/none", "openFPGALoader does not run: No such file or directory\n"),
        ('#!/bin/sh\necho "$@" > given', None),
    ],
)
def test_loading(
    script: str | None,
    message: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the loader is told, and what becomes of its failures; a folder of another board, or without its bitstream, never comes to it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"bin:{os.defpath}")
    out, tool = Path("out"), Path("bin", "openFPGALoader")
    tool.parent.mkdir()
    if script is not None:
        tool.write_text(script)
        tool.chmod(0o755)
    write_folder(out, sealed({"board": {"name": "ulx3s-12f"}}, {}))
    for board, text in (
        ("ulx3s-25f", "out holds a bitstream for ulx3s-12f, not one for ulx3s-25f"),
        ("ulx3s-12f", "out holds no bitstream for ulx3s-12f"),
    ):
        assert f"error[E827]: {text}\n" in told(f"program out --board {board}", 1)
    shutil.rmtree(out)
    write_folder(out, sealed({"board": {"name": "ulx3s-12f"}}, {"penstock.bit": b""}))
    assert run(["program", "out", "--board", "ulx3s-12f", "--trust"]) == (message is not None)
    said = capsys.readouterr()
    if message is None:
        assert said.out == "out/penstock.bit runs on ulx3s-12f\n"
        assert re.fullmatch(r"-b ulx3s /\S+/penstock\.bit\n", Path("given").read_text())
    else:
        assert message in said.err and "hint: " in said.err


def test_pages_suit_the_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command plans for a small board with pages that it has room for; tables in PostgreSQL's own pages keep theirs."""
    monkeypatch.chdir(tmp_path)
    options = (LOGISTIC, "--target", "hx8k-evn", "--format", "fixed:4,6")
    x = np.random.default_rng(2).normal(size=(40, 2)).astype("f4")
    table = api.Table.from_columns({"x": x, "y": (x[:, 0] > 0).astype("f4")}, "t")
    np.savez("t.npz", x=x, y=(x[:, 0] > 0).astype("f4"))
    table.pages.tofile("t.heap")
    Path("t.json").write_text(json.dumps(table.schema.to_json()))
    for command, data in (
        ("check", None),
        ("compile", None),
        ("model", "random:rows=40"),
        ("model", "t.npz"),
    ):
        more = (
            ["--dim", "d=2"]
            if data is None
            else ["--data", data] + ["--dim", "d=2"] * data.startswith("random")
        )
        more += ["--out", "out"] * (command == "compile")
        assert run([command, *options, *more, "-q"]) == 0, capsys.readouterr().err
    assert (
        api.compile(LOGISTIC, "hx8k-evn", None, "fixed:4,6", dims={"d": 2}).plan.page_size == 1024
    )
    assert api.compile(LOGISTIC, "hx8k-evn", "t.npz", "fixed:4,6").plan.page_size == 1024
    capsys.readouterr()
    assert "error[E601]" in told(["model", *options, "--data", "heap:t.heap,t.json", "-q"], 1)


@pytest.mark.filterwarnings("ignore:Using platform.request:DeprecationWarning")
def test_a_board_on_ethernet() -> None:
    """Its PHY's pins and 125 MHz are in the constraints, and no serial port is; what cannot be is refused."""
    options = "--dim d=4 --format fixed:8,8 --link udp --out out"
    board = replace(boards()["ecpix5-85f"], link=Link(kind="udp", source="--link"))
    design = ps.compile(LOGISTIC, board, dims={"d": 4}, format="fixed:8,8").on_board(board)
    station = addressed(design.registers.design, bytes([192, 168, 1, 50]))
    assert station.mac[0] == 2 and station != addressed(design.registers.design, bytes(4))
    text = elaborate(
        design.hardware, board, setting=clock_setting(board, 50), station=station
    ).constraints
    assert 'FREQUENCY PORT "eth_rgmii_0__rx_clk__io" 125000000.0 HZ;' in text and "uart" not in text
    assert 'LOCATE COMP "eth_rgmii_0__rx_clk__io" SITE "E11";' in text
    for more, message in (
        ("--board icebreaker", "icebreaker has no gigabit PHY"),
        ("--board colorlight-i5", "--link udp needs the board's address"),
        ("--board colorlight-i5 --ip-address 1.2.3", "'1.2.3' is no IPv4 address"),
        ("--board colorlight-i5 --ip-address 0.0.0.0", "0.0.0.0 is no address of a device"),
    ):
        assert message in told(f"build {LOGISTIC} {options} {more}", 1)
    assert "is for a board on Ethernet" in told(
        f"build {LOGISTIC} --board colorlight-i5 --ip-address 1.2.3.4 --out out", 1
    )
    said = told(f"build {LOGISTIC} --board colorlight-i5 --link xdma --out out", 1)
    assert "--link xdma is no link of colorlight-i5" in said
