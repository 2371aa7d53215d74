"""Designs as users hold them: what `penstock.compile` and `penstock.load` return."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import api, hooks
from penstock.dsl.core.diagnostics import render
from penstock.dsl.core.kernel import AnyKernel
from penstock.engines import base
from penstock.errors import RunWarning, bad_value, check_path
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Format
from penstock.models.resources import Resources
from penstock.models.shell import RegisterMap
from penstock.models.target import Target
from penstock.runs.run import Run

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, repr=False)
class Design:
    """A compiled kernel: runs on every backend, and what can be carried away of it.

    `compiled`: the same as its engine sees it, a `penstock.engines.base.Design` with the engine's own plan, workloads, machines and
    simulation libraries.
    """

    compiled: base.Design

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.compiled.name

    @property
    def target(self) -> Target:
        """The machine that it is for."""
        return self.compiled.target

    @property
    def format(self) -> Format:
        """The widest numbers that the hardware computes with."""
        return self.compiled.format

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: the same for the same kernel, table schema and target."""
        return self.compiled.digest

    @property
    def resources(self) -> Resources:
        """What it is expected to take of its part. Raises KernelError where there is no hardware of it."""
        return self.compiled.resources

    @property
    def registers(self) -> RegisterMap:
        """The registers of its control port, with the error codes."""
        return self.compiled.registers

    @property
    def verilog(self) -> str:
        """The engine's Verilog in its shell, top module `penstock`."""
        return self.compiled.verilog

    def describe(self) -> dict[str, Any]:
        """Return what reports and JSON say of it."""
        return self.compiled.describe()

    def order(self, table: Any) -> np.ndarray:
        """Return the numbers of a table's rows in the order in which an epoch learns from them. Raises
        OptionError for kernels that make no epochs."""
        return self.compiled.order(table)

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
        place = options.get("device")
        if backend != "board" or not isinstance(place, str):
            return self.compiled.run(data, backend, memory=memory, **options)
        from penstock.runs.devices import open_device

        trust = place.startswith("sim:") and options.pop("trust", False)
        with open_device(place, register_map=self.registers, trust=trust) as device:
            options["device"] = device
            return self.compiled.run(data, backend, memory=memory, **options)

    def open(self, backend: str = "golden", **options: Any) -> base.Session:
        """Return a session, in which requests come, take steps and leave, and states stay where they are.

        Parameters: `backend`: as `run` takes it; `options`: of the machine (`memory`, `watchdog`, `device`, …) and the engine's own.

        Raises OptionError for designs whose runs leave nothing behind, for an unknown backend or option.
        """
        return self.compiled.open(backend, **options)

    def netlist(self, family: str | None = None) -> str:
        """Return what Yosys makes of the engine for a family's cells (the target's family without), as Verilog with the engine's ports.

        Raises KernelError: E829 for families without models of their cells, E822 and E826 where Yosys is missing or fails.
        """
        return self.compiled.netlist(family)

    def files(self) -> dict[str, bytes]:
        """Return what `save` writes, by the file's name."""
        return self.compiled.files()

    def save(self, folder: str | Path) -> Path:
        """Write the design's files into `folder`; return it.

        The folder appears whole or not at all; an earlier design in it is replaced. Raises OutputError where that cannot be done.
        """
        check_path("folder", folder)
        return self.compiled.save(folder)

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
        return self.compiled.export(folder, ip=ip, targets=targets, data=data, **options)

    def __repr__(self) -> str:
        return repr(self.compiled)

    def _repr_html_(self) -> str:
        return hooks.page(self.compiled)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "compiled":
            raise AttributeError(name)
        value = getattr(self.compiled, name)
        note = f"design.{name} is deprecated: write design.compiled.{name}"
        warnings.warn(note, DeprecationWarning, stacklevel=2)
        return value


def load(folder: str | Path, *, trust: bool = False) -> Design:
    """Return the design that `Design.save`, or `penstock build`, wrote.

    The folder may be anybody's: its Verilog is made anew, and one that differs is refused. `trust`: take the Verilog as it is.

    Raises FolderError, a ValueError, where the folder holds none, or a file is not as it was saved, or not what this version makes.
    """
    check_path("folder", folder)
    return Design(api.load(folder, trust))


def compile(
    kernel: AnyKernel | str | Path | Sequence[AnyKernel | str | Path],
    target: str | Path | Target | None = None,
    table: Any = None,
    format: str | Format | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    bind: Mapping[str, str | Sequence[str]] | None = None,
    memory: str | Memory | None = None,
    link: str | None = None,
    bus: int | None = None,
    **options: Any,
) -> Design:
    """Compile a kernel (or the file that holds it) for a target and a table; or several, where their engine runs them in one design.

    Parameters: `target`: a name, the path of a TOML file or a `Target`, the engine's default unless given; `table`: a source as the command line
    takes it, a dict of arrays, a pandas or polars frame, an Arrow table, a `Table`, its `Schema`, or
    None: then a table of the kernel's own shapes is assumed (all dimensions must be given in `dims`);
    pages that are packed here suit the target; `format`: the engine's default unless given; `bind`: for some parameters the name of their
    column, or the names of their columns in order; `memory`: timing such as "latency=20,bytes=8"; `link`: in place of the target's own, as
    --link takes it ("udp", "gbps=2,latency=3us"); `bus`: bytes that a memory port is wide, in place of the target's; `options`: the
    engine's own, such as `metas`, `init`, `epochs` and `choices` of kernels that learn from a table.

    Raises KernelError for whatever is wrong with kernel or options, SourceError for the table,
    OptionError for options that the kernel's engine does not have. Warns of what is doubtful, such as
    numbers that the format cannot hold or a part that is nearly full (RunWarning, with the diagnostic).
    """
    design = api.compile(
        kernel,
        target,
        table,
        format,
        dims=dims,
        bind=bind,
        memory=memory,
        link=link,
        bus=bus,
        **options,
    )
    for diagnostic in design.warned:
        warnings.warn(render(diagnostic, design.source), RunWarning, stacklevel=2)
    return Design(design)
