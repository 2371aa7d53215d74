"""Digests of designs and their runs, which changes of the code alone leave as they are."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import penstock as ps
from penstock.errors import RunWarning
from penstock.output import as_json
from testbench import recurrences
from testbench.kernels import drawn, drawn_rows
from testbench.small_examples import EXAMPLES, KERNELS, small

__all__ = ["SUBJECTS", "digests"]

#: where a statement of Verilog was written, and the design's digest, in which the whole Verilog is
_SOURCE = re.compile(r'\(\* src = "[^"]*" \*\)|\b[0-9a-f]{64}\b')
#: names in Verilog; what follows a quotation mark is a number
_NAME = re.compile(r"(?<!['\w])[A-Za-z_]\w*")
_TOKEN = re.compile(r"\w+|\S")


@dataclass(frozen=True)
class Subject:
    """A design, and a run of it by options."""

    design: Callable[[Path], ps.Design]
    run: Mapping[str, Any] = field(default_factory=dict)


def digests(subject: Subject, folder: Path) -> dict[str, str]:
    """Return digests of Verilog with its names and without, manifest, report, golden results, and the model's cycles. Of a design that is refused there
    is one, of the diagnostic.

    Parameters: `folder`: where files of the subject may be written.
    """
    try:
        design = subject.design(folder)
        with warnings.catch_warnings(action="ignore", category=RunWarning):
            golden, model = (design.run(backend=b, **subject.run) for b in ("golden", "model"))
    except ps.KernelError as refused:
        return {"refused": _digest(refused.diagnostic.code, refused.diagnostic.message)}
    codes = golden.codes or {}
    verilog = _SOURCE.sub("", design.verilog)
    manifest = as_json(design.compiled.manifest()).decode()
    for place in (folder, EXAMPLES):
        manifest = manifest.replace(str(place), "")
    return {
        "verilog": _digest(verilog),
        "structure": _digest(_without_names(verilog)),
        "manifest": _digest(_SOURCE.sub("", manifest)),
        "report": _digest(as_json(design.describe()).decode() + _plain(model)),
        "golden": _digest(
            *(f"{name} {codes[name].shape} {codes[name].tolist()}" for name in sorted(codes)),
            _plain(golden),
        ),
        "cycles": str(model.cycles),
    }


def _without_names(verilog: str) -> str:
    """In each module each name becomes its number in the order of first mention; where lines break, the lengths of names decide."""
    return "\n".join(map(_numbered, verilog.split("endmodule")))


def _numbered(module: str) -> str:
    numbers: dict[str, str] = {}
    plain = _NAME.sub(lambda name: numbers.setdefault(name[0], f"n{len(numbers)}"), module)
    return " ".join(_TOKEN.findall(plain))


def _plain(run: Any) -> str:
    """What a run says in numbers and words."""
    bounds = [run.bound, run.bound_machine]
    return repr((run.errors, run.counters, run.commands, run.facts, bounds, run.bytes_read))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _example(where: str) -> Subject:
    def design(folder: Path) -> ps.Design:
        kernel, options = small(where, folder)
        return ps.compile(kernel, **options)

    table = (EXAMPLES / where.partition(":")[0]).read_text().count("ps.recurrence") == 0
    return Subject(design, {"data": "random:rows=9,seed=1"} if table else {"tokens": 2})


def _kernel(seed: int, rows: bool) -> Subject:
    formats = (drawn.FIXED, drawn.FLOATS)[seed % 2]
    case = drawn_rows.row_case if rows else drawn.case
    kernel = case(Random(seed), formats)
    table = kernel.table()
    return Subject(lambda _: ps.Design(kernel.design(table)), {"data": table})


def _recurrence(seed: int) -> Subject:
    written = recurrences.drawn(Random(seed))
    return Subject(lambda _: written.compiled(), {"data": written.arrays})


def _fit(seed: int) -> Subject:
    """A fit over columns, or over keys."""
    random = Random(seed)
    target = random.choice(("u55c", "ulx3s-85f", "small"))
    features, keys = random.randrange(1, 9), seed % 2
    solve = "least_squares(window(key, {}), target=slot(key), method='gram', incremental=True)"
    text = (
        f"fit f(key: key)\n  model <- {solve.format(2 * features)}\n"
        if keys
        else "fit f(x: input[d], y: output)\n  model <- least_squares(x, target=y)\n"
    )

    def design(folder: Path) -> ps.Design:
        (folder / "f.psk").write_text(text)
        return ps.compile(folder / "f.psk", target, dims={} if keys else {"d": features})

    return Subject(design, {"data": f"random:rows={features + 20},seed={seed}"})


def _map(seed: int) -> Subject:
    random = Random(seed)
    value, capacity = random.choice((8, 16, 64)), random.choice((20, 300))
    share = random.choice((0.0, 0.5, 0.9))
    return Subject(
        lambda _: ps.compile(
            ps.ObliviousMap(value=ps.bytes(value), capacity=capacity, name="m"),
            share=share,
            window=2,
            channels=1,
        ),
        {"ops": 5},
    )


#: what makes each subject, by name
SUBJECTS: dict[str, Callable[[], Subject]] = {
    **{where: partial(_example, where) for where in KERNELS},
    **{f"kernel {seed}": partial(_kernel, seed, False) for seed in range(100)},
    **{f"kernel with rows {seed}": partial(_kernel, seed, True) for seed in range(40)},
    **{f"recurrence {seed}": partial(_recurrence, seed) for seed in range(40)},
    **{f"fit {seed}": partial(_fit, seed) for seed in range(16)},
    **{f"map {seed}": partial(_map, seed) for seed in range(4)},
}
