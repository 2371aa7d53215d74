"""What an export is made of, and the run that its bench replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import hooks
from penstock.designs.folder import sealed
from penstock.dsl.core.diagnostics import Span, error
from penstock.engines.workload import Given
from penstock.errors import Conflict, bad_value, no_option
from penstock.models.memory import FixedLatency, Memory
from penstock.models.ring import places
from penstock.output import check_folder, earlier, write_folder

from .bench import Bench, bench_of
from .core import Port, core_of, with_attributes
from .flows import PLAIN, rendered, selected
from .names import check_ip, class_name
from .registers import described
from .regtools import MEMORY_MAPS, check_peakrdl, register_files
from .waves import hiding, waves_of

if TYPE_CHECKING:
    from penstock.engines.design import Design
    from penstock.engines.workload import Workload

#: rows, or operations, of the run that the bench replays where no data are given
_ROWS = 24
DEFAULT_DATA = f"random:rows={_ROWS}"
#: templates of every export, by the path of what they make
_FILES = {
    "regs/{ip}.rdl": "rdl",
    "sw/{ip}.h": "header",
    "sw/{ip}.c": "driver",
    "constraints/{ip}.sdc": "sdc",
    "constraints/{ip}.xdc": "sdc",
    "waves/{ip}.gtkw": "gtkwave",
    "waves/{ip}.sucl": "surfer",
    "tb/test_{ip}.py": "cocotb",
    "{ip}.vlt": "waivers",
    "{ip}.xml": "ipxact",
    "Makefile": "makefile",
    "README.md": "readme",
}
#: AxPROT and AxCACHE that most subordinates expect: data, secure and unprivileged; normal memory, not cached, buffered (AXI4, A4)
_PROT, _CACHE = 0b000, 0b0011
#: bytes that a bench's memories and vectors may have
_MOST = 1 << 26


class Mismatch(AssertionError):
    """Hardware and models do not agree: a defect of Penstock's, of which no vectors are made."""


@dataclass(frozen=True)
class Extras:
    """What an export has beside what every one has. `html`: the page of registers; `attributes`: of AXI, by name, that memory ports have."""

    html: bool = False
    attributes: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, html: bool, prot: int | None, cache: int | None) -> Extras:
        """Return them as they are asked for; `prot`, `cache`: of AXI. Raises OptionError for values that AXI has not."""
        if prot is None and cache is None:
            return cls(html)
        for name, value, most in (("axi_prot", prot, 7), ("axi_cache", cache, 15)):
            if value is not None and (type(value) is not int or not 0 <= value <= most):
                raise bad_value(name, f"it is a number from 0 to {most}, not {value!r}")
        if cache is not None and cache & 0b1100 and not cache & 0b0010:
            what = f"AXI4 has no AxCACHE {cache:#06b}: allocation is for memory that may be modified, as 0b{cache | 2:04b}"
            raise bad_value("axi_cache", what)
        return cls(
            html,
            {"prot": _PROT if prot is None else prot, "cache": _CACHE if cache is None else cache},
        )


def checked(folder: str | Path, ip: str, targets: Sequence[str]) -> None:
    """Raise what `export` would raise because of the name, the flows or the folder."""
    check_ip(ip)
    selected(tuple(targets))
    check_peakrdl()
    check_folder(folder, earlier(folder))


def export(
    design: Design,
    folder: str | Path,
    *,
    ip: str,
    targets: Sequence[str] = (),
    data: Any = None,
    html: bool = False,
    axi_prot: int | None = None,
    axi_cache: int | None = None,
    **options: Any,
) -> Path:
    """Write a design as a core named `ip` into `folder`; return it.

    Parameters: `targets`: the flows beside `plain`; `data`: what the vectors are made of, as `Design.run` takes it (a
    seed's otherwise); `html`, `axi_prot`, `axi_cache`: `Extras`; `options`: the engine's own, as `Design.run` takes them, and `seed`.

    The folder appears whole or not at all; an earlier export in it is replaced. Raises KernelError (E832) for a
    name that cannot be one, OptionError for an unknown flow or option, OutputError for a folder that holds anything
    else.
    """
    targets = (targets,) if isinstance(targets, str) else targets
    extras = Extras.of(html, axi_prot, axi_cache)
    checked(folder, ip, targets)
    known = {*design.arguments, "seed"}
    if unknown := next((name for name in options if name not in known), None):
        raise no_option(f"an export of {design.name}", unknown, known)
    seed = options.pop("seed", None)
    args = design.opened(Given(data, data, seed=seed, options=options))
    files = exported(design, ip, targets, recorded(design, args), extras=extras)
    return write_folder(folder, files)


def recorded(design: Design, args: Given) -> Bench:
    """Return the vectors of a run, which is carried out in simulation and must agree with both models.

    Memory has the design's timing where that is a fixed latency, else one of 20 cycles, a word a cycle. Raises Mismatch,
    KernelError (E833) where the vectors would be too large, Conflict for a design with a ring.
    """
    from penstock.runs.outcome import differences
    from penstock.runs.run import golden, hardware, model
    from penstock.sim.recorder import Recorder

    if places(design.registers):
        raise Conflict(
            f"the core of {design.name} has a ring, whose pages a bench does not bring during a run",
            "leave --ring out; `penstock compile KERNEL --ring N --out DIR` writes the Verilog of one",
        )
    args = _with_data(design, args)
    workload = design.held(args)
    _check_size(workload)
    memory, timings = _timings(design)
    needed, vault = workload.memory_bytes(), workload.vault
    with Recorder(design.machine("rtl", needed, memory, vault=vault)) as machine:
        run = hardware("rtl", workload, machine)
        bench = bench_of(machine, design.bus_ports, timings, vault)
    expected, predicted = golden(workload), model(workload, memory)
    wrong = differences(expected, run)
    if not expected.errors and predicted.cycles is not None and predicted.cycles != run.cycles:
        wrong.append(f"cycles: model {predicted.cycles}, RTL {run.cycles}")
    if wrong:
        raise Mismatch("; ".join(wrong))
    return bench


def _with_data(design: Design, args: Given) -> Given:
    if args.data is not None:
        return args
    if hooks.optional(design.engine_name):
        return args if args.rows else replace(args, rows=_ROWS)
    return design.opened(replace(args, data=DEFAULT_DATA, source=DEFAULT_DATA))


def _check_size(workload: Workload) -> None:
    if (size := workload.memory_bytes()) > _MOST:
        what = f"the bench would hold {size >> 20} MB of memory, and {_MOST >> 20} MB are the most"
        raise error(
            "E833", what, Span.whole("--data"), hint="give fewer rows; they are for the bench alone"
        )


def _timings(design: Design) -> tuple[Memory, dict[str, FixedLatency]]:
    """Return the memory of the recorded run, and the timing of each port."""
    memory: Memory = design.memory
    if not isinstance(memory, FixedLatency):
        memory = FixedLatency(20, max(port.data_bytes for port in design.bus_ports))
    memories = design.memories(memory)
    names = [f"m{k}" for k in range(len(design.bus_ports))]
    timings = {name: memories.get(name, FixedLatency()) for name in names}
    assert all(isinstance(timing, FixedLatency) for timing in timings.values())
    return memory, timings  # type: ignore[return-value]


def exported(
    design: Design,
    ip: str,
    targets: Sequence[str],
    bench: Bench,
    file: str = "",
    extras: Extras = Extras(),
) -> dict[str, bytes]:
    """Return the files of an export, by their path in the folder; `file`: what the kernel's is called."""
    from importlib.metadata import version

    core = core_of(design, ip, file or design.name)
    ports = tuple(with_attributes(core.ports, extras.attributes))
    sources = [f"rtl/{name}.v" for name in (*core.modules, ip)]
    context: dict[str, Any] = {
        "ip": ip,
        "design": design,
        "core": core.name,
        "ports": ports,
        "bench": bench,
        "sources": sources,
        "vectors": [f"tb/vectors/{name}" for name in bench.files()],
        "class_name": class_name(ip),
        "widths": _widths(core.ports),
        "waves": waves_of(ip, core),
        "hiding": hiding(core),
        "axi_attributes": extras.attributes,
        "period_ns": 1000 / design.target.clock_mhz,
        "starts": bench.starts,
        "compared": bench.compared,
        "version": version("penstock"),
        "core_version": version("penstock").partition("+")[0].partition(".dev")[0],
        **described(design.registers),
    }
    files = {f"rtl/{name}.v": text.encode() for name, text in core.modules.items()}
    files[f"rtl/{ip}.v"] = rendered("wrapper", context)
    files["filelist.f"] = "".join(f"{name}\n" for name in sources).encode()
    files[f"tb/{ip}_tb.v"] = rendered("bench", context)
    files |= {f"tb/vectors/{name}": data for name, data in bench.files().items()}
    description = rendered("rdl", context)
    registers = register_files(ip, description, html=extras.html)
    context["memory_maps"] = registers.pop(MEMORY_MAPS, b"").decode()
    for path, template in _FILES.items():
        files[path.format(ip=ip)] = rendered(template, context)
    files |= registers
    for name, flow in selected(tuple(targets)).items():
        files[flow.path.format(ip=ip)] = flow.render({**context, "flow": name})
    return sealed(_manifest(design, ip, targets, bench), files)


def _widths(ports: Sequence[Port]) -> dict[str, tuple[int, int]]:
    """Return the bits of addresses and identifiers of each memory port."""
    by_name = {port.name: port.width for port in ports}
    widths = {}
    for name, width in by_name.items():
        bus, _, member = name.partition("_axi_")
        if member in ("araddr", "awaddr"):
            widths[bus] = (width, by_name[f"{bus}_axi_{member[:2]}id"])
    return widths


def _manifest(design: Design, ip: str, targets: Sequence[str], bench: Bench) -> dict[str, Any]:
    """Return what `manifest.json` says beside the digests of the files."""
    return {
        "export": {"ip": ip, "for": [PLAIN, *selected(tuple(targets))]},
        "design": design.describe(),
        "register_map": design.registers.to_json(),
        "ports": [asdict(port) for port in bench.ports],
        "recorded": {"starts": bench.starts, "bytes": bench.compared, "cycles": bench.cycles},
    }
