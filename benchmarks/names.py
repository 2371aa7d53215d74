"""The share of an exported core's signals that have no name from the source, for the examples."""

from __future__ import annotations

from typing import Any

from common import EXAMPLES, Options, Section, main, markdown

import penstock as ps
from penstock.api import compile
from penstock.hdl.modules import ModuleLibrary
from penstock.hdl.shell.shell import Shell
from penstock.hdl.shell.verilog import to_modules

#: examples of each engine, with what makes them small
KERNELS: dict[str, dict[str, Any]] = {
    "logistic.py": {"target": "small", "format": "fixed:8,8", "dims": {"d": 4}},
    "linear.py": {"target": "small", "dims": {"d": 3}},
    "svm.py": {"target": "small", "dims": {"d": 3}},
    "mlp.py": {"target": "small", "dims": {"d": 4, "h": 3}},
    "ridge.py": {"dims": {"d": 3}},
    "rank_model.py:rank_model": {},
    "rank_model.py:slots": {},
    "mamba2.py": {"target": "ulx3s-85f", "dims": {"n": 32, "p": 32}},
    "retnet.psk": {"dims": {"k": 32, "v": 32}},
    "map": {},
}


def counted(file: str, options: dict[str, Any]) -> tuple[str, int, int]:
    """Return the engine of an example, its signals, and those without a name."""
    kernel = ps.ObliviousMap(value=ps.bytes(8), capacity=300) if file == "map" else EXAMPLES / file
    design = compile(kernel, **options)
    library = ModuleLibrary(design.ram_styles, sources=True)
    engine = design.component(library)
    modules = to_modules(Shell(engine, engine.register_map), library=library)
    signals, unnamed = (sum(getattr(m, what) for m in modules) for what in ("signals", "unnamed"))
    return design.engine_name, signals, unnamed


def make(options: Options) -> str:
    rows = []
    for file, given in list(KERNELS.items())[: 1 if options.quick else None]:
        engine, signals, unnamed = counted(file, given)
        rows.append((file, engine, f"{signals:,}", f"{unnamed:,}", f"{unnamed / signals:.1%}"))
    head = "kernel | engine | signals | without a name from the source | share"
    return markdown(head, rows)


SECTIONS = [Section("names", False, make)]  # too slow for the page: benchmarks/history/names.md

if __name__ == "__main__":
    main(SECTIONS, __doc__)
