"""The Python API: compile a kernel for a target and a table, load a design that was saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.assumed import assume
from penstock.discovery import engine_named, engine_of
from penstock.dsl.core.diagnostics import KernelError
from penstock.dsl.core.kernel import AnyKernel
from penstock.dsl.core.load import load_kernel
from penstock.engines.base import Design, Given
from penstock.errors import no_option
from penstock.host.sources import SourceError, Table, open_table
from penstock.models.memory import Memory
from penstock.models.numerics.formats import Format
from penstock.models.target import Target
from penstock.run import BACKENDS, Run
from penstock.targets import target_named

__all__ = [
    "BACKENDS",
    "Design",
    "KernelError",
    "Run",
    "SourceError",
    "Table",
    "assume",
    "compile",
    "from_manifest",
    "load",
    "open_table",
]


def from_manifest(manifest: Mapping[str, Any], verilog: str | None) -> Design:
    """Return the design that a manifest describes. Raises KeyError, ValueError or TypeError where
    it describes none."""
    return engine_named(manifest["engine"]).load(manifest, verilog)


def load(folder: str | Path) -> Design:
    """Return the design that `Design.save`, or `penstock build`, wrote. Raises ValueError where the
    folder holds none."""
    folder = Path(folder)
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        # that of a board is made again where it is asked for
        verilog = None if "board" in manifest else (folder / "penstock.v").read_text()
        return from_manifest(manifest, verilog)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{folder} holds no design: {problem}") from problem


def compile(
    kernel: AnyKernel | str | Path,
    target: str | Target | None = None,
    table: Any = None,
    format: str | Format | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    bindings: Mapping[str, Sequence[str]] | None = None,
    memory: str | Memory | None = None,
    **options: Any,
) -> Design:
    """Compile a kernel (or the file that holds it) for a target and a table.

    Parameters: `target`: the engine's default unless given; `table`: a source as the command line
    takes it, a dict of arrays, a pandas or polars frame, an Arrow table, a `Table`, its `Schema`, or
    None: then a table of the kernel's own shapes is assumed (all dimensions must be given in `dims`);
    pages that are packed here suit the target; `format`:
    the engine's default unless given; `memory`: timing such as "latency=20,bytes=8"; `options`: the
    engine's own, such as `metas`, `init`, `epochs` and `choices` of kernels that learn from a table.

    Raises KernelError for whatever is wrong with kernel or options, SourceError for the table,
    OptionError for options that the kernel's engine does not have. Numbers that the format cannot
    hold are among the kernel's warnings.
    """
    if not isinstance(kernel, AnyKernel):
        kernel = load_kernel(kernel)
    engine = engine_of(kernel)
    options = {name: value for name, value in options.items() if value is not None}
    options |= {"dims": dims} if dims else {}
    options |= {"bindings": bindings} if bindings else {}
    known = {option.name for option in engine.options.get("compile", ())} | engine.arguments
    if unknown := next((name for name in options if name not in known), None):
        raise no_option(f"the {kernel.title} {kernel.name}", unknown, known)
    part = target_named(engine.default_target if target is None else target)
    given = Given(None, table, format=format, memory=memory, options=options)
    data = None if table is None else engine.open(table, given)
    design = engine.compile(kernel, part, replace(given, data=data))
    return replace(design, source=kernel.source or "")
