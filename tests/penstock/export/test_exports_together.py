"""Cores of all examples and of the outside engine, two of each under other names, in one project: Icarus, Verilator's lint without a waiver, Yosys; FuseSoC
runs the bench of each, which finds a changed bit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from penstock.api import compile
from penstock.export.bench import Bench
from penstock.export.exporter import exported
from penstock.export.flows import NAMES, Flow
from penstock.output import write_folder
from testbench.cores import flipped, icarus, lint, ran
from testbench.outside import KERNEL, commands, installed
from testbench.small_examples import EXAMPLES, KERNELS, small
from testbench.yosys import yosys

#: maps, each of which takes as long as all these together (`test_export.py` has one), and programs
OTHERS = {"breached_passwords.py", "contacts.py", "demo.py", "language.py", "serving.py"}


def names(where: str) -> tuple[str, str]:
    name = where.rpartition(":")[2].removesuffix(".py")
    return f"{name}_a", f"other_{name}"


def exports(folder: Path, where: str) -> Iterator[Path]:
    """Export an example twice."""
    kernel, options = small(where, folder)
    design = compile(kernel, **options)
    for ip in names(where):
        yield design.export(folder / ip, ip=ip, targets=["fusesoc"])


def tallies(folder: Path) -> Iterator[Path]:
    """Export the outside engine's kernel twice."""
    (folder / "sums.py").write_text(KERNEL)
    with commands(installed(folder)) as command:
        for ip in names("tally"):
            given = ["--data", "numbers:5,7,11", "--ip", ip, "--for", "fusesoc"]
            out = ["--out", str(folder / ip)]
            code, _, said = command("export", str(folder / "sums.py"), *given, *out)
            assert code == 0, said
            yield folder / ip


def project(folder: Path, cores: Sequence[Path]) -> list[str]:
    """Write a module that has all cores, whose inputs rest and whose outputs lead nowhere; return all sources."""
    lines = ["module all;"]
    for core in cores:
        text = (core / f"rtl/{core.name}.v").read_text()
        ports = re.findall(r"^  (input|output) wire (?:\[(\d+):0\] )?(\w+)", text, re.MULTILINE)
        ends = [
            f".{name}({f'{int(top or 0) + 1}' + chr(39) + 'd0' if way == 'input' else ''})"
            for way, top, name in ports
        ]
        lines.append(f"  {core.name} {core.name}_0 ({', '.join(ends)});")
    (folder / "all.v").write_text("\n".join([*lines, "endmodule", ""]))
    files = [
        f"{core.relative_to(folder)}/{line}"
        for core in cores
        for line in (core / "filelist.f").read_text().split()
    ]
    (folder / "all.f").write_text("\n".join(["all.v", *files, ""]))
    return ["all.v", *files]


def in_icarus(folder: Path, cores: Sequence[Path]) -> None:
    project(folder, cores)
    command = ["iverilog", "-g2012", "-Wall", "-o", "all.vvp", "-s", "all", "-f", "all.f"]
    made = ran(*command, folder=folder)
    assert not made.returncode, made.stderr


def in_verilator(folder: Path, cores: Sequence[Path]) -> None:
    project(folder, cores)
    assert not lint(folder, "all", "-f", "all.f")


def in_yosys(folder: Path, cores: Sequence[Path]) -> None:
    """Raises ToolError where Yosys does not take them."""
    reading = [f"read_verilog {name}" for name in project(folder, cores)]
    yosys("; ".join([*reading, "hierarchy -check -top all", "proc", "check -assert"]), folder)


TOOLS = (in_icarus, in_verilator, in_yosys)


def run_by_fusesoc(folder: Path, core: Path) -> None:
    """FuseSoC runs the bench, in the cycles of the model (`recorded`); with a changed bit it fails; C99 takes the driver."""
    program = str(Path(sys.executable).with_name("fusesoc"))
    command = [program, "--cores-root", str(core), "run", "--target=sim", core.name]
    done = ran(*command, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"PASS {core.name}: " in done.stdout
    flags = ["-std=c99", "-Wall", "-Werror", "-c", "-o", "driver.o"]
    compiled = ran("cc", *flags, f"sw/{core.name}.c", folder=core)
    assert not compiled.returncode, compiled.stderr
    flipped(core)
    done = icarus(core, core.name)
    assert done.returncode == 1 and f"FAIL {core.name}: " in done.stdout, done.stdout


def test_two_examples_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two formats, so that modules of one purpose differ; without vectors and descriptions of registers, which the project does not read.
    One is called as a module of another could be. Templates see the names that plug-ins are held against."""
    seen: set[str] = set()
    monkeypatch.setattr(Flow, "render", lambda _, context: seen.update(context) or b"")
    monkeypatch.setattr("penstock.export.exporter.register_files", lambda *_, **__: {})
    cores = []
    bench = Bench((), b"", {}, (), 8, 0, 0, 0, {})
    for where in ("linear.py", "logistic.py"):
        design = compile(str(EXAMPLES / where), **KERNELS[where])
        for ip in ("linear", "linear_core") if where == "linear.py" else names(where):
            cores.append(write_folder(tmp_path / ip, exported(design, ip, ("fusesoc",), bench)))
    assert seen == NAMES
    for tool in TOOLS:
        tool(tmp_path, cores)


def test_all_examples_are_here() -> None:
    files = {where.partition(":")[0] for where in KERNELS} | OTHERS
    assert files == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.fixture(scope="module")
def all_cores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All exports, side by side in a folder."""
    folder = tmp_path_factory.mktemp("cores")
    return [core for where in KERNELS for core in exports(folder, where)] + [*tallies(folder)]


@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("tool", TOOLS)
def test_all_together(all_cores: list[Path], tool: Callable[..., None]) -> None:
    tool(all_cores[0].parent, all_cores)


@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("name", [name for where in (*KERNELS, "tally") for name in names(where)])
def test_the_bench_of_each(all_cores: list[Path], tmp_path: Path, name: str) -> None:
    [core] = [core for core in all_cores if core.name == name]
    run_by_fusesoc(tmp_path, core)
