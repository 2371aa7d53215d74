"""What an engine compiles: its hardware, what it takes and how it runs."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import hooks
from penstock.dsl.core.diagnostics import KernelError
from penstock.errors import bad_value, check_path, no_option, no_order, no_sessions, not_one_of
from penstock.models.mapping import Storage, ram_styles
from penstock.models.memory import ON_CHIP, Memory
from penstock.models.numerics.formats import Format
from penstock.models.resources import Resources
from penstock.models.ring import places
from penstock.models.shell import RegisterMap
from penstock.models.target import Target
from penstock.runs.capacity import check_memory

from .score import Scoring, no_score
from .session import Session
from .workload import Given, Workload

if TYPE_CHECKING:
    import numpy as np

    from penstock.dsl.core.diagnostics import Diagnostic
    from penstock.hdl.modules import ModuleLibrary, Parts
    from penstock.host.device.device import Device
    from penstock.runs.run import Run
    from penstock.sim.machine import Machine
    from penstock.sim.native import Library, PortSpec


@dataclass(frozen=True)
class Saved:
    """What a design has of the folder that it was read of."""

    digest: str  #: of what the manifest says
    size: int  #: bytes of all its files
    verilog: str | None = None  #: where the user trusts it


@dataclass(frozen=True)
class Design(hooks.Shown, ABC):
    """A compiled kernel: what its engine makes known of it, and what follows from that.

    `target`: the machine that it is for; `memory`: timing of the memory ports; `source`: the kernel's text,
    for reports ("" where it is not known). Verilog is made when it is first asked for.
    """

    target: Target
    memory: Memory
    source: str = field(default="", repr=False, compare=False, kw_only=True)
    #: the options that it was compiled with, as they are typed
    asked: str = field(default="", repr=False, compare=False, kw_only=True)
    #: of a design that was read of a folder
    saved: Saved | None = field(default=None, repr=False, compare=False, kw_only=True)
    #: what compiling it has found doubtful
    warned: Sequence[Diagnostic] = field(default=(), repr=False, compare=False, kw_only=True)
    #: why golden results are all that there is of it, None where hardware can be made
    refused: Diagnostic | None = field(default=None, repr=False, compare=False, kw_only=True)
    #: in words what hardware there is instead; it takes seconds to find
    alternatives: Callable[[], Iterable[str]] = field(
        default=tuple, repr=False, compare=False, kw_only=True
    )

    #: whether another target holds what was compiled, and its memory a run; it takes seconds to find
    elsewhere: Callable[[Given, Target], bool] = field(
        default=lambda run, part: True, repr=False, compare=False, kw_only=True
    )

    kind: ClassVar[str] = ""
    engine_name: ClassVar[str]
    #: options of `run` that are the engine's own, "seed" among them where a run draws bits at random
    arguments: ClassVar[frozenset[str]] = frozenset()
    #: MHz that a board's build asks for, by family and speed grade, where formats do not say it
    clocks: ClassVar[Mapping[tuple[str, str], float]] = {}

    # what an engine says

    @property
    @abstractmethod
    def name(self) -> str:
        """The kernel's name."""

    def structure(self) -> Any:
        """Return what of engine, target and plan decides the hardware, as plain data."""
        return [self.engine_name, self.target.name, self.to_json()]

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

    @property
    def own_ports(self) -> int:
        """How many of a target's memory ports are the design's alone. One more is its host's too."""
        return sum(port.space > 0 for port in self.bus_ports)

    @abstractmethod
    def component(self, parts: Parts) -> Any:
        """Return the engine, not elaborated yet; `parts` gives it its modules."""

    @abstractmethod
    def resources_on(self, part: Target) -> Resources:
        """Return what the design is expected to take on another part, or on this one without what
        is around the engine."""

    def storages(self) -> Iterable[tuple[int, Storage]]:
        """Yield the memories of the hardware with how many there are of each: those that may become
        UltraRAM on a part that has it."""
        return ()

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what the plan decided, by name, for reports; they add the memory and the clock."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return what makes the design again (`Engine.load`), as plain data."""

    @abstractmethod
    def workload(self, args: Given) -> Workload:
        """Return the run on what was given. Raises SourceError, KernelError, Conflict."""

    @property
    def uncounted(self) -> str:
        """What the cycles of an engine's run leave out of those of the whole device, in words; "" where nothing."""
        return ""

    def check_hardware(self) -> None:
        """Raise KernelError where golden results are all that there is."""
        if (diagnostic := self.refused) is not None:
            hint = "; ".join([diagnostic.hint, *self.alternatives()])
            raise KernelError(replace(diagnostic, hint=hint), self.source or None)

    def check_ring(self) -> None:
        """Raise KernelError (E610) where the target's memory does not hold the design's rings, and as `check_hardware`."""
        self.check_hardware()
        if places(self.registers):
            self.held(Given(rows=1))

    def held(self, args: Given) -> Workload:
        """Return `workload`, if the target's memory holds it. Raises KernelError (E610), and as `check_hardware`."""
        self.check_hardware()
        work = self.workload(args)

        def assumed(rows: int) -> Workload:
            return self.workload(replace(args, data=None, source=None, rows=rows))

        def ringed(slots: int) -> int | None:
            other = self.ringed(slots)
            return None if other is None else other.workload(args).device_bytes()

        elsewhere = partial(self.elsewhere, args)
        check_memory(self.name, self.target, work, assumed, elsewhere, ringed)
        return work

    def ringed(self, slots: int) -> Design | None:
        """Return the design with a ring of so many page slots a port (`models.ring`), None where it reads no pages."""
        return None

    def opened(self, args: Given) -> Given:
        """Return what `run` was given, a text as the engine opens it. Designs whose workloads open
        texts themselves return it as it is."""
        if not isinstance(args.data, str):
            return args
        return replace(args, data=hooks.opened(self.engine_name, args.data, args))

    @property
    def names(self) -> Mapping[str, Any]:
        """By learned array, the column that each of its elements belongs to, nested as the array is; None for one that belongs to none."""
        return {}

    def scoring(
        self, result: Mapping[str, np.ndarray], details: Mapping[str, Any] | None = None
    ) -> Scoring:
        """Return what scores rows with a run's result, and its details. Raises ScoreError (E631) for a kernel without a score."""
        raise no_score(self.name, "it learns nothing of rows", "runs of other kernels do")

    def images(self) -> dict[str, bytes]:
        """Return what goes into the device's memory before a run, by the file's name."""
        return {}

    def listings(self) -> dict[str, bytes]:
        """Return further files of a compiled design, by name."""
        return {}

    def text(self) -> str:
        """Return in words how the engine is built, for a line of a report."""
        return ""

    def lines(self) -> Mapping[str, int]:
        """Return lines of the kernel, by what the names of the signals begin with that carry them out."""
        return {}

    def on_board(self, board: Target) -> Design:
        """Return what is built for a board. Raises KernelError where the board cannot run it."""
        return self

    @property
    def device_memory(self) -> tuple[str, int]:
        """Kind and bytes of the memory of a device in simulation; 0 bytes: as many as a run takes."""
        return "block RAM", 0

    def device_timing(self, kind: str) -> Memory | None:
        """Timing of a device's memory of that kind, None where no model of it is exact."""
        # several ports, or one and the link, share the memory of a device, which no model covers
        rings = any(register.live for register in self.registers.engine)
        if kind not in ON_CHIP or len(self.bus_ports) > 1 or rings:
            return None
        return ON_CHIP[kind](self.bus_ports[0].data_bytes)

    def memories(self, memory: Memory) -> Mapping[str, Memory]:
        """Return the timing of each port by its name where a user gives `memory` for all."""
        return {f"m{k}": memory for k in range(len(self.bus_ports))}

    # what follows

    @cached_property
    def digest(self) -> str:
        """A digest of `structure`: the same for the same kernel, table schema and target."""
        styles = sorted(self.ram_styles.items())
        structure = self.structure()
        built = json.dumps([structure, styles] if styles else structure, sort_keys=True)
        return hashlib.sha256(built.encode()).hexdigest()

    @cached_property
    def ram_styles(self) -> Mapping[tuple[int, int], str]:
        """What synthesis is told of memories by their depth and width."""
        return ram_styles(self.storages(), self.target)

    @property
    def identity(self) -> int:
        """The 32 bits of the digest that the hardware's `design` register shows."""
        return int(self.digest[:8], 16)

    @cached_property
    def resources(self) -> Resources:
        self.check_hardware()
        return self.resources_on(self.target)

    def describe(self) -> dict[str, Any]:
        """Return what the report says of the design."""
        return {
            "engine": self.engine_name,
            "kernel": self.name,
            "target": self.target.name,
            "format": self.format_name,
            "digest": self.digest,
            "config": {
                **self.config(),
                **({} if self.refused else self._speed()),
            },
        }

    def _speed(self) -> dict[str, Any]:
        return {"memory": str(self.memory), "clock_mhz": self.target.clock_mhz}

    @property
    def format_name(self) -> str:
        """The format of the data, as the option `--format` takes it."""
        return self.format.name

    def manifest(self) -> dict[str, Any]:
        """Return what `manifest.json` holds, apart from what stands in the files beside it."""
        return {
            "engine": self.engine_name,
            "kind": self.kind,
            "digest": self.digest,
            "kernel": self.name,
            "target": self.target.to_json(),
            "memory": str(self.memory),
            "register_map": self.registers.to_json(),
            **({"asked": self.asked} if self.asked else {}),
            **self.to_json(),
        }

    def files(self) -> dict[str, bytes]:
        """Return what `save` writes, by the file's name."""
        from penstock.designs.folder import sealed

        self.check_ring()
        resources = {**asdict(self.resources), "source": "estimate"}
        rest = {"penstock.v": self.verilog.encode(), **self.images(), **self.listings()}
        return sealed(self.manifest() | {"resources": resources}, rest)

    def file_names(self) -> tuple[str, ...]:
        """Return the names of `files`, without making them."""
        return ("penstock.v", *self.images(), *self.listings(), "manifest.json")

    def save(self, folder: str | Path) -> Path:
        """Write the design's files into `folder`; return it.

        The folder appears whole or not at all; an earlier design in it is replaced. Raises OutputError where that cannot be done.
        """
        from penstock.output import write_folder

        check_path("folder", folder)
        return write_folder(folder, self.files())

    def export(
        self,
        folder: str | Path,
        *,
        ip: str,
        targets: Sequence[str] = (),
        data: Any = None,
        **options: Any,
    ) -> Path:
        """Write it as a core named `ip` for other projects into `folder`; return it.

        Parameters: `targets`: flows beside `plain`: "fusesoc", "litex", "vivado"; `data`: what the vectors of the bench are
        made of, as `run` takes it (random without); `options`: `html`, for a page of the registers as well; `axi_prot` and `axi_cache`, values of
        AxPROT and AxCACHE, without which memory ports have none; the engine's own.

        Raises KernelError for a bad name (E832), too much data (E833) and without PeakRDL (E834); OptionError; OutputError.
        """
        check_path("folder", folder)
        if not isinstance(ip, str):
            raise bad_value("ip", f"it must be a name, not {ip!r}")
        return hooks.exported(self, folder, ip=ip, targets=targets, data=data, **options)

    def hardware(self) -> tuple[Any, ModuleLibrary]:
        """Return the engine, not elaborated yet, and the library of its modules, for `Soc`."""
        from penstock.hdl.modules import ModuleLibrary

        self.check_ring()
        library = ModuleLibrary(self.ram_styles)
        return self.component(library), library

    @cached_property
    def verilog(self) -> str:
        """The engine's Verilog in its shell, top module `penstock`."""
        if self.saved is not None and self.saved.verilog:
            return self.saved.verilog
        self.check_hardware()
        from penstock.hdl.shell.top import shelled

        return self._remembered("", lambda: shelled(*self.hardware()))

    def _remembered(self, kind: str, make: Callable[[], str]) -> str:
        """Return Verilog from the cache, else made. What a folder says of a plan decides what is kept for that folder, and for no other design."""
        from penstock.designs.cache import recalled, remembered

        key = f"{self.digest}{kind}"
        if self.saved is not None:
            if (text := recalled(key, self._package)) is not None:
                return text
            from penstock.designs.bounded import bounded

            with bounded(self.saved.size):
                return remembered(f"{key} {self.saved.digest}", make, self._package)
        return remembered(key, make, self._package)

    @property
    def _package(self) -> str:
        """The package of the engine, whose code decides what Verilog there is."""
        return type(self).__module__.rpartition(".")[0]

    def library(self, **options: Any) -> Library:
        """Return the design compiled for simulation (from the cache where it was compiled before);
        `options` as `sim.native.build`. Raises OptionError for one that it does not have."""
        from penstock.sim.native import build

        _check_library("a library", options)
        return build(self.verilog, ports=self.bus_ports, register_map=self.registers, **options)

    def netlist(self, family: str | None = None) -> str:
        """Return what Yosys makes of the engine for a family's cells (the target's family without), as Verilog with the engine's ports.

        Raises KernelError: E829 for families without models of their cells, E822 and E826 where Yosys is missing or fails.
        """
        from penstock.runs.netlists import netlist

        return netlist(self.verilog, self.target, family)

    def netlist_library(self, family: str | None = None, **options: Any) -> Library:
        """Return the design's netlist compiled for simulation. Raises as `netlist` and `library`."""
        from penstock.runs.netlists import family_of
        from penstock.sim.netlist import build

        _check_library("a netlist's library", options)
        chosen = family_of(self.target, family)
        return build(
            self.netlist(family),
            chosen,
            ports=self.bus_ports,
            register_map=self.registers,
            **options,
        )

    def runs_on(self, device: Device) -> Device:
        """Return the device, which has this design's registers from now on: it may have been opened without.
        Raises DeviceError where it runs another design, OptionError for none."""
        from penstock.host.device.device import Device
        from penstock.host.device.errors import DeviceError

        if not isinstance(device, Device):
            raise bad_value("device", f"it must be one that ps.open returned, not {device!r:.60}")
        if device.design != self.identity:
            raise DeviceError(
                f"{device.path}: the device runs design {device.design:08x}, not {self.identity:08x}"
            )
        device.register_map = self.registers
        return device

    def device_in_simulation(self, needed: int) -> Device:
        """Return the whole device in simulation, connected, with memory for a run of `needed` bytes.

        Raises BuildError where that is more than is simulated, or than the board's SDRAM has.
        """
        from penstock.host.device.opening import simulated_device
        from penstock.sim.board import generate, generate_with_sdram
        from penstock.sim.native import BuildError

        board = self.target
        if board.board is not None and board.memory.kind == "SDRAM":
            if needed > board.memory.bytes:
                raise BuildError(
                    f"the SDRAM of {board.name} has {board.memory.bytes >> 20} MB, "
                    f"the run takes {-(-needed >> 20)} MB"
                )
            clock_hz = round(board.clock_mhz * 1e6)
            source = self._remembered(
                f" board SDRAM {board.memory.chip} {clock_hz}",
                lambda: generate_with_sdram(*self.hardware(), chip=board.sdram, clock_hz=clock_hz),
            )
            return simulated_device(source, self.registers, sdram=(board.sdram, clock_hz))
        kind, size = self.device_memory
        size = size or needed
        source = self._remembered(
            f" board {size} {kind}",
            lambda: generate(*self.hardware(), memory_bytes=size, memory=kind),
        )
        return simulated_device(source, self.registers)

    def machine(
        self,
        backend: str,
        needed: int,
        memory: Memory | None = None,
        *,
        vault: Mapping[str, int] | None = None,
        **options: Any,
    ) -> Machine:
        """Return a machine of a backend of `penstock.runs.run.MACHINES`; `needed`: bytes of memory that
        its runs take; `vault`: its values, of a design that has some (`models.shell.VaultValue`);
        `options`: the machine's own.

        Raises OptionError for a backend that has no machine, and for options that it does not take.
        """
        from penstock.runs.run import MACHINES, check_options

        self.check_hardware()
        if backend not in MACHINES:
            raise not_one_of("backend", backend, MACHINES)
        check_options(backend, options)
        timings = self.memories(self.memory if memory is None else memory)
        if vault is not None:
            options["vault"] = vault
        return MACHINES[backend](self, needed, timings, **options)

    def run(
        self,
        data: Any = None,
        backend: str = "golden",
        *,
        memory: Memory | str | None = None,
        **options: Any,
    ) -> Run:
        """Run it on data.

        Parameters: `data`: a source as the command line takes it, a dict of arrays, a pandas or polars frame, an Arrow table or a `Table`, or,
        for the model alone, rows that `penstock.api.assume` assumes; `backend`: "golden" (results), "model" (cycles), "rtl" (both, simulated),
        "pysim" (as rtl, in Amaranth's simulator: slow, no tools), "netlist" (both, of what synthesis makes of it: `family=` "ecp5", "ice40" or
        "gowin", the target's by default) or "board" (both, on a device: `device=` one from `penstock.open`, or its address, without it the whole device in
        simulation); `memory`: timing of the ports, the design's own by default; `options`: of the run (`watchdog`, `limit`, `progress`), of
        simulations (`waves`, `stall_percent`, `seed`, `optimise`: g++'s level), `trust` as of `load` for the folder of `device="sim:DIR"`,
        and the engine's own.

        Raises SourceError for a source that cannot be read or has another schema than the design, KernelError for a memory that the target's
        ports do not have, OptionError for an unknown backend or option.
        """
        from penstock.runs.run import run

        place = options.get("device")
        if backend != "board" or not isinstance(place, str):
            return run(self, data, backend, memory=memory, **options)
        trust = place.startswith("sim:") and options.pop("trust", False)
        with hooks.connected(place, register_map=self.registers, trust=trust) as device:
            options["device"] = device
            return run(self, data, backend, memory=memory, **options)

    def open(self, backend: str = "golden", **options: Any) -> Session:
        """Return a session, in which requests come, take steps and leave, and states stay where they are.

        Parameters: `backend`: as `run` takes it; `options`: of the machine (`memory`, `watchdog`, `device`, …) and the engine's own.

        Raises OptionError for designs whose runs leave nothing behind, for an unknown backend or option.
        """
        del backend, options
        raise no_sessions(self.name)

    def order(self, table: Any) -> np.ndarray:
        """Return the numbers of a table's rows in the order in which an epoch learns from them. Raises
        OptionError for kernels that make no epochs."""
        del table
        raise no_order(self.name)

    def __repr__(self) -> str:
        return (
            f"<Design {self.name}: engine {self.engine_name}, target {self.target.name}, "
            f"{self.format_name}, digest {self.digest[:8]}>"
        )


def _check_library(taker: str, options: Mapping[str, Any]) -> None:
    """Raise OptionError for an option, or a value of one, that there is not."""
    from penstock.sim.native.library import LEVELS

    known: Mapping[str, tuple[Any, ...]] = {
        "trace": ("", "fst", "vcd"),
        "random": (False, True),
        "optimise": (*LEVELS, None),
    }
    for name, value in options.items():
        if name not in known:
            raise no_option(taker, name, known)
        if value not in known[name]:
            raise not_one_of(name, value, map(str, filter(None, known[name])))
