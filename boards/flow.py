"""From an elaborated board design to a bitstream: synthesis, placement with several seeds, packing, and what came out."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from ..hdl.apart import without_collisions
from ..models.resources import Resources
from ..models.target import Target
from ..sim.processes import Threads
from .timing import Timing, timing
from .tools import Overdue, ToolError, run_tool

#: name of the top module and of all files
NAME = "penstock"


class Unfit(Exception):
    """The design needs more of `resource` than the device has; `used` is 0 where the placer does not count. `field`: its name in `Resources`, or ""."""

    def __init__(self, resource: str, used: int, available: int, field: str = "") -> None:
        super().__init__(
            f"{used:,} {resource} of {available:,}" if used else f"more {resource} than there are"
        )
        self.resource, self.used = resource, used
        self.available, self.field = available, field


class Endless(Exception):
    """A tool did not come to an end within `minutes`; `line` is the last that it printed."""

    def __init__(self, tool: str, minutes: float, line: str) -> None:
        super().__init__(f"{tool} has no end after {minutes:g} minutes")
        self.tool, self.minutes, self.line = tool, minutes, line


@dataclass(frozen=True)
class Sources:
    """RTLIL of the design, and the pins' and clocks' constraints in the placer's own language."""

    rtlil: str
    constraints: str


@dataclass(frozen=True)
class Placed:
    """One placement: its timing, resources, and bitstream."""

    seed: int
    timing: Timing
    resources: Resources
    bitstream: bytes
    seconds: float


@dataclass(frozen=True)
class Flow:
    """How a family's bitstreams are made."""

    synth: str
    tools: tuple[str, ...]
    constraints: str
    suffix: str
    #: nextpnr's names for look-up tables, flip-flops, multiplier blocks and block RAMs
    cells: tuple[tuple[str, ...], ...]
    place: str  #: arguments of the placer, with the names that `_place` fills in
    pack: str  #: arguments of the packer


FLOWS: dict[str, Flow] = {
    "ecp5": Flow(
        "synth_ecp5",
        ("yosys", "nextpnr-ecp5", "ecppack"),
        "lpf",
        "bit",
        (("TRELLIS_COMB",), ("TRELLIS_FF",), ("MULT18X18D",), ("DP16KD",)),
        "{tool} --package {package} --speed {speed} --lpf {constraints} --textcfg {own}.config",
        "--compress --input {own}.config --bit {bitstream}",
    ),
    "ice40": Flow(
        "synth_ice40 -dsp",
        ("yosys", "nextpnr-ice40", "icepack"),
        "pcf",
        "bin",
        (("ICESTORM_LC",), (), ("ICESTORM_DSP",), ("ICESTORM_RAM",)),
        "{tool} --package {package} --pcf {constraints} --asc {own}.asc",
        "{own}.asc {bitstream}",
    ),
    # an adder's bit takes a look-up table's place
    "gowin": Flow(
        "synth_gowin -family gw1n",
        ("yosys", "nextpnr-gowin", "gowin_pack"),
        "cst",
        "fs",
        (("LUT4", "ALU"), ("DFF",), ("MULT18X18", "MULT9X9", "MULT36X36"), ("BSRAM",)),
        "--device {tool} --vopt family={die} --vopt cst={constraints} --write {own}.pnr.json",
        "-d {die} -o {bitstream} --sspi_as_gpio --mspi_as_gpio {own}.pnr.json",
    ),
    "nexus": Flow(
        "synth_nexus",
        ("yosys", "nextpnr-nexus", "prjoxide"),
        "pdc",
        "bit",
        (("OXIDE_COMB",), ("OXIDE_FF",), ("MULT18_CORE",), ("OXIDE_EBR",)),
        # the other router does not bring the clock's pin to its buffer
        "--device {tool} --pdc {constraints} --fasm {own}.fasm --router router1",
        "pack {own}.fasm {bitstream}",
    ),
}
#: arguments of every placer
_SHARED = "--seed {seed} --freq {clock} --report {report} --json {netlist} --timing-allow-fail"
#: look-up tables from which on a design is `large`: its wires bind, so that it is placed otherwise, and reaches a lower clock (of an ECP5-85F, grade 6,
#: 6,367 were placed at 90 MHz, 10,831 at 79, 59,315 at 42; nothing is known of what lies between)
LARGE = 50_000
#: look-up tables of an ECP5 from which on the default router may have no end (14,190 came to one, 17,739 and 29,167 did not), and from which on the
#: other placer is taken, whose wires are shorter: 17,739 were routed without it, 20,640 to 59,315 with it, some 68,000 not without. The share of the part
#: decides neither: 0.42 of an LFE5U-25F needs none of both
CROWDED, SPREAD = 15_000, 20_000
#: look-up tables that an ECP5's cells take
_ECP5_LUT = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
#: flip-flops of the iCE40, which nextpnr counts with the look-up tables
_ICE40_FF = re.compile(r"SB_DFF")


def synthesise(
    board: Target, sources: Sources, folder: Path, timeout: float | None = None
) -> dict[str, int]:
    """Synthesise into `folder` (penstock.json, penstock.v); return the number of cells by type. Raises ToolError, Overdue after `timeout` seconds."""
    flow = FLOWS[board.family]
    synth = flow.synth.replace(" -dsp", "") if board.device.dsp == 0 else flow.synth
    if board.device.tool == "--up5k":
        synth += " -device u"
    (folder / f"{NAME}.il").write_text(without_collisions(sources.rtlil))
    (folder / f"{NAME}.{flow.constraints}").write_text(sources.constraints)
    script = f"read_rtlil {NAME}.il; {synth} -top {NAME} -json {NAME}.json; tee -q -o stat.json stat -json; write_verilog -noattr -norename netlist.v"
    log = run_tool("yosys", ["-q", "-p", script], folder, timeout)
    try:
        stat = json.loads((folder / "stat.json").read_text())
        cells = stat["modules"][f"\\{NAME}"]["num_cells_by_type"]
    except (OSError, ValueError, KeyError) as problem:
        raise ToolError("yosys", log[-4000:], f"no statistics: {problem}") from problem
    if board.family == "nexus":
        _open_carries(folder / f"{NAME}.json")
    return {name: int(count) for name, count in cells.items()}


def _open_carries(netlist: Path) -> None:
    """Leave the carry inputs open that begin a chain: Yosys ties them to 0, which nextpnr-nexus refuses; their cells do not look at them."""
    design = json.loads(netlist.read_text())
    cells = design["modules"][NAME]["cells"].values()
    low = {bit for cell in cells if cell["type"] == "VLO" for bit in cell["connections"]["Z"]} | {
        "0"
    }
    for cell in cells:
        if cell["type"] == "CCU2" and low.intersection(cell["connections"].get("CIN", ())):
            del cell["connections"]["CIN"]
    netlist.write_text(json.dumps(design))


#: other ways to place and route, by family, for a design whose wires the first way does not bring to an end
OTHERWISE = {
    "ecp5": ("--router", "router2"),
    "ice40": ("--placer", "sa", "--router", "router2"),
    "gowin": ("--router", "router1"),
    "nexus": ("--placer", "sa"),
}


def place(
    board: Target,
    folder: Path,
    cells: dict[str, int],
    clock_mhz: float,
    seeds: Sequence[int],
    jobs: int,
    progress: Callable[[str], None] | None = None,
    limit: float | None = None,
) -> list[Placed]:
    """Place and route with each seed, `jobs` at a time; return what came of each, in the order of the seeds.

    A placement that takes longer than half of `limit` seconds is ended and tried once more in the other way (`OTHERWISE`), as long as `limit` allows.
    `progress` gets the placers' lines.

    Raises Unfit, Endless, or ToolError of the first seed where every one failed.
    """
    problems: list[ToolError | Unfit | Endless] = []
    end = None if limit is None else perf_counter() + limit

    def one(seed: int) -> Placed | None:
        def tell(line: str) -> None:
            if progress is not None:
                progress(f"seed {seed}: {line}" if len(seeds) > 1 else line)

        try:
            return _tried(
                partial(_place, board, folder, cells, clock_mhz, seed, progress=tell),
                board,
                end,
                tell,
            )
        except Overdue as problem:
            problems.append(Endless(problem.tool, (limit or 0.0) / 60, problem.line))
        except (ToolError, Unfit) as problem:
            problems.append(problem)
        return None

    with Threads(max_workers=max(1, jobs)) as pool:
        waiting = [pool.submit(one, seed) for seed in seeds]
        results = [placed for future in waiting if (placed := future.result()) is not None]
    if not results:
        raise problems[0]
    return results


def _tried(
    placing: Callable[..., Placed], board: Target, end: float | None, tell: Callable[[str], None]
) -> Placed:
    """Place until `end`, a time of `perf_counter`: in half of what is left, else once more in the other way."""
    if end is None:
        return placing()
    try:
        return placing(timeout=max(0.1, end - perf_counter()) / 2)
    except Overdue:
        tell("no end in sight: placed once more in another way")
    return placing(OTHERWISE[board.family], timeout=max(0.1, end - perf_counter()))


def _place(
    board: Target,
    folder: Path,
    cells: dict[str, int],
    clock_mhz: float,
    seed: int,
    otherwise: Sequence[str] = (),
    *,
    timeout: float | None = None,
    progress: Callable[[str], None] | None = None,
) -> Placed:
    begin = perf_counter()
    part, flow = board.device, FLOWS[board.family]
    stem = f"seed{seed}"
    report = f"{stem}.report.json"
    bitstream = f"{stem}.{flow.suffix}"
    names = {
        "seed": seed,
        "clock": f"{clock_mhz:g}",
        "report": report,
        "netlist": f"{NAME}.json",
        "constraints": f"{NAME}.{flow.constraints}",
        "own": stem,
        "bitstream": bitstream,
        "tool": part.tool,
        "die": part.name.replace(
            "GW1NR", "GW1N"
        ),  # what Gowin calls that of a part with memory in its package
        "package": board.pins.package,
        "speed": board.pins.speed,
    }
    filled = lambda text: [word.format(**names) for word in text.split()]
    shared = filled(_SHARED)
    luts = sum(cells.get(name, 0) * each for name, each in _ECP5_LUT.items())
    if part.family == "ecp5" and luts > SPREAD:
        # where much is to be placed its wires are shorter, and routing comes to an end (docs/howto/boards.md, A fit)
        shared += ["--placer", "static"]
    if part.family == "ecp5" and CROWDED < luts <= LARGE:
        # the default router takes most connections back again (docs/explanation/pim.md)
        otherwise = OTHERWISE["ecp5"] if not otherwise else ("--router", "router1")
    try:
        run_tool(
            flow.tools[1], [*shared, *filled(flow.place), *otherwise], folder, timeout, progress
        )
    except Overdue:
        raise
    except ToolError as problem:
        full = _full(problem.log, flow)
        raise full if full is not None else problem from problem
    run_tool(flow.tools[2], filled(flow.pack), folder)
    summary: dict[str, Any] = json.loads((folder / report).read_text())
    return Placed(
        seed,
        timing(summary),
        _resources(board, summary, cells),
        (folder / bitstream).read_bytes(),
        perf_counter() - begin,
    )


def _resources(board: Target, report: dict[str, Any], cells: dict[str, int]) -> Resources:
    used = {name: int(entry["used"]) for name, entry in report.get("utilization", {}).items()}
    counts = [sum(used.get(name, 0) for name in names) for names in FLOWS[board.family].cells]
    if board.family == "ice40":
        counts[1] = sum(count for name, count in cells.items() if _ICE40_FF.match(name))
    return Resources(*counts)


_MISSING = (
    re.compile(
        r"Unable to place cell '.*', no (?:BELs|Bels) remaining to implement cell type '(?P<cell>\w+)'"
    ),
    re.compile(r"Unable to find legal placement for .*cell.* of type '(?P<cell>\w+)'"),
    re.compile(r"[Ff]ailed to place cell '.*' of type '(?P<cell>\w+)'"),
)


#: fields of `Resources` in the order of `Flow.cells`, as users know them
_NAMES = {"lut": "LUT", "ff": "FF", "dsp": "DSP", "bram": "BRAM"}


def _full(log: str, flow: Flow) -> Unfit | None:
    """Return what ran out if a placer's output says so."""

    def unfit(cell: str, used: int, available: int) -> Unfit:
        field = next(
            (name for name, cells in zip(_NAMES, flow.cells, strict=True) if cell in cells), ""
        )
        return Unfit(_NAMES.get(field, cell), used, available, field)

    for match in re.finditer(r"(?P<cell>[A-Z][A-Z0-9_]+):\s*(?P<used>\d+)/\s*(?P<have>\d+)\s", log):
        if int(match["used"]) > int(match["have"]):
            return unfit(match["cell"], int(match["used"]), int(match["have"]))
    for pattern in _MISSING:
        if missing := pattern.search(log):
            return unfit(missing["cell"], 0, 0)
    return None
