"""Compile a kernel for a target and a table, load a design that was saved: designs as engines see them."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.data.assumed import assume
from penstock.designs.bounded import bounded
from penstock.designs.feasible import check_bus
from penstock.designs.folder import MANIFEST, FolderError, again, folder_error, read_folder
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.load import load_kernel
from penstock.engines.base import Design, Given
from penstock.engines.design import Saved
from penstock.engines.discovery import engine_named, engine_of
from penstock.engines.options import taken
from penstock.errors import bad_value, check_path, no_option, not_one_of
from penstock.host.sources import SourceError, Table, open_table
from penstock.models.fields import misfit
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Format
from penstock.models.target import Target
from penstock.output import as_json
from penstock.passes.compiling import compiled
from penstock.runs.run import BACKENDS, Run
from penstock.targets import linked, target_named, with_bus

__all__ = [
    "BACKENDS",
    "Design",
    "KernelError",
    "Run",
    "SourceError",
    "Table",
    "assume",
    "compile",
    "load",
    "open_table",
    "opened",
]

#: what a folder may call a kernel, several that are joined too
_WORDS = re.compile(r"[\w .,+()-]{1,300}")


def load(folder: str | Path, *, trust: bool = False) -> Design:
    """Return the design that `Design.save`, or `penstock build`, wrote.

    The folder may be anybody's: its Verilog is made anew, and one that differs is refused. `trust`: take the Verilog as it is.

    Raises FolderError, a ValueError, where the folder holds none, or a file is not as it was saved, or not what this version makes.
    """
    check_path("folder", folder)
    return opened(folder, trust)[0]


def opened(folder: str | Path, trust: bool = False) -> tuple[Design, dict[str, Any]]:
    """Return the design in a folder, and its manifest. `trust`: take its Verilog as it is. Raises FolderError."""
    manifest, files = read_folder(folder)
    place, wrong = Path(folder) / MANIFEST, ""
    size = sum(map(len, files.values())) + len(as_json(manifest))
    try:
        # that of a board is made again where it is asked for
        verilog = None if {**manifest.get("board", {})} else files["penstock.v"].decode()
        with bounded(size):
            design = engine_named(manifest["engine"]).load(manifest)
            digest = hashlib.sha256(as_json(manifest)).hexdigest()
            saved = Saved(digest, size, verilog if trust else None)
            design = replace(design, asked=manifest.get("asked", ""), saved=saved)
            for word in (design.name, *map(str, design.lines().values())):
                if not _WORDS.fullmatch(word):  # exports have it in programs
                    raise ValueError(f"{word!r:.60} is no name of a kernel, and no line of one")
            if (where := misfit(design, type(design))) is not None:
                raise ValueError(f"its {where[1:]} is of another type")
            now = design.manifest()
            other = [k for k in now if as_json({k: manifest[k]}) != as_json({k: now[k]})]
            other += [name for name, data in design.images().items() if files[name] != data]
            if not (other or verilog is None or design.verilog == verilog):
                wrong = f"is not what this version makes of {MANIFEST}: it was changed, or another version wrote it"
    except FolderError as problem:
        hint = f"{again(place, manifest)}; --trust takes its Verilog as it is"
        raise folder_error(place, f"describes {problem.diagnostic.message}", hint) from None
    except Exception as problem:  # whatever an engine makes of what no engine has written
        what = f"describes no design that this version knows ({type(problem).__name__}: {problem})"
        raise folder_error(place, what) from problem
    if other:
        what = f"describes a design that this version makes otherwise: its {other[0]} is another"
        raise folder_error(place, what, again(place, manifest))
    if wrong:
        hint = f"{again(place, manifest)}; Verilog of your own is taken with --trust, in Python trust=True"
        raise folder_error(place.with_name("penstock.v"), wrong, hint)
    return design, manifest


def options_of(kernel: AnyKernel) -> set[str]:
    """Return the names of the options that `compile` takes for a kernel."""
    engine = engine_of(kernel)
    return {option.name for option in engine.options.get("compile", ())} | engine.arguments


def _bound(named: Any) -> dict[str, tuple[str, ...]]:
    """Return columns by parameter, as they were given. Raises OptionError."""
    if not isinstance(named, Mapping):
        what = f"it gives columns by name, as {{'x': ['age', 'height']}}, not {named!r:.60}"
        raise bad_value("bind", what)
    for name, column in named.items():
        if column is None or isinstance(column, bytes):
            raise bad_value("bind", f"it gives {name} a column or several, not {column!r:.60}")
    # a frame's columns may be named by numbers
    listed = ((name, (c,) if isinstance(c, (str, int)) else c) for name, c in named.items())
    return {name: tuple(map(str, columns)) for name, columns in listed}


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

    * `target`: a name, the path of a TOML file or a `Target`; the engine's default unless given.
    * `table`: a source as the command line takes it, a dict of arrays, a pandas or polars frame, an Arrow table, a `Table`, or its `Schema`. Rows that
      are packed into pages here suit the target. Without a table one of the kernel's own shapes is assumed: `dims` must have all dimensions.
    * `format`: of numbers; the engine's default unless given.
    * `dims`: sizes of dimensions, by name.
    * `bind`: for some parameters the name of their column, or the names of their columns in order.
    * `memory`: timing such as "latency=20,bytes=8".
    * `bus`: bytes that a memory port is wide, in place of the target's.
    * `link`: in place of the target's own, as --link takes it ("udp", "gbps=2,latency=3us").
    * `options`: those of the engine, such as `metas`, `init`, `epochs` and `choices` of kernels that learn from a table.

    Raises KernelError for whatever is wrong with kernel or options, SourceError for the table,
    OptionError for options that the kernel's engine does not have. Warns of what is doubtful, such as
    numbers that the format cannot hold or a part that is nearly full (RunWarning, with the diagnostic).
    """
    if isinstance(kernel, Sequence) and not isinstance(kernel, str):
        together = [k if isinstance(k, AnyKernel) else load_kernel(k) for k in kernel]
        if not together:
            raise not_one_of("kernel", kernel, ["a kernel", "several in a list"])
        kernel = together[0].beside(together[1:])
    elif not isinstance(kernel, AnyKernel):
        kernel = load_kernel(str(kernel))
    engine = engine_of(kernel)
    options = {name: value for name, value in options.items() if value is not None}
    options |= {"dims": dims} if dims else {}
    if bind:
        options["bind"] = _bound(bind)
    known = options_of(kernel)
    if unknown := next((name for name in options if name not in known), None):
        takes = known | {"target", "table", "format", "memory", "link", "bus"}
        raise no_option(f"the {kernel.title} {kernel.name}", unknown, takes)
    options = taken(engine.options.get("compile", ()), options)
    if "dims" in options:
        options["dims"] = kernel.sized(options["dims"])
    if link is not None and not isinstance(link, str):
        raise bad_value(
            "link", f"it is a text such as 'udp' or 'gbps=8,latency=10us', not {link!r:.60}"
        )
    part = target_named(engine.default_target if target is None else target)
    part = with_bus(linked(part, link), bus)
    args = Given(None, table, format=format, memory=memory, options=options)
    data = None if table is None else engine.open(table, engine.reads(kernel, args))
    design = compiled(engine, kernel, part, replace(args, data=data))
    check_bus(design, bus)
    return design
