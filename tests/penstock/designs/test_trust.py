"""What comes from somebody else runs nothing: folders, runs, descriptions of boards, tables, and what lies in the current folder.

Each attempt would make the file `canary`.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import api
from penstock.cli.main import run
from penstock.designs.bounded import bounded
from penstock.designs.folder import FolderError, sealed, unfit
from penstock.engines.discovery import engine_named
from penstock.errors import RunWarning
from penstock.models.errors import Error
from penstock.sim import staging
from testbench.command_line import told

EXAMPLES = Path(__file__).parents[3] / "examples"
Manifest = dict[str, Any]
Files = dict[str, bytes]
TOUCH = "touch canary"
SYSTEM = b'initial $system("touch canary");\nendmodule\n'
IMPORT = b'import "DPI-C" function int system(input string s);\ninitial system("touch canary");\nendmodule\n'


@pytest.fixture(scope="module")
def design() -> api.Design:
    return api.compile(EXAMPLES / "logistic.psk", format="fixed:8,8", dims={"d": 2})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"bin:{os.environ['PATH']}")
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_has_run(tmp_path: Path) -> Iterator[None]:
    yield
    assert not (tmp_path / "canary").exists()


def _kernel(manifest: Manifest, name: str) -> None:
    manifest["plan"]["kernel"] = manifest["kernel"] = name
    _consistent(manifest)


def _line(manifest: Manifest, line: str) -> None:
    """Lines of the kernel decide no digest, and stand in exports."""
    manifest["plan"]["ops"][0]["line"] = line


def _verilog(end: bytes) -> Callable[[Manifest, Files], None]:
    def change(manifest: Manifest, files: Files) -> None:
        files["penstock.v"] = files["penstock.v"].replace(b"endmodule\n", end, 1)

    return change


def _renamed(text: str) -> Callable[[Manifest, Files], None]:
    """Every operation of the plan has this behind its name."""

    def change(manifest: Manifest, files: Files) -> None:
        for op in manifest["plan"]["ops"]:
            op["name"] += text
        _consistent(manifest)

    return change


def _consistent(manifest: Manifest) -> None:
    """Make what a manifest says of a changed plan what Penstock would say."""
    other = engine_named("analytics").load(manifest).manifest()
    manifest |= json.loads(json.dumps({key: other[key] for key in ("digest", "register_map")}))


def _said(**entries: Any) -> Callable[[Manifest, Files], None]:
    return lambda manifest, files: manifest.update(entries)


def _board(manifest: Manifest, files: Files) -> None:
    manifest["board"] = {"name": "ulx3s-85f"}
    _verilog(SYSTEM)(manifest, files)


def _platform(manifest: Manifest, files: Files) -> None:
    board = {"package": "x", "oscillator_mhz": 1.0, "platform": "subprocess:getoutput"}
    manifest["target"]["board"] = board | {"options": [["cmd", TOUCH]]}


def _whole(manifest: Manifest, files: Files) -> None:
    files["penstock.v"] = b'module penstock; initial $system("touch canary"); endmodule\n'


def _files(name: str) -> Callable[[Manifest, Files], None]:
    return lambda manifest, files: files.update({name: files["penstock.v"]})


#: what is done to the folder of a design, whose digests are computed anew
FOLDERS: dict[str, Callable[[Manifest, Files], None]] = {
    "a system task": _verilog(SYSTEM),
    "C++ in the model": _verilog(b'initial $c("system(\\"touch canary\\");");\nendmodule\n'),
    "a function of C": _verilog(IMPORT),
    "a file that is read": _verilog(b'initial $readmemh("/etc/passwd", m);\nendmodule\n'),
    "a file that is included": _verilog(b'endmodule\n`include "/etc/passwd"\n'),
    "options in a comment": _verilog(b"/*verilator public*/ endmodule\n"),
    "a space more": _verilog(b"endmodule \n"),
    "a module more": _verilog(
        b'endmodule\nmodule more; initial $system("touch canary"); endmodule\n'
    ),
    "another design": _whole,
    "a cell in a name": _renamed('\nend\ncell \\a;initial$system("touch${IFS}canary");// \\b\nend'),
    "a task in a name": _renamed(';initial$system("touch${IFS}canary");'),
    "a space in a name": _renamed(" x"),
    "a kernel's name": _said(kernel='a"; $system("touch canary")'),
    "a program in a kernel": lambda manifest, files: _kernel(manifest, '"""\nimport os'),
    "a program in a line": lambda manifest, files: _line(manifest, 'x" *) initial $system("a");'),
    "an engine's module": _said(engine="os"),
    "an engine's path": _said(engine="../../evil"),
    "a path above": _files("../evil.v"),
    "an absolute path": _files("/tmp/evil.v"),
    "another folder": _files("evil/x.v"),
    "a board's platform": _platform,
    "a memory's timing": _said(memory='latency=20,bytes=8;__import__("os").system("touch canary")'),
    "an image": lambda manifest, files: files.update(
        {"boot.bin": b"\x7f" * len(files["boot.bin"])}
    ),
}


def _doctored(folder: Path, design: api.Design, change: Callable[[Manifest, Files], None]) -> Path:
    """Write a design's folder as somebody else would."""
    files = design.files()
    manifest = json.loads(files.pop("manifest.json"))
    del manifest["files"], manifest["sha256"]
    change(manifest, files)
    folder.mkdir()
    for name, data in sealed(manifest, files).items():
        if "/" not in name:
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan", "ops", 0, "line"), "x"),
        (("plan", "buffers", 0, "bits"), "8"),
        (("plan", "notes"), 3),
        (("plan", "models"), [0, True]),
        (("labels",), [7]),
    ],
)
def test_a_field_of_another_type(
    path: tuple[Any, ...], value: object, design: api.Design, place: Path
) -> None:
    """Also where no hardware depends on it: reports of such a design ended in a traceback."""

    def change(manifest: Manifest, files: Files) -> None:
        inner: Any = manifest
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    _doctored(place / "d", design, change)
    with pytest.raises(FolderError, match=r"its \S+ is of another type|no attribute") as found:
        ps.load("d", trust=True)
    assert found.value.diagnostic.code == "E806"


#: these elaborate a design to its first signals
SLOW = ("a task in a name", "a space in a name")


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.long] * (k in SLOW)) for k in FOLDERS]
)
def test_a_folder_from_somebody_else(kind: str, design: api.Design, place: Path) -> None:
    """Whoever opens it is told which file is wrong, before anything is compiled."""
    _doctored(place / "d", design, FOLDERS[kind])
    with pytest.raises(FolderError) as found:
        ps.load("d").run("random:rows=4", "rtl")
    named = " in a name" not in kind or "is no name of a part" in str(found.value)
    assert found.value.diagnostic.code == "E806" and named


def test_a_board_takes_no_verilog(design: api.Design, place: Path) -> None:
    """Of what a build wrote, hardware is made anew: the Verilog in it is nobody's."""
    _doctored(place / "d", design, _board)
    assert ps.load("d").verilog == design.verilog


def test_what_is_said_of_a_folder(design: api.Design, place: Path) -> None:
    """The whole message; with trust it is taken; a design's own folder needs none."""
    _doctored(place / "d", design, _verilog(SYSTEM))
    assert told("emulate d", 1) == (
        "error[E806]: d/penstock.v is not what this version makes of manifest.json: it was changed, or another version wrote it\n"
        " --> d/penstock.v\n"
        "hint: penstock compile KERNEL --target small --format fixed:8,8 --dim d=2 --out d; Verilog of your own is taken with --trust, in Python trust=True\n"
    )
    words = f"{EXAMPLES}/logistic.psk --dim d=2 --format fixed:8,8 --data random:rows=4 -q"
    device = f"simulate {words} --backend board --device"
    assert "error[E806]: d/penstock.v is not what" in told(f"{device} sim:d?link=xdma", 1)
    assert b"$system" in ps.load("d", trust=True).verilog.encode()
    assert ps.load(design.save(place / "own")).verilog == design.verilog
    assert "--trust is for --device sim:DIR" in told(f"simulate {words} --trust", 1)
    with pytest.raises(FolderError, match=r"penstock\.v is not what"):
        ps.Design(design).run("random:rows=4", "board", device="sim:d?link=xdma")


def test_a_device_of_a_folder_that_is_trusted(
    design: api.Design, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word reaches the folder, and is no option of other devices."""
    words: list[Any] = []

    def opened(url: str, *, register_map: Any, trust: bool = False) -> Any:
        words.append(trust)
        raise FolderError(unfit("opened", "").diagnostic)

    monkeypatch.setattr("penstock.runs.devices.open_device", opened)
    for options in ({}, {"trust": True}):
        with pytest.raises(FolderError, match="opened"):
            ps.Design(design).run("random:rows=4", "board", device="sim:d", **options)
    assert words == [False, True]


def test_a_file_that_was_grown(design: api.Design, place: Path) -> None:
    """The hint makes the folder anew."""
    file = design.save(place / "d") / "penstock.v"
    size = file.stat().st_size
    file.write_bytes(file.read_bytes() + b"//\n")
    assert told("emulate d", 1) == (
        f"error[E806]: d/penstock.v has {size + 3:,} bytes: what was saved has at most {size:,}\n"
        " --> d/penstock.v\n"
        "hint: penstock compile KERNEL --target small --format fixed:8,8 --dim d=2 --out d\n"
    )


def test_work_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends where a folder of its size needs no more, whatever catches exceptions; work that ends is left alone."""
    with bounded(1):
        pass
    monkeypatch.setattr("penstock.designs.bounded._SECONDS", 0.0)
    with pytest.raises(FolderError, match="a plan of 1 bytes whose hardware takes more than"):
        with bounded(1):
            while True:
                try:
                    sum(range(1000))
                except Exception:
                    pass


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("input_slots",), 10**9),
        (("ports",), 20_000),
        (("threads",), 20_000),
        (("schedule", "release"), 10**9),
        (("ops", 0, "start"), 10**9),
    ],
)
def test_a_plan_without_an_end(
    path: tuple[Any, ...], value: int, design: api.Design, place: Path
) -> None:
    def change(manifest: Manifest, files: Files) -> None:
        inner = manifest["plan"]
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        if path != ("ports",):  # of so many the map of registers has no end either
            _consistent(manifest)

    _doctored(place / "d", design, change)
    with pytest.raises(FolderError, match="whose hardware takes more than"):
        ps.load("d")


def test_a_folder_of_another_version(design: api.Design, place: Path) -> None:
    """The hint, typed with the kernel's file, makes it anew."""
    folder = design.save(place / "d")
    text = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(text.replace(b'"penstock": ', b'"penstock": 9'))
    said = told("emulate d", 1)
    assert "and this Penstock reads format" in said
    hint = said.splitlines()[-1].removeprefix("hint: penstock ")
    assert hint == "compile KERNEL --target small --format fixed:8,8 --dim d=2 --out d"
    told([*hint.replace("KERNEL", str(EXAMPLES / "logistic.psk")).split(), "-q"])
    assert ps.load("d").name == "logistic"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ('"name": "small"', '"name": "$(touch canary)"'),
        ('"asked": "--format', '"asked": "; touch canary --format'),
        ('"asked": "--format', '"asked": "--json canary --format'),
        ('"asked": "--format', '"asked": "--trust --init w=canary --format'),
        ('"asked": "--format', '"asked": "--data postgresql://canary --format'),
    ],
)
def test_a_hint_says_nothing_that_a_shell_reads(
    key: str, text: str, design: api.Design, place: Path
) -> None:
    file = design.save(place / "d") / "manifest.json"
    said = file.read_text().replace('"penstock": ', '"penstock": 9')
    assert key in said
    file.write_text(said.replace(key, text))
    assert "canary" not in told("emulate d", 1)


def test_what_a_folder_says_is_kept_for_it_alone(
    design: api.Design, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is made of somebody's plan is handed to another design."""
    monkeypatch.setenv("PENSTOCK_CACHE", str(place / "cache"))
    design.save(place / "d")
    calls: list[str] = []
    plain = api.compile(EXAMPLES / "logistic.psk", format="fixed:8,8", dims={"d": 2})
    monkeypatch.setattr(
        "penstock.hdl.shell.top.shelled", lambda *_: calls.append("made") or design.verilog
    )
    for made, count in ((api.load("d"), 1), (api.load("d"), 1), (plain, 2), (api.load("d"), 2)):
        assert made.verilog == design.verilog and len(calls) == count


# bitstreams and boards


def _loader(place: Path) -> None:
    (place / "bin").mkdir()
    (place / "bin" / "openFPGALoader").write_text('#!/bin/sh\necho "$@" > given\n')
    (place / "bin" / "openFPGALoader").chmod(0o755)


def test_a_bitstream_needs_a_word(place: Path) -> None:
    """And the loader is given a copy of what was compared, under no name of the folder's."""
    _loader(place)
    Path("-b").mkdir()
    for name, data in sealed({"board": {"name": "ulx3s-12f"}}, {"penstock.bit": b"1"}).items():
        Path("-b", name).write_bytes(data)
    assert told("program --board ulx3s-12f -- -b", 1) == (
        "error[E807]: -b/penstock.bit cannot be made anew to compare it, and a board would run it\n"
        " --> program\n"
        "hint: --trust runs it; penstock build makes one of your own\n"
    )
    assert not Path("given").exists()
    told("program --trust --board ulx3s-12f -- -b")
    words = Path("given").read_text().split()
    assert words[:2] == ["-b", "ulx3s"] and staging.TEMPORARY in words[2] and len(words) == 3


BOARD = """[target]
name = "evil"
base = "ulx3s-85f"
board = { package = "CABGA381", speed = "6", oscillator_mhz = 25.0, PLATFORM }
"""


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ('platform = "subprocess:getoutput", options = [["cmd", "touch canary"]]', "E807"),
        ('platform = "evil:Board"', "E807"),
        ('platform = ".tools:run_group", options = [["name", "a"], ["command", "x"]]', "E807"),
        ('platform = "amaranth_boards.ulx3s:subprocess"', "E821"),
        ('platform = "amaranth_boards.resources:UARTResource"', "E821"),
        ('platform = "amaranth_boards.ulx3s:ULX3S_85F_Platform", loader = "a --b"', "E621"),
    ],
)
def test_a_board_from_somebody_else(platform: str, said: str, place: Path) -> None:
    """What its file names is no code of the current folder, and no function of Python's."""
    Path("evil.py").write_text("import os\nos.system('touch canary')\n")
    Path("evil.toml").write_text(BOARD.replace("PLATFORM", platform))
    words = f"build {EXAMPLES}/logistic.psk --dim d=2 --format fixed:8,8 --board evil.toml --out o"
    assert f"error[{said}]" in told(words, 1)


def test_a_board_whose_maker_is_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class is imported then; what is no platform is refused all the same."""
    monkeypatch.syspath_prepend(place)
    Path("own_board.py").write_text("Board = dict\n")
    text = BOARD.replace("PLATFORM", 'platform = "own_board:Board"')
    Path("own.toml").write_text(text)
    words = f"build {EXAMPLES}/logistic.psk --dim d=2 --format fixed:8,8 --board own.toml --out o"
    assert "Board is no platform of Amaranth's" in told(f"{words} --trust", 1)


# data


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, (TOUCH,)


def _pickled() -> bytes:
    memory = io.BytesIO()
    np.save(memory, np.array([_Evil()], object), allow_pickle=True)
    return memory.getvalue()


def _evil_run(place: Path) -> None:
    import zipfile

    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("result.w.npy", _pickled())
    run_of = {
        "kind": "run",
        "engine": "os",
        "kernel": "k",
        "facts": {},
        "names": {},
        "scoring": None,
    }
    for name, data in sealed(run_of, {"result.npz": memory.getvalue()}).items():
        (place / name).write_bytes(data)


def _evil_score(place: Path) -> None:
    nodes = [["__import__('os').system", [], [], "TUPLE", {"value": TOUCH}]]
    graph = {"name": "k", "score": "s", "root": 0, "nodes": nodes, "variables": []}
    run_of = {"kind": "run", "engine": "analytics", "kernel": "k", "facts": {}, "names": {}}
    said = {
        "graph": graph,
        "columns": {},
        "schema": {"columns": []},
        "format": "float32",
        "options": {},
    }
    scoring = {**said, "target": ps.target("small").to_json(), "backend": "golden", "groups": None}
    memory = io.BytesIO()
    np.savez(memory, **{"result.w": np.zeros(1)})
    for name, data in sealed(
        {**run_of, "scoring": scoring}, {"result.npz": memory.getvalue()}
    ).items():
        (place / name).write_bytes(data)


def _snapshot(place: Path) -> None:
    (place / "index.pst").write_bytes(pickle.dumps(_Evil()))


def _table(place: Path) -> None:
    import zipfile

    with zipfile.ZipFile(place / "t.npz", "w") as archive:
        archive.writestr("x.npy", _pickled())


def _weights(place: Path) -> None:
    (place / "config.json").write_text(
        '{"model_type": "gpt2", "auto_map": {"AutoModel": "evil.M"}}'
    )
    (place / "evil.py").write_text("import os\nos.system('touch canary')\n")
    (place / "pytorch_model.bin").write_bytes(pickle.dumps(_Evil()))


#: what is written, and what opens it
DATA: dict[str, tuple[Callable[[Path], None], Callable[[], object]]] = {
    "objects in a run": (_evil_run, lambda: ps.Run.load(".")),
    "an operation of a score": (_evil_score, lambda: ps.Run.load(".").predict({"x": [1.0]})),
    "objects in a table": (_table, lambda: ps.open_table("t.npz")),
    "objects in a snapshot": (_snapshot, lambda: ps.LearnedIndex.load("index.pst")),
    "code beside weights": (_weights, lambda: ps.LanguageModel.load(".")),
}


@pytest.mark.parametrize("kind", DATA)
def test_data_from_somebody_else(kind: str, place: Path) -> None:
    write, act = DATA[kind]
    write(place)
    with pytest.raises(Exception) as found:
        act()
    assert isinstance(found.value, (Error, ValueError)), found.value


@pytest.mark.parametrize("command", ["explore", "serve"])
def test_modules_in_the_current_folder_are_not_imported(command: str, place: Path) -> None:
    """By a sweep's workers, and by the process of a map's device."""
    for name in ("multiprocessing", "json", "numpy", "penstock", "sitecustomize"):
        (place / f"{name}.py").write_text("import os\nos.system('touch canary')\n")
    if command == "explore":
        words = f"explore {EXAMPLES}/logistic.psk --dim d=2 --rows 9 --sweep threads=1..2 --jobs 1 --out o -q"
        assert run(words.split()) == 0
        return
    from penstock.host.omap.process import DeviceLost, DeviceProcess

    made: Any = api.compile(ps.ObliviousMap(value=ps.bytes(24), capacity=300, name="m"))
    with pytest.raises(DeviceLost):
        DeviceProcess(made.plan, place / "keys")


# the server's packages


def test_packages_that_others_can_write(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server does not run them, unless that is forced; then it is said."""
    from penstock.hdl.environment import changeable
    from penstock.host.sources import SourceError
    from penstock.sql import install

    (place / "site" / "pack").mkdir(parents=True)
    file = place / "site" / "pack" / "module.py"
    file.write_text("")
    file.chmod(0o666)
    monkeypatch.setattr(install, "_changeable", lambda: changeable([place / "site"]))
    with pytest.raises(SourceError, match=rf"others can write {file} \(chmod go-w"):
        install._check(False)
    with pytest.warns(RunWarning, match="and the server runs what is installed there"):
        install._check(True)
    file.chmod(0o644)
    install._check(False)
    (place / "site" / "pack").chmod(0o777)
    with pytest.raises(SourceError, match="others can write"):
        install._check(False)


#: what others can change in `aside`, whose link or path is in `site`
CHANGEABLE: dict[str, Callable[[Path, Path], object]] = {
    "an archive": lambda site, aside: (site / "path").symlink_to(aside / "open.zip"),
    "a module of a linked package": lambda site, aside: (site / "path").symlink_to(aside / "pack"),
    "what is not there": lambda site, aside: (site / "path").symlink_to(aside / "sticky" / "none"),
    "a link on the way": lambda site, aside: (site / "path").symlink_to(aside / "open" / "link"),
}


@pytest.mark.parametrize("kind", CHANGEABLE)
def test_what_links_to_packages_go_through(kind: str, place: Path) -> None:
    from penstock.hdl.environment import changeable

    site, aside = place / "site", place / "aside"
    for folder in (site, aside / "pack", aside / "sound", aside / "open", aside / "sticky"):
        folder.mkdir(parents=True)
    for file in (aside / "open.zip", aside / "pack" / "module.py"):
        file.write_text("")
        file.chmod(0o666)
    (aside / "open" / "link").symlink_to(aside / "sound")
    (aside / "open").chmod(0o777)
    (aside / "sticky").chmod(0o1777)
    (site / "loop").symlink_to("loop")
    (site / "sound").symlink_to("../aside/sound")
    assert changeable([site]) == ""
    CHANGEABLE[kind](site, aside)
    assert changeable([site]).startswith("others can write ")
    assert changeable([site / "path"]).startswith("others can write ")


def test_what_a_server_would_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of no package and the interpreter's settings are among it, the current folder is not."""
    from penstock.hdl import environment
    from penstock.sql import install

    judged: list[Path] = []
    monkeypatch.setattr(environment, "changeable", lambda places: judged.extend(places) or "")
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    monkeypatch.setitem(sys.modules, "alone", ModuleType("alone"))
    sys.modules["alone"].__file__ = str(place / "alone.py")
    assert install._changeable.__wrapped__() == ""
    programs = Path(sys.executable)
    assert {programs, programs.parents[1] / "pyvenv.cfg", place / "alone.py"} <= set(judged)
    assert place not in judged


# with Verilator


@pytest.mark.long
def test_what_a_load_without_comparison_would_run(design: api.Design, place: Path) -> None:
    """The first attempt is one that runs, where its Verilog is taken."""
    _doctored(place / "d", design, _verilog(SYSTEM))
    ps.load("d", trust=True).run("random:rows=4", "rtl")
    (place / "canary").unlink()
