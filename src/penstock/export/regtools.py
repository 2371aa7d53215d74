"""What PeakRDL makes of a description of registers. It runs as a program: a part of it is under the GPL."""

import re
import shutil
import sys
import zlib
from pathlib import Path

from penstock.dsl.core.diagnostics import Span, error
from penstock.sim.processes import Threads, run
from penstock.sim.staging import staging

#: exporters, and the C that they write, by the file or folder that they make
_MADE = {"html": "html", "{ip}_regs.h": "c-header --std gnu99", "{ip}.xml": "ip-xact"}
#: the name under which IP-XACT's element of that name is returned
MEMORY_MAPS = "memoryMaps"

#: the time in PeakRDL's page, by which browsers know its parts
_TIME = re.compile(rb"(?<=BUILD_TS = )\d+|(?<=\?ts=)\d+")


def _peakrdl() -> str | None:
    """Return the program: beside this Python, else on the path."""
    beside = shutil.which("peakrdl", path=str(Path(sys.executable).parent))
    return beside or shutil.which("peakrdl")


def check_peakrdl() -> None:
    """Raise KernelError (E834) unless PeakRDL is installed."""
    if _peakrdl() is None:
        hint = 'pip install "penstock[ip]"'
        raise error("E834", "peakrdl is not installed", Span.whole("penstock export"), hint=hint)


def register_files(ip: str, description: bytes, html: bool = False) -> dict[str, bytes]:
    """Return C header of a description, and page if `html`, in the folder `regs`, and IP-XACT's `MEMORY_MAPS`: the same bytes for the same
    description. Raises KernelError (E834)."""
    check_peakrdl()
    exporters = {output: kind for output, kind in _MADE.items() if html or kind != "html"}
    with staging() as folder:
        (folder / f"{ip}.rdl").write_bytes(description)
        with Threads(len(exporters)) as pool:
            list(pool.map(lambda one: _run(folder, ip, *one), exporters.items()))
        (folder / f"{ip}.rdl").unlink()
        files = {
            f"regs/{path.relative_to(folder).as_posix()}": path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    _, maps, rest = files.pop(f"regs/{ip}.xml").partition(b"<ipxact:memoryMaps>")
    files[MEMORY_MAPS] = maps + rest.partition(b"</ipxact:component>")[0].rstrip()
    page, known = "regs/html/index.html", b"%d" % zlib.crc32(description)
    return files | ({page: _TIME.sub(known, files[page])} if html else {})


def _run(folder: Path, ip: str, output: str, kind: str) -> None:
    command = [str(_peakrdl()), *kind.split(), f"{ip}.rdl", "-o", output.format(ip=ip)]
    done = run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        what = f"peakrdl {kind} failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
        raise error(
            "E834", what, Span.whole("penstock export"), hint='pip install -U "penstock[ip]"'
        )
