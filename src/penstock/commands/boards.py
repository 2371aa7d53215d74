"""`penstock boards`, `penstock build` and `penstock program`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.boards.catalogue import boards
from penstock.cli.commandline import OUTPUT, REPORT, Command, grouped, parameters
from penstock.cli.completion import boards as complete
from penstock.cli.state import State
from penstock.designs.folder import untrusted
from penstock.dsl.core.diagnostics import Span, error
from penstock.dsl.core.hints import closest
from penstock.engines.options import TRUST, Count, IPAddress, Once
from penstock.errors import Conflict
from penstock.models.plugins import absent
from penstock.models.target import RESOURCES, Link, Target
from penstock.report.parts import Column, Grid, Part
from penstock.report.words import size_text
from penstock.targets import target_named

if TYPE_CHECKING:
    from penstock.boards.build import Build
    from penstock.boards.flow import Unfit
    from penstock.commands.job import Job
    from penstock.engines.base import Design
    from penstock.models.link.ethernet import Station
    from penstock.models.resources import Resources


def board_named(name: str, trust: bool = False) -> Target:
    """Return a board. Raises KernelError: E821; E807 for a file that names code of its own, where its user does not `trust` it."""
    known = boards()
    if name.endswith(".toml"):
        described = target_named(name)
        board, platforms = described.board, {each.pins.platform for each in known.values()}
        known = {name: described} if board is not None else {}
        platform = None if board is None else board.platform
        offered = platform in platforms or (platform or "").startswith("amaranth_boards.")
        if platform is not None and not (offered or trust):
            what = f"{name} names the platform {platform}, which no installed package offers"
            why = "a package that offers its board needs no word"
            raise untrusted(what, "--board", why)
    if name not in known:
        hint = (closest(name.lower(), known) or "`penstock boards` lists them") + absent()
        raise error("E821", f"there is no board {name!r}", Span.whole("--board"), hint=hint)
    return known[name]


# boards


@click.pass_obj
def _boards(state: State, as_json: bool) -> None:
    """List the boards: device, memory, link, what was shown of them."""
    if as_json:
        click.echo(json.dumps(_listed(), indent=1))
    else:
        from penstock.report.terminal import show

        show(state.out, (_grid(),))


def _listed() -> list[dict[str, Any]]:
    """Return all boards as plain data."""
    return [
        {
            "name": b.name,
            "title": b.title,
            "device": b.device.name,
            "package": b.pins.package,
            "speed": b.pins.speed,
            "memory": asdict(b.memory),
            "link": asdict(b.link),
            "clock_mhz": b.clock_mhz,
            "oscillator_mhz": b.pins.oscillator_mhz,
            "open_tools": b.shared is not None,
            "resources": {k: getattr(b.device, k) for k in RESOURCES},
            "status": b.pins.status,
        }
        for b in boards().values()
    ]


def _grid() -> Grid:
    rows = []
    for b in boards().values():
        memory, link = f"{size_text(b.memory.bytes)} {b.memory.kind}", b.link.kind.upper()
        if b.pins.uart_pins:
            link += " on header pins {} (RX), {} (TX)".format(*b.pins.uart_pins)
        status = b.pins.status
        rows.append((b.name, b.device.name, memory, link, f"{b.clock_mhz:g}", status))
    columns = (
        Column("board", whole=True),
        Column("device", whole=True),
        Column("memory"),
        Column("link"),
        Column("MHz", right=True),
        Column("status"),
    )
    return Grid(columns, tuple(rows))


# build


@dataclass(frozen=True)
class _Options:
    """How a board is built: placements to try, the clock that is asked for, placements at a time,
    minutes that synthesis and placement may take, its address on Ethernet."""

    seeds: int
    clock: float | None
    jobs: int | None
    limit: int
    address: bytes | None

    def station(self, design: Design) -> Station | None:
        """Return the design's addresses on Ethernet."""
        from penstock.models.link.ethernet import addressed

        return None if self.address is None else addressed(design.registers.design, self.address)


@click.pass_obj
def _build(state: State, **values: Any) -> None:
    """Make a board's bitstream, and report area and timing as placed, beside the estimate."""
    rest = state.begin("build", values)
    from penstock.commands.job import Job
    from penstock.output import check_folder, earlier

    board, folder = board_named(rest["board"], rest["trust"]), Path(rest["out"])
    limit = rest["limit"] or LIMIT
    board, address = _linked(board, state.asked.link, rest["ip_address"])
    options = _Options(rest["seeds"] or 1, rest["clock"], rest["jobs"], limit, address)
    if state.asked.target is not None:
        hint = "--board says what is built for: leave --target out"
        raise Conflict("--target is not for build", hint)
    job = Job.begin(state, "build")
    if board.shared is None:
        _project(job, board, folder, options)
        return
    from penstock.boards.flow import FLOWS, NAME

    check_folder(folder, earlier(folder))
    job = job.opened()
    design = compile_for(job, board)
    names = (f"{NAME}.{FLOWS[board.family].suffix}", "netlist.v", "manifest.json")
    check_folder(folder, (*names, *design.images()))
    station = options.station(design)
    with _diagnosed(job, board, design, options):
        built = _placed(state, board, design, options, station)
    _publish(design, board, built, folder, station)
    state.record.folder, state.record.placed = str(folder), built.report()
    state.show((_summary(design, board, built, folder, station), *_charts(job)))


def _linked(board: Target, link: str | None, address: bytes | None) -> tuple[Target, bytes | None]:
    """Return the board with the link that is asked for, and its address on Ethernet."""
    if link != "udp":
        if address is not None:
            raise Conflict("--ip-address is for a board on Ethernet", "--link udp asks for that")
        if link not in (None, board.link.kind):
            hint = f"leave --link out: {board.name} has its {board.link.kind}; or --link udp, where it has a PHY"
            raise Conflict(f"--link {link} is no link of {board.name}", hint)
        return board, None
    if not board.pins.rgmii:
        able = ", ".join(name for name, one in boards().items() if one.pins.rgmii)
        raise Conflict(f"{board.name} has no gigabit PHY that is known", f"{able} have")
    if address is None:
        raise Conflict("--link udp needs the board's address", "--ip-address 192.168.1.50, for one")
    from penstock.boards.rgmii import BESIDE

    less = asdict(BESIDE)
    left: dict[str, Any] = {k: getattr(board, k) - less.get(k, 0) for k in RESOURCES}
    udp = Link(kind="udp", source="--link")
    return replace(board, link=udp, reserve=BESIDE, **left), address


def _charts(job: Job) -> list[Part]:
    """Return the charts of the engine's report."""
    from penstock.report.parts import Chart

    return [part for part in job.engine.sections(job.state.record) if isinstance(part, Chart)]


def _project(job: Job, board: Target, folder: Path, options: _Options) -> None:
    """Write a project for the vendor's tools."""
    from penstock.boards.vendor import FILES, project
    from penstock.designs.folder import MANIFEST, sealed
    from penstock.output import check_folder, earlier, write_folder

    if options.clock is not None or options.seeds > 1:
        message = f"--clock and --seeds are not for {board.name}"
        raise Conflict(f"{message}, which is placed by its vendor's tools", "leave them out")
    check_folder(folder, earlier(folder))
    design = compile_for(job.opened(), board)
    check_folder(folder, (*FILES, MANIFEST, *design.images()))
    job.state.record.folder = str(folder)
    try:
        files = project(board, design.hardware, [port.space for port in design.bus_ports])
    except LookupError as problem:
        hint = (
            "docs/reference/targets.md says what a `board` has whose bitstream the open tools make"
        )
        raise error("E821", str(problem), Span.whole("--board"), hint=hint) from None
    write_folder(folder, sealed(_facts(design, board), {**files, **design.images()}))
    text = "a project for the vendor's tools; nothing in it was placed here"
    job.state.out.print(f"{folder}: {text}")


def compile_for(job: Job, board: Target) -> Design:
    """Compile for the board's own resources, less what link and memory take, and put the design on
    record. Raises KernelError."""
    job.state.record.design = design = job.compile(board).on_board(board)
    return design


def _placed(
    state: State, board: Target, design: Design, options: _Options, station: Station | None
) -> Build:
    """Run the open tools. Raises as `boards.build.build`."""
    from penstock.boards.build import build, elaborate
    from penstock.boards.clocks import chosen_clock
    from penstock.boards.pll import Unreachable
    from penstock.boards.top import clock_setting
    from penstock.hdl.environment import cache_folder
    from penstock.models.link.timing import divisor

    wanted = options.clock
    if wanted is None:
        lut = design.resources_on(board).lut
        wanted = chosen_clock(board, design.format, lut, design.clocks)
    setting = clock_setting(board, wanted)
    real = setting.output_mhz if setting is not None else board.pins.oscillator_mhz
    if station is None:
        try:
            divisor(round(real * 1e6), board.link.baud)
        except ValueError as problem:
            raise Unreachable(str(problem)) from None
    with state.steps.step("the board's hardware"):
        sources = elaborate(design.hardware, board, setting=setting, station=station)
    with state.steps.log("synthesis, place and route") as latest:
        return build(
            sources,
            board,
            clock_mhz=real,
            seeds=range(1, options.seeds + 1),
            jobs=options.jobs or min(options.seeds, os.cpu_count() or 1),
            cache=cache_folder(),
            limit=60 * options.limit,
            progress=latest,
        )


@contextmanager
def _diagnosed(job: Job, board: Target, design: Design, options: _Options) -> Iterator[None]:
    """Turn what the tools raise into diagnostics."""
    from penstock.boards.build import Misdescribed, Slow
    from penstock.boards.flow import Endless, Unfit
    from penstock.boards.pll import Unreachable
    from penstock.boards.tools import ToolError, ToolMissing

    on_board, on_clock = Span.whole("--board"), Span.whole("--clock")
    try:
        yield
    except Unreachable as problem:
        hint = f"{board.name} has a {board.pins.oscillator_mhz:g} MHz oscillator"
        if board.link.baud:
            multiple = f"about a whole multiple of {board.link.baud / 1e6:g} MHz"
            hint += f", and its serial line needs {multiple}"
        raise error("E825", str(problem), on_clock, hint=hint) from None
    except Misdescribed as problem:
        hint = (
            "the package that offers it names platform, clock and uart; "
            "docs/howto/boards.md, Boards of your own"
        )
        message = f"{board.name} is described wrongly: {problem}"
        raise error("E821", message, on_board, hint=hint) from None
    except ToolMissing as problem:
        message = f"building for {board.name} needs the package {problem.package}"
        raise error("E822", message, on_board, hint=TOOLS_HINT) from None
    except Unfit as problem:
        message = f"kernel {design.name!r} does not fit on {board.name}: placed, it needs {problem}"
        part = _as_found(board, design, problem)
        hint = job.engine.largest(job.kernel, part, job.args, smaller=1)
        raise error("E823", message, on_board, hint=hint) from None
    except Slow as problem:
        reached, asked = f"{problem.fmax_mhz:.1f}", f"{problem.clock_mhz:g}"
        what, less = "the design reaches", f"--clock {int(problem.fmax_mhz)} asks for less, "
        if not problem.of_design:
            what, less = f"beside the design's clock, {board.link.kind}'s reaches", ""
        message = f"{what} {reached} MHz on {board.name}, not {asked}"
        hint = (
            f"{less}--seeds tries more placements; "
            f"the path is {problem.path}; next step: {problem.advice}"
        )
        raise error("E824", message, on_clock, hint=hint) from None
    except Endless as problem:
        within = f"within {options.limit} minutes; its last line: {problem.line}"
        message = f"{problem.tool} did not come to an end {within}"
        hint = (
            "--limit MINUTES gives more time; "
            "a smaller dimension, a narrower format or a larger board needs less"
        )
        raise error("E830", message, Span.whole("--limit"), hint=hint) from None
    except ToolError as problem:
        hint = (
            "this is a defect in Penstock or in the tool: "
            "please report it with the command and `penstock --version`"
        )
        message = f"{problem.tool} failed: {problem.line}"
        raise error("E826", message, on_board, hint=hint) from None


def _as_found(part: Target, design: Design, problem: Unfit) -> Target:
    """Return the part with as much less of what was short as the estimate was too low."""
    if not problem.field or not problem.used:
        return part
    expected = getattr(design.resources_on(part), problem.field)
    left = min(int(problem.available * expected / problem.used), max(expected - 1, 0))
    less: dict[str, Any] = {problem.field: left}
    return replace(part, **less)


def _estimated(design: Design, board: Target) -> Resources:
    """Return what the design is thought to take on the board, Ethernet with it where that is its link."""
    from penstock.boards.rgmii import BESIDE
    from penstock.models.resources import Resources

    alone = design.resources_on(board)
    if board.link.kind != "udp":
        return alone
    return Resources(**{k: getattr(alone, k) + getattr(BESIDE, k) for k in RESOURCES})


def _facts(
    design: Design, board: Target, built: Build | None = None, station: Station | None = None
) -> dict[str, Any]:
    """Return the manifest of a design on a board; `built`: where it was placed; `station`: on Ethernet."""
    facts: dict[str, Any] = {
        "estimate": {**asdict(_estimated(design, board)), "source": "estimate"},
        "board": {
            "name": board.name,
            "device": board.device.name,
            "clock_mhz": board.clock_mhz if built is None else built.clock_mhz,
            "link": board.link.kind,
            "baud": board.link.baud,
            "memory": board.memory.kind,
            "memory_bytes": board.memory.bytes,
        },
    }
    if station is not None:
        facts["board"] |= {"ip_address": str(IPv4Address(station.ip)), "mac": station.mac.hex(":")}
    return design.manifest() | facts | ({} if built is None else {"build": built.report()})


def _publish(
    design: Design, board: Target, built: Build, folder: Path, station: Station | None = None
) -> None:
    from penstock.designs.folder import sealed
    from penstock.output import write_folder

    facts = _facts(design, board, built, station)
    write_folder(folder, sealed(facts, {**built.files, **design.images()}))


def _summary(
    design: Design, board: Target, built: Build, folder: Path, station: Station | None
) -> Grid:
    alone = design.resources_on(replace(board, board=None))
    reached = f"{built.fmax_mhz:.1f}" if built.fmax_mhz else "?"
    rows = tuple(
        (title, f"{r.lut:,}", f"{r.ff:,}", f"{r.dsp:,}", f"{r.bram:,}", mhz)
        for title, r, mhz in (
            ("estimate", _estimated(design, board), ""),
            ("of it the engine", alone, ""),
            ("placed", built.resources, reached),
            ("device", board.device, f"{built.clock_mhz:g} asked"),
        )
    )
    runs = f"seed {built.seed} of {len(built.runs)}; {built.seconds:.0f} s"
    lines = [
        f"plan: {design.text()}",
        f"{runs}; critical path: {built.path or 'not known'}",
        *([f"next step for a faster clock: {built.advice}"] if built.advice else []),
        *([f"on Ethernet: udp:{IPv4Address(station.ip)}"] if station is not None else []),
        f"written: {folder}",
    ]
    titles = ("", "LUT", "FF", "DSP", "BRAM", "MHz")
    columns = tuple(Column(title, right=bool(title)) for title in titles)
    title = f"{design.name} on {board.name}, {design.format_name}"
    return Grid(columns, rows, title, "\n".join(lines))


# program


@click.pass_obj
def _program(state: State, folder: str, board: str, trust: bool) -> None:
    """Load the bitstream that `penstock build` wrote into DIR, with openFPGALoader.

    A bitstream cannot be made anew to compare it: --trust says that you know who built it.
    """
    from penstock.boards.flow import FLOWS, NAME
    from penstock.designs.folder import MANIFEST, read_folder
    from penstock.sim.staging import staging

    chosen, place, where = board_named(board, trust), Path(folder), Span.whole("program")
    if chosen.shared is None:
        message = f"{chosen.name} is programmed with its vendor's tools"
        hint = "its project folder has the Tcl for it"
        raise error("E827", message, Span.whole("--board"), hint=hint)
    bitstream = place / f"{NAME}.{FLOWS[chosen.family].suffix}"
    manifest, files = read_folder(place) if (place / MANIFEST).exists() else ({}, {})
    board_of = manifest.get("board")
    built = board_of.get("name") if isinstance(board_of, dict) else None
    if built != chosen.name or bitstream.name not in files:
        other = built and built != chosen.name
        what = f"a bitstream for {built}, not one" if other else "no bitstream"
        hint = f"penstock build KERNEL --board {chosen.name} --out {place}"
        raise error("E827", f"{place} holds {what} for {chosen.name}", where, hint=hint)
    if not trust:
        what = f"{bitstream} cannot be made anew to compare it, and a board would run it"
        raise untrusted(what, "program", "penstock build makes one of your own")
    loader = shutil.which("openFPGALoader")
    arguments = ["-b", chosen.pins.loader] if chosen.pins.loader else []
    if loader is None:
        typed = shlex.join(["openFPGALoader", *arguments, str(bitstream.absolute())])
        hint = f"install it (Debian and Ubuntu: apt install openfpgaloader), or type: {typed}"
        raise error("E828", "openFPGALoader is not installed", where, hint=hint)
    try:
        with staging() as stage:  # what was compared, wherever the folder goes meanwhile
            loaded = stage / bitstream.name
            loaded.write_bytes(files[bitstream.name])
            done = subprocess.run(
                [loader, *arguments, str(loaded)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
    except OSError as problem:
        message = f"{loader} does not run: {problem.strerror}"
        raise error("E828", message, where, hint="install openFPGALoader again") from None
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        message = f"openFPGALoader could not load it: {lines[-1] if lines else 'no output'}"
        hint = "is the board connected and powered, and may this user open its USB device?"
        raise error("E828", message, where, hint=hint)
    state.out.print(f"{bitstream} runs on {chosen.name}")


#: minutes that synthesis and placement may take where nothing is said
LIMIT = 120
TOOLS_HINT = "pip install 'penstock[boards]' installs the open tool chain"


@grouped("Build")
def _own() -> list[click.Parameter]:
    folder = "Folder for bitstream, netlist and manifest; made whole or not at all."
    board = "What to build for; `penstock boards` lists them."
    seeds = "Placements to try; the fastest is taken.  [default: 1]"
    clock = "The design's clock.  [default: what plans in this format reach on the board]"
    jobs = "Placements at a time.  [default: one a core]"
    limit = (
        "End synthesis and placement after so long; at half of it, a placement is tried once more "
        "in another way.  [default: 120]"
    )
    return [
        Once(("--board",), required=True, metavar="B", shell_complete=complete, help=board),
        Once(("--out",), required=True, metavar="DIR", help=folder),
        Once(("--seeds",), type=Count(1, 64), metavar="N", help=seeds),
        Once(("--clock",), type=float, metavar="MHZ", help=clock),
        Once(("--jobs",), type=Count(1, 64), metavar="N", help=jobs),
        Once(("--limit",), type=Count(1, 100_000), metavar="MINUTES", help=limit),
        Once(
            ("--ip-address",),
            type=IPAddress(),
            metavar="A",
            help="The board's IPv4 address, with --link udp.",
        ),
        TRUST(),
    ]


COMMANDS = (
    Command("build", _build, parameters("build", OUTPUT, REPORT, _own)),
    Command(
        "program",
        _program,
        [
            click.Argument(("folder",), metavar="DIR"),
            Once(
                ("--board",),
                required=True,
                metavar="B",
                shell_complete=complete,
                help="The board that is connected.",
            ),
            TRUST(),
        ],
    ),
    Command(
        "boards",
        _boards,
        [click.Option(("--json", "as_json"), is_flag=True, help="Print them as JSON.")],
    ),
)
