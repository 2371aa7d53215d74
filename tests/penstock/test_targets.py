"""One record of a machine: from files and objects, in designs, in what they are saved as."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.boards.catalogue import targets
from penstock.boards.records import from_json
from penstock.cli.main import run
from penstock.dsl.core.diagnostics import KernelError
from penstock.models.memory.sdram import CHIPS
from penstock.models.target import Board, Clock, Link, Part, Power, Reserve, Storage, Target
from penstock.output import as_json
from penstock.targets import link_of
from testbench.command_line import told
from testbench.outside import commands, record

EXAMPLES = Path(__file__).parents[2] / "examples"
LAB = """
[target]
name = "lab-vu9p"
part = "xcvu9p"
ports = 4
bus_bytes = 64
price = "1.65 USD/h"
reserve = { lut = 200_000, bram = 264, source = "platform table of the vendor's shell" }
clock   = { mhz = 250, evidence = "assumed", source = "no placement" }
memory  = { kind = "ddr4", bytes = "64 GiB", timing = "ddr4-2400", source = "a table" }
link    = { kind = "xdma", gbps = 96, latency_us = 1.26, source = "measured" }
power   = { idle_w = 35, max_w = 160, source = "assumed" }
"""


def written(folder: Path, text: str | bytes = LAB) -> str:
    file = folder / "lab.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def test_a_file(tmp_path: Path) -> None:
    lab = ps.target(written(tmp_path))
    assert (lab.lut, lab.bram, lab.uram) == (1_182_240 - 200_000, 2_160 - 264, 960)
    assert (lab.device.lut, lab.reserve.lut) == (1_182_240, 200_000)
    assert (lab.memory.bytes, lab.dram) == (64 << 30, "ddr4-2400,ratio=5/24")  # 250 of 1,200 MHz
    assert (lab.link.gbps, lab.clock.evidence, lab.shared) == (96, "assumed", None)
    whole = replace(lab, clock=Clock(mhz=250))  # a whole number is one, in a file as in Python
    for each in (lab, whole):
        again = from_json(json.loads(json.dumps(each.to_json())))
        assert again == each and again.digest == each.digest
    said = told(f"targets {tmp_path}/lab.toml")
    for source in ("AMD DS890", "platform table", "no placement", "a table", "measured", "USD"):
        assert source in said
    assert json.loads(told(f"targets {tmp_path}/lab.toml --json")) == json.loads(
        json.dumps(lab.to_json())
    )


def test_a_base(tmp_path: Path) -> None:
    """What a file does not say is as in the record that it starts from."""
    text = '[target]\nname = "mine"\nbase = "u55c"\nclock = { mhz = 300 }\nreserve = { lut = 80 }'
    mine, base = ps.target(written(tmp_path, text)), ps.target("u55c")
    assert mine.dram == "hbm2-2000,ratio=1/3,transit=50" and base.dram.split(",")[1] == "ratio=5/18"
    assert (mine.lut, mine.memory) == (base.device.lut - 80, base.memory)
    assert mine == replace(
        mine, **{name: getattr(base, name) for name in ("ports", "board", "link", "power")}
    )
    own = '[[part]]\nname="p"\nfamily="amd"\nlut=9\nff=9\ndsp=1\nbram=1\nbram_bits=1\nmultiplier=[2,2]'
    text = own + '\n[target]\nname = "mine"\npart = "P"\nclock = { mhz = 10 }'
    assert (ps.target(written(tmp_path, text)).lut, mine.device.source) == (9, "AMD DS890, DS978")


def test_every_number_has_a_source() -> None:
    for target in targets().values():
        sourced = [target.part, target.clock, target.memory, target.power]
        sourced += [target.link] * bool(target.link.kind) + [target.reserve] * any(
            getattr(target.reserve, name) for name in ("lut", "ff", "bram")
        )
        assert all(each.source for each in sourced if each is not None), target.name  # type: ignore[union-attr]
    large = ps.target("u55c"), ps.target("vu9p")
    assert [(t.device.uram, t.device.bram) for t in large] == [(960, 2_016), (960, 2_160)]
    plain, sdram = ps.target("ulx3s-85f"), ps.target("ulx3s-85f-sdram")
    assert (plain.memory.bytes, plain.dram, plain.timing) == (128 << 10, "", "latency=4,bytes=8")
    assert (sdram.memory.bytes, sdram.dram) == (32 << 20, "sdr-60,ratio=1/1,transit=13")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("mhz = 250", 'mhz = "fast"'), "target.clock: `mhz` is a number, not 'fast'"),
        (("mhz = 250", "mhz = nan"), "target.clock: `mhz` is a number from 1 to 2^53, not nan"),
        (("mhz = 250, ", ""), "target.clock.mhz: it is missing"),
        (("gbps", "gpbs"), "target.link.gpbs: unknown; expected one of kind, baud, gbps"),
        (("gbps = 96", "baud = 0"), "target.link.baud: expected a number above 0, not 0"),
        (('"64 GiB"', '"64 GB"'), 'target.memory.bytes: expected a number of bytes, or a text'),
        (("ddr4-2400", "ddr9"), "there is no memory 'ddr9'; known are sdr-60"),
        (("200_000", "2_000_000"), "target.reserve.lut: expected at most the 1,182,240 of XCVU9P"),
        (("lut = 200_000", "lut = -1"), "target.reserve: `lut` is a number from 0 to 2^53, not -1"),
        (('"assumed"', '"guess"'), "`evidence` is one of placed, vendor, assumed, not 'guess'"),
        (("ports = 4", "lut = 4"), "target.lut: expected no capacity: it is the part's"),
        (('"lab-vu9p"', '"vu9p"'), "target.name: there is a target vu9p already"),
        (('"xcvu9p"', '"xcvu10p"'), "target.part: expected one of small, LFE5U-12F"),
        (("bus_bytes = 64", "bus_bytes = 65"), "`bus_bytes` is a power of two from 4 to 64"),
        (("bus_bytes = 64", "bus_bytes = 128"), "target: `bus_bytes` is a power of two from 4 to 64, not 128"),
        (('"measured"', '"\\u001b]0;x"'), "`source` is a text that can be shown on a line"),
        (("1.65 USD/h", "a lot"), "target: `price` is a text such as \"1.65 USD/h\", not 'a lot'"),
        (("1.65 USD/h", "-3 USD/h"), "target: `price` is a text such as"),
        (("1.65 USD/h", "nan USD/h"), "target: `price` is a text such as"),
        (('"ddr4", bytes = "64 GiB", timing = "ddr4-2400"', '"block RAM", bytes = "64 GiB"'), "`memory.bytes` is at most the 9,953,280 bytes of block RAM"),
        (("[target]", "[[target]]\n[[target]]"), "target.name: it is missing"),
        (("[target]", "[machine]"), "machine: expected the tables `part` and `target`"),
        (('"1.65 USD/h"', '""\nboard = { package = "a", oscillator_mhz = 9, platform = "m:P" }'), "`platform` is for a part"),
        (("idle_w = 35", "idle_w = nan"), "`idle_w` is at most the 160 of `max_w`, not nan"),
        (("idle_w = 35", "idle_w = -1.0"), "`idle_w` is a number from 0 to 160, not -1.0"),
        (('"64 GiB"', "0"), "target.memory.bytes: expected a number above 0, not 0"),
        (('"64 GiB"', '"0 GiB"'), "target.memory.bytes: expected a number above 0, not '0 GiB'"),
        (("[target]", "[target"), "is not TOML: Expected ']'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file(wrong: tuple[str, str], said: str, tmp_path: Path) -> None:
    assert wrong[0] in LAB
    file = written(tmp_path, LAB.replace(*wrong, 1))
    with pytest.raises(KernelError) as caught:
        ps.target(file)
    found = caught.value.diagnostic
    assert (found.code, found.span.file) == ("E621", file) and said in found.message


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lut": 1.5}, "`lut` is a whole number, not 1.5"),
        ({"dsp": True}, "`dsp` is a whole number, not True"),
        ({"bram": -1}, "`bram` is a number from 0 to 2^53, not -1"),
        ({"multiplier": (18, -1)}, "`multiplier` is a number from 2 to 2^53, not (18, -1)"),
        ({"multiplier": (25, 1)}, "`multiplier` is a number from 2 to 2^53, not (25, 1)"),
        ({"ports": 65}, "`ports` is a number from 1 to 64, not 65"),
        ({"bytes_per_cycle": 33}, "`bytes_per_cycle` is at most the 32 of `bus_bytes`, not 33"),
        ({"part": ("node_nm", 0)}, "`node_nm` is a number from 1 to 2^53, not 0"),
        ({"multiplier": (1, 2, 3)}, "`multiplier` is tuple, not (1, 2, 3)"),
        ({"name": 3}, "`name` is a text, not 3"),
        ({"lean": 1}, "`lean` is True or False, not 1"),
        ({"clock": {"mhz": 3}}, "`clock` is Clock, not {'mhz': 3}"),
        ({"memory": None}, "`memory` is Storage, not None"),
        ({"clock": ("mhz", float("nan"))}, "`mhz` is a number from 1 to 2^53, not nan"),
        ({"clock": ("mhz", "9")}, "`mhz` is a number, not '9'"),
        ({"power": ("idle_w", 1e3)}, "`idle_w` is at most the 150"),
        ({"link": ("gbps", 0)}, "`gbps` is a number above 0, not 0"),
        ({"link": ("kind", "zigbee")}, "`kind` is one of uart, udp, xdma, or another with its"),
        ({"link": ("baud", 9)}, "`baud` is of no link of the kind 'xdma'"),
    ],
)
def test_what_is_wrong_with_an_object(wrong: dict[str, Any], said: str) -> None:
    """A record checks itself: nothing that a file may not say is in one."""
    base = ps.target("u55c")
    with pytest.raises(ps.Error, match=re.escape(said)) as caught:
        for name, value in wrong.items():
            inner = isinstance(value, tuple) and isinstance(value[0], str)
            given = replace(getattr(base, name), **dict([value])) if inner else value
            replace(base, **{name: given})
    assert caught.value.code == "E621" and isinstance(caught.value, ValueError)


@pytest.mark.parametrize("given", [3, None, {}, b"u55c"])
def test_what_names_no_target(given: Any) -> None:
    with pytest.raises(ps.Error, match=r"it is a name, a TOML file or a Target, not"):
        ps.target(given)


def test_what_a_record_s_fields_are() -> None:
    """Each has its line of help, and nothing else has; chips are those that there are."""
    for kind in (Target, Part, Reserve, Clock, Storage, Link, Power, Board):
        named = {*kind._described()}
        assert named == {field.name for field in fields(kind)}
        assert named == {
            *re.findall(r"^    (\w+)(?: \(.*?\))?: ", kind.__doc__ or "", re.MULTILINE)
        }
    assert {*CHIPS} == {*Storage._described()["chip"]["among"]} - {""}


def test_links(tmp_path: Path) -> None:
    """A link of which no more is known than its rate has that."""
    for text, rate in (("{ gbps = 8 }", 10**9), ('{ kind = "mine", gbps = 0.5 }', 62_500_000)):
        file = written(tmp_path, f'[target]\nname = "q"\nbase = "u55c"\nlink = {text}')
        link = link_of(ps.target(file))
        assert link is not None and link.bytes_per_s == rate


#: nothing that a record may hold, of any kind
JUNK = (-1, 1e300, float("nan"), float("inf"), True, "", "x" * 5_000, [], {}, [[[{}]]], {"a": {"a": 1}}, 10**400)  # fmt: skip


def mutilated(draw: random.Random) -> bytes:
    """The good file with one thing wrong, at least."""
    import math

    def text(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k} = {text(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return json.dumps(value)

    table: dict[str, Any] = tomllib.loads(LAB)["target"]
    inner = [each for each in table.values() if isinstance(each, dict)]
    at = draw.choice([table, table, *inner])
    key = draw.choice([*at])
    whole = "[target]\n"
    match draw.randrange(6):
        case 0:
            at[draw.choice(("zz", "Clock", "lut_", "bases", "source2"))] = at.pop(key)
        case 1:
            kept = dict(table, name="vu9p") if draw.random() < 0.5 else dict(table, part="?")
            table = kept
        case 2:
            del table[draw.choice(("name", "part", "clock"))]
        case 3:
            good = "\n".join(f"{k} = {text(v)}" for k, v in table.items())
            cut = draw.randrange(20, len(good) - 30)
            return f"{whole}{good[:cut]}\x00{good[cut:]}".encode()
        case 4:
            return draw.randbytes(draw.randrange(1, 400)) + b"\xff"
        case _:
            free = key in ("source", "kind", "timing")  # any text will do
            at[key] = draw.choice([each for each in JUNK if not (free and isinstance(each, str))])
    return (whole + "\n".join(f"{k} = {text(v)}" for k, v in table.items())).encode()


@pytest.mark.parametrize("seed", range(50))
def test_mutilated_files(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is refused with one diagnostic that names the file: never a traceback, never an answer."""
    file = written(tmp_path, mutilated(random.Random(seed)))
    assert run(["targets", file]) == 1
    said = capsys.readouterr()
    assert (
        said.err.count("error[") == 1 and "error[E621]" in said.err and "Traceback" not in said.err
    )
    assert "lab.toml" in said.err and said.out == ""


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    deep = written(tmp_path, "[target]\nname = " + "[" * 100_000)
    for name in ("absent.toml", "folder.toml", "pipe.toml", deep):
        assert "error[E621]" in told(f"targets {tmp_path / name}", 1)


# designs with a target of one's own

Made = Callable[[ps.Target], ps.Design]
_LEAST = ps.Choices(threads=1, lanes=1)
ENGINES: dict[str, tuple[Made, dict[str, Any]]] = {
    "analytics": (
        lambda part: ps.compile(
            EXAMPLES / "linear.psk", part, dims={"d": 2}, format="fixed:8,8", choices=_LEAST
        ),
        {"data": "random:rows=8,seed=1"},
    ),
    "columns": (
        lambda part: ps.compile(EXAMPLES / "closed_form.psk", part, dims={"d": 2}),
        {"data": "random:rows=30,seed=1"},
    ),
    "pim": (
        lambda part: ps.compile(EXAMPLES / "retnet.psk", part, dims={"k": 32, "v": 32}, heads=1),
        {"tokens": 1},
    ),
    "omap": (
        lambda part: ps.compile(
            ps.ObliviousMap(value=ps.bytes(8), capacity=100, name="m"),
            part,
            channels=1,
            cores=2,
            rounds=1,
            window=2,
        ),
        {"ops": 3},
    ),
}
ELSEWHERE = """
import sys, penstock as ps
design = ps.load(sys.argv[1])
print(design.target.name, design.target.price, design.resources.lut, design.target.digest)
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "backends", [("golden", "model"), pytest.param(("model", "rtl"), marks=pytest.mark.long)]
)
def test_a_design_carries_its_target(
    engine: str, backends: tuple[str, ...], tmp_path: Path
) -> None:
    """No registry is asked: a target that has no entry passes all that a design does, also in another process."""
    compiled, options = ENGINES[engine]
    base = ps.target("u55c" if engine == "omap" else "small")
    mine = replace(base, name="pynq-z9", lut=base.lut - 1_000, price="9 EUR/h")
    assert mine.name not in targets()
    design = compiled(mine)
    assert design.target == mine and design.resources.lut > 0
    found = [design.run(backend=each, **options) for each in backends]
    assert len({each.cycles for each in found} - {None}) == 1
    assert all("pynq-z9" in shown._repr_html_() for shown in (design, *found))
    again = ps.load(design.save(tmp_path / "d"))
    assert as_json(again.manifest()) == as_json(design.manifest())
    assert again.target == mine and again.resources == design.resources
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "d")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = f"pynq-z9 9 EUR/h {design.resources.lut} {mine.digest}"
    assert done.stdout.strip() == wanted


#: what a package offers: a file, a record, several; and what is wrong with others
OFFERED = """
from dataclasses import replace
import penstock as ps
HERE = __file__.rpartition("/")[0]
lab, bad, gone = (f"{HERE}/{name}.toml" for name in ("lab", "bad", "gone"))
one = replace(ps.target("small"), name="lab-one", lut=40_000)
several = [replace(one, name="lab-two"), replace(one, name="lab-three", price="2 USD/h")]
taken, number = replace(one, name="u55c"), 7
"""
LEFT = {
    "bad": "/bad.toml: target.clock: `mhz` is a number, not 'fast'",
    "gone": "there is no file ",
    "taken": "there is a target u55c already",
    "number": "'int' object is not iterable",
    "missing": "AttributeError: module 'lab_targets' has no attribute 'missing'",
}


def test_a_package_of_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They pass all that Penstock's own do, a design of theirs also where the package is not; what is broken is named with its reason."""
    site, mine = tmp_path / "site", "lab-vu9p,lab-two,lab-three"
    names = ("lab", "one", "several", *LEFT)
    record(site, "lab", {"targets": {name: f"lab_targets:{name}" for name in names}})
    (site / "lab_targets.py").write_text(OFFERED)
    (site / "lab.toml").write_text(LAB)
    (site / "bad.toml").write_text(LAB.replace("mhz = 250", 'mhz = "fast"'))
    monkeypatch.chdir(tmp_path)
    kernel = [str(EXAMPLES / "linear.psk"), "--dim", "d=2"]
    with commands({"PYTHONPATH": str(site)}) as penstock:
        code, out, err = penstock("targets")
        assert code == 0 and {"lab-one", *mine.split(",")} <= {*out.replace("│", " ").split()}
        said = [line for line in err.splitlines() if line.startswith("warning: the installed ")]
        assert len(said) == len(LEFT)
        for line in said:
            name = line.split("set of targets ")[1].split()[0]
            assert "is left out: " in line and LEFT[name] in line
        words = ["explore", *kernel, "--rows", "99", "--target", mine, "--jobs", "1", "-q"]
        assert penstock(*words, "--out", "points")[0] == 0
        rows = json.loads(Path("points/points.json").read_text())["points"]
        assert {row["target"] for row in rows} == {*mine.split(",")}
        for row in rows:
            words = ["model", *kernel, "--rows", "99", "--target", row["target"], "--json", "r"]
            assert penstock(*words)[0] == 0
            found = json.loads(Path("r").read_text())
            assert (row["cycles"], row["seconds"]) == (
                found["cycles"]["model"],
                found["seconds"]["total"],
            )
        words = ["compile", *kernel, "--target", "lab-three", "--out", "d", "-q"]
        assert penstock(*words)[0] == 0
    assert "error[E602]" in told("targets lab-three", 1)
    design = ps.load("d")
    assert (design.target.name, design.target.price) == ("lab-three", "2 USD/h")
    assert design.run("random:rows=9,seed=1", "model").cycles


def test_one_name_with_two_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that is kept of the one is taken for the other."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    made: dict[str, Any] = {"dims": {"d": 2}, "format": "fixed:8,8"}
    one = ps.target("small")
    changes = {"clock": replace(one.clock, mhz=7)}, {"lut": 20_000}, {"price": "3 EUR/h"}
    first, *others, last = (
        ps.explore(EXAMPLES / "linear.psk", part, rows=9, jobs=1, **made).to_pylist()[0]
        for part in (one, *(replace(one, **change) for change in changes), one)
    )
    assert first == last
    for row in others:
        assert row["key"] != first["key"]
        figures = [
            tuple(r[n] for n in ("engine_seconds", "lut_share", "cost")) for r in (row, first)
        ]
        assert figures[0] != figures[1], row
    with pytest.raises(KernelError, match="small stands twice"):
        ps.explore(EXAMPLES / "linear.psk", [one, replace(one, lut=9)], rows=9, **made)
    # what the record decides of the hardware is in the name of what is kept
    compiled, _ = ENGINES["analytics"]
    more = {"bus_bytes": 16, "bytes_per_cycle": 16}, {"lean": True}, {"latency": 31}
    pairs = [(compiled(one), compiled(replace(one, **change))) for change in more]
    assert [a.digest == b.digest for a, b in pairs] == [False, False, True]
    assert [a.verilog == b.verilog for a, b in pairs] == [False, False, True]


#: a kernel of each engine, the widths that its ports can have, and one that they cannot with what is there instead
BUSES = [
    ("linear.py", {"dims": {"d": 3}}, (4, 64), 0, ""),
    ("ridge.py", {"dims": {"d": 3}}, (4, 64), 0, ""),
    ("mamba2.py", {"dims": {"n": 32, "p": 32}}, (8,), 16, "8"),
    ("mamba2.py", {"dims": {"n": 32, "p": 32}, "dram": "on-chip"}, (8, 32), 64, "32"),
    pytest.param("contacts.py", {}, (64,), 4, "32", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("file", "options", "widths", "wrong", "there"), BUSES)
def test_buses_of_another_width(
    file: str,
    options: dict[str, Any],
    widths: tuple[int, ...],
    wrong: int,
    there: str,
) -> None:
    for bus in widths:
        design = ps.compile(EXAMPLES / file, bus=bus, **options)
        assert bus in {port.data_bytes for port in design.compiled.bus_ports}
        assert design.target.board is None
    if wrong:
        with pytest.raises(KernelError, match="has no memory port of") as caught:
            ps.compile(EXAMPLES / file, bus=wrong, **options)
        found = caught.value.diagnostic
        assert found.code == "E622" and found.message.endswith(f"its ports have {there}")
        assert found.hint == f"write --bus {there}, or leave it out"
        ps.compile(EXAMPLES / file, bus=int(there), **options)


def test_a_bus_that_there_is_not() -> None:
    for bus in (0, 2, 3, 12, 128, -8, True, "8"):
        with pytest.raises(KernelError) as caught:
            ps.compile(EXAMPLES / "linear.py", dims={"d": 3}, bus=bus)  # type: ignore[arg-type]
        found = caught.value.diagnostic
        assert (found.code, found.hint) == ("E622", "as in --bus 8")
        said = f"a memory port is 4, 8, 16, 32 or 64 bytes wide, not {bus!r}"
        assert found.message == said


def test_a_saved_design_keeps_its_bus(tmp_path: Path) -> None:
    told(f"compile {EXAMPLES / 'linear.py'} --dim d=3 --bus 32 --out {tmp_path / 'wide'}")
    design = ps.load(tmp_path / "wide")
    assert [port.data_bytes for port in design.compiled.bus_ports] == [32]


@pytest.mark.parametrize("tool", ["-lcanary", "-l/canary", "--", "-"])
def test_a_part_gives_its_placer_no_file(tool: str) -> None:
    """`-lFILE` is nextpnr's log, which it would write in place of any file of the user's."""
    part = ps.target("ulx3s-12f").device
    with pytest.raises(ps.Error, match="`tool` is letters, digits and"):
        replace(part, tool=tool)
