"""What every engine is: a registration, the designs that it compiles, the workloads they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from penstock.models.errors import HardwareCode, HardwareError
from penstock.models.memory import ON_CHIP, Memory
from penstock.models.numerics.formats import Codes, Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import TARGETS, Target

if TYPE_CHECKING:
    import click
    import numpy as np

    from penstock.boards.board import Board
    from penstock.dsl.core.diagnostics import Diagnostic
    from penstock.dsl.core.kernel import AnyKernel
    from penstock.failures import Failure
    from penstock.hdl.modules import ModuleLibrary, Parts
    from penstock.host.device import Device
    from penstock.host.sources import Provenance, Table
    from penstock.options import Option, Request
    from penstock.outcome import Outcome
    from penstock.report.rows import Part
    from penstock.run import Run
    from penstock.sim.machine import Machine, Metered
    from penstock.sim.native import Library, PortSpec

__all__ = ["Bound", "Cycles", "Design", "Engine", "Given", "Result", "Workload"]


@dataclass(frozen=True)
class Given:
    """What a user gave beside the kernel and the target.

    `data`: a table, or whatever the engine runs on; a text for data that are made when their sizes
    are known (`random:…`); `source`: what `data` was opened from, as it was given; `rows`: so many assumed,
    without data; `options`: the engine's own by name, those that were not given are absent.
    """

    data: Any = None
    source: Any = None
    rows: int | None = None
    seed: int | None = None
    format: str | Format | None = None
    memory: str | Memory | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str | None:
        """What messages call the source, None without one."""
        if self.source is None or isinstance(self.source, str):
            return self.source
        return "table"

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option of the engine's own."""
        value = self.options.get(name)
        return default if value is None else value


class Bound(Protocol):
    """The least cycles that a run can take, and the term that says so."""

    @property
    def cycles(self) -> int: ...

    @property
    def by(self) -> str: ...


@dataclass(frozen=True)
class Result:
    """What a run computed. Two results are compared whole (`penstock.outcome.differences`).

    `codes`: named arrays of codes, None after an error; `facts`: what else must be equal, such as
    the number of epochs or the digest of a port's traffic; `counters`: what is only reported.
    """

    codes: Mapping[str, Codes] | None
    error: HardwareError | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Cycles:
    """What the cycle model says of a run. `total` is exact; None after an error in the data."""

    total: int | None
    bound: Bound | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    bytes_read: int | None = None
    bytes_written: int | None = None
    error: HardwareError | None = None


class Workload(ABC):
    """A design with one input. Every backend carries out the same run.

    `name`, `rows`, `pages`: of the data, for reports (None where there are none); `assumed`: the
    data are not there, only their number; `watchdog`: cycles without a transfer after which the
    hardware has hung.
    """

    name: str = ""
    rows: int | None = None
    pages: int | None = None
    assumed: bool = False
    watchdog: int = 1_000_000
    #: the cycle model computes the results anyway, so that its report shows them
    results_with_model: bool = False

    @property
    def provenance(self) -> Provenance | None:
        """How a server's table was read."""
        return getattr(getattr(self, "table", None), "provenance", None)

    @abstractmethod
    def golden(self) -> Result:
        """Return the results, bit for bit, or the error that ends the run."""

    @abstractmethod
    def model(self, memory: Memory) -> Cycles:
        """Return the exact cycles of the run with memory of this timing behind the ports."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Return the bytes of memory that the run takes, a multiple of 4096."""

    @abstractmethod
    def drive(self, machine: Metered) -> Result:
        """Carry the run out on a machine: all its starts."""

    def values(self, codes: Mapping[str, Codes]) -> dict[str, np.ndarray]:
        """Return the result as the user's numbers: the codes as they are unless an engine says
        otherwise."""
        return {name: value.astype("f8") for name, value in codes.items()}

    def details(self, codes: Mapping[str, Codes]) -> Mapping[str, Any]:
        """Return what else there is to say of a result, for reports, as JSON has it."""
        return {}

    def unreadable(self) -> HardwareError | None:
        """Return the first thing wrong with the data that every run would end with, found without a
        run; None where there is nothing, or where only a run can tell."""
        return None

    def failure(self, error: HardwareError) -> Failure:
        """Return what an error means to the user who gave the data."""
        from penstock.failures import hardware_failure

        return hardware_failure(error, self.name or "the workload")


@dataclass(frozen=True)
class Design(ABC):
    """A compiled kernel: what its engine makes known of it, and what follows from that.

    `part`: the target's name; `memory`: timing of the memory ports; `source`: the kernel's text,
    for reports ("" where it is not known). Verilog is made when it is first asked for.
    """

    part: str
    memory: Memory
    source: str = field(default="", repr=False, compare=False, kw_only=True)
    given_verilog: str | None = field(default=None, repr=False, compare=False, kw_only=True)

    kind: ClassVar[str] = ""
    engine_name: ClassVar[str]
    #: options of `run` that are the engine's own
    arguments: ClassVar[frozenset[str]] = frozenset()

    # what an engine says

    @property
    @abstractmethod
    def name(self) -> str:
        """The kernel's name."""

    @cached_property
    @abstractmethod
    def digest(self) -> str:
        """A digest of engine and target: the same for the same kernel, table schema and target."""

    @property
    @abstractmethod
    def format(self) -> Format:
        """The widest numbers that the hardware computes with."""

    @property
    @abstractmethod
    def registers(self) -> RegisterMap: ...

    @property
    @abstractmethod
    def bus_ports(self) -> tuple[PortSpec, ...]:
        """The memory ports of the top."""

    @abstractmethod
    def component(self, parts: Parts) -> Any:
        """Return the engine, not elaborated yet; `parts` gives it its modules."""

    @abstractmethod
    def resources_on(self, part: Target) -> Resources:
        """Return what the design is expected to take on another part, or on this one without what
        is around the engine."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what the plan decided, by name, for reports."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what makes the design again (`Engine.load`), as plain data."""

    @abstractmethod
    def workload(self, given: Given) -> Workload:
        """Return the run on what was given. Raises SourceError, KernelError, Conflict."""

    def opened(self, given: Given) -> Given:
        """Return what `run` was given, a text as the engine opens it. Designs whose workloads open
        texts themselves return it as it is."""
        from penstock.discovery import engine_named

        if not isinstance(given.data, str):
            return given
        return replace(given, data=engine_named(self.engine_name).open(given.data, given))

    def scorer(self) -> Callable[[Mapping[str, Codes], Table], np.ndarray]:
        """Return what computes, from learned models as codes and a table, the score of each row: the
        value that the kernel compares with its label, with the arithmetic of the hardware.

        Raises ValueError for a kernel that has no such value. The scorer raises it for rows that cannot be read.
        """
        raise ValueError(f"designs of the engine {self.engine_name} have no scores")

    def images(self) -> dict[str, bytes]:
        """Return what goes into the device's memory before a run, by the file's name."""
        return {}

    def listings(self) -> dict[str, bytes]:
        """Return further files of a compiled design, by name."""
        return {}

    def text(self) -> str:
        """Return in words how the engine is built, for a line of a report."""
        return ""

    def on_board(self, board: Board) -> Design:
        """Return what is built for a board. Raises KernelError where the board cannot run it."""
        return self

    @property
    def device_memory(self) -> tuple[str, int]:
        """Kind and bytes of the memory of a device in simulation; 0 bytes: as many as a run takes."""
        return "block RAM", 0

    def device_timing(self, kind: str) -> Memory | None:
        """Timing of a device's memory of that kind, None where no model of it is exact."""
        # several ports share the memory of a device, which no model covers
        if kind not in ON_CHIP or len(self.bus_ports) > 1:
            return None
        return ON_CHIP[kind](self.bus_ports[0].data_bytes)

    def memories(self, memory: Memory) -> Mapping[str, Memory]:
        """Return the timing of each port by its name where a user gives `memory` for all."""
        return {f"m{k}": memory for k in range(len(self.bus_ports))}

    # what follows

    @property
    def target(self) -> Target:
        return TARGETS[self.part]

    @property
    def identity(self) -> int:
        """The 32 bits of the digest that the hardware's `design` register shows."""
        return int(self.digest[:8], 16)

    @cached_property
    def resources(self) -> Resources:
        return self.resources_on(self.target)

    def describe(self) -> dict[str, Any]:
        """Return what the report says of the design."""
        return {
            "engine": self.engine_name,
            "kernel": self.name,
            "target": self.part,
            "format": self.format_name,
            "digest": self.digest,
            "config": self.config(),
        }

    @property
    def format_name(self) -> str:
        """The format of the data, as the option `--format` takes it."""
        return self.format.name

    def manifest(self) -> dict[str, Any]:
        """Return what `manifest.json` holds."""
        return {
            "penstock": 1,
            "engine": self.engine_name,
            "kind": self.kind,
            "digest": self.digest,
            "kernel": self.name,
            "target": self.part,
            "memory": str(self.memory),
            "register_map": self.registers.to_json(),
            **self.to_json(),
        }

    def files(self) -> dict[str, bytes]:
        """Return what `save` writes, by the file's name."""
        from penstock.output import as_json

        resources = {**asdict(self.resources), "source": "estimate"}
        return {
            "penstock.v": self.verilog.encode(),
            **self.images(),
            **self.listings(),
            "manifest.json": as_json(self.manifest() | {"resources": resources}),
        }

    def file_names(self) -> tuple[str, ...]:
        """Return the names of `files`, without making them."""
        return ("penstock.v", *self.images(), *self.listings(), "manifest.json")

    def save(self, folder: str | Path) -> Path:
        """Write the design's files into `folder`; return it.

        The folder appears whole or not at all; an earlier design in it is replaced. Raises
        OutputError where that cannot be done.
        """
        from penstock.output import write_folder

        return write_folder(folder, self.files())

    def hardware(self) -> tuple[Any, ModuleLibrary]:
        """Return the engine, not elaborated yet, and the library of its modules, for `Soc`."""
        from penstock.hdl.modules import ModuleLibrary

        library = ModuleLibrary()
        return self.component(library), library

    @cached_property
    def verilog(self) -> str:
        """The engine's Verilog in its shell, top module `penstock`."""
        if self.given_verilog:
            return self.given_verilog
        from penstock.cache import remembered
        from penstock.hdl.shell.top import shelled

        return remembered(self.digest, lambda: shelled(*self.hardware()), self._package)

    @property
    def _package(self) -> str:
        """The package of the engine, whose code decides what Verilog there is."""
        return type(self).__module__.rpartition(".")[0]

    def library(self, **options: Any) -> Library:
        """Return the design compiled for simulation (from the cache where it was compiled before);
        `options` as `sim.native.build`."""
        from penstock.sim.native import build

        return build(self.verilog, ports=self.bus_ports, register_map=self.registers, **options)

    def netlist(self, family: str | None = None) -> str:
        """Return what Yosys makes of the engine for a family's cells (the target's family without),
        as Verilog with the engine's ports; kept in the cache.

        Raises KernelError: E829 for families without models of their cells, E822 and E826 where
        Yosys is missing or fails.
        """
        from penstock.netlists import netlist

        return netlist(self.verilog, self.target, family)

    def netlist_library(self, family: str | None = None, **options: Any) -> Library:
        """Return the design's netlist compiled for simulation. Raises as `netlist`."""
        from penstock.netlists import family_of
        from penstock.sim.netlist import build

        chosen = family_of(self.target, family)
        return build(
            self.netlist(family),
            chosen,
            ports=self.bus_ports,
            register_map=self.registers,
            **options,
        )

    def runs_on(self, device: Device) -> Device:
        """Return the device. Raises DeviceError where it runs another design."""
        from penstock.host.device import DeviceError

        if device.design != self.identity:
            raise DeviceError(
                f"{device.path}: the device runs design {device.design:08x}, not {self.identity:08x}"
            )
        return device

    def device_in_simulation(self, needed: int) -> Device:
        """Return the whole device in simulation, connected, with memory for a run of `needed` bytes.

        Raises BuildError where that is more than is simulated, or than the board's SDRAM has.
        """
        from penstock.boards.board import boards
        from penstock.cache import remembered
        from penstock.host.device import simulated_device
        from penstock.sim.board import generate, generate_with_sdram
        from penstock.sim.native import BuildError

        board = boards().get(self.part)
        if board is not None and board.memory.kind == "SDRAM":
            if needed > board.memory.bytes:
                raise BuildError(
                    f"the SDRAM of {board.name} has {board.memory.bytes >> 20} MB, "
                    f"the run takes {-(-needed >> 20)} MB"
                )
            clock_hz = round(board.clock_mhz * 1e6)
            source = remembered(
                f"{self.digest} board SDRAM {clock_hz}",
                lambda: generate_with_sdram(*self.hardware(), clock_hz=clock_hz),
                self._package,
            )
            return simulated_device(source, self.registers, chip_clock_hz=clock_hz)
        kind, size = self.device_memory
        size = size or needed
        source = remembered(
            f"{self.digest} board {size} {kind}",
            lambda: generate(*self.hardware(), memory_bytes=size, memory=kind),
            self._package,
        )
        return simulated_device(source, self.registers)

    def machine(
        self, backend: str, needed: int, memory: Memory | None = None, **options: Any
    ) -> Machine:
        """Return a machine of a backend of `penstock.run.MACHINES`; `needed`: bytes of memory that
        its runs take; `options`: the machine's own.

        Raises ValueError for a backend that has no machine, and for options that it does not take.
        """
        from penstock.run import MACHINES, check_options

        if backend not in MACHINES:
            raise ValueError(f"backend must be one of {', '.join(MACHINES)}, not {backend!r}")
        check_options(backend, options)
        timings = self.memories(self.memory if memory is None else memory)
        return MACHINES[backend](self, needed, timings, **options)

    def run(
        self,
        data: Any = None,
        backend: str = "golden",
        *,
        memory: Memory | str | None = None,
        **options: Any,
    ) -> Run:
        """Run the design on data.

        Parameters: `data`: a source as the command line takes it, a dict of arrays, a pandas or
        polars frame, an Arrow table or a `Table`, or, for the model alone, rows that
        `penstock.api.assume` assumes; `backend`: "golden"
        (results), "model" (cycles), "rtl" (both, simulated), "pysim" (as rtl, in Amaranth's
        simulator: slow, no tools), "netlist" (both, of what synthesis makes of it: `family=`
        "ecp5", "ice40" or "gowin", the target's by default) or "board" (both, on a device:
        `device=` one from `penstock.open`, without it the whole device in simulation); `memory`:
        timing of the ports, the design's own by default; `options`: of the run (`watchdog`,
        `limit`, `progress`), of simulations (`waves`, `stall_percent`, `seed`) and the engine's own.

        Raises SourceError for a source that cannot be read or has another schema than the design,
        KernelError for a memory that the target's ports do not have, ValueError for an unknown
        backend or option.
        """
        from penstock.run import run

        return run(self, data, backend, memory=memory, **options)

    def __repr__(self) -> str:
        return (
            f"<Design {self.name}: engine {self.engine_name}, target {self.part}, "
            f"{self.format_name}, digest {self.digest[:8]}>"
        )

    def _repr_html_(self) -> str:
        from penstock.report.html import fragment

        return fragment(self)


class Engine(ABC):
    """The registration of an engine.

    `name`: as in reports and manifests; `kernels`: the classes of the kernels that it compiles;
    `default_target`: what is compiled for where nothing is said; `backends`: those that `simulate`
    takes, None for all; `options`: the engine's own options of each command; `commands`: its own commands;
    `papers`: names that `penstock reproduce` takes.
    """

    name: str
    kernels: tuple[type[Any], ...]
    default_target: str = "small"
    backends: frozenset[str] | None = None
    #: whether its options alone say what a run does, so that no data need be given
    data_optional: bool = False
    #: whether it knows what each line of a kernel costs
    profiles: bool = False
    options: ClassVar[Mapping[str, tuple[Option, ...]]] = {}
    #: enumerations of the error codes that its hardware has beside `models.errors.ErrorCode`
    errors: tuple[type[HardwareCode], ...] = ()
    #: names of the Python API that are the engine's own: "module:attribute"
    names: ClassVar[Mapping[str, str]] = {}
    #: names that `penstock.compile` takes beside those of the command
    arguments: frozenset[str] = frozenset()

    @property
    def commands(self) -> Sequence[click.Command]:
        return ()

    @property
    def papers(self) -> Mapping[str, Any]:
        """For each paper a function without parameters that returns parts of a report."""
        return {}

    def allow(self, kernel: AnyKernel, command: str, request: Request) -> None:
        """Raise Conflict for options that this kernel does not take, where the options of the
        engine alone do not say so."""
        return None

    def draws(self, kernel: AnyKernel, source: str | None) -> bool:
        """Return whether a run draws anything at random where its data are not random numbers, so
        that `--seed` means something; `source`: the data that are given."""
        return source is None and self.data_optional

    def needs(self, kernel: AnyKernel) -> str:
        """Return in words what data a run of the kernel needs."""
        return "a table"

    def open(self, source: Any, given: Given) -> Any:
        """Return what a data source holds, for `Given.data`; `given`: the rest of what was given.
        Raises SourceError."""
        from penstock.tables import open_source

        return open_source(source, pages=given.option("pages"))

    @abstractmethod
    def compile(self, kernel: AnyKernel, part: Target, given: Given) -> Design:
        """Return the design of a kernel. Raises KernelError, SourceError."""

    @abstractmethod
    def load(self, manifest: Mapping[str, Any], verilog: str | None) -> Design:
        """Return the design that a manifest describes."""

    def plans(self, kernel: AnyKernel, request: Request) -> bool:
        """Return whether `check` makes a plan: where anything was said about one."""
        return request.plans(self.options.get("check", ()))

    def check(self, kernel: AnyKernel, given: Given, design: Design | None) -> Iterable[Part]:
        """Look for mistakes in a kernel and in how it goes with its data; return what to print.
        `design`: where a plan was made."""
        return ()

    def unreadable(self, kernel: AnyKernel, given: Given, design: Design | None) -> Failure | None:
        """Return the first thing wrong with the rows of a given table, such as a NULL that the
        policy does not allow; `design`: where a plan was made."""
        from penstock.host.sources import Table

        if design is None or not isinstance(given.data, Table):
            return None
        workload = design.workload(given)
        found = workload.unreadable()
        return None if found is None else workload.failure(found)

    def warnings(self, kernel: AnyKernel) -> Sequence[Diagnostic]:
        """Return what a compilation has found doubtful."""
        return getattr(kernel, "warnings", ())

    @abstractmethod
    def sections(self, outcome: Outcome) -> Iterable[Part]:
        """Return the parts of the report on what a command has found."""

    def profile(self, outcome: Outcome) -> Iterable[Part]:
        """Return what each line of the kernel costs, where the engine `profiles`."""
        return ()

    def largest(self, kernel: AnyKernel, part: Target, given: Given, smaller: int = 0) -> str:
        """Return a hint that says which size of the kernel fits on a part; `smaller`: by how much
        at least it must be smaller than what was asked for, 0 where the planner has said already
        that it does not fit. Empty where there is nothing to add."""
        return "choose a board with a larger device" if smaller else ""
